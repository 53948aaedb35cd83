"""Do two sketches come from the same distribution?  The distance of their averages against their sampling noise.

The statistic is the squared distance of the averages, an estimate of the squared maximum mean discrepancy (MMD)
for the kernel whose spectral density the frequencies follow.  If both samples have one distribution with
characteristic function phi, the difference of the averages is asymptotically Gaussian with covariance
``(1/n_a + 1/n_b) S``, where the entries of S for the cosines and sines at the frequencies w_j and w_k are

    Cov(c_j, c_k) = (Re phi(w_j - w_k) + Re phi(w_j + w_k)) / 2 - Re phi(w_j) Re phi(w_k)
    Cov(s_j, s_k) = (Re phi(w_j - w_k) - Re phi(w_j + w_k)) / 2 - Im phi(w_j) Im phi(w_k)
    Cov(c_j, s_k) = (Im phi(w_j + w_k) - Im phi(w_j - w_k)) / 2 - Re phi(w_j) Im phi(w_k)

so the statistic is distributed like a sum of squares of independent normals weighted by the eigenvalues of S.  Its
tail follows from the first four cumulants (Liu, Tang and Zhang 2009).  phi at sums and differences is not in the
sketch; it comes from a Gaussian mixture fitted to the sketch of both samples together, for which it has a closed
form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.sketch.value import Sketch, check_same_features

_F64 = npt.NDArray[np.float64]
_C128 = npt.NDArray[np.complex128]
_MOST = 1000  # frequencies that are used: more cost time and change nothing
_COMPONENTS = 16  # of the fall-back mixture
_CLOSE = 3e-5  # mean squared error of phi that changes no p-value
_FITTED = 600  # frequencies that the fall-back mixture is fitted to


class Mixture(NamedTuple):
    """A Gaussian mixture: weights (k,), means (k, d), covariances (k, d) if diagonal or (k, d, d).

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.sketch.compare import Mixture
    >>> normal = Mixture(np.ones(1), np.zeros((1, 2)), np.ones((1, 2)))
    >>> normal.characteristic(np.zeros((1, 2)))
    array([1.+0.j])
    """

    weights: _F64
    means: _F64
    covariances: _F64

    def characteristic(self, frequencies: _F64) -> _C128:
        """``E exp(i w·x)`` at each frequency."""
        return self._parts(frequencies) @ self.weights

    def _parts(self, frequencies: _F64) -> _C128:
        spread = np.stack([_quadratic(frequencies, c) for c in self.covariances], 1)
        return np.exp(1j * (frequencies @ self.means.T) - spread / 2)

    def pairs(self, frequencies: _F64) -> tuple[_C128, _C128]:
        """``E exp(i (w_j - w_k)·x)`` and ``E exp(i (w_j + w_k)·x)`` for all pairs, (m, m)."""
        m = len(frequencies)
        difference, total = np.zeros((m, m), complex), np.zeros((m, m), complex)
        for weight, mean, covariance in zip(self.weights, self.means, self.covariances, strict=True):
            turned = np.exp(1j * (frequencies @ mean))
            image = frequencies * covariance if covariance.ndim == 1 else frequencies @ covariance
            product = image @ frequencies.T
            half = np.diag(product) / 2
            base = -half[:, None] - half[None, :]
            difference += weight * np.exp(base + product) * (turned[:, None] * turned.conj()[None, :])
            total += weight * np.exp(base - product) * (turned[:, None] * turned[None, :])
        return difference, total


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found.

    Attributes
    ----------
    distance : float
        MMD between the two distributions, without the part that sampling noise explains; 0 if noise explains all.
    p_value : float
        Probability of a distance at least as large as observed between two samples of one distribution.
    statistic : float
        Mean squared difference of the entries.
    expected : float
        What the statistic would be on average from noise alone.
    counts : tuple
        Rows behind the two sketches.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=2, size=100, scale=1.0, seed=0)
    >>> a, b = (sl.sketch(rng.normal(size=(2000, 2)), phi) for _ in range(2))
    >>> sl.compare(a, b).differs(alpha=1e-4)
    False
    """

    distance: float
    p_value: float
    statistic: float
    expected: float
    counts: tuple[int | float, int | float]

    def differs(self, alpha: float = 0.01) -> bool:
        """True if the p-value is below `alpha`."""
        return self.p_value < alpha

    def __repr__(self) -> str:
        return f"Comparison(distance={self.distance:.4g}, p_value={self.p_value:.3g})"


def compare(a: Sketch, b: Sketch, mixture: Mixture | tuple[_F64, _F64, _F64] | None = None) -> Comparison:
    """Distance of two sketches, with a p-value from their own sampling noise.

    Parameters
    ----------
    a, b : Sketch
        Of independent rows (no row in both), with the same Fourier feature map and without fractional weights
        or privacy noise: the noise is that of counting rows.
    mixture : (weights, means, covariances), optional
        Gaussian mixture that describes the rows of both together, e.g. decoded from ``a + b``.  By default one
        is fitted here, with as many components as the noise calls for.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=2, size=100, scale=1.0, seed=0)
    >>> monday, tuesday = rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)) + [0.3, 0]
    >>> sl.compare(sl.sketch(monday, phi), sl.sketch(tuesday, phi)).p_value < 1e-6
    True
    """
    check_same_features(a, b)
    if not isinstance(a.features, FourierFeatures):
        raise ValueError(f"compare needs Fourier features, these are {a.features.kind}")
    for s in (a, b):
        if s.weight_bits:
            raise ValueError("compare needs rows that count one each; this sketch has fractional weights")
        if s.weight < 2:
            raise ValueError(f"compare needs at least two rows on each side, got {s.weight}")
    counts = float(a.count), float(b.count)
    chosen = slice(0, _MOST)  # radii and directions come in random order: the first are a fair choice
    w = a.features.frequencies[chosen]
    za, zb = a.mean[chosen], b.mean[chosen]
    n = counts[0] * counts[1] / (counts[0] + counts[1])
    pooled: _C128 = np.asarray((counts[0] * za + counts[1] * zb) / sum(counts), np.complex128)
    if mixture is None:
        found = fit_mixture(w, pooled, sum(counts), np.minimum(a.lower, b.lower), np.maximum(a.upper, b.upper))
    else:
        found = _checked(mixture, a.features.dim)
    covariance = _covariance(found, w, pooled)
    statistic = float(np.sum(np.abs(za - zb) ** 2))
    p = tail(n * statistic, covariance)
    expected = float(np.trace(covariance)) / n
    m = len(w)
    return Comparison(
        distance=float(np.sqrt(max(statistic - expected, 0.0) / m)),
        p_value=p,
        statistic=statistic / m,
        expected=expected / m,
        counts=(a.count, b.count),
    )


def _covariance(mixture: Mixture, w: _F64, pooled: _C128) -> _F64:
    """Covariance of the stacked cosines and sines of one row, (2m, 2m)."""
    difference, total = mixture.pairs(w)
    z = mixture.characteristic(w)
    m = len(w)
    out = np.empty((2 * m, 2 * m))
    out[:m, :m] = (difference.real + total.real) / 2 - np.outer(z.real, z.real)
    out[m:, m:] = (difference.real - total.real) / 2 - np.outer(z.imag, z.imag)
    out[:m, m:] = (total.imag - difference.imag) / 2 - np.outer(z.real, z.imag)
    out[m:, :m] = out[:m, m:].T
    # the total variance of an entry is known from the sketch itself: 1 - |z|^2
    known = np.maximum(1 - np.abs(pooled) ** 2, 0.0)
    model = np.diag(out)[:m] + np.diag(out)[m:]
    factor = np.sqrt(known / np.maximum(model, 1e-12))
    both = np.concatenate([factor, factor])
    return np.asarray(out * both[:, None] * both[None, :])


def tail(statistic: float, covariance: _F64) -> float:
    """P(Q > statistic) for Q the squared norm of a normal vector with this covariance (Liu, Tang, Zhang 2009)."""
    square = covariance @ covariance
    c1, c2 = float(np.trace(covariance)), float(np.sum(covariance**2))
    c3, c4 = float(np.sum(square * covariance)), float(np.sum(square**2))
    if c2 <= 0:
        return 1.0 if statistic <= 0 else 0.0
    s1, s2 = c3 / c2**1.5, c4 / c2**2
    if s1**2 > s2:
        root = 1 / (s1 - np.sqrt(s1**2 - s2))
        delta = s1 * root**3 - root**2
        freedom = root**2 - 2 * delta
    else:
        root, delta = 1 / s1, 0.0
        freedom = 1 / s1**2
    standard = (statistic - c1) / np.sqrt(2 * c2)
    value = standard * np.sqrt(2.0) * root + freedom + delta
    from scipy.stats import chi2, ncx2

    return float(np.clip(ncx2.sf(value, freedom, delta) if delta > 0 else chi2.sf(value, freedom), 0.0, 1.0))


def _quadratic(w: _F64, covariance: _F64) -> _F64:
    if covariance.ndim == 1:
        return np.asarray((w * w) @ covariance)
    return np.einsum("ij,jk,ik->i", w, covariance, w)


def _checked(mixture: Mixture | tuple[_F64, _F64, _F64], dim: int) -> Mixture:
    weights, means, covariances = (np.asarray(v, np.float64) for v in mixture)
    k = len(weights)
    if weights.shape != (k,) or means.shape != (k, dim) or covariances.shape not in ((k, dim), (k, dim, dim)):
        raise ValueError(
            f"a mixture is weights (k,), means (k, {dim}) and covariances (k, {dim}) or (k, {dim}, {dim}); got "
            f"{weights.shape}, {means.shape}, {covariances.shape}"
        )
    if (weights < 0).any() or weights.sum() <= 0:
        raise ValueError("the weights of a mixture must not be negative")
    return Mixture(weights / weights.sum(), means, covariances)


# -- a mixture from the sketch ---------------------------------------------------------------------


def fit_mixture(w: _F64, z: _C128, n: float, lower: _F64, upper: _F64) -> Mixture:
    """A Gaussian mixture with diagonal covariances whose characteristic function is near the sketch.

    Components are added one at a time where the residual is largest and all are refined together, until what is
    left is sampling noise.  It only has to describe the noise of the sketch; it is no substitute for a decoder.
    """
    with threadpool_limits(1, "blas"):  # matrices this small lose more to threads than they gain
        return _fit(w[:_FITTED], z[:_FITTED], n, lower, upper)


def _fit(w: _F64, z: _C128, n: float, lower: _F64, upper: _F64) -> Mixture:
    noise = float(np.mean(np.maximum(1 - np.abs(z) ** 2, 0.0))) / n
    rng = np.random.default_rng(0)
    width = np.maximum(upper - lower, 1e-300)
    best, best_loss = None, np.inf
    weights, means, spreads = np.empty(0), np.empty((0, len(lower))), np.empty((0, len(lower)))
    stale = 0
    for k in range(1, _COMPONENTS + 1):
        residual = z - (Mixture(weights, means, spreads).characteristic(w) if k > 1 else 0)
        mean, spread = _propose(w, residual, z, lower, width, rng)
        weights = np.append(weights * (k - 1) / k, 1 / k)
        means, spreads = np.vstack([means, mean]), np.vstack([spreads, spread])
        weights, means, spreads, loss = _refine(w, z, weights, means, spreads, width)
        if loss < best_loss * 0.9:
            stale = 0
        else:
            stale += 1
        if loss < best_loss:
            best, best_loss = Mixture(weights, means, spreads), loss
        # at this level the mixture can't be told from the truth (its parameters fit some of the noise too)
        if best_loss <= max(1.3 * noise, _CLOSE) or stale == 2:
            break
    assert best is not None
    return best


def _propose(
    w: _F64, residual: _C128, z: _C128, lower: _F64, width: _F64, rng: np.random.Generator
) -> tuple[_F64, _F64]:
    """Where one more component would explain most: the best of random places, then gradient steps."""
    scale = _overall_spread(w, z, width)
    best, start = -np.inf, None
    for shrink in (1.0, 0.3, 0.1):
        spread = scale * shrink
        damp = np.exp(-_quadratic(w, spread) / 2)
        places = lower + width * rng.random((400, len(lower)))
        value = (np.exp(-1j * (places @ w.T)) * damp) @ residual
        score = value.real / np.sqrt(np.sum(damp**2))
        i = int(np.argmax(score))
        if score[i] > best:
            best, start = score[i], (places[i], spread)
    assert start is not None

    d = len(lower)

    def loss(theta: _F64) -> tuple[float, _F64]:
        mean, log_spread = theta[:d] * width, theta[d:]
        spread = np.exp(log_spread)
        atom = np.exp(1j * (w @ mean) - _quadratic(w, spread) / 2)
        norm = np.sqrt(np.sum(np.abs(atom) ** 2)) + 1e-300
        inner = atom.conj() * residual
        score = inner.sum().real / norm
        by_mean = (inner.imag @ w) / norm
        by_spread = spread * (
            -(inner.real @ (w * w)) / 2 / norm + score / norm**2 * ((np.abs(atom) ** 2) @ (w * w)) / 2
        )
        return -score, -np.concatenate([by_mean * width, by_spread])

    theta = np.concatenate([start[0] / width, np.log(start[1])])
    bounds = [(lo / wd, (lo + wd) / wd) for lo, wd in zip(lower, width, strict=True)]
    bounds += [(np.log(s) - 12, np.log(s) + 3) for s in scale]
    found = minimize(loss, theta, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 30})
    return found.x[:d] * width, np.exp(found.x[d:])


def _overall_spread(w: _F64, z: _C128, width: _F64) -> _F64:
    """Variance per column of a single Gaussian with these moduli: -2 log|z| is linear in w**2."""
    modulus = np.abs(z)
    usable = modulus > np.quantile(modulus, 0.7)
    y = -2 * np.log(np.maximum(modulus[usable], 1e-6))
    squares = w[usable] ** 2
    one = float(np.sum(squares.sum(1) * y) / max(np.sum(squares.sum(1) ** 2), 1e-300))
    return np.clip(np.full(w.shape[1], one), (width / 1e4) ** 2, (width / 2) ** 2)


def _refine(
    w: _F64, z: _C128, weights: _F64, means: _F64, spreads: _F64, width: _F64
) -> tuple[_F64, _F64, _F64, float]:
    """Least squares in all parameters at once; weights stay on the simplex by a softmax."""
    k, d = means.shape
    squares = w * w

    def loss(theta: _F64) -> tuple[float, _F64]:
        logits, mean, spread = _unpacked(theta, k, d, width)
        e = np.exp(logits - logits.max())
        alpha = e / e.sum()
        atoms = np.exp(1j * (w @ mean.T) - (squares @ spread.T) / 2)
        r = atoms @ alpha - z
        inner = atoms.conj() * r[:, None]  # (m, k)
        by_alpha = inner.sum(0).real
        by_logit = alpha * (by_alpha - alpha @ by_alpha)
        by_mean = alpha[:, None] * (inner.imag.T @ w) * width
        by_spread = -alpha[:, None] * spread * (inner.real.T @ squares) / 2
        gradient = np.concatenate([by_logit, by_mean.ravel(), by_spread.ravel()])
        return float(np.sum(np.abs(r) ** 2)) / len(w), 2 * gradient / len(w)

    theta = np.concatenate([np.log(weights + 1e-12), (means / width).ravel(), np.log(spreads).ravel()])
    scale = 1 / max(loss(theta)[0], 1e-300)  # so that the stopping rules of the optimiser are relative

    def scaled(t: _F64) -> tuple[float, _F64]:
        value, gradient = loss(t)
        return scale * value, scale * gradient

    found = minimize(
        scaled, theta, jac=True, method="L-BFGS-B",
        options={"maxiter": 60, "maxcor": 20, "ftol": 1e-4},
    )  # fmt: skip
    logits, mean, spread = _unpacked(found.x, k, d, width)
    e = np.exp(logits - logits.max())
    return e / e.sum(), mean, spread, float(loss(found.x)[0])


def _unpacked(theta: _F64, k: int, d: int, width: _F64) -> tuple[_F64, _F64, _F64]:
    logits, rest = theta[:k], theta[k:]
    spread = np.exp(np.clip(rest[k * d :].reshape(k, d), -700, 700))
    return logits, rest[: k * d].reshape(k, d) * width, spread
