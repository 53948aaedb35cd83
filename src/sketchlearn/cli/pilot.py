"""A feature map when none is given: designed from a pilot sample of the rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sketchlearn.cli.outputs import note, usage, warnings_as_notes
from sketchlearn.designs.front import Bounds, design_source
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.encoder import Encoder
from sketchlearn.files import sealed
from sketchlearn.words import counted

_ENCODED_ROWS = 20_000  # in which a category of one row in a thousand is seen

if TYPE_CHECKING:
    from sketchlearn.sources import Source


def designed(
    source: Source,
    components: int,
    task: str,
    seed: int,
    standardize: bool,
    projection: int | None = None,
    encoder: Encoder | None = None,
    missing: str | None = None,
    bounds: Bounds | None = None,
) -> FeatureMap:
    """A feature map from a pilot of the rows."""
    with warnings_as_notes():
        return design_source(
            source, n_components=components, task=task, seed=seed, standardize=standardize or None,
            projection=projection, encoder=encoder, missing=missing, bounds=bounds,
        )  # fmt: skip


def missing_in_map(missing: str | None, encode: bool) -> str | None:
    """What `--missing` asks of the map; the rest is for the encoder."""
    of_map = missing in ("em", "pairs")
    if missing is not None and encode == of_map:
        raise usage(f"--missing {missing} {'has no effect with' if encode else 'needs'} --encode")
    return missing if of_map else None


def fitted_encoder(
    data: list[str],
    columns: list[str] | None,
    missing: str,
    *,
    apart: Iterable[str | None] = (),
    format: str | None = None,
    text: dict[str, str | None],
) -> Encoder:
    """An encoder from the first rows of some files, of all columns that aren't set apart."""
    from sketchlearn.sources.tables import first_rows

    if data == ["-"]:
        raise usage("--encode looks at the rows twice: give files instead of standard input")
    pilot = first_rows(data, _ENCODED_ROWS, format=format, **text)
    aside = {name for name in apart if name is not None} & set(pilot.schema.names)
    with warnings_as_notes():
        return Encoder.fit(pilot.drop_columns(sorted(aside)), columns=columns, missing=missing)


def recipe_text(phi: FeatureMap) -> bytes:
    """The file that `design` writes: the recipe, what it was designed for, why it was chosen, and from what."""
    facts = {"features": phi.recipe(), **phi.words}
    return (json.dumps(sealed(facts), indent=2, sort_keys=True) + "\n").encode()


def announce(phi: FeatureMap) -> None:
    """Say which map was chosen."""
    few = "" if phi.projection is None else f" ({phi.projection.describe()})"
    note(f"features: {phi.size} for {counted(phi.dim, 'column')}{few} ({phi.describe()})")
