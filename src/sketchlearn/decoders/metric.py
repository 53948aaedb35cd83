"""The metric in which a sketch was designed, and the same sketch seen in it.

A map with a whitening matrix A has features exp(i v·(A x)): the sketch of the rows A x under plain
frequencies v.  Decoding there, where components are round on average, is better conditioned; the model
is then carried back.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.problem import Array
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.radial import RadialLaw
from sketchlearn.sketches.value import Sketch


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
    return moved(sketch, matrix, features.radial), matrix


def standardised(sketch: Sketch) -> tuple[Sketch, Array | None]:
    """The sketch of the standardised rows and the spread of the columns, or the sketch itself and None.

    Maps that were standardised on purpose say in which units distances are meant; k-means is a matter of distances.
    """
    features = sketch.features
    if not isinstance(features, FourierFeatures) or features.spread is None or sketch.weight == 0:
        return sketch, None
    return moved(sketch, np.diag(1.0 / features.spread), features.radial), features.spread


def moved(
    sketch: Sketch, matrix: Array, radial: RadialLaw, *, size: int | None = None, center: Array | None = None
) -> Sketch:
    """The sketch of the rows A x for an invertible matrix A, with the first `size` frequencies (all of them).

    `radial` is what the map says about its frequencies in the new metric; `center` replaces that of the rows x.
    """
    features = sketch.features
    assert isinstance(features, FourierFeatures)
    sums = sketch.sums[:, :size]
    place = features.center
    if center is not None:
        old = np.zeros(features.dim) if place is None else place
        turned = (sums[0] + 1j * sums[1]) * np.exp(1j * (features.frequencies[:size] @ (old - center)))
        sums = np.rint(np.stack([turned.real, turned.imag])).astype(np.int64)
        place = center
    half_turns = (features.half_turns[:size].astype(np.float64) @ np.linalg.inv(matrix)).astype(np.float32)
    plain = FourierFeatures(
        features.dim, len(half_turns), features.scale, radial, features.directions, features.radii,
        features.seed, None if place is None else matrix @ place,
    ).with_random_array(half_turns)  # fmt: skip
    middle, half = 0.5 * (sketch.upper + sketch.lower), 0.5 * (sketch.upper - sketch.lower)
    reach = np.abs(matrix) @ half
    lower, upper = matrix @ middle - reach, matrix @ middle + reach
    return Sketch(plain, sums, sketch.weight, sketch.weight_bits, lower, upper, sketch.skipped)


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
