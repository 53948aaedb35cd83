"""Rows made from a sketch: draws from a mixture that describes it, or a few points placed to have its averages.

Points are moved together until their average features are those of the sketch: ``min |mean_j Phi(x_j) - z|^2``, from
draws of the mixture.  A hundred such points are worth as much as a thousand random rows or more, since their errors
cancel.  A tenth of the frequencies is kept aside: moving stops where it no longer helps there.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.randomness import RandomState, as_generator
from sketchlearn.features.characteristic import characteristic
from sketchlearn.features.operator import Operator
from sketchlearn.sketches.value import Sketch

Array = npt.NDArray[np.float64]

_FEW = 500  # points that are moved rather than drawn, by default
_FREQUENCIES = 2000  # that points are moved by: they come in random order, and more gain little
_ROUNDS, _STEPS = 12, 25


def synthesize(
    sketch: Sketch,
    n: int,
    *,
    method: str = "auto",
    mixture: Mixture | None = None,
    random_state: RandomState = None,
) -> Array:
    """Rows that have the distribution of those behind a sketch.

    They are not rows of the data, but a sketch is no protection: only rows made from a private sketch are private.

    Parameters
    ----------
    sketch : Sketch
        Of Fourier features.
    n : int
        Number of rows.
    method : {"auto", "mixture", "points"}
        ``"mixture"``: independent draws from a Gaussian mixture that describes the sketch.  ``"points"``: draws that
        are moved together until their average features are those of the sketch; up to 500 rows, the default.
    mixture : Mixture, optional
        What to draw from; by default one that is decoded from the sketch.
    random_state : int, Generator, RandomState or None
        For repeatable rows.

    Returns
    -------
    ndarray (n, dim)

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + [3.0, 0.0]
    >>> s = sl.sketch(X, sl.FourierFeatures.draw(dim=2, size=100, scale=1.0, seed=0))
    >>> sl.synthesize(s, 20, random_state=0).mean(0).round(1) + 0.0
    array([3., 0.])
    """
    features = characteristic(sketch.features, "synthesize")
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n must be a positive integer, got {n!r}")
    if method not in ("auto", "mixture", "points"):
        raise ValueError(f"method={method!r}: choose 'auto', 'mixture' or 'points'")
    if sketch.effective_count < 2:
        raise ValueError("the sketch has fewer than two rows: there is nothing to follow")
    rng = as_generator(random_state)
    if mixture is None:
        from sketchlearn.decoders.description import describe  # loads the decoders of mixtures

        mixture = describe(sketch)
    if mixture.dim != features.dim:
        raise ValueError(f"the mixture has {mixture.dim} columns, the sketch {features.dim}")
    start = rng.permutation(mixture.sample(int(n), rng)[0])
    if method == "mixture" or (method == "auto" and n > _FEW):
        return start
    used = min(features.size, _FREQUENCIES)
    apart = np.arange(used) % 10 == 9 if used >= 20 else np.zeros(used, bool)
    operator = features.operator(dtype=np.float64)
    spread = np.sqrt(np.maximum(np.diag(mixture.covariance), 1e-300))
    return _moved(
        start,
        spread,
        operator.rows(np.flatnonzero(~apart)),
        sketch.mean[:used][~apart],
        operator.rows(np.flatnonzero(apart)),
        sketch.mean[:used][apart],
    )


def _moved(start: Array, spread: Array, operator: Operator, z: Array, other: Operator, held: Array) -> Array:
    """Points after moving, as long as that helps at the frequencies that were held out."""
    from scipy.optimize import minimize  # slow to import

    points = start
    best = misfit(points, other, held) if len(held) else np.inf
    for _ in range(_ROUNDS):
        found = minimize(
            _value_and_gradient,
            (points / spread).ravel(),
            (operator, z, spread, points.shape),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _STEPS},
        )
        moved = found.x.reshape(points.shape) * spread
        now = misfit(moved, other, held) if len(held) else float(found.fun)
        if not now < best * (1.0 - 1e-3):
            break
        points, best = moved, now
    return points


def misfit(points: Array, operator: Operator, z: Array) -> float:
    """Mean squared distance of the points' average features from z."""
    phases = operator.forward(points)
    return float(np.mean(np.abs(np.exp(1j * phases).mean(0) - z) ** 2))


def _value_and_gradient(
    x: Array, operator: Operator, z: Array, spread: Array, shape: tuple[int, int]
) -> tuple[float, Array]:
    phases = operator.forward(x.reshape(shape) * spread)
    cos, sin = np.cos(phases), np.sin(phases)
    left = cos.mean(0) - z.real, sin.mean(0) - z.imag
    value = float(np.mean(left[0] ** 2 + left[1] ** 2))
    slopes = (cos * left[1] - sin * left[0]) * (2.0 / phases.size)
    return value, np.asarray(operator.adjoint(slopes) * spread).ravel()
