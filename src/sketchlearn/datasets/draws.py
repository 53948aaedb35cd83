"""What all generators share: the source of randomness, checks of counts, weights of components."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array, Index

Labels: TypeAlias = Index
Seed: TypeAlias = int | np.random.Generator

UNBALANCED = 20.0
"""Largest ratio of two weights with ``weights="unbalanced"``."""
DIRICHLET = 5.0
"""Concentration of ``weights="dirichlet"`` (Keriven 2017, section 5.3)."""


def generator(seed: Seed) -> np.random.Generator:
    """A generator, from a whole number or as given."""
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)


def positive(**counts: int) -> None:
    """ValueError if one of these is not a positive whole number."""
    for name, value in counts.items():
        if int(value) != value or value < 1:
            raise ValueError(f"{name}={value!r}: give a positive whole number")


def component_weights(weights: str | npt.ArrayLike, k: int, rng: np.random.Generator) -> Array:
    """Weights of k components: by name, or given numbers divided by their sum."""
    if isinstance(weights, str):
        if weights == "balanced":
            return np.full(k, 1.0 / k)
        if weights == "dirichlet":
            return rng.dirichlet(np.full(k, DIRICHLET))
        if weights == "unbalanced":
            drawn = np.exp(rng.uniform(0.0, np.log(UNBALANCED), k))
            return np.asarray(drawn / drawn.sum())
        raise ValueError(f"weights={weights!r}: choose 'balanced', 'unbalanced', 'dirichlet' or give {k} numbers")
    given = np.asarray(weights, np.float64)
    if given.shape != (k,) or not (np.isfinite(given).all() and (given >= 0).all() and given.sum() > 0):
        raise ValueError(f"weights must be {k} non-negative finite numbers with a positive sum")
    return np.asarray(given / given.sum())


def owners(n: int, weights: Array, rng: np.random.Generator) -> Labels:
    """The component of each of n rows."""
    return np.asarray(rng.choice(len(weights), size=n, p=weights), np.intp)
