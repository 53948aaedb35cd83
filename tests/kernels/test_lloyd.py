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
