"""One way from rows to a feature map, taken by :func:`sketchlearn.design`, the estimators and the command line.

Rows become a pilot by one rule (:mod:`sketchlearn.sources.pilot`), the pilot is projected or standardised where that is
asked for, the designer of the task makes the map, and the map says why it is what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt

from sketchlearn.accepts import FLAG, NOTHING
from sketchlearn.designs.adapted import design_adapted
from sketchlearn.designs.projection import project_sample
from sketchlearn.designs.request import Designer, Request, checked_rows, find, positive, tasks
from sketchlearn.designs.spread import column_units, standard_units, unlike, warn_of
from sketchlearn.exceptions import InputError, Option, warn
from sketchlearn.features.adapted import AdaptedFeatures
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.completed import CompletedFeatures
from sketchlearn.features.encoder import Encoder
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.pairwise import PairwiseFeatures
from sketchlearn.features.pilot_table import as_table, encoded_rows
from sketchlearn.features.projection import Projection
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.features.radial import RadialLaw
from sketchlearn.sources.base import Source
from sketchlearn.sources.pilot import pilot_rows
from sketchlearn.words import counted

_PLAIN: tuple[str, bool, int | None] = ("dense", False, None)  # how frequencies are drawn: one by one, whole
Bounds: TypeAlias = tuple[npt.ArrayLike, npt.ArrayLike]
Fourier: TypeAlias = Literal["kmeans", "kmedians", "gmm", "stable", "subspaces"]
Quadratic: TypeAlias = Literal["pca", "regression", "cca", "nmf"]


class Asked(TypedDict, total=False):
    """What :func:`design` takes besides the rows, the task and what to do with missing entries."""

    n_components: int
    size: int | None
    seed: int | np.random.Generator
    bounds: Bounds | None
    dim: int | None
    scale: float | str | None
    radial: str | RadialLaw | None
    covariance_type: str | None
    standardize: bool | None
    encoder: Encoder | None
    projection: int | Projection | None
    structure: str
    quantized: bool
    features_per_row: int | None
    sample_weight: npt.ArrayLike | None


@overload
def design(*, previous: Any, task: str, **asked: Unpack[Asked]) -> AdaptedFeatures: ...
@overload
def design(
    sample: Any = ..., *, task: Fourier = ..., missing: None = ..., **asked: Unpack[Asked]
) -> FourierFeatures: ...
@overload
def design(sample: Any = ..., *, task: Quadratic, missing: None = ..., **asked: Unpack[Asked]) -> QuadraticFeatures: ...
@overload
def design(
    sample: Any = ..., *, task: Quadratic, missing: Literal["pairs"], **asked: Unpack[Asked]
) -> PairwiseFeatures: ...
@overload
def design(
    sample: Any = ..., *, task: Quadratic, missing: Literal["em"], **asked: Unpack[Asked]
) -> CompletedFeatures: ...
@overload
def design(sample: Any = ..., *, task: str, missing: str | None = ..., **asked: Unpack[Asked]) -> FeatureMap: ...
def design(
    sample: Any = None,
    *,
    n_components: int = 20,
    task: str = "kmeans",
    size: int | None = None,
    seed: int | np.random.Generator = 0,
    bounds: Bounds | None = None,
    dim: int | None = None,
    scale: float | str | None = None,
    radial: str | RadialLaw | None = None,
    covariance_type: str | None = None,
    standardize: bool | None = None,
    encoder: Encoder | None = None,
    projection: int | Projection | None = None,
    structure: str = "dense",
    quantized: bool = False,
    features_per_row: int | None = None,
    sample_weight: npt.ArrayLike | None = None,
    missing: str | None = None,
    previous: Any = None,
    explain: bool | None = None,
) -> FeatureMap | tuple[FeatureMap, str]:
    """Choose a feature map from some rows, or without looking at a row.

    Estimators and the command line design in the same way: from the same rows, with the same number of components and
    the same seed, they make the same map.

    Parameters
    ----------
    sample : array (n, d), frame, path, or anything that :func:`sketchlearn.sketch` reads, optional
        Some rows; a thousand are enough. If there are more than 2000 (20 000 with ``missing="em"``), so many are
        drawn at random.
    n_components : int
        The largest number of components that you will ask for.
    task : {"kmeans", "kmedians", "gmm", "stable", "monitoring", "pca", "regression", "cca", "nmf", \
"classifier", "ica", "dictionary", "subspaces", "anomaly", "columns"}
        What the sketch is for; registered tasks work too. ``"monitoring"`` adds features of single columns, so that
        :func:`sketchlearn.drift` can say how each column changed, and measures columns in units of their spread.
        ``"pca"``, ``"regression"``, ``"cca"`` and ``"nmf"`` give quadratic features
        (:class:`sketchlearn.QuadraticFeatures`), ``"classifier"`` and ``"anomaly"`` products of Fourier features
        (:class:`sketchlearn.EmbeddedFeatures`; `size` counts cosines and sines).
    size : int, optional
        Number of features; see :func:`sketchlearn.designs.default_size`.
    seed : int or numpy Generator
        Seed of the frequencies and of the choice of rows; a generator draws one.
    bounds : (lower, upper), optional
        Public bounds of the columns, instead of a sample, for private and federated use. They may be several times
        wider than the data.
    dim : int, optional
        Number of columns, if neither a sample nor bounds are given (or bounds are two numbers).
    scale : float or str, optional
        A number is a guess of the data's standard deviation, instead of a sample (give `dim` too). A name is a rule of
        the literature for a single kernel scale, applied to the sample: ``"separation"``, ``"mean-separation"``,
        ``"dimension"``, ``"theory"``, ``"keriven"``.
    radial : str or RadialLaw, optional
        Law of the radii for a named scale; ``"adapted"`` by default.
    covariance_type : {"full", "tied", "diag", "spherical"}, optional
        Shape of the components, for ``task="gmm"`` and ``"stable"``; by default that of `previous`, or ``"full"``.
    standardize : bool, optional
        Measure every column in units of its own spread. The spread is taken from the sample and becomes part of the
        map. k-means is then k-means of the standardised rows, with centres in the original units. The default is True
        for ``"classifier"``, and for ``"anomaly"`` if one column is more than thirty times as wide as another.
    structure : {"dense", "auto", "hadamard", "gr2", "fastfood"}
        How frequencies are drawn: one by one, or in blocks of fast transforms for many columns. ``"auto"`` uses blocks
        where they are faster. Quadratic maps support ``"dense"``, ``"auto"`` and ``"hadamard"``.
    quantized : bool
        Use Fourier features of two bits. About a quarter more features are needed.
    features_per_row : int, optional
        Each row contributes to only this many of the Fourier features.
    encoder : Encoder, optional
        Rules for categories and missing values, from :meth:`sketchlearn.Encoder.fit`: the sample is then a frame or a
        file, and so may be what is sketched with the map.
    projection : int or Projection, optional
        For hundreds of columns: replace the columns by this many random projections, which become part of the recipe
        (with `standardize`, of columns in units of their spread). Models are then about projected rows: they give
        labels, densities and tests, but no centres in the original columns.
    sample_weight : array (n,), optional
        Weights of the rows of an array or frame.
    missing : {"em", "pairs"}, optional
        Allow rows with missing entries (NaN, or nulls of a table), for ``"pca"``, ``"regression"``, ``"cca"`` and
        ``"nmf"``. ``"em"`` gives what an EM algorithm on the rows gives: gaps are filled as the sample says, and models
        are corrected for it (:class:`sketchlearn.CompletedFeatures`). With `bounds` as well, sums are exact.
        ``"pairs"`` needs no sample: models are learned from the pairs of entries that are there
        (:class:`sketchlearn.PairwiseFeatures`).
    previous : model, estimator or Mixture, optional
        For ``task="gmm"``: an earlier mixture of these columns, instead of a sample, also one that scikit-learn learned
        from a sample. Frequencies then have the width and shape of each of its components
        (:class:`sketchlearn.features.AdaptedFeatures`). Where shapes differ, a smaller sketch tells as much. See
        :doc:`/how-to/sketch-size`.
    explain : bool, optional
        Deprecated: return ``(map, reason)``.  The reason is ``map.reason``.

    Returns
    -------
    FeatureMap
        Its `reason` says in words and numbers why it was chosen.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> pilot = np.random.default_rng(0).normal(size=(1000, 3))
    >>> sl.design(pilot, n_components=10, seed=1).size
    300
    >>> print(sl.design(bounds=([0, 0, 0], [1, 1, 1]), n_components=10).reason[:60])
    multi-scale frequencies from public bounds, no row looked at
    >>> sl.design(pilot * [1.0, 10.0, 100.0], n_components=10, standardize=True).spread.round()
    array([  1.,  10., 102.])
    """
    k = positive(n_components, "n_components")
    (FLAG | NOTHING).check("standardize", standardize)
    m = None if size is None else positive(size, "size")
    find(task)
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**31))
    check_missing(missing, task, projection is not None or standardize or encoder is not None)
    if previous is not None:
        others = sample, sample_weight, bounds, dim, scale, radial, standardize, encoder, projection, missing, explain
        if any(value is not None for value in (*others, quantized or None, features_per_row)) or structure != "dense":
            raise ValueError(
                "previous is instead of a sample, and combines with n_components, size, covariance_type and seed"
            )
        return _second(previous, task, k, covariance_type, seed, m)
    rows = _Rows(None) if sample is None else _pilot(sample, sample_weight, seed, encoder, missing)
    request = Request(
        task, k, seed, rows.rows, m, bounds, dim, scale, radial, covariance_type, rows.weights, standardize, rows.box,
        missing,
    )  # fmt: skip
    phi = design_request(
        request,
        rows.names,
        indicators=None if encoder is None else encoder.indicators,
        projection=projection,
        drawn=(structure, quantized, features_per_row),
    )
    if encoder is not None:
        phi = phi.with_encoder(encoder)
    public = bounds is not None and encoder is None  # an encoder may come from anywhere
    phi = phi.chosen_from("a sample" if sample is not None else "public bounds" if public else "")
    if explain is None:
        return phi
    warn("explain= is deprecated: the map says why, as map.reason", FutureWarning)
    return (phi, phi.reason) if explain else phi


def _second(previous: Any, task: str, k: int, covariance_type: str | None, seed: int, size: int | None) -> FeatureMap:
    """The map that an earlier model asks for."""
    if task != "gmm":
        raise ValueError(f"previous is for task='gmm', not for {task!r}")
    model = getattr(previous, "solution_", previous)
    shape = covariance_type or str(getattr(model, "covariance_type", "full"))
    phi, why = design_adapted(previous, k, shape, seed, size=size)
    few, encoder = getattr(model, "projection", None), getattr(model, "encoder", None)
    if few is not None:  # its components are those of projected rows
        phi = phi.with_projection(few)
    elif getattr(model, "named", False):
        phi = phi.with_columns(model.columns)
    named = phi if encoder is None else phi.with_encoder(encoder)
    asked = Request(task, k, seed, size=size, covariance_type=covariance_type)
    return named.explained(why).chosen_from("an earlier model").designed_for(_purpose(asked, "from an earlier model"))


def design_request(
    request: Request,
    names: Sequence[str] | None = None,
    *,
    designer: Designer | None = None,
    indicators: npt.NDArray[np.bool_] | None = None,
    projection: int | Projection | None = None,
    drawn: tuple[str, bool, int | None] = _PLAIN,
    any_units: bool = False,
) -> FeatureMap:
    """The map for a request whose sample is a pilot: what all entry points have in common.

    `request`: with `standardize` if columns should count in units of their spread. `names`: names of the columns, which
    become part of the map. `designer`: by default the one that is registered for the task. `indicators`: columns that
    may be constant in the pilot, (d,). `projection`: random projections of the rows. `drawn`: how the frequencies are
    drawn, (structure, quantized, features_per_row). `any_units`: whether what is learned divides columns by their
    spread itself: then there is no warning of their units.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.designs import Request
    >>> from sketchlearn.designs.front import design_request
    >>> rows = np.random.default_rng(0).normal(size=(500, 3))
    >>> design_request(Request("kmeans", 4, sample=rows)) == sl.design(rows, n_components=4)
    True
    """
    task = find(request.task)
    make = task.design if designer is None else designer
    few: Projection | None = None
    remarks = ""
    asked = request
    if projection is not None:
        few, request = _projected(request, projection, names)
        remarks = f"; of {few.describe()}"
    units = None
    inside = request.standardize is None and request.sample is not None and task.units in ("columns", "unlike")
    inside = inside and (task.units == "columns" or unlike(request.rows()))
    if inside or (request.standardize and task.units != "own"):
        units, request = _standardized(request, names, indicators, task.units == "distances")
        remarks += "; columns in units of their spread in the pilot"
    phi, why = make(request)
    if units is not None:
        phi = phi.standardized(*units)
    if drawn != _PLAIN:
        phi = phi.redrawn(*drawn)
        remarks += f"; {phi.describe()}"
    if asked.sample is not None:
        compared = task.units == "distances" or request.covariance_type == "spherical"
        compared |= task.units in ("columns", "unlike") and asked.standardize is False
        compared &= units is None and not (asked.standardize or any_units)
        if task.outliers or compared:
            warn_of(asked.rows(), names, compared, task.outliers)
    if few is not None:
        phi = phi.with_projection(few)
    if names is not None and len(names) == phi.inputs:
        phi = phi.with_columns(names)
    source = "no row looked at" if asked.sample is None else f"from {counted(len(asked.rows()), 'pilot row')}"
    return phi.explained(why + remarks).designed_for(_purpose(asked, source, projection, drawn))


_OPTIONS = ("size", "seed", "dim", "scale", "radial", "covariance_type", "standardize", "missing")


def _purpose(
    asked: Request,
    source: str,
    projection: int | Projection | None = None,
    drawn: tuple[str, bool, int | None] = _PLAIN,
) -> str:
    """What was asked for, in words: the options as they were given."""
    plain = Request(asked.task, asked.n_components)
    given = {name: getattr(asked, name) for name in _OPTIONS if getattr(asked, name) != getattr(plain, name)}
    for name, value, usual in zip(("structure", "quantized", "features_per_row"), drawn, _PLAIN, strict=True):
        if value != usual:
            given[name] = value
    if projection is not None:
        given["projection"] = getattr(projection, "size", projection)
    options = ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v!r}" for k, v in given.items())
    return f"{asked.task} with n_components={asked.n_components}, {source}; " + (options or "options at their defaults")


def design_source(
    source: Source,
    *,
    n_components: int = 20,
    task: str = "kmeans",
    seed: int = 0,
    standardize: bool | None = None,
    projection: int | Projection | None = None,
    encoder: Encoder | None = None,
    missing: str | None = None,
    bounds: Bounds | None = None,
) -> FeatureMap:
    """The map for rows that are open already (with `encoder`, if there is one), from a pilot of them.

    `source`: of which a pilot is taken; a stream that can be read once keeps it for the pass. `n_components`, `task`,
    `seed`, `standardize`, `projection`, `encoder`, `missing`, `bounds`: see :func:`design`.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.designs.front import design_source
    >>> rows = np.random.default_rng(0).normal(size=(500, 3))
    >>> design_source(sl.read(rows)) == sl.design(rows)
    True
    """
    check_missing(missing, task, projection is not None or standardize or encoder is not None)
    most = pilot_rows(missing)
    rows, weights, box = source.pilot(most, seed, missing is not None)
    if len(rows) < min(n_components, most):
        raise InputError(
            f"a design for {counted(n_components, 'component')} needs at least as many valid rows, but the data has "
            f"{len(rows)}: ask for fewer components with ",
            Option("n_components"),
        )
    phi = design_request(
        Request(
            task,
            n_components,
            seed,
            rows,
            bounds=bounds,
            weights=weights,
            standardize=standardize,
            looked_at=box,
            missing=missing,
        ),
        source.names if source.names and len(source.names) == rows.shape[1] else None,
        indicators=None if encoder is None else encoder.indicators,
        projection=projection,
    )
    return (phi if encoder is None else phi.with_encoder(encoder)).chosen_from("a sample")


class _Rows(NamedTuple):
    rows: npt.NDArray[Any] | None
    weights: npt.NDArray[np.float64] | None = None
    names: Sequence[str] | None = None
    box: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None = None


def check_missing(missing: str | None, task: str, prepared: bool = False) -> None:
    """Refuse what can't be done with rows that miss entries."""
    if missing is None:
        return
    if missing not in ("em", "pairs"):
        raise ValueError(f"missing={missing!r}: choose 'em', 'pairs' or None")
    if not find(task).missing:
        able = ", ".join(name for name in tasks() if find(name).missing)
        raise InputError(
            Option("missing", missing), f" is for the tasks {able}; for {task} use ",
            Option("encoder", "sl.Encoder.fit(sample)", code=True),
        )  # fmt: skip
    if prepared:
        raise ValueError(f"missing={missing!r} can't be combined with a projection, standardize or an encoder")


def _pilot(
    sample: Any, sample_weight: npt.ArrayLike | None, seed: int, encoder: Encoder | None, missing: str | None
) -> _Rows:
    """The pilot of any rows, and the names of their columns."""
    from sketchlearn.sources.pilot import choose, is_source

    most = pilot_rows(missing)
    frame = encoder is not None and (hasattr(sample, "columns") or hasattr(sample, "schema"))
    large = hasattr(sample, "tocsr") and sample.shape[0] > most  # made dense block by block
    if (is_source(sample) and not frame) or large:
        from sketchlearn.sources import Selection, open_source

        if sample_weight is not None and not large:
            raise ValueError("sample_weight is for rows in memory: sl.read(..., weight_column=...) reads weights")
        source = open_source(sample, Selection.of(encoder=encoder, sample_weight=sample_weight))
        rows, weights, box = source.pilot(most, seed, missing is not None)
        return _Rows(rows, weights, source.names if source.names and len(source.names) == rows.shape[1] else None, box)
    names: list[str] | None
    if encoder is not None:
        rows, names = encoded_rows(as_table(sample), encoder), list(encoder.names)
    else:
        rows, names = checked_rows(sample, missing is not None), _column_names(sample)
    own = None if sample_weight is None else np.asarray(sample_weight, np.float64)
    if own is not None and (own.shape != (len(rows),) or not (own >= 0).all() or not np.isfinite(own).all()):
        raise ValueError(f"sample_weight must hold {len(rows)} non-negative numbers, got shape {own.shape}")
    box = None
    if own is not None or len(rows) > most:
        rows, own, box = choose(rows, own, seed, missing)
    return _Rows(rows, own, names, box)


def _standardized(
    request: Request, names: Sequence[str] | None, indicators: npt.NDArray[np.bool_] | None, strict: bool
) -> tuple[tuple[npt.ArrayLike, npt.ArrayLike], Request]:
    """Offset and spread of the columns, and the request for standardised rows; `strict`: no column may be constant."""
    if request.sample is None:
        raise InputError(Option("standardize", True), " takes the spread of each column from a sample: give one")
    rows, weights = request.weighted()
    offset, spread = standard_units(rows, names, indicators, weights) if strict else column_units(rows, weights)
    seen = request.looked_at
    box = None if seen is None else ((seen[0] - offset) / spread, (seen[1] - offset) / spread)
    rows = (rows - offset) / spread
    return (offset, spread), replace(request, sample=rows, weights=weights, standardize=False, looked_at=box)


def _projected(
    request: Request, projection: int | Projection, names: Sequence[str] | None
) -> tuple[Projection, Request]:
    """The projection, and what there is to design from after it."""
    if not find(request.task).projects:
        raise ValueError(f"the task {request.task!r} is about the columns themselves and can't use a projection")
    if request.sample is None:
        raise ValueError("projection takes the place of the rows from a sample: give one")
    rows, weights = request.weighted()
    if isinstance(projection, Projection):
        if request.standardize:
            raise InputError(
                Option("standardize", True), ": a projection that is given has units of its own, leave one of them out"
            )
        few = projection(rows)
    else:
        size = positive(projection, "projection")
        projection, few = project_sample(rows, size, request.seed, bool(request.standardize), names, weights)
    return projection, replace(request, sample=few, weights=weights, standardize=False, looked_at=None)


def _column_names(sample: Any) -> list[str] | None:
    """Names of the columns of a frame, so that another order of columns is no silent mistake later."""
    names = getattr(sample, "columns", None)
    if names is None or callable(names):
        return None
    texts = [name for name in names if isinstance(name, str)]
    return texts if len(texts) == len(names) == len(set(texts)) else None
