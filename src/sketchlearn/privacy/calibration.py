"""How much noise a guarantee needs, and what a noise guarantees: for the discrete distributions that are drawn.

Laplace.  ``P(y) ~ exp(-|y| / b)`` on the integers (or ``exp(-|y|_2 / b)`` on pairs of them): shifting it by an integer
vector of length L (in the same norm) changes a probability by a factor of at most ``exp(L / b)``.  Nothing is rounded.

Gaussian.  ``P(y) ~ exp(-y**2 / 2 s**2)`` on the integers has ``rho = L**2 / 2 s**2`` in zero-concentrated privacy
(Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", 2020).  Their conversion to (epsilon,
delta) loses a few percent of noise.  The analytic condition of Balle and Wang ("Improving the Gaussian mechanism for
differential privacy", 2018, theorem 8) is exact for *continuous* noise; the discrete noise is so close to it that it
can be used with a proven margin:

    Let q be the law of a continuous normal variable rounded to integers and p the discrete Gaussian with the same s.
    With U uniform on [-1/2, 1/2],  q(y) / p(y) = (1 + kappa) E exp(-y U / s**2 - U**2 / 2 s**2),  where
    kappa = 2 sum_k exp(-2 (pi s k)**2)  (Poisson summation).  By Jensen, and by sinh(a) / a <= exp(a**2 / 6),
    for D independent coordinates
        -D / 24 s**2  <=  log q(y) / p(y)  <=  |y|**2 / 24 s**4 + D kappa.
    Noise q after an integer is the rounding of continuous noise, so it has the privacy (e', d') of the analytic
    condition.  With r = s (sqrt(D) + t) + sqrt(D) / 2, where P(|y| > r) <= exp(-t**2 / 2),
        p(S) <= exp(D / 24 s**2) q(S),   q(S) <= exp(r**2 / 24 s**4 + D kappa) p(S) + exp(-t**2 / 2),
    hence p has privacy  epsilon = e' + D / 24 s**2 + r**2 / 24 s**4 + D kappa  and
    delta = exp(D / 24 s**2) (d' + exp(e' - t**2 / 2)).

The sums are in units of 2**-22, so s is of the order of 2**24 and the margin is below 1e-9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from scipy.special import erfcx

_SAFE = 1e-9  # relative: more than the error of the special functions
TAIL = 1e-9  # share of delta that the far tail of the margin may take


@dataclass(frozen=True)
class GaussianNoise:
    """Standard deviation of discrete Gaussian noise, and how it was found.

    `sigma`: in units of the grid: the smaller one of `analytic` and `concentrated`. `analytic`, `concentrated`: what
    the analytic condition (with its margin) and the zero-concentrated bound ask for. `rho`: zero-concentrated privacy
    of the noise. `margin`: by how much epsilon was lowered to cover discrete noise.
    """

    sigma: float
    analytic: float
    concentrated: float
    rho: float
    margin: float


def gaussian_delta(sigma: float, epsilon: float) -> float:
    """delta of continuous normal noise of standard deviation `sigma` times the sensitivity, at `epsilon`.

    Examples
    --------
    >>> from sketchlearn.privacy.calibration import gaussian_delta
    >>> f"{gaussian_delta(4.2246788, 1.0):.4e}"
    '1.0000e-06'
    """
    half, shift = 0.5 / sigma, epsilon * sigma
    # Phi(half - shift) - exp(epsilon) Phi(-half - shift), both over the density at half - shift
    peak = math.exp(-0.5 * (half - shift) ** 2) / math.sqrt(2.0 * math.pi)
    if half - shift > 20.0:
        return 1.0
    return (
        peak
        * math.sqrt(0.5 * math.pi)
        * float(erfcx((shift - half) / math.sqrt(2)) - erfcx((shift + half) / math.sqrt(2)))
    )


def analytic_sigma(epsilon: float, delta: float) -> float:
    """Smallest standard deviation of continuous normal noise per unit of sensitivity, rounded up (Balle and Wang).

    Examples
    --------
    >>> from sketchlearn.privacy.calibration import analytic_sigma
    >>> round(analytic_sigma(1.0, 1e-6), 4), round(analytic_sigma(0.1, 1e-5), 4)
    (4.2247, 30.7496)
    """
    _check(epsilon, delta)
    return _smallest(lambda sigma: gaussian_delta(sigma, epsilon) <= delta * (1.0 - _SAFE))


def concentrated_delta(rho: float, epsilon: float) -> float:
    """delta that rho-zero-concentrated privacy implies at `epsilon` (Canonne, Kamath and Steinke).

    Examples
    --------
    >>> from sketchlearn.privacy.calibration import concentrated_delta
    >>> f"{concentrated_delta(0.125, 2.419):.2e}"
    '1.00e-06'
    """
    from scipy.optimize import minimize_scalar

    if rho <= 0.0:
        return 0.0

    def log_delta(log_excess: float) -> float:
        a = 1.0 + math.exp(log_excess)
        return (a - 1.0) * (a * rho - epsilon) - log_excess + a * math.log1p(-1.0 / a)

    # any order gives a valid bound; near the best one the exponent is flat
    middle = math.log(max((epsilon - rho) / (2.0 * rho), 1e-6))
    best = minimize_scalar(log_delta, bounds=(middle - 12.0, middle + 6.0), method="bounded", options={"xatol": 1e-10})
    return min(1.0, math.exp(min(float(best.fun), 0.0)))


def concentrated_sigma(epsilon: float, delta: float) -> float:
    """Smallest standard deviation per unit of sensitivity that the zero-concentrated bound accepts.

    Examples
    --------
    >>> from sketchlearn.privacy.calibration import concentrated_sigma
    >>> round(concentrated_sigma(1.0, 1e-6), 3)
    4.531
    """
    _check(epsilon, delta)
    return _smallest(lambda sigma: concentrated_delta(0.5 / sigma**2, epsilon) <= delta * (1.0 - _SAFE))


def concentrated_epsilon(rho: float, delta: float) -> float:
    """epsilon that rho-zero-concentrated privacy implies at `delta`, rounded up.

    Examples
    --------
    >>> from sketchlearn.privacy.calibration import concentrated_epsilon
    >>> round(concentrated_epsilon(0.125, 1e-6), 3)
    2.419
    """
    if rho <= 0.0:
        return 0.0
    if not 0.0 < delta < 1.0:
        return math.inf
    return _smallest(lambda epsilon: concentrated_delta(rho, epsilon) <= delta * (1.0 - _SAFE))


def gaussian_noise(epsilon: float, delta: float, l2_squared: int, dimensions: int) -> GaussianNoise:
    """Noise for `dimensions` whole numbers that one person moves by at most the root of `l2_squared`.

    Examples
    --------
    >>> from sketchlearn.privacy.calibration import gaussian_noise
    >>> noise = gaussian_noise(1.0, 1e-6, l2_squared=100 * 2**44, dimensions=201)
    >>> round(noise.sigma / (10 * 2**22), 4), noise.margin < 1e-9
    (4.2247, True)
    """
    _check(epsilon, delta)
    length = _float_above(Fraction(math.isqrt(l2_squared * 4**32) + 1, 2**32))
    concentrated = concentrated_sigma(epsilon, delta) * length * (1.0 + 1e-12)
    sigma = analytic_sigma(epsilon, delta) * length * (1.0 + 1e-12)
    margin, tail = _discrete_margin(sigma, dimensions, epsilon, delta)
    inner_epsilon = epsilon - margin
    inner_delta = math.exp(-dimensions / (24.0 * sigma**2)) * delta * (1.0 - tail)
    analytic = math.inf
    if margin < 0.5 * epsilon and dimensions < 12.0 * sigma**2:
        # more noise than `sigma`, so a smaller margin: what was subtracted is enough
        analytic = max(sigma, analytic_sigma(inner_epsilon, inner_delta) * length * (1.0 + 1e-12))
    best = min(analytic, concentrated)
    return GaussianNoise(best, analytic, concentrated, _rho(l2_squared, best), margin)


def _discrete_margin(sigma: float, dimensions: int, epsilon: float, delta: float) -> tuple[float, float]:
    """By how much epsilon grows, and which share of delta is lost, when continuous noise is made discrete."""
    t = math.sqrt(2.0 * (epsilon - math.log(delta) - math.log(TAIL)))
    radius = sigma * (math.sqrt(dimensions) + t) + 0.5 * math.sqrt(dimensions)
    kappa = 4.0 * math.exp(-2.0 * (math.pi * sigma) ** 2) if sigma >= 0.5 else math.inf
    first, second = dimensions / (24.0 * sigma**2), radius**2 / (24.0 * sigma**4) + dimensions * kappa
    return (first + second) * (1.0 + 1e-9), 2.0 * TAIL


def discrete_guarantee(noise: float, epsilon: float, l2_squared: int, dimensions: int) -> float:
    """delta that is proven for discrete Gaussian noise at `epsilon`: the smaller of both ways.

    Examples
    --------
    >>> from sketchlearn.privacy.calibration import discrete_guarantee, gaussian_noise
    >>> noise = gaussian_noise(1.0, 1e-6, l2_squared=10**12, dimensions=20)
    >>> discrete_guarantee(noise.sigma, 1.0, 10**12, 20) <= 1e-6
    True
    """
    concentrated = concentrated_delta(_rho(l2_squared, noise), epsilon)
    relative = noise / math.sqrt(l2_squared) * (1.0 - 1e-12)
    first = gaussian_delta(relative, epsilon)
    if not 0.0 < first < 1.0:
        return concentrated
    margin, _ = _discrete_margin(noise, dimensions, epsilon, first)
    if margin >= epsilon:
        return concentrated
    inner = gaussian_delta(relative, epsilon - margin)
    return min(concentrated, math.exp(dimensions / (24.0 * noise**2)) * (inner + TAIL * first))


def composed_gaussian(
    rhos: Sequence[float], margins: Sequence[float], guarantees: Sequence[tuple[float, float]], delta: float
) -> float:
    """epsilon at `delta` of several releases with discrete Gaussian noise, without loss.

    The shifts of continuous noise add up in squares, ``mu**2 = 2 sum rho``.  The margins of discrete noise add up, and
    the far tails that they leave out, ``TAIL`` times delta of each at its own epsilon, are taken off `delta`.

    Examples
    --------
    >>> from sketchlearn.privacy.calibration import analytic_sigma, composed_gaussian
    >>> rho = 0.5 / analytic_sigma(0.3, 1e-7) ** 2
    >>> round(composed_gaussian([rho] * 10, [0.0] * 10, [(0.3, 1e-7)] * 10, 1e-6), 3)
    0.909
    """
    sigma = 1.0 / math.sqrt(2.0 * math.fsum(rhos) * (1.0 + _SAFE))
    margin = math.fsum(margins)
    return composed_discrete(lambda epsilon: gaussian_delta(sigma, epsilon) * (1.0 + _SAFE), margin, guarantees, delta)


def composed_discrete(
    profile: Callable[[float], float], margin: float, guarantees: Sequence[tuple[float, float]], delta: float
) -> float:
    """epsilon at `delta` of releases whose continuous noise has the privacy `profile`: epsilon to delta.

    `guarantees` are the (epsilon, delta) of those with discrete Gaussian noise, and `margin` is the sum of theirs.
    """
    own = [math.log(TAIL) + math.log(d) - e if d > 0.0 else -math.inf for e, d in guarantees]

    def enough(epsilon: float) -> bool:
        tails = math.fsum(math.exp(min(epsilon + tail, 0.0)) for tail in own)
        return profile(epsilon) + tails <= delta * math.exp(-margin)

    try:
        return _smallest(enough) + margin
    except ValueError:
        return math.inf


def laplace_scale(epsilon: Fraction, length: int) -> float:
    """Scale of discrete Laplace noise that hides a whole number `length` with `epsilon`, rounded up.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sketchlearn.privacy.calibration import laplace_scale
    >>> laplace_scale(Fraction(1, 10), 4)
    40.0
    """
    if epsilon <= 0:
        raise ValueError(f"epsilon must be positive, got {epsilon}")
    return _float_above(length / epsilon)


def _rho(l2_squared: int, sigma: float) -> float:
    return _float_above(Fraction(l2_squared) / (2 * Fraction(sigma) ** 2))


def _float_above(value: Fraction) -> float:
    """The smallest float64 that is at least `value`."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def _smallest(accepted: Callable[[float], bool]) -> float:
    """The smallest positive number that is accepted, from above, to twelve digits; larger ones are accepted too."""
    high = 1.0
    while not accepted(high):
        high *= 2.0
        if high > 1e150:
            raise ValueError("no finite noise is enough for this guarantee")
    low = high / 2.0
    while accepted(low):
        high, low = low, low / 2.0
        if low < 1e-150:
            return high
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if accepted(middle):
            high = middle
        else:
            low = middle
    return high


def _check(epsilon: float, delta: float) -> None:
    if not (math.isfinite(epsilon) and epsilon > 0.0):
        raise ValueError(f"epsilon must be positive and finite, got {epsilon!r}")
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be between 0 and 1, got {delta!r}")
