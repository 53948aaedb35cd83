"""The metric in which a sketch was designed, and the same sketch seen in it.

A map with a whitening matrix A has features exp(i v·(A x)): the sketch of the rows A x under plain
frequencies v.  Decoding there, where components are round on average, is better conditioned; the model
is then carried back.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.problem import Array
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.sketch.value import Sketch


def keeps_shape(matrix: Array | None, kind: str) -> bool:
    """Does a linear map turn covariances of this type into covariances of this type?"""
    if matrix is None or kind in ("full", "tied"):
        return True
    diagonal = np.diag(matrix)
    if (matrix != np.diag(diagonal)).any():
        return False
    return kind == "diag" or bool(np.allclose(np.abs(diagonal), np.abs(diagonal[0]), rtol=1e-12))


def whitened(sketch: Sketch, kind: str) -> tuple[Sketch, Array | None]:
    """The sketch of the whitened rows and the matrix, or the sketch itself and None."""
    features = sketch.features
    if not isinstance(features, FourierFeatures) or features.whitening is None or sketch.weight == 0:
        return sketch, None
    matrix = features.whitening
    if not keeps_shape(matrix, kind) or np.linalg.cond(matrix) > 1e12:
        return sketch, None
    return _seen(sketch, features, matrix), matrix


def standardised(sketch: Sketch) -> tuple[Sketch, Array | None]:
    """The sketch of the standardised rows and the spread of the columns, or the sketch itself and None.

    Maps that were standardised on purpose say in which units distances are meant; k-means is a matter of distances.
    """
    features = sketch.features
    if not isinstance(features, FourierFeatures) or features.spread is None or sketch.weight == 0:
        return sketch, None
    return _seen(sketch, features, np.diag(1.0 / features.spread)), features.spread


def _seen(sketch: Sketch, features: FourierFeatures, matrix: Array) -> Sketch:
    """The sketch of the rows A x."""
    inverse = np.linalg.inv(matrix)
    half_turns = (features.half_turns.astype(np.float64) @ inverse).astype(np.float32)
    center = None if features.center is None else matrix @ features.center
    plain = FourierFeatures(
        features.dim, features.size, features.scale, features.radial, features.directions, features.radii,
        features.seed, center,
    ).with_random_array(half_turns)  # fmt: skip
    middle, half = 0.5 * (sketch.upper + sketch.lower), 0.5 * (sketch.upper - sketch.lower)
    reach = np.abs(matrix) @ half
    return Sketch(
        plain,
        sketch.sums,
        sketch.weight,
        sketch.weight_bits,
        matrix @ middle - reach,
        matrix @ middle + reach,
        sketch.skipped,
    )


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
    return means, 0.5 * (moved + np.swapaxes(moved, -1, -2))


def whiten(means: Array, covariances: Array, kind: str, matrix: Array | None) -> tuple[Array, Array]:
    """Inverse of :func:`unwhiten`."""
    if matrix is None:
        return means, covariances
    return unwhiten(means, covariances, kind, np.asarray(np.linalg.inv(matrix), np.float64))
