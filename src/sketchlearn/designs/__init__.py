"""How a feature map is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.designs import gmm, kmeans, pca, stable
from sketchlearn.designs.scale import RULES
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.radial import RadialLaw

__all__ = ["RULES", "TASKS", "design"]

TASKS = ("kmeans", "gmm", "stable", "pca", "regression")


def design(
    sample: npt.ArrayLike | None = None,
    *,
    n_components: int = 20,
    task: str = "kmeans",
    size: int | None = None,
    seed: int = 0,
    bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    dim: int | None = None,
    scale: float | str | None = None,
    radial: str | RadialLaw | None = None,
    covariance_type: str | None = None,
    explain: bool = False,
) -> Any:
    """Choose a feature map from a pilot sample, or without looking at a row.

    Parameters
    ----------
    sample : array (n, d), optional
        Pilot rows; a thousand are enough.
    n_components : int
        The largest number of components that will be asked for.
    task : {"kmeans", "gmm", "stable", "pca", "regression"}
        What the sketch is for.  The last two give quadratic features (:class:`sketchlearn.QuadraticFeatures`).
    size : int, optional
        Number of features; by default ``10 * n_components * d`` (20 with bounds or a number as scale), at least 100;
        for PCA ``8 * n_components * d``, or all products of columns if those are fewer.
    seed : int
        Seed of the frequencies.
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
    """

    def named(phi: FeatureMap) -> FeatureMap:
        names = _column_names(sample)
        return phi if names is None else phi.with_columns(names)

    k = _positive(n_components, "n_components")
    m = None if size is None else _positive(size, "size")
    if task not in TASKS:
        raise ValueError(f"task={task!r}: choose one of {', '.join(TASKS)}")
    if covariance_type is not None and task not in ("gmm", "stable"):
        raise ValueError(f"task={task!r} has no covariance_type")
    if task in ("gmm", "stable"):
        if sample is None or scale is not None or radial is not None:
            raise ValueError(
                f"task={task!r} needs a sample and nothing else to go by; without one use task='kmeans' with bounds, "
                "whose sketches can be decoded into mixtures too"
            )
        shape = covariance_type or "full"
        rows = _rows(sample)
        mixture_map = (gmm.design_gmm if task == "gmm" else stable.design_stable)(rows, k, shape, seed, size=m)
        why = (
            f"{mixture_map.size} features for {k} {shape} components: half at all scales of the data, half at that of "
            f"one component, both read off {len(rows)} pilot rows"
        )
        return (named(mixture_map), why) if explain else named(mixture_map)
    if task in ("pca", "regression"):
        if scale is not None or radial is not None:
            raise ValueError(f"task={task!r} has no scale and no radial law")
        quadratic = pca.design_pca if task == "pca" else pca.design_regression
        quadratic_map, why = quadratic(sample, n_components=k, dim=dim, bounds=bounds, size=m, seed=seed)
        return (named(quadratic_map), why) if explain else named(quadratic_map)
    if sum(x is not None for x in (sample, bounds)) > 1:
        raise ValueError("give a sample or bounds, not both")
    if sample is not None:
        rows = _rows(sample)
        if scale is not None and not isinstance(scale, str):
            raise ValueError("with a sample, scale is the name of a rule; a number is for when there is no sample")
        phi, why = kmeans.from_sample(rows, k, m, seed, scale, radial)
    elif isinstance(scale, str) or radial is not None:
        raise ValueError("a rule for the scale, or a radial law, needs a sample")
    elif bounds is not None:
        phi, why = kmeans.from_bounds(*_box(bounds, dim), k, m, seed)
    elif scale is not None:
        if dim is None:
            raise ValueError("scale without a sample needs dim, the number of columns")
        if not (np.isfinite(scale) and scale > 0):
            raise ValueError(f"scale must be positive and finite, got {scale!r}")
        phi, why = kmeans.from_spread(_positive(dim, "dim"), float(scale), k, m, seed)
    else:
        raise ValueError("nothing to design from: give a sample of rows, bounds=(lower, upper), or scale= and dim=")
    return (named(phi), why) if explain else named(phi)


def _positive(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return int(value)


def _rows(sample: npt.ArrayLike) -> npt.NDArray[np.float64]:
    rows = np.asarray(sample, np.float64)
    if rows.ndim != 2 or len(rows) < 1 or rows.shape[1] < 1:
        raise ValueError(f"the pilot sample must have rows and columns, got shape {rows.shape}")
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise ValueError(f"row {int(np.argmax(bad))} of the pilot sample holds NaN or infinity")
    return rows


def _box(
    bounds: tuple[npt.ArrayLike, npt.ArrayLike], dim: int | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    try:
        lower, upper = (np.asarray(b, np.float64) for b in bounds)
    except (TypeError, ValueError):
        raise ValueError("bounds must be a pair (lower, upper) of numbers or arrays") from None
    shape = np.broadcast_shapes(lower.shape, upper.shape, () if dim is None else (dim,))
    if len(shape) != 1:
        raise ValueError(
            f"bounds must be one number per column, got shapes {lower.shape} and {upper.shape}; or give dim"
        )
    lower, upper = np.broadcast_to(lower, shape), np.broadcast_to(upper, shape)
    wrong = ~(np.isfinite(lower) & np.isfinite(upper) & (lower < upper))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(f"bounds of column {i} are [{lower[i]}, {upper[i]}]: the lower must be below the upper")
    return lower, upper


def _column_names(sample: Any) -> list[str] | None:
    """Names of the columns of a frame, so that another order of columns is no silent mistake later."""
    names = getattr(sample, "columns", None)
    if names is None or callable(names):
        return None
    texts = [name for name in names if isinstance(name, str)]
    return texts if len(texts) == len(names) == len(set(texts)) else None
