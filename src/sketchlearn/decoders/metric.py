"""The metric in which a sketch is decoded, and the sketch seen in it.

``exp(i w·x)`` is ``exp(i v·(A x))`` with ``v = A^-T w``: the sketch of the rows x under frequencies w is that of the
rows A x under frequencies v.  Decoding where components are round on average is better conditioned; k-means, a matter
of distances, is decoded in the units that the map says.  The model is then carried back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.arrays import Array, Complex, Flags
from sketchlearn.decoders.noise import Averages, added_variance
from sketchlearn.features.characteristic import CharacteristicMap, characteristic
from sketchlearn.features.operator import Operator


@dataclass(frozen=True, eq=False)
class View:
    """A sketch in a metric."""

    operator: Operator  # frequencies for the rows A x, in float64
    mean: Complex
    added: Array  # variance that was added to the averages
    n: float  # rows behind the sketch, in noise
    lower: Array
    upper: Array  # box around the rows A x
    place: Array  # a point near them
    broad: Flags  # which frequencies span all scales
    importance: Array  # what features are divided by when they are compared

    @classmethod
    def of(
        cls, sketch: Averages, metric: Array | None = None, *, first: int | None = None, near: Array | None = None
    ) -> View:
        """A sketch in the metric A, its `first` frequencies only (the ordinary ones), with rows around `near`."""
        features = characteristic(sketch.features)
        if sketch.weight == 0:
            raise ValueError("the sketch is empty: there is nothing to learn from")
        operator = features.operator(dtype=np.float64).cheapest()
        first = features.n_ordinary if first is None else min(first, features.n_ordinary)
        if first < features.size:
            operator = operator.rows(np.arange(first))
        lower, upper = box_of(sketch)
        place = near if near is not None else features.center
        place = 0.5 * (lower + upper) if place is None else np.asarray(place, np.float64)
        if metric is not None:
            operator = operator.transformed(metric)
            middle, reach = metric @ (0.5 * (upper + lower)), np.abs(metric) @ (0.5 * (upper - lower))
            lower, upper, place = middle - reach, middle + reach, metric @ place
        return cls(
            operator,
            sketch.mean[:first],
            added_variance(sketch)[:first],
            sketch.effective_count,
            lower,
            upper,
            place,
            features.broad[:first],
            features.importance_weights[:first],
        )


def has_box(sketch: Averages) -> bool:
    """Whether a sketch keeps the box of its rows."""
    return sketch.lower is not None and bool(np.isfinite(sketch.lower).all() and np.isfinite(sketch.upper).all())


def box_of(sketch: Averages) -> tuple[Array, Array]:
    """The box of the rows; for a sketch that keeps none, twenty widths that the map tells apart around the centre."""
    if has_box(sketch):
        return sketch.lower, sketch.upper
    features = characteristic(sketch.features)
    center = np.zeros(features.dim) if features.center is None else np.asarray(features.center, np.float64)
    operator = features.operator(dtype=np.float64)
    matrix = np.eye(features.dim) if features.whitening is None else np.asarray(features.whitening, np.float64)
    back = np.asarray(np.linalg.inv(matrix), np.float64)
    width = features.designed_width or 1.0 / float(np.sqrt(operator.transformed(matrix).squared_norms.min()))
    reach = 20.0 * width * np.sqrt((back**2).sum(1))
    return center - reach, center + reach


# -- which metric -----------------------------------------------------------------------------------


def standard_metric(features: CharacteristicMap) -> Array | None:
    """The metric of maps that were standardised on purpose: they say in which units distances are meant."""
    return None if features.spread is None else np.diag(1.0 / features.spread)


def whitening_metric(features: CharacteristicMap, kind: str) -> Array | None:
    """The metric that the frequencies were drawn in, if covariances of this type stay of this type in it."""
    matrix = features.whitening
    if matrix is None or not keeps_shape(matrix, kind):
        return None
    units = np.linalg.norm(matrix, axis=0)  # of the columns, which may be anything
    return None if np.linalg.cond(matrix / units) > 1e12 else np.asarray(matrix, np.float64)


def keeps_shape(matrix: Array | None, kind: str) -> bool:
    """Does a linear map turn covariances of this type into covariances of this type?"""
    if matrix is None or kind in ("full", "tied"):
        return True
    diagonal = np.diag(matrix)
    if (matrix != np.diag(diagonal)).any():
        return False
    return kind == "diag" or bool(np.allclose(np.abs(diagonal), np.abs(diagonal[0]), rtol=1e-12))


# -- there and back ----------------------------------------------------------------------------------


def unwhiten(means: Array, covariances: Array, kind: str, matrix: Array | None) -> tuple[Array, Array]:
    """Means and covariances in the coordinates of the rows."""
    if matrix is None:
        return means, covariances
    inverse = np.linalg.inv(matrix)
    means = means @ inverse.T
    if kind == "spherical":
        return means, covariances * inverse[0, 0] ** 2
    if kind == "diag":
        return means, covariances * np.diag(inverse) ** 2
    moved = inverse @ covariances @ inverse.T
    moved = 0.5 * (moved + np.swapaxes(moved, -1, -2))
    return means, with_width(moved) if moved.ndim == 2 else np.stack([with_width(each) for each in moved])


def with_width(covariance: Array, noise: Array | None = None) -> Array:
    """The covariance with some width in directions that have none, in units of each column's spread.

    `noise` is the rounding error of the variances.
    """
    return widened(covariance, noise)[0]


def widened(covariance: Array, noise: Array | None = None) -> tuple[Array, bool]:
    """:func:`with_width`, and whether a direction had a width of its own, beyond rounding, which is lost."""
    variances = np.diag(covariance)
    noise = np.zeros(len(variances)) if noise is None else noise
    least = 1e-24 * (float(variances.max(initial=0.0)) or 1.0)
    spread = np.sqrt(np.where(variances > 8.0 * noise, variances, np.maximum(8.0 * noise, least)))
    values, vectors = np.linalg.eigh(covariance / np.outer(spread, spread))
    # (of a correlation matrix 1e-11 is rounding; densities need some width everywhere, but rounding divided by it is
    # what collinear predictors add to predictions)
    rounding = 8.0 * len(noise) * max(float((noise / spread**2).max()), 2.0**-52)
    none = values < max(1e-11, rounding)
    if not none.any():
        return covariance, False
    wider = np.where(none, np.maximum(1e-8, values), values)
    lost = bool((values[none] > rounding).any())
    return np.asarray((vectors * wider) @ vectors.T * np.outer(spread, spread)), lost
