"""Mixtures that the tests of designs, decoders and estimators share."""

import numpy as np


def random_mixture(k, d, separation, kind, rng):
    """Weights up to 10:1, standard deviations in [0.5, 2], eigenvalue ratios up to 10."""
    weights = np.exp(rng.uniform(0, np.log(10), k))
    means = rng.normal(size=(k, d)) * np.sqrt(separation)
    if kind == "spherical":
        matrices = np.exp(2 * rng.uniform(np.log(0.5), np.log(2), k))[:, None, None] * np.eye(d)
    elif kind == "diag":
        matrices = np.exp(2 * rng.uniform(np.log(0.5), np.log(2), (k, d)))[:, :, None] * np.eye(d)
    else:
        turns = np.linalg.qr(rng.normal(size=(k, d, d)))[0]
        values = np.exp(rng.uniform(-0.5 * np.log(10), 0.5 * np.log(10), (k, d)))
        matrices = (turns * values[:, None, :]) @ turns.swapaxes(1, 2)
        if kind == "tied":
            matrices = np.repeat(matrices[:1], k, 0)
    return weights / weights.sum(), means, matrices


def draw(weights, means, matrices, n, rng):
    owner = rng.choice(len(weights), n, p=weights)
    noise = rng.normal(size=(n, means.shape[1]))
    return means[owner] + np.einsum("nab,nb->na", np.linalg.cholesky(matrices)[owner], noise)


def log_likelihood(X, weights, means, matrices):
    logs = []
    for a, c, s in zip(weights, means, matrices, strict=True):
        y = np.linalg.solve(np.linalg.cholesky(s), (X - c).T)
        logs.append(np.log(a) - 0.5 * ((y**2).sum(0) + np.linalg.slogdet(s)[1] + X.shape[1] * np.log(2 * np.pi)))
    return float(np.logaddexp.reduce(logs, 0).mean())
