"""How a feature map is chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from sketchlearn.designs import (  # noqa: F401  # each registers its tasks
    anomaly,
    classifier,
    gmm,
    ica,
    kmeans,
    monitoring,
    pca,
    stable,
    subspaces,
)
from sketchlearn.designs.independence import design_independence
from sketchlearn.designs.projection import project_sample
from sketchlearn.designs.request import Designer, Request, find, positive, register_design, tasks
from sketchlearn.designs.scale import RULES
from sketchlearn.designs.spread import standard_units, warn_of
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.encoder import Encoder
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.pilot_table import as_table, encoded_rows
from sketchlearn.features.projection import Projection
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.features.radial import RadialLaw

__all__ = ["RULES", "Request", "default_size", "design", "design_independence", "register_design", "tasks"]

UNPROJECTED = ("pca", "regression", "ica", "subspaces")
"""Tasks whose models are made of columns: directions of projected rows say nothing about them."""

Bounds: TypeAlias = tuple[npt.ArrayLike, npt.ArrayLike]
Fourier: TypeAlias = Literal["kmeans", "gmm", "stable"]
Quadratic: TypeAlias = Literal["pca", "regression"]


@overload
def design(
    sample: npt.ArrayLike | None = ...,
    *,
    n_components: int = ...,
    task: Fourier = ...,
    size: int | None = ...,
    seed: int | np.random.Generator = ...,
    bounds: Bounds | None = ...,
    dim: int | None = ...,
    scale: float | str | None = ...,
    radial: str | RadialLaw | None = ...,
    covariance_type: str | None = ...,
    standardize: bool = ...,
    encoder: Encoder | None = ...,
    projection: int | Projection | None = ...,
    structure: str = ...,
    quantized: bool = ...,
    features_per_row: int | None = ...,
    explain: Literal[False] = ...,
) -> FourierFeatures: ...


@overload
def design(
    sample: npt.ArrayLike | None = ...,
    *,
    n_components: int = ...,
    task: Fourier = ...,
    size: int | None = ...,
    seed: int | np.random.Generator = ...,
    bounds: Bounds | None = ...,
    dim: int | None = ...,
    scale: float | str | None = ...,
    radial: str | RadialLaw | None = ...,
    covariance_type: str | None = ...,
    standardize: bool = ...,
    encoder: Encoder | None = ...,
    projection: int | Projection | None = ...,
    structure: str = ...,
    quantized: bool = ...,
    features_per_row: int | None = ...,
    explain: Literal[True],
) -> tuple[FourierFeatures, str]: ...


@overload
def design(
    sample: npt.ArrayLike | None = ...,
    *,
    n_components: int = ...,
    task: Quadratic,
    size: int | None = ...,
    seed: int | np.random.Generator = ...,
    bounds: Bounds | None = ...,
    dim: int | None = ...,
    scale: float | str | None = ...,
    radial: str | RadialLaw | None = ...,
    covariance_type: str | None = ...,
    standardize: bool = ...,
    encoder: Encoder | None = ...,
    projection: int | Projection | None = ...,
    structure: str = ...,
    quantized: bool = ...,
    features_per_row: int | None = ...,
    explain: Literal[False] = ...,
) -> QuadraticFeatures: ...


@overload
def design(
    sample: npt.ArrayLike | None = ...,
    *,
    n_components: int = ...,
    task: Quadratic,
    size: int | None = ...,
    seed: int | np.random.Generator = ...,
    bounds: Bounds | None = ...,
    dim: int | None = ...,
    scale: float | str | None = ...,
    radial: str | RadialLaw | None = ...,
    covariance_type: str | None = ...,
    standardize: bool = ...,
    encoder: Encoder | None = ...,
    projection: int | Projection | None = ...,
    structure: str = ...,
    quantized: bool = ...,
    features_per_row: int | None = ...,
    explain: Literal[True],
) -> tuple[QuadraticFeatures, str]: ...


@overload
def design(
    sample: npt.ArrayLike | None = ...,
    *,
    n_components: int = ...,
    task: str,
    size: int | None = ...,
    seed: int | np.random.Generator = ...,
    bounds: Bounds | None = ...,
    dim: int | None = ...,
    scale: float | str | None = ...,
    radial: str | RadialLaw | None = ...,
    covariance_type: str | None = ...,
    standardize: bool = ...,
    encoder: Encoder | None = ...,
    projection: int | Projection | None = ...,
    structure: str = ...,
    quantized: bool = ...,
    features_per_row: int | None = ...,
    explain: Literal[False] = ...,
) -> FeatureMap: ...


@overload
def design(
    sample: npt.ArrayLike | None = ...,
    *,
    n_components: int = ...,
    task: str,
    size: int | None = ...,
    seed: int | np.random.Generator = ...,
    bounds: Bounds | None = ...,
    dim: int | None = ...,
    scale: float | str | None = ...,
    radial: str | RadialLaw | None = ...,
    covariance_type: str | None = ...,
    standardize: bool = ...,
    encoder: Encoder | None = ...,
    projection: int | Projection | None = ...,
    structure: str = ...,
    quantized: bool = ...,
    features_per_row: int | None = ...,
    explain: Literal[True],
) -> tuple[FeatureMap, str]: ...


def design(
    sample: npt.ArrayLike | None = None,
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
    standardize: bool = False,
    encoder: Encoder | None = None,
    projection: int | Projection | None = None,
    structure: str = "dense",
    quantized: bool = False,
    features_per_row: int | None = None,
    explain: bool = False,
) -> FeatureMap | tuple[FeatureMap, str]:
    """Choose a feature map from a pilot sample, or without looking at a row.

    Parameters
    ----------
    sample : array (n, d), optional
        Pilot rows; a thousand are enough.
    n_components : int
        The largest number of components that will be asked for.
    task : {"kmeans", "gmm", "stable", "monitoring", "pca", "regression", "classifier", "ica"}
        What the sketch is for, or a task that was registered.  ``"monitoring"`` adds features of single columns, so
        that :func:`sketchlearn.comparison.drift` can say how each column changed
        (:class:`sketchlearn.features.MonitoringFeatures`; columns always count in units of their spread).
        ``"pca"`` and ``"regression"`` give quadratic features
        (:class:`sketchlearn.QuadraticFeatures`), ``"classifier"`` products of Fourier features
        (:class:`sketchlearn.EmbeddedFeatures`; `size` counts cosines and sines).
    size : int, optional
        Number of features; see :func:`sketchlearn.designs.default_size`.
    seed : int or numpy Generator
        Seed of the frequencies; a generator draws one.
    bounds : (lower, upper), optional
        Public bounds of the columns, instead of a sample: for private and federated use.  They may be
        several times wider than the data.
    dim : int, optional
        Number of columns, if neither a sample nor bounds are given (or bounds are two numbers).
    scale : float or str, optional
        A number: a guess of the data's standard deviation, instead of a sample (with `dim`).  A name: one of
        the rules of the literature for a single kernel scale, applied to the sample: ``"separation"``,
        ``"mean-separation"``, ``"dimension"``, ``"theory"``, ``"keriven"``.
    radial : str or RadialLaw, optional
        Law of the radii for a named scale; ``"adapted"`` by default.
    covariance_type : {"full", "tied", "diag", "spherical"}, optional
        Shape of the components, for ``task="gmm"`` and ``"stable"``; ``"full"`` by default.
    standardize : bool
        Every column counts in units of its own spread, which is taken from the sample and becomes part of the map:
        k-means is then that of the standardised rows, with centres in the original units.
    structure : {"dense", "auto", "hadamard", "gr2", "fastfood"}
        How frequencies are made: one by one, or in blocks of fast transforms for many columns; ``"auto"`` takes
        these where they are faster.  Quadratic maps know ``"dense"``, ``"auto"`` and ``"hadamard"``.
    quantized : bool
        Fourier features of two bits; take a quarter more of them.
    features_per_row : int, optional
        Each row contributes so many of the Fourier features only.
    encoder : Encoder, optional
        Rules for categories and missing values, from :meth:`sketchlearn.Encoder.fit`: the sample is then a frame, and
        so may be what is sketched with the map.
    projection : int or Projection, optional
        For hundreds of columns: the map is for so many random projections of the rows, which become part of its recipe
        (with `standardize`, of columns in units of their spread).  What is learned is about projected rows: labels,
        densities and tests, not centres in the original columns.
    explain : bool
        Return ``(map, explanation)``: what was chosen and why, in words.

    Returns
    -------
    FeatureMap, or (FeatureMap, str)

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> pilot = np.random.default_rng(0).normal(size=(1000, 3))
    >>> sl.design(pilot, n_components=10, seed=1).size
    300
    >>> phi, why = sl.design(bounds=([0, 0, 0], [1, 1, 1]), n_components=10, explain=True)
    >>> "no row looked at" in why
    True
    >>> sl.design(pilot * [1.0, 10.0, 100.0], n_components=10, standardize=True).spread.round()
    array([  1.,  10., 102.])
    """
    k = positive(n_components, "n_components")
    m = None if size is None else positive(size, "size")
    designer = find(task).design
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**31))
    request = Request(task, k, seed, sample, m, bounds, dim, scale, radial, covariance_type)
    if encoder is not None and sample is not None:
        sample = encoded_rows(as_table(sample), encoder)
        request = replace(request, sample=sample)
    raw, names = request, list(encoder.names) if encoder is not None else _column_names(sample)
    few: Projection | None = None
    if projection is not None:
        if standardize and isinstance(projection, Projection):
            raise ValueError("standardize=True: a projection that is given has units of its own, leave one of them out")
        few, request = _projected(request, projection, standardize, names)
        phi, why = designer(request)
        why += f"; of {few.describe()}"
    elif standardize and task != "monitoring":  # which standardises by itself
        phi, why = _standardized(designer, request, names, None if encoder is None else encoder.indicators)
    else:
        phi, why = designer(request)
    if (structure, quantized, features_per_row) != ("dense", False, None):
        phi = _redrawn(phi, structure, quantized, features_per_row)
        why += f"; {phi.describe()}"
    if sample is not None and isinstance(phi, FourierFeatures) and task != "stable":  # whose tails are long
        warn_of(raw.rows(), names, task == "kmeans" and not standardize)
    phi = phi if few is None else phi.with_projection(few)
    if encoder is not None:
        phi = phi.with_encoder(encoder)
    elif names is not None:
        phi = phi.with_columns(names)
    return (phi, why) if explain else phi


def _standardized(
    designer: Designer, request: Request, names: list[str] | None, indicators: npt.NDArray[np.bool_] | None
) -> tuple[FeatureMap, str]:
    """The map for raw rows of a design for standardised ones."""
    if request.sample is None:
        raise ValueError("standardize=True takes the spread of each column from a sample: give one")
    rows = request.rows()
    offset, spread = standard_units(rows, names, indicators)
    phi, why = designer(replace(request, sample=(rows - offset) / spread))
    if not isinstance(phi, FourierFeatures):
        raise ValueError(f"standardize=True needs Fourier features, the task {request.task!r} uses {phi.kind}")
    return phi.standardized(offset, spread), f"{why}; columns in units of their spread in the pilot"


def _projected(
    request: Request, projection: int | Projection, standardize: bool, names: list[str] | None
) -> tuple[Projection, Request]:
    """The projection, and what there is to design from after it."""
    if request.task in UNPROJECTED:
        raise ValueError(f"the task {request.task!r} is about the columns themselves: it can't have a projection")
    if request.sample is None:
        raise ValueError("projection takes the place of the rows from a sample: give one")
    rows = request.rows()
    if isinstance(projection, Projection):
        few = projection(rows)
    else:
        size = positive(projection, "projection")
        projection, few = project_sample(rows, size, request.seed, standardize, names)
    return projection, replace(request, sample=few)


def _redrawn(phi: FeatureMap, structure: str, quantized: bool, features_per_row: int | None) -> FeatureMap:
    """A designed map with another structure, of one bit, or subsampled."""
    if isinstance(phi, FourierFeatures):
        return phi.redrawn(structure=structure, quantized=quantized, features_per_row=features_per_row)
    if quantized or features_per_row is not None:
        raise ValueError(f"{phi.kind} features are neither quantised nor subsampled")
    if isinstance(phi, QuadraticFeatures):
        return phi.redrawn(structure)
    raise ValueError(f"{phi.kind} features have no structure")


def default_size(n_components: int, dim: int, task: str = "kmeans", *, covariance_type: str | None = None) -> int:
    """Number of features that :func:`sketchlearn.design` takes for a pilot sample if none is asked for.

    Ten per coordinate of the centres for k-means (twice that for a map from bounds or a guessed scale), ten per
    parameter of a mixture, fifteen of a stable one, all products of up to 2000 columns for principal components and
    ``8 * n_components * dim`` of more; a hundred at least, except for quadratic features.

    Examples
    --------
    >>> from sketchlearn.designs import default_size
    >>> default_size(10, 3), default_size(10, 3, "gmm"), default_size(2, 3, "pca")
    (300, 1000, 6)
    """
    return find(task).size(positive(n_components, "n_components"), positive(dim, "dim"), covariance_type)


def _column_names(sample: Any) -> list[str] | None:
    """Names of the columns of a frame, so that another order of columns is no silent mistake later."""
    names = getattr(sample, "columns", None)
    if names is None or callable(names):
        return None
    texts = [name for name in names if isinstance(name, str)]
    return texts if len(texts) == len(names) == len(set(texts)) else None
