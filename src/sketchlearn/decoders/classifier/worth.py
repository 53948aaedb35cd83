"""What a rule made of class densities is worth for new rows, from the densities and the numbers of rows alone.

Rows drawn from the class densities say what the rule claims: how much more probable it makes their labels than the
classes' shares do.  Densities that are learned again from as many such rows say how much of the claim is left: a
parametric bootstrap (Efron 1979), in which moments are drawn instead of rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders.noise import CHANCE, DEVIATIONS
from sketchlearn.decoders.verdicts import HELD
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.rules import MixtureRule

DRAWS, FEWER = 2000, 500
"""Rows drawn from each class, and how many of them judge densities that are learned again."""


class Worth(NamedTuple):
    """Gain in nats per row, its standard error, what is left of it with densities learned again, errors by class."""

    gain: float
    error: float
    left: float
    typical: Array

    def doubt(self, parameters: float, rows: float) -> str:
        """Why the rule may tell nothing: `parameters` numbers in which the classes differ were learned from `rows`.

        If classes are alike, ``2 rows gain`` is about chi-squared with so many degrees of freedom (Wilks 1938).
        """
        from scipy.special import gammaincc

        sure = max(self.gain - DEVIATIONS * self.error, 0.0)
        p = float(gammaincc(0.5 * max(parameters, 1.0), rows * sure))
        if p > CHANCE:
            return f"The differences between the classes may be chance (p = {p:.2g})"
        if not self.left >= HELD * self.gain:
            return (
                f"There are too few rows for so many parameters: the densities claim a gain of {self.gain:.2g} nats "
                f"per row, but only {self.left:.2g} remain if they are learned again from {rows:.6g} rows drawn from "
                "them"
            )
        return ""


def worth(rule: MixtureRule, laws: tuple[Mixture, ...], counts: Array, shared: bool, rng: np.random.Generator) -> Worth:
    """What a rule is worth for rows of some laws, one per class, if it was learned from so many of each.

    `shared` says whether the classes of the rule have one covariance.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.decoders.classifier.worth import worth
    >>> from sketchlearn.models.rules import MixtureRule
    >>> parts = tuple(sl.Mixture(np.ones(1), np.array([[m]]), np.ones((1, 1, 1))) for m in (0.0, 3.0))
    >>> rule, counts = MixtureRule(np.log([0.5, 0.5]), parts), np.array([99.0, 99.0])
    >>> found = worth(rule, parts, counts, True, np.random.default_rng(0))
    >>> round(found.gain, 1), found.doubt(1, 198.0)
    (0.5, '')
    """
    rows = [law.sample(DRAWS, rng)[0] for law in laws]
    shares = np.exp(rule.log_priors)
    typical, gains, squares = [], 0.0, 0.0
    for c, drawn in enumerate(rows):
        scores = rule.scores(drawn)
        typical.append(np.bincount(scores.argmax(1), minlength=len(laws)) / DRAWS)
        told = _told(scores, rule, c)
        gains += float(shares[c] * told.mean())
        squares += float(shares[c] ** 2 * told.var() / DRAWS)
    few = [drawn[rng.integers(DRAWS, size=FEWER)] for drawn in rows]
    left = []
    for _ in range(5):
        again = _again(rule, laws, counts, shared, rng)
        each = [float(_told(again.scores(drawn), rule, c).mean()) for c, drawn in enumerate(few)]
        left.append(float(shares @ each))
    return Worth(gains, float(np.sqrt(squares)), float(np.mean(left)), np.array(typical))


def _told(scores: Array, rule: MixtureRule, own: int) -> Array:
    """By how many nats the own class of rows is more probable than its share."""
    whole = np.logaddexp.reduce(scores, axis=1)
    return np.asarray(scores[:, own] - whole - rule.log_priors[own])


def _again(
    rule: MixtureRule, laws: tuple[Mixture, ...], counts: Array, shared: bool, rng: np.random.Generator
) -> MixtureRule:
    """The rule with densities as they would be learned from as many rows of the laws."""
    parts = [_relearned(m, law, n, rng) for m, law, n in zip(rule.mixtures, laws, counts, strict=True)]
    if shared:
        own = rule.mixtures[0].covariances
        common = _wishart(own[0], max(float(counts.sum()) - len(counts), 1.0), rng)[None]
        parts = [Mixture(part.weights, part.means, common) for part in parts]
    return MixtureRule(rule.log_priors, tuple(parts))


def _relearned(mixture: Mixture, law: Mixture, count: float, rng: np.random.Generator) -> Mixture:
    """A mixture with means and covariances as they would be found in so many rows of a law."""
    covariances = law.full_covariances()
    means, widths = mixture.means.copy(), []
    for l, (weight, covariance) in enumerate(zip(mixture.weights, mixture.full_covariances(), strict=True)):
        n = max(float(weight) * count, 1.0)
        means[l] += _root(covariances[min(l, len(covariances) - 1)]) @ rng.standard_normal(mixture.dim) / np.sqrt(n)
        if mixture.covariances.ndim == 3:
            widths.append(_wishart(covariance, max(n - 1.0, 1.0), rng))
        else:
            freedom = max(n - 1.0, 1.0) * (1.0 if mixture.covariances.ndim == 2 else mixture.dim)
            widths.append(mixture.covariances[l] * rng.chisquare(freedom, mixture.covariances.shape[1:]) / freedom)
    return Mixture(mixture.weights, means, np.array(widths))


def _wishart(covariance: Array, freedom: float, rng: np.random.Generator) -> Array:
    """A covariance as it would be found with so many degrees of freedom (Bartlett 1933), never quite singular."""
    d = len(covariance)
    left = np.tril(rng.standard_normal((d, d)), -1)
    left[np.diag_indices(d)] = np.sqrt(rng.chisquare(np.maximum(freedom - np.arange(d), 1e-3)))
    root = _root(covariance) @ left
    return np.asarray(root @ root.T / freedom + 1e-7 * np.diag(np.diag(covariance)))


def _root(covariance: Array) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
