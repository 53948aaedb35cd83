"""Private rivals in published form: Lloyd's algorithm, and noisy covariances for principal components."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import wishart

Array = npt.NDArray[np.float64]
ITERATIONS = 5  # Su, Cao, Li, Bertino and Jin (2016) recommend five with the budget shared equally


def private_lloyd(rows: Array, k: int, epsilon: float, bound: float, seed: int) -> Array:
    """DPLloyd (Blum, Dwork, McSherry and Nissim 2005): noisy sums and counts, the budget shared by the iterations.

    Columns are clipped to a public bound; adding or removing a row changes all sums and a count by d + 1 in units of
    the bound.
    """
    rng = np.random.default_rng([seed, 41])
    unit = np.clip(rows / bound, -1.0, 1.0)
    d = rows.shape[1]
    scale = (d + 1) * ITERATIONS / epsilon
    centers = rng.uniform(-1.0, 1.0, (k, d))
    squares = (unit**2).sum(1)
    for _ in range(ITERATIONS):
        owner = (squares[:, None] - 2 * unit @ centers.T + (centers**2).sum(1)).argmin(1)
        counts = np.bincount(owner, minlength=k) + rng.laplace(scale=scale, size=k)
        sums = np.stack([np.bincount(owner, unit[:, j], minlength=k) for j in range(d)], 1)
        sums += rng.laplace(scale=scale, size=(k, d))
        alive = counts > 1
        centers[alive] = np.clip(sums[alive] / counts[alive, None], -1.0, 1.0)
        centers[~alive] = rng.uniform(-1.0, 1.0, (int((~alive).sum()), d))
    return centers * bound


def clipped(rows: Array, radius: float) -> Array:
    """Rows pulled into the ball of a public radius."""
    return rows * np.minimum(1.0, radius / np.maximum(np.linalg.norm(rows, axis=1), 1e-300))[:, None]


def laplace_pca(rows: Array, k: int, epsilon: float, radius: float, seed: int) -> Array:
    """Principal directions of a covariance with Laplace noise on its entries (Dwork, Talwar, Thakurta, Zhang 2014).

    One row of unit length changes the upper triangle by at most (d + 1) / 2 in absolute sum, which is tight.
    """
    rng = np.random.default_rng([seed, 42])
    n, d = rows.shape
    unit = clipped(rows, radius) / radius
    noise = np.triu(rng.laplace(scale=(d + 1) / (2 * n * epsilon), size=(d, d)))
    noisy = unit.T @ unit / n + noise + np.triu(noise, 1).T
    return np.asarray(np.linalg.eigh(noisy)[1][:, -k:])


def wishart_pca(rows: Array, k: int, epsilon: float, radius: float, seed: int) -> Array:
    """Principal directions of a covariance plus a Wishart matrix (Jiang, Xie and Zhang 2016), pure epsilon."""
    n, d = rows.shape
    unit = clipped(rows, radius) / radius
    noise = wishart(df=d + 1, scale=np.eye(d) * 3.0 / (2.0 * n * epsilon)).rvs(random_state=seed)
    return np.asarray(np.linalg.eigh(unit.T @ unit / n + noise)[1][:, -k:])
