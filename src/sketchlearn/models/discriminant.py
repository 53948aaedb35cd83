"""Directions that tell normal classes with one covariance apart: Fisher's discriminants."""

from __future__ import annotations

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.models.rules import MixtureRule

_SINGULAR = 1e-6  # variance within classes, of standardised columns, that is none


def discriminants(rule: MixtureRule) -> tuple[Array, Array, Array]:
    """Centre (d,), directions (d, r) and shares of the variance between classes (r,), of the rule of LDA.

    Centred rows times the directions have variance 1 within classes, and the classes lie apart as far as possible:
    eigenvectors of the covariance between classes relative to the one within (Fisher, 1936).  Directions in which
    classes have no width are left out, as in scikit-learn.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.models.discriminant import discriminants
    >>> from sketchlearn.models.rules import MixtureRule
    >>> within = np.diag([4.0, 1.0])[None]
    >>> parts = [sl.Mixture(np.ones(1), np.array([[m, 0.0]]), within) for m in (-1.0, 1.0)]
    >>> centre, directions, shares = discriminants(MixtureRule(np.log([0.5, 0.5]), tuple(parts)))
    >>> centre, np.abs(directions.T), shares
    (array([0., 0.]), array([[0.5, 0. ]]), array([1.]))
    """
    means = np.concatenate([mixture.means for mixture in rule.mixtures])
    within = rule.mixtures[0].full_covariances()[0]
    shares = np.exp(rule.log_priors)
    centre = shares @ means
    apart = np.sqrt(shares)[:, None] * (means - centre)
    spread = np.sqrt(np.maximum(np.diag(within) + (apart**2).sum(0), 1e-300))
    values, vectors = np.linalg.eigh(within / np.outer(spread, spread))
    keep = values > _SINGULAR
    root = vectors[:, keep] / np.sqrt(values[keep]) / spread[:, None]
    apart = apart @ root
    _, lengths, right = np.linalg.svd(apart, full_matrices=False)
    between = lengths**2
    few = min(len(means) - 1, root.shape[1])
    directions = (root @ right.T)[:, :few]
    largest = directions[np.abs(directions).argmax(0), np.arange(few)] if few else np.empty(0)
    total = float(between.sum())
    shared = between[:few] / total if total > 0 else np.zeros(few)
    return centre, directions * np.where(largest < 0, -1.0, 1.0), shared
