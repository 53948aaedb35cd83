"""A Gaussian mixture whose covariance is known: only weights and means are learned (Bourrier et al. 2013)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.drive import decoder
from sketchlearn.decoders.families import Known
from sketchlearn.decoders.mixtures.own import decode_family
from sketchlearn.decoders.solution import MixtureSolution, said
from sketchlearn.sketches.value import Sketch


@decoder
def decode_known(
    sketch: Sketch, k: int, *, rng: np.random.Generator, covariances: npt.ArrayLike, starts: int = 3
) -> MixtureSolution:
    """Weights and means of components that all have one known covariance.

    Parameters
    ----------
    covariances : float or array (d,) or (d, d)
        Variance, variances of the columns, or covariance matrix, in the units of the rows.
    starts : int
        Most runs of the greedy search (CL-OMPR).

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(4000, 1)) + np.repeat([[0.0], [3.0]], 2000, axis=0)
    >>> s = sl.sketch(X, sl.design(X, n_components=2, task="gmm", covariance_type="spherical"))
    >>> found = sl.decode(s, 2, task="gmm", decoder="known", covariances=1.0, random_state=0)
    >>> np.sort(found.means[:, 0]).round(1) + 0.0, found.covariance_type
    (array([0., 3.]), 'spherical')
    """
    matrix, shape = checked_covariance(covariances, sketch.features.dim)
    found = decode_family(sketch, k, Known(matrix), rng=rng, starts=starts)
    own = matrix if shape == "tied" else np.repeat(matrix[None], len(found.weights), 0)
    judged = found.code, found.verdict
    return MixtureSolution(
        **said("gmm", "known", found.residual, found.noise_floor, judged, found.iterations, found.trace, found.ratio),
        weights=found.weights,
        means=found.means,
        covariances=own,
        covariance_type=shape,
        deviation=float("nan"),
    )


def checked_covariance(covariances: npt.ArrayLike, dim: int | None = None) -> tuple[npt.NDArray[np.float64], str]:
    """A number, variances or a matrix, and the type of covariance that it is; ValueError if it can't be one.

    Examples
    --------
    >>> from sketchlearn.decoders.mixtures.known import checked_covariance
    >>> [checked_covariance(value, 2)[1] for value in (1.0, [1.0, 2.0], [[1.0, 0.5], [0.5, 1.0]])]
    ['spherical', 'diag', 'tied']
    """
    try:
        found = np.array(covariances, np.float64)
    except (TypeError, ValueError):
        found = np.zeros((0, 0, 0))
    d = dim if dim is not None else (found.shape[0] if found.ndim else 1)
    good = found.shape in ((), (d,), (d, d)) and bool(np.isfinite(found).all())
    if good and found.ndim == 2:
        good = bool(np.allclose(found, found.T)) and float(np.linalg.eigvalsh(found).min()) > 0
    elif good:
        good = bool((found > 0).all())
    if not good:
        raise ValueError(
            f"covariances must be a positive variance, {d} of them, or a positive definite {d} x {d} matrix, got "
            f"{covariances!r}"
        )
    return found, ("spherical", "diag", "tied")[found.ndim]
