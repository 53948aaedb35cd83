"""Starts of Lloyd's iterations."""

from __future__ import annotations

import numpy as np

from sketchlearn.kernels import lloyd


def test_the_candidates_that_help_most_are_chosen_one_by_one() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 2)).astype(np.float32)
    x[:20] += [30.0, 0.0]  # few, but they make most of the cost
    candidates = np.array([[0.0, 0.0], [1.0, 1.0], [30.0, 0.0], [-1.0, 0.0]], np.float32)
    chosen = lloyd.best_among(x, np.ones(1000), candidates, 3)
    np.testing.assert_array_equal(chosen[:2], candidates[[0, 2]])
    costs = [float(((x[:, None] - np.vstack([chosen[:2], c])) ** 2).sum(2).min(1).sum()) for c in candidates]
    np.testing.assert_array_equal(chosen[2], candidates[int(np.argmin(costs))])


def test_best_of_many_candidates_is_that_of_looking_at_all():
    rng = np.random.default_rng(3)
    x, weights = rng.normal(size=(300, 2)).astype(np.float32), rng.random(300)
    candidates = np.repeat(rng.normal(size=(40, 2)), 2, axis=0).astype(np.float32)  # every one twice: ties
    distances = ((candidates[:, None] - x) ** 2).sum(2).astype(np.float64)
    nearest, costs = np.full(300, np.inf), []
    for _ in range(30):
        nearest = np.minimum(nearest, distances[(np.minimum(distances, nearest) @ weights).argmin()])
        costs.append(nearest @ weights)
    chosen = lloyd.best_among(x, weights, candidates, 30).astype(np.float64)
    found = [((chosen[: c + 1, None] - x) ** 2).sum(2).min(0) @ weights for c in range(30)]
    np.testing.assert_allclose(found, costs, rtol=1e-5)
