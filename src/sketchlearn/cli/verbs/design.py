"""``sketchlearn design``: choose a feature map from a pilot sample, or from known bounds."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

import sketchlearn
from sketchlearn.cli.help import Task
from sketchlearn.cli.inputs import names_in
from sketchlearn.cli.options import TEXT, Encode, Json, Missing, Output, option, verb
from sketchlearn.cli.outputs import check_output, emit, usage, write_bytes
from sketchlearn.exceptions import ModelFileError
from sketchlearn.words import counted

if TYPE_CHECKING:
    from sketchlearn.features.base import FeatureMap
    from sketchlearn.sources import Source


@verb(
    "design data.parquet -k 10 -o map.json",
    "design 'days/*.csv' --task monitoring -o map.json",
    "design --lower 0,0 --upper 120,500 -o map.json   # without looking at a row",
    "design rows.csv --target y1,y2,y3 -k 8 -o map.json   # many targets of a few predictors",
    "design --previous model.json -k 10 -o second.json   # frequencies of each component's width and shape",
)
def design(
    output: Output,
    data: Annotated[
        list[str] | None, typer.Argument(help="Files, globs, folders, a database URL, or - for standard input.")
    ] = None,
    components: Annotated[int, option("Largest number of components to learn later.", "--components", "-k")] = 20,
    task: Annotated[Task, option("What to learn later.")] = "kmeans",
    seed: Annotated[int, option("Seed of the features.", min=0, max=2**32 - 1)] = 0,
    lower: Annotated[str | None, option("Known lower bounds, separated by commas.")] = None,
    upper: Annotated[str | None, option("Known upper bounds, separated by commas.")] = None,
    rows: Annotated[int | None, option("For a private release: a public lower bound of the number of rows.")] = None,
    epsilon: Annotated[float | None, option("With --rows: the epsilon of the release.")] = None,
    delta: Annotated[float, option("With --rows: the delta of the release.")] = 0.0,
    standardize: Annotated[bool, option("Standardise the columns; offset and spread become part of the map.")] = False,
    projection: Annotated[
        int | None, option("For hundreds of columns: replace them by this many random projections.")
    ] = None,
    first: Annotated[
        list[str] | None, option("For the command 'independence': columns of the first group, separated by commas.")
    ] = None,
    target: Annotated[
        list[str] | None,
        option(
            "For a mixture of linear maps of many targets: columns to predict from all others, separated by commas."
        ),
    ] = None,
    integers: Annotated[
        list[str] | None, option("With --task columns: which columns hold whole numbers, as numbers from 0.")
    ] = None,
    encode: Encode = False,
    missing: Missing = None,
    previous: Annotated[
        str | None, option("Instead of data: a Gaussian mixture (model.json) for whose shapes to make the map.")
    ] = None,
    other_data: Annotated[str | None, option("If no later private release contains this data: its name.")] = None,
    *,
    reading: dict[str, Any],
    as_json: Json = False,
) -> None:
    """Choose a feature map; sketches made with the same map can be added."""
    from sketchlearn.cli.pilot import designed, fitted_encoder, missing_in_map, recipe_text
    from sketchlearn.sources import read

    if components < 1:
        raise usage(f"-k must be at least 1, got {components}")
    if projection is not None and projection < 1:
        raise usage(f"--projection must be at least 1, got {projection}")
    bounds = _bounds(lower, upper)
    if previous is not None:
        others = bounds, projection, first, target, missing, *reading.values()
        if data or standardize or encode or any(value is not None for value in others) or task not in ("kmeans", "gmm"):
            raise usage(
                "--previous is instead of data and bounds, for --task gmm, and combines with -k and --seed alone"
            )
    elif bool(data) == (bounds is not None) and not (data and missing == "em"):
        raise usage("give either data or both --lower and --upper (or, with --missing em, all of them)")
    if first and (bounds is not None or encode or standardize or projection or task != "kmeans"):
        raise usage("--first needs data and no other option of the design: columns keep their own units")
    if target and (bounds is not None or encode or standardize or projection or first or missing or task != "kmeans"):
        raise usage(
            "--target needs data and, of the options of the design, only -k and --seed: columns keep their units"
        )
    if (rows is None) != (epsilon is None) or (delta and rows is None):
        raise usage("a map for a private release needs --rows and --epsilon (and --delta)")
    if rows is not None and bounds is None:
        raise usage("--rows and --epsilon need public bounds: --lower and --upper")
    gaps = missing_in_map(missing, encode)
    if other_data is not None and bounds is not None:
        raise usage(
            "--other-data names the data from which the map is chosen: leave it out if you give --lower and --upper"
        )
    check_output(output)
    words = ""
    if integers and (bounds is None or task != "columns"):
        raise usage("--integers is for --task columns, with --lower and --upper")
    phi: FeatureMap
    if previous is not None:
        phi = sketchlearn.design(previous=_mixture(previous), n_components=components, task="gmm", seed=seed)
    elif bounds is not None and not data:
        if standardize or encode or projection:
            raise usage("--standardize, --encode and --projection need data")
        size = None
        if rows is not None and epsilon is not None:
            size, words = _released_size(components, len(bounds[0]), epsilon, delta, rows, task)
        names = reading["columns"]
        if integers:
            phi = _histograms(task, bounds, size, integers, names)
        else:
            # mixtures are decoded from the same map as centres
            of = "kmeans" if task == "gmm" and size is not None else task
            phi = sketchlearn.design(
                bounds=bounds, n_components=components, task=of, seed=seed, size=size, missing=gaps
            )
        phi = phi if names is None else phi.with_columns(names)
    else:
        assert data is not None
        names, encoder = reading["columns"], None
        if encode:
            text = {name: reading[name] for name in TEXT}
            encoder = fitted_encoder(data, names, missing or "mean", format=reading["format"], text=text)
            reading["columns"] = None
        given: Any = data if len(data) > 1 else data[0]
        source = read(sys.stdin.buffer if given == "-" else given, encoder=encoder, **reading)
        if first:
            phi = _split(source, names_in(first, "--first") or [], seed)
        elif target:
            phi = _maps(source, names_in(target, "--target") or [], components, seed)
        else:
            phi = designed(source, components, task, seed, standardize, projection, encoder, gaps, bounds)
    if other_data is not None:
        phi = phi.chosen_from(f"other data: {other_data}")
    write_bytes(output, recipe_text(phi))
    if output != "-":
        few = "" if phi.projection is None else f", {phi.projection.describe()}"
        extra = {"reason": phi.reason, "expect": words}
        facts = {"output": output, **json.loads(phi.recipe_json()), **{k: v for k, v in extra.items() if v}}
        said = f"{output}: {phi.size} features for {counted(phi.dim, 'column')}{few} ({phi.describe()})"
        emit(facts, as_json, "\n".join([said, *filter(None, extra.values())]))


def _mixture(path: str) -> Any:
    """A model with a mixture, from a file."""
    from sketchlearn.models.base import Model

    model = Model.load(path)
    if getattr(model, "mixture", None) is None:
        raise ModelFileError(
            f"{path}: a model of the kind {model.task} has no mixture; --previous takes one of learn gmm"
        )
    return model


def _histograms(
    task: str, bounds: tuple[list[float], list[float]], size: int | None, integers: list[str], names: list[str] | None
) -> FeatureMap:
    """A map of single columns, some of which hold whole numbers."""
    from sketchlearn.features.histogram import CELLS, HistogramFeatures
    from sketchlearn.plots.geometry import column_numbers

    known = tuple(names or map(str, range(len(bounds[0]))))
    whole = column_numbers(names_in(integers, "--integers") or [], known)
    phi = HistogramFeatures.draw(*bounds, cells=size or CELLS, integers=list(whole))
    phi = phi.explained(f"{size or CELLS} cells of each column between public bounds, no row looked at")
    return phi.chosen_from("public bounds")


def _released_size(k: int, dim: int, epsilon: float, delta: float, rows: int, task: str) -> tuple[int, str]:
    """Number of features of a map for a private release, and what to expect of it."""
    from sketchlearn.privacy import private_size

    if not epsilon > 0 or not 0 <= delta < 1:
        raise usage(f"--epsilon must be positive and --delta in [0, 1), got {epsilon:g} and {delta:g}")
    if rows < 1:
        raise usage(f"--rows must be at least 1, got {rows}")
    if task not in ("kmeans", "gmm", "pca", "classifier", "columns"):
        raise usage(f"--rows and --epsilon are for the tasks kmeans, gmm, pca, classifier and columns, got {task}")
    return private_size(k, dim, epsilon, delta, rows=rows, task=task)


def _split(source: Source, first: list[str], seed: int) -> FeatureMap:
    """A map for a test of independence."""
    from sketchlearn.plots.geometry import column_numbers
    from sketchlearn.sources.pilot import PILOT_ROWS

    sample, names = source.sample(PILOT_ROWS, seed), source.names
    known = names if names and len(names) == sample.shape[1] else tuple(str(i) for i in range(sample.shape[1]))
    phi = sketchlearn.design_independence(sample, column_numbers(first, known), seed=seed)
    return phi.with_columns(known) if known == names else phi


def _maps(source: Source, target: list[str], k: int, seed: int) -> FeatureMap:
    """A map for a mixture of linear maps."""
    from sketchlearn.designs.regression_maps import design_maps
    from sketchlearn.plots.geometry import column_numbers
    from sketchlearn.sources.pilot import PILOT_ROWS

    sample, weights, _ = source.pilot(PILOT_ROWS, seed)
    names, dim = source.names, sample.shape[1]
    known = names if names and len(names) == dim else tuple(str(i) for i in range(dim))
    asked = column_numbers(target, known)
    predictors = [i for i in range(dim) if i not in asked]
    if not predictors:
        raise usage("--target names all columns: leave some to predict from")
    phi, why = design_maps(sample, predictors, k, seed=seed, weights=weights)
    return (phi.with_columns(known) if known == names else phi).explained(why).chosen_from("a sample")


def _bounds(lower: str | None, upper: str | None) -> tuple[list[float], list[float]] | None:
    if lower is None and upper is None:
        return None
    if lower is None or upper is None:
        raise usage("public bounds need both --lower and --upper")
    try:
        low, high = ([float(v) for v in text.split(",")] for text in (lower, upper))
    except ValueError:
        raise usage("--lower and --upper are numbers separated by commas") from None
    if len(low) != len(high) or any(not a < b for a, b in zip(low, high, strict=True)):
        raise usage("--lower and --upper need the same number of values, each lower value below its upper value")
    return low, high
