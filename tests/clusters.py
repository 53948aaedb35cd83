"""Data of the decoders' studies: k normal clusters with normal centres, random weights, scale and shift."""

import numpy as np


def gaussian_clusters(k, d, separation, *, unbalanced=False, n=20_000, seed=0):
    rng = np.random.default_rng([seed, k, d, int(separation), unbalanced])
    centers = rng.normal(size=(k, d)) * np.sqrt(separation)
    weights = np.exp(rng.uniform(0, np.log(20), k)) if unbalanced else np.ones(k)
    labels = rng.choice(k, n, p=weights / weights.sum())
    scale = np.exp(rng.uniform(-3, 3))
    shift = 10 * scale * rng.normal(size=d)
    X = (centers[labels] + rng.normal(size=(n, d))) * scale + shift
    return X, centers * scale + shift, scale


def mean_cost(X, centers):
    best = np.full(len(X), np.inf)
    for c in centers:
        best = np.minimum(best, ((X - c) ** 2).sum(1))
    return best.mean()
