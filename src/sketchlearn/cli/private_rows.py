"""A private sketch of rows in one command: what `privatize` does with files that hold no sketch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sketchlearn.cli.inputs import head_of, is_table, read_features
from sketchlearn.cli.outputs import usage
from sketchlearn.exceptions import IncompatibleSketchError

if TYPE_CHECKING:
    from sketchlearn.privacy import Ledger
    from sketchlearn.sketches import Sketch


def holds_sketches(data: list[str]) -> bool:
    """Whether this is a sketch or a table of sketches, by what is in the file; rows otherwise."""
    from sketchlearn.sketches.file import MAGIC
    from sketchlearn.sketches.table import is_sketch_table

    path = data[0]
    if path == "-":
        return True
    if not Path(path).is_file():
        return not (len(data) > 1 or Path(path).is_dir() or set("*?[:") & set(path))
    return is_sketch_table(path) if is_table(path) else head_of(path).startswith(MAGIC)


def with_map(exact: Sketch, path: str) -> Sketch:
    """The sketch with the map of a file, which knows what it was chosen from; it must be the same map."""
    phi = read_features(path)
    if phi != exact.features or phi.fingerprint != exact.features.fingerprint:
        raise IncompatibleSketchError(
            f"{path}: not the map of the sketch: {phi.difference(exact.features) or 'other frequencies'}"
        )
    return replace(exact, features=phi)


def categories_in(given: list[str] | None) -> list[str] | dict[str, list[str]] | None:
    """Columns of labels; with public lists for all of them, or for none."""
    if not given:
        return None
    pairs = [text.partition("=") for text in given]
    if not any(equal for _, equal, _ in pairs):
        return [name for name, _, _ in pairs]
    if not all(equal for _, equal, _ in pairs):
        raise usage("--category: give public lists for all columns of labels, or for none")
    return {name: labels.split(",") for name, _, labels in pairs}


def bounds_in(given: list[str] | None) -> dict[str, tuple[float, float]] | None:
    """Public bounds by column."""
    if not given:
        return None
    found = {}
    for text in given:
        name, _, numbers = text.rpartition("=")
        try:
            low, high = (float(v) for v in numbers.split(","))
        except ValueError:
            raise usage(f"--bounds {text}: write NAME=LOWER,UPPER") from None
        found[name] = (low, high)
    return found


def release_rows(
    data: list[str], features: str | None, components: int, task: str, seed: int, share: float, epsilon: float,
    delta: float, relation: str, records_per_user: int | None, book: Ledger | None, dataset: str | None,
    public_map: bool, reading: dict[str, Any],
) -> tuple[dict[str, Any], str, Sketch]:  # fmt: skip
    """Facts, words, and the private sketch of rows."""
    from sketchlearn.privacy import privatize, privatize_rows
    from sketchlearn.sketching import sketch

    rows: Any = data if len(data) > 1 else data[0]
    if features is not None:
        for name in ("categories", "bounds"):
            if name in reading:
                raise usage(
                    "--category and --bounds are for a map that the command makes; leave them out with --features"
                )
        # that a pass has stopped would tell of a row; under add-remove nobody learns how many were left out
        invalid = "skip" if relation == "add-remove" else "raise"
        exact = sketch(rows, read_features(features), on_invalid=invalid, **reading)
        noisy = privatize(
            exact, epsilon, delta, relation=relation, records_per_user=records_per_user, public_map=public_map,
            ledger=book, dataset=dataset,
        )  # fmt: skip
        told: dict[str, Any] = {}
        lines = []
    else:
        if not 0.0 < share < 1.0:
            raise usage(f"--share must be between 0 and 1, got {share:g}")
        noisy, found = privatize_rows(
            rows, epsilon, delta, n_components=components, task=task, seed=seed, share=share, relation=relation,
            records_per_user=records_per_user, ledger=book, dataset=dataset, **reading,
        )  # fmt: skip
        parts = [part._asdict() for part in found.parts]
        told = {"columns": [column.describe() for column in found.columns], "preparation": parts}
        assert noisy.privacy is not None
        left, record = 1.0 - share, noisy.privacy
        lines = [found.describe()]
        lines.append(
            f"  release of {noisy.features.size} features and the number of rows: epsilon = {left * epsilon:.6g}, "
            f"delta = {left * delta:.3g} ({record.mechanism})"
        )
        lines.append(
            f"  together: epsilon = {share * epsilon:.6g} + {left * epsilon:.6g} = {record.epsilon:.6g}, "
            f"delta = {record.delta:.3g}"
        )
    assert noisy.privacy is not None
    return {**told, "privacy": noisy.privacy.to_json()}, "\n".join([*lines, noisy.privacy.explain()]), noisy
