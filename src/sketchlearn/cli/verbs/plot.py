"""``sketchlearn plot``: draw pictures of models and sketches."""

from __future__ import annotations

import io
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import sketchlearn
from sketchlearn.cli.inputs import labelled_sketches, names_in, numbers_in, read_model, read_sketch
from sketchlearn.cli.options import ALPHA, Json, Seed, option, verb
from sketchlearn.cli.outputs import check_output, emit, note, usage, warnings_as_notes, working, write_bytes
from sketchlearn.optional import optional

_FORMATS = ("png", "svg", "pdf", "jpg", "webp")

Model = Annotated[str, typer.Argument(help="A model written by 'learn'; - for standard input.")]
Source = Annotated[str, typer.Argument(help="A sketch; - for standard input.")]
Picture = Annotated[str, option("Picture to write: " + ", ".join(_FORMATS) + ".", "--output", "-o")]
Drawn = Annotated[
    list[str] | None, option("Columns to draw (names or numbers), separated by commas.", "--columns", "-c")
]
Dpi = Annotated[int, option("Dots per inch.", "--dpi", min=20, max=1200)]
Standardize = Annotated[
    bool | None,
    typer.Option(help="Draw the principal plane of standardised columns; by default as the model was learned."),
]


GROUP = "Draw a picture of a model or a sketch."


@verb("plot centers model.json -o centers.png")
def centers(
    model: Model, output: Picture, columns: Drawn = None, standardize: Standardize = None, dpi: Dpi = 120,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Draw centres and their weights, in two columns or in the principal plane of the mixture."""
    _prepare(output, as_json, model)
    ax = sketchlearn.plots.centers(read_model(model), columns=names_in(columns), standardize=standardize)
    _write(output, ax, dpi, as_json)


@verb("plot density model.json -o density.png")
def density(
    model: Model, output: Picture, columns: Drawn = None, standardize: Standardize = None, dpi: Dpi = 120,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Draw the decoded density over one column, a pair of columns, or the principal plane."""
    _prepare(output, as_json, model)
    ax = sketchlearn.plots.density(read_model(model), columns=names_in(columns), standardize=standardize)
    _write(output, ax, dpi, as_json)


@verb("plot residual model.json -o residual.svg")
def residual(model: Model, output: Picture, dpi: Dpi = 120, as_json: Json = False) -> None:
    """Draw the misfit of the model and the noise floor, by radius."""
    _prepare(output, as_json, model)
    _write(output, sketchlearn.plots.residual(read_model(model)), dpi, as_json)


@verb("plot spectrum pca.json -o spectrum.png")
def spectrum(model: Model, output: Picture, dpi: Dpi = 120, as_json: Json = False) -> None:
    """Draw the variances of principal components, or the eigenvalues of a graph."""
    _prepare(output, as_json, model)
    _write(output, sketchlearn.plots.spectrum(read_model(model)), dpi, as_json)


@verb("plot sweep all.sketch -k 1:12 -o sweep.png")
def sweep(
    sketch: Source,
    output: Picture,
    ks: Annotated[str, option("Numbers of components, e.g. 2:12 or 2,4,8.", "-k", "--ks")] = "1:12",
    task: Annotated[Literal["kmeans", "gmm"], option("What to count.")] = "kmeans",
    seed: Seed = 0,
    dpi: Dpi = 120,
    as_json: Json = False,
) -> None:
    """Draw misfit and inertia for several numbers of components, and the recommended one."""
    from sketchlearn.decoders import sweep as tried

    numbers = numbers_in(ks)
    if task not in ("kmeans", "gmm"):
        raise usage(f"--task {task}: choose kmeans or gmm")
    _prepare(output, as_json, sketch)
    with working(f"trying {len(numbers)} numbers of components"):
        table = tried(read_sketch(sketch), numbers, task=task, random_state=seed)
    facts = {"recommended": table.recommended, "reason": table.reason, "rows": [asdict(r) for r in table]}
    _write(output, sketchlearn.plots.sweep(table), dpi, as_json, facts, f"recommended k: {table.recommended}")


@verb("plot landscape all.sketch -c age,income -o landscape.png")
def landscape(
    sketch: Source,
    output: Picture,
    model: Annotated[str | None, option("A model; its centres are marked.", "--model", "-m")] = None,
    keep: Annotated[bool, option("Don't subtract the model from the sketch.")] = False,
    width: Annotated[float | None, option("Standard deviation of the Gaussian that is tried at each place.")] = None,
    columns: Drawn = None,
    dpi: Dpi = 120,
    as_json: Json = False,
) -> None:
    """Draw the greedy criterion over a plane: where one more component would explain most."""
    if sketch == "-" and model == "-":
        raise usage("standard input (-) can be read only once")
    _prepare(output, as_json, sketch, model)
    found = None if model is None else read_model(model)
    names = names_in(columns)
    ax = sketchlearn.plots.landscape(read_sketch(sketch), found, width=width, columns=names, remove=not keep)
    _write(output, ax, dpi, as_json)


@verb("plot drift monday.sketch tuesday.sketch wednesday.sketch -o drift.png")
def drift(
    sketches: Annotated[list[str], typer.Argument(help="Sketches in order, or one table of groups.")],
    output: Picture,
    against: Annotated[Literal["first", "previous", "rest"], option("What each sketch is compared with.")] = "first",
    alpha: Annotated[float, option(ALPHA)] = 0.01,
    dpi: Dpi = 120,
    as_json: Json = False,
) -> None:
    """Draw distances over a sequence of sketches, with alarms."""
    from sketchlearn.comparison.drift import drift as find

    if not 0 < alpha < 1:
        raise usage(f"--alpha must be between 0 and 1, got {alpha}")
    _prepare(output, as_json, *sketches)
    given = labelled_sketches(sketches)
    with working(f"comparing {len(given)} sketches"), warnings_as_notes():
        found = find(given, against=against, alpha=alpha)
    facts = {"against": against, "alpha": alpha, "changes": [alarm.facts() for alarm in found]}
    ax = sketchlearn.plots.drift([alarm.change for alarm in found], alpha=alpha)
    alarms = [alarm.change.label for alarm in found if alarm.differs]
    line = f"{len(alarms)} of {len(found)} differ" + (f": {', '.join(alarms[:10])}" if alarms else "")
    _write(output, ax, dpi, as_json, facts, line)


def _prepare(output: str, as_json: bool, *inputs: str | None) -> None:
    """Refuse what can't be written or drawn before any work is done."""
    if output != "-" and Path(output).suffix.lstrip(".").lower() not in _FORMATS:
        raise usage(f"{output}: pictures are {', '.join(_FORMATS)}; give the output such a suffix")
    check_output(output, *inputs, as_json=as_json)
    optional("matplotlib", "plots", "a picture").use("Agg")


def _write(
    output: str, ax: Any, dpi: int, as_json: bool, facts: dict[str, Any] | None = None, line: str | None = None
) -> None:
    buffer = io.BytesIO()
    kind = "png" if output == "-" else Path(output).suffix.lstrip(".").lower()
    hashed = optional("matplotlib", "plots", "a picture").rc_context({"svg.hashsalt": "sketchlearn"})
    with hashed, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # letters that the font hasn't are boxes: nobody's fault
        ax.figure.savefig(buffer, format=kind, dpi=dpi, **_signed(kind))
    optional("matplotlib.pyplot", "plots", "a picture").close(ax.figure)
    write_bytes(output, buffer.getvalue())
    if output != "-":
        emit({"output": output, **(facts or {})}, as_json, output if line is None else f"{output}: {line}")
    elif line is not None:
        note(line)


def _signed(kind: str) -> dict[str, Any]:
    """Options by which a picture says who made it, so that it may be replaced; the same picture has the same bytes."""
    maker = f"sketchlearn {sketchlearn.__version__}"
    known = {
        "png": {"Software": maker},
        "svg": {"Date": None, "Creator": maker},
        "pdf": {"CreationDate": None, "Creator": maker},
    }
    if kind in known:
        return {"metadata": known[kind]}
    from PIL import Image

    notes = Image.Exif()
    notes[0x0131] = maker  # software
    return {"pil_kwargs": {"exif": notes}}
