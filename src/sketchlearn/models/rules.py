"""What a classifier is once it is learned: scores of rows, linear in features or logarithms of densities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.features.base import FeatureMap
from sketchlearn.models.mixture import Mixture

_ROWS = 4096  # embedded at a time


def embedded(features: FeatureMap, rows: AnyArray) -> Array:
    """What a rule that is linear in features multiplies: cosines and sines, or the columns themselves."""
    products = features.as_embedded
    if products is not None:
        return products.embed(rows)
    if features.as_characteristic is not None:
        z = features(rows)
        return np.concatenate([z.real, z.imag], axis=1)
    return np.asarray(rows, np.float64)


@dataclass(frozen=True, eq=False)
class LinearRule:
    """Scores ``f(x) @ coefficients + intercepts``, one per class.

    `features`: what f is: products of Fourier features stand for their cosines and sines, a quadratic map for the
    columns. `coefficients`: A column per class, (f, c). `intercepts`: constants, (c,). `softness`: 0 if the scores
    estimate probabilities; else probabilities are ``softmax(scores / softness)``.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.models.rules import LinearRule
    >>> rule = LinearRule(sl.QuadraticFeatures.draw(dim=1), np.array([[1.0, -1.0]]), np.array([0.5, 0.5]))
    >>> rule.probabilities(np.array([[0.25]]))
    array([[0.75, 0.25]])
    """

    features: FeatureMap
    coefficients: Array
    intercepts: Array
    softness: float = 0.0

    kind: ClassVar[str] = "linear"

    def scores(self, rows: AnyArray) -> Array:
        """One score a class, (n, c)."""
        out = np.empty((len(rows), len(self.intercepts)))
        for i in range(0, len(rows), _ROWS):
            out[i : i + _ROWS] = embedded(self.features, rows[i : i + _ROWS]) @ self.coefficients + self.intercepts
        return out

    def probabilities(self, rows: AnyArray) -> Array:
        """Probabilities of the classes, (n, c): the largest one is that of the largest score."""
        scores = self.scores(rows)
        if self.softness > 0:
            return softmax(scores / self.softness)
        clipped = np.clip(scores, 0.0, 1.0)
        # where more than one score is above 1 (or none above 0) clipping would lose which is largest
        unclear = (scores.max(1) > 1.0) & ((scores >= 1.0).sum(1) > 1) | (scores.max(1) <= 0.0)
        clipped[unclear] = softmax(scores[unclear])
        return np.asarray(clipped / clipped.sum(1, keepdims=True))


@dataclass(frozen=True, eq=False)
class MixtureRule:
    """Bayes' rule for class densities: scores are ``log prior + log density``.

    `log_priors`: logarithms of the classes' shares, (c,). `mixtures`: the density of each class.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.models.rules import MixtureRule
    >>> parts = [sl.Mixture(np.ones(1), np.array([[m]]), np.ones(1)) for m in (0.0, 4.0)]
    >>> MixtureRule(np.log([0.5, 0.5]), tuple(parts)).probabilities(np.array([[2.0]]))
    array([[0.5, 0.5]])
    """

    log_priors: Array
    mixtures: tuple[Mixture, ...]

    kind: ClassVar[str] = "mixtures"

    def scores(self, rows: AnyArray) -> Array:
        """``log prior + log density`` of each class, (n, c)."""
        return np.stack([m.log_density(rows) for m in self.mixtures], axis=1) + self.log_priors

    def probabilities(self, rows: AnyArray) -> Array:
        """Posterior probabilities, (n, c)."""
        return softmax(self.scores(rows))


@dataclass(frozen=True, eq=False)
class DiscriminantRule:
    """Bayes' rule for classes that are normal in the space of a linear rule's scores.

    Where classes lie one behind the other, the one in the middle has the largest score nowhere, though scores tell it
    apart: what is typical for a class is not that its own score is large (Hastie, Tibshirani and Buja 1994).

    `linear`: scores that sum to 1. `classes`: densities of all of them but the last.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.models.rules import DiscriminantRule, LinearRule, MixtureRule
    >>> linear = LinearRule(sl.QuadraticFeatures.draw(dim=1), np.array([[1.0, -1.0]]), np.array([0.5, 0.5]))
    >>> parts = tuple(sl.Mixture(np.ones(1), np.array([[m]]), np.full(1, 0.1)) for m in (0.2, 0.8))
    >>> DiscriminantRule(linear, MixtureRule(np.log([0.5, 0.5]), parts)).probabilities(np.array([[0.0]]))
    array([[0.5, 0.5]])
    """

    linear: LinearRule
    classes: MixtureRule

    kind: ClassVar[str] = "discriminant"

    def scores(self, rows: AnyArray) -> Array:
        """``log prior + log density`` of each class, (n, c)."""
        return self.classes.scores(self.linear.scores(rows)[:, :-1])

    def probabilities(self, rows: AnyArray) -> Array:
        """Posterior probabilities, (n, c)."""
        return softmax(self.scores(rows))


def softmax(scores: Array) -> Array:
    """Numbers of which these are the logarithms, over their sum in each row."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


Rule = LinearRule | MixtureRule | DiscriminantRule
