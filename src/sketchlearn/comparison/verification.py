"""Do two sketches come from one speaker?  A mixture of all rows, and shifts of its means between speakers.

About a background mixture, a speaker whose means are shifted by D has the sketch ``z + J D``, and averages of n rows
have the noise covariance S / n, both known in closed form.  ``t = J' S^-1 (z_s - z)`` is then all that a sketch says
about the shift: it has mean ``F D`` and covariance ``F / n`` with ``F = J' S^-1 J``.  With shifts that are normal, of a
variance in proportion to that of their component, the logarithm of the ratio of likelihoods of "one speaker" and "two
speakers" has a closed form too (a two-covariance model in the tangent space of the mixture).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sketchlearn.arrays import Array, Complex
from sketchlearn.comparison.two_sample import ROUNDING, characteristic_values, feature_covariance
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.characteristic import characteristic
from sketchlearn.models.mixture import Mixture
from sketchlearn.sketches.value import Sketch
from sketchlearn.threads import single_blas_thread

_MOST = 1500  # frequencies that are used: they come in random order, and the covariance of more takes long
_RIDGE = 1e-4  # added to the variances of one row's features
_SMALLEST = 1e-6  # of the largest information: directions with less say nothing


@dataclass(frozen=True, eq=False)
class MeanSpace:
    """What sketches say about the means of a mixture.

    `mixture`: the background, with diagonal covariances. `reference`: its sketch, (m,). `projection`: ``S^-1 J``, for
    cosines and sines, (2m, p). `information`: ``F``, (p, p); p is the number of components times that of columns.
    """

    mixture: Mixture
    reference: Complex
    projection: Array
    information: Array

    @classmethod
    def of(cls, features: FeatureMap, mixture: Mixture, reference: Complex) -> MeanSpace:
        """The space of a mixture for sketches of a map; `reference` is the sketch of all rows."""
        operator = characteristic(features, "verification").operator(dtype=np.float64)
        chosen = operator.rows(np.arange(min(features.size, _MOST)))
        w = chosen.frequencies()
        with single_blas_thread:
            difference, total, z = characteristic_values(mixture, w)
            variance = np.maximum(1.0 - np.abs(z) ** 2, 0.0) + ROUNDING
            noise = feature_covariance(difference, total, z, variance)
            noise[np.diag_indices_from(noise)] += _RIDGE
            atoms = mixture.weights * np.exp(1j * (w @ mixture.means.T) - 0.5 * (w**2) @ mixture.covariances.T)
            slopes = (1j * atoms[:, :, None] * w[:, None, :]).reshape(len(w), -1)
            stacked = np.concatenate([slopes.real, slopes.imag])
            projection = cho_solve(cho_factor(noise, lower=True, overwrite_a=True), stacked)
        return cls(mixture, np.asarray(reference[: len(w)]), projection, stacked.T @ projection)

    def statistic(self, sketch: Sketch) -> Array:
        """What a sketch says: t, (p,)."""
        left = sketch.mean[: len(self.reference)] - self.reference
        return np.asarray(np.concatenate([left.real, left.imag]) @ self.projection)

    def axes(self) -> tuple[Array, Array]:
        """Matrix (q, p) that makes statistics independent with noise 1 / n, and the squares of their signals (q,)."""
        unit = np.sqrt(self.mixture.covariances).ravel()
        values, vectors = np.linalg.eigh(self.information * np.outer(unit, unit))
        kept = values > _SMALLEST * values[-1]
        values, vectors = values[kept], vectors[:, kept]
        return (vectors / np.sqrt(values)).T * unit, values

    def adapted(self, statistic: Array, rows: float, between: float) -> Mixture:
        """The background with the means of a speaker: their posterior mean, for shifts of variance `between`."""
        prior = np.diag(1.0 / (max(between, 1e-9) * self.mixture.covariances.ravel()))
        shift = np.linalg.solve(rows * self.information + prior, rows * statistic)
        return Mixture(
            self.mixture.weights, self.mixture.means + shift.reshape(self.mixture.means.shape), self.mixture.covariances
        )


def shift_variance(coordinates: Array, rows: Array, speakers: list[object], signal: Array) -> tuple[float, float]:
    """Variances of shifts between speakers and between sessions of one, in units of those of the components.

    By moments: from squares of all coordinates (s, q), and of deviations from the mean of a speaker with several
    sessions; without such speakers sessions are taken not to differ.
    """
    total = float(((coordinates**2 - 1.0 / rows[:, None]).sum()) / (len(rows) * signal.sum()))
    left, freedom = 0.0, 0.0
    names = np.array([str(name) for name in speakers])
    for name in np.unique(names):
        mine, n = coordinates[names == name], rows[names == name]
        if len(n) > 1:
            apart = mine - mine.mean(0)
            noise = (1.0 / n).sum() * (1.0 - 1.0 / len(n))
            left += float((apart**2).sum() - noise * len(signal))
            freedom += (len(n) - 1) * float(signal.sum())
    session = max(left / freedom, 0.0) if freedom else 0.0
    return max(total - session, 1e-4), session


def log_ratio(
    a: Array, b: Array, rows: tuple[float, float], signal: Array, between: float, session: tuple[float, float]
) -> float:
    """log p(a, b | one speaker) - log p(a) p(b) for coordinates (q,) of two sketches.

    `rows` are the numbers of rows behind them, `session` the variances of their sessions.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.comparison.verification import log_ratio
    >>> one = np.array([1.0, 2.0])
    >>> round(log_ratio(one, one, (100, 100), np.ones(2), 1.0, (0.0, 0.0)), 2)
    6.39
    """
    v = between * signal
    va, vb = v + session[0] * signal + 1.0 / rows[0], v + session[1] * signal + 1.0 / rows[1]
    determinant = va * vb - v * v
    together = (vb * a * a - 2.0 * v * a * b + va * b * b) / determinant
    alone = a * a / va + b * b / vb
    return 0.5 * float((np.log(va * vb / determinant) + alone - together).sum())
