"""Quadratic maps for principal components and regression: how many features, about which point, how far.

Size.  All d (d + 1) / 2 products of columns take d^2 / 2 operations per row, lose nothing, and are decoded by one
eigendecomposition.  They are kept up to 5000 columns, where they are 100 MB and their eigenvectors take about
15 s.  m random features take m d operations per row: always more, unless fewer than d / 2 of them would do.  They only
make a smaller sketch, and are for more columns, for releases, and for those who ask for a size.

Random features.  k components of d columns have ``k d - k (k - 1) / 2`` parameters.  Exactly low-rank data needs about
twice as many features; full-rank data needs more, for the tail of its spectrum acts as noise: with ``8 k d`` the risk
is within a percent of that of PCA for spectra falling like 1/j or faster (see ``benchmarks/quadratic.py``).

Place.  Products of columns far from zero lose digits, so they are taken about a point near the pilot's mean: each
coordinate is a whole multiple of about the column's standard deviation.  Columns near zero have zero there, and rows in
another order, or weights instead of repetition, give the same point.

Releases.  With public bounds all products are kept up to 511 columns, whose noise is that of one matrix; beyond,
directions are orthonormal bases instead of independent: the features of a clipped row have the smallest sum that is
possible, and so has the noise of a release without delta.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array
from sketchlearn.designs.completed import check_pilot, pilot_moments
from sketchlearn.designs.request import Request, register_design
from sketchlearn.exceptions import PUBLIC, InputError, Option
from sketchlearn.features.completed import CompletedFeatures
from sketchlearn.features.pairwise import PairwiseFeatures
from sketchlearn.features.patterns import Patterns
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.features.second_moment import SecondMomentMap
from sketchlearn.sources.pilot import PILOT_ROWS

SIZE = 8
"""Features per component and column."""
ALL_PRODUCTS = {"task": "regression", "n_components": 1, "size": None}
"""What to ask for where a model is learned from the moments of few columns, whose units don't matter then."""
_PATTERNS = 2000  # of gaps, kept in the map: a bit per column each, less than the sums from sixteen columns on
_PILOT_WORK = 2e10  # rows of the pilot times columns cubed: 20 000 rows of 100 columns take half a minute to complete
_EXACT_COLUMNS = 5000  # all products are kept up to here: 100 MB, and 15 s for their eigenvectors
_RELEASED_COLUMNS = 511  # the same with public bounds: noise of a matrix takes seconds
_ORTHOGONAL_COLUMNS = 2048  # bases up to here take seconds to draw


def design_pca(
    sample: npt.ArrayLike | None = None,
    *,
    n_components: int = 10,
    dim: int | None = None,
    bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    size: int | None = None,
    seed: int = 0,
    weights: Array | None = None,
) -> tuple[QuadraticFeatures, str]:
    """A quadratic map for principal components, and why.

    Parameters
    ----------
    sample : array (n, d), optional
        Pilot rows; the centre is near their mean.
    n_components : int
        The largest number of components that will be asked for.
    dim : int, optional
        Number of columns, if nothing else tells.
    bounds : (lower, upper), optional
        Public bounds of the columns: rows are clipped to the ball around the box and summed exactly.
    size : int, optional
        Number of random features; by default all products of up to 5000 columns (511 with bounds), then
        ``8 * n_components * d``.
    seed : int
        Seed of the directions.
    weights : array (n,), optional
        Weights of the pilot rows.

    Examples
    --------
    >>> from sketchlearn.designs.pca import design_pca
    >>> design_pca(dim=500, n_components=5)[0].variant
    'exact'
    >>> design_pca(dim=500, n_components=5, size=20_000)[0].variant
    'sphere'
    """
    d, center, radius, origin = _place(sample, dim, bounds, weights)
    exact = size is None and d <= (_EXACT_COLUMNS if bounds is None else _RELEASED_COLUMNS)
    m = size or (d * (d + 1) // 2 if exact else SIZE * n_components * d)
    variant = "auto"
    if bounds is not None and d <= _ORTHOGONAL_COLUMNS and m < d * (d + 1) // 2:
        variant = "orthogonal"
    phi = QuadraticFeatures.draw(dim=d, size=m, seed=seed, center=center, radius=radius, variant=variant)
    if phi.is_exact:
        phi = phi.replace(seed=0)  # nothing is drawn: maps for the same columns are equal
        kept = f"all {phi.size} products of {d} columns: less work than random features, and nothing is lost"
    else:
        rule = f" ({SIZE} k d)" if size is None else ""
        kept = f"{m} random quadratic features{rule} for {n_components} components of {d} columns"
    return phi, f"{kept}; {origin}"


def design_regression(
    sample: npt.ArrayLike | None = None,
    *,
    dim: int | None = None,
    bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    size: int | None = None,
    n_components: int = 10,
    seed: int = 0,
    weights: Array | None = None,
) -> tuple[QuadraticFeatures, str]:
    """A quadratic map for regression of any columns on any others (targets are columns too), and why.

    All products of columns up to 5000 columns, unless `size` asks for fewer; beyond that a compressed map, from
    which principal-component regression is accurate where few components carry the data.

    Examples
    --------
    >>> from sketchlearn.designs.pca import design_regression
    >>> design_regression(dim=20)[0].variant
    'exact'
    """
    d, center, radius, origin = _place(sample, dim, bounds, weights)
    if size is None and d <= _EXACT_COLUMNS:
        phi = QuadraticFeatures.draw(dim=d, center=center, radius=radius)
        return phi, f"all {phi.size} products of {d} columns: regression as exact as from the rows; {origin}"
    return design_pca(sample, n_components=n_components, dim=dim, bounds=bounds, size=size, seed=seed, weights=weights)


def pca_size(k: int, d: int, covariance_type: str | None = None) -> int:
    """All products of columns up to 5000 columns; beyond, eight features per component and column."""
    return d * (d + 1) // 2 if d <= _EXACT_COLUMNS else SIZE * k * d


def released_size(k: int, d: int) -> int:
    """Number of features with public bounds: as few as do, for a release has more noise in more features."""
    return min(SIZE * k * d, d * (d + 1) // 2)


def regression_size(k: int, d: int, covariance_type: str | None = None) -> int:
    """As for principal components."""
    return pca_size(k, d)


def design_pairwise(
    sample: npt.ArrayLike | None = None,
    *,
    dim: int | None = None,
    bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    weights: Array | None = None,
) -> tuple[PairwiseFeatures, str]:
    """All products of columns from rows that miss entries (NaN), and why.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.pca import design_pairwise
    >>> design_pairwise([[1.0, np.nan], [np.nan, 2.0]])[0]
    PairwiseFeatures(dim=2, size=3, center=...)
    """
    d, center, radius, origin = _place(sample, dim, bounds, weights, missing=True)
    phi = PairwiseFeatures.draw(d, center=center, radius=radius)
    return phi, f"all {phi.size} products of {d} columns, each from the rows that hold both; {origin}"


def design_completed(
    sample: npt.ArrayLike,
    *,
    bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    weights: Array | None = None,
) -> tuple[CompletedFeatures, str]:
    """All products of columns of rows that miss entries (NaN), completed as the sample says, and why.

    With `bounds` completed rows are clipped to the ball about them, and sums are exact.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.designs.pca import design_completed
    >>> rows = np.random.default_rng(0).normal(size=(100, 2))
    >>> rows[:20, 0] = np.nan
    >>> design_completed(rows, bounds=([-5.0, -5.0], [5.0, 5.0]))[0]
    CompletedFeatures(dim=2, size=3, radius=7.07107)
    """
    d, _, radius, _ = _place(sample, None, None, weights, missing=True)
    rows = np.asarray(sample, np.float64)
    center, exact = None, ""
    if bounds is not None:
        _, center, radius, _ = _place(None, d, bounds, None)
        exact = f"; clipped to distance {radius:.6g} from the middle of the bounds, exact sums"
    check_pilot(rows)
    step = max(1, len(rows) // max(PILOT_ROWS, int(_PILOT_WORK / d**3)))
    rows, weights = rows[::step], None if weights is None else weights[::step]
    patterns = Patterns.of(rows, weights).some(_PATTERNS)
    phi = CompletedFeatures.draw(*pilot_moments(rows, weights, patterns), patterns, center=center, radius=radius)
    return phi, f"all {phi.size} products of {d} columns, gaps filled as {len(rows)} pilot rows say{exact}"


def _from_request(request: Request) -> tuple[SecondMomentMap, str]:
    request.refuse("scale", "radial", why="has no scale and no radial law")
    request.refuse("covariance_type", why="has no covariance_type")
    if request.missing is not None:
        request.refuse("size", why="with missing entries sketches all products of columns: leave out size")
        rows, weights = (None, None) if request.sample is None else request.weighted()
        if request.missing == "em":
            if rows is None:
                raise InputError(
                    Option("missing", "em"), " fills gaps as a sample of rows says: give one, or use ",
                    Option("missing", "pairs"),
                )  # fmt: skip
            return design_completed(rows, bounds=request.bounds, weights=weights)
        return design_pairwise(rows, dim=request.dim, bounds=request.bounds, weights=weights)
    design = design_pca if request.task == "pca" else design_regression
    rows, weights = (None, None) if request.sample is None else request.weighted()
    return design(
        rows,
        n_components=request.n_components,
        dim=request.dim,
        bounds=request.bounds,
        size=request.size,
        seed=request.seed,
        weights=weights,
    )


register_design("pca", size=pca_size, projects=False, units="distances", outliers=False, missing=True)(_from_request)
register_design("regression", size=regression_size, projects=False, outliers=False, missing=True)(_from_request)
register_design("cca", size=regression_size, projects=False, outliers=False, missing=True)(_from_request)
register_design("nmf", size=regression_size, projects=False, outliers=False, missing=True)(_from_request)


def _place(
    sample: npt.ArrayLike | None,
    dim: int | None,
    bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None,
    weights: Array | None,
    missing: bool = False,
) -> tuple[int, Array | None, float | None, str]:
    if sample is not None and bounds is not None:
        raise ValueError("give a sample or bounds, not both")
    if sample is not None:
        rows = np.asarray(sample, np.float64)
        if rows.ndim != 2 or not len(rows) or not (np.isfinite(rows) | (np.isnan(rows) & missing)).all():
            raise ValueError(f"the pilot sample must be finite rows and columns, got shape {rows.shape}")
        return rows.shape[1], _near_mean(rows, weights), None, f"centred near the mean of {len(rows)} pilot rows"
    if bounds is not None:
        shape = () if dim is None else (dim,)
        lower, upper = np.broadcast_arrays(*(np.asarray(b, np.float64) for b in bounds), np.empty(shape))[:2]
        if lower.ndim != 1 or not (np.isfinite(lower) & np.isfinite(upper) & (lower < upper)).all():
            raise ValueError(
                "bounds must be a pair (lower, upper) with a number per column, lower below upper; or give dim"
            )
        radius = 0.5 * math.sqrt(float(((upper - lower) ** 2).sum()))
        words = f"no row looked at: rows clipped to distance {radius:.6g} from the middle of the bounds, exact sums"
        return len(lower), 0.5 * (lower + upper), radius, words
    if dim is None:
        raise InputError("nothing to design from: give a sample of rows, ", PUBLIC, " or dim")
    return dim, None, None, "no row looked at, sums in float64"


def _near_mean(rows: Array, weights: Array | None) -> Array | None:
    """A point near the mean, on a grid about as wide as the columns; None if it is the origin."""
    if np.isnan(rows).any():
        return _near_mean_of_present(rows, weights)
    mean = np.average(rows, axis=0, weights=weights)
    spread = np.sqrt(np.average((rows - mean) ** 2, axis=0, weights=weights))
    constant = rows.max(axis=0) == rows.min(axis=0)
    step = 2.0 ** np.rint(np.log2(np.where(constant | (spread == 0), 1.0, spread)))
    center = np.where(constant, rows[0], np.rint(mean / step) * step)
    return center if center.any() else None


def _near_mean_of_present(rows: Array, weights: Array | None) -> Array | None:
    """A point near the mean of what each column holds; 0 for a column that holds nothing."""
    center = np.zeros(rows.shape[1])
    for j, column in enumerate(rows.T):
        there = ~np.isnan(column)
        if there.any():
            own = None if weights is None else weights[there]
            found = _near_mean(column[there][:, None], own)
            center[j] = 0.0 if found is None else found[0]
    return center if center.any() else None
