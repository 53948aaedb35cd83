"""Small groups that lie apart in one column: found by the decoder, and not where there are none."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

import sketchlearn as sl
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.groups import group_apart, groups_apart, joined, without
from sketchlearn.decoders.steps.refine import refine


def unknown(seed: int, n: int = 10_000, d: int = 6) -> np.ndarray:
    """Ordinary columns, and 2.4 % of the rows with a code for "unknown" in one of them."""
    rng = np.random.default_rng([seed, 77])
    X = 2.0 * rng.normal(size=(4, d))[rng.integers(4, size=n)] + rng.normal(size=(n, d))
    X[:, 0] = rng.lognormal(3.0, 0.5, n)
    X[:, 2] = rng.poisson(2.0, n)
    some = rng.uniform(size=n) < 0.024
    X[some, 2] = rng.choice([98, 99], some.sum())
    return (X - X.mean(0)) / X.std(0)


def excess(X: np.ndarray, centers: np.ndarray) -> float:
    best = KMeans(len(centers), n_init=5, random_state=0).fit(X).inertia_
    return float(((X[:, None] - centers) ** 2).sum(2).min(1).sum() / best - 1.0)


@pytest.mark.filterwarnings("ignore::sketchlearn.DataWarning")
@pytest.mark.parametrize("seed", [0, 1, 2, pytest.param(range(3, 10), marks=pytest.mark.slow)])
def test_codes_for_unknown_are_found_or_flagged(seed: int | range) -> None:
    for s in [seed] if isinstance(seed, int) else seed:
        X = unknown(s)
        solution = sl.decode(sl.sketch(X, sl.design(X[:2000], n_components=5, seed=s)), 5, random_state=s)
        truth = excess(X, solution.centers)
        assert truth < 0.03 or solution.code in ("doubtful", "misfit"), (s, truth, solution.verdict)


def fitted(X: np.ndarray) -> tuple[Problem, State]:
    """A sketch, and one normal component with the moments of most rows."""
    problem = Problem.from_sketch(sl.sketch(X, sl.design(X, n_components=8, seed=0)))
    few = problem.normalised(X[: len(X) // 2])
    start = State.of(sl.Mixture(np.ones(1), few.mean(0)[None], np.cov(few.T)[None]))
    return problem, refine(problem, start, 60) if (X < 8.0).all() else start


def test_a_group_is_seen_with_its_weight_and_its_place() -> None:
    X = np.random.default_rng(0).normal(size=(20_000, 3))
    X[-300:, 1] = 9.0
    problem, fit = fitted(X)
    found = groups_apart(problem, fit)
    assert found is not None
    assert problem.points(found.means)[0] == pytest.approx([0.0, 9.0, 0.0], abs=0.3)
    assert found.weights[0] == pytest.approx(0.015, rel=0.15)
    assert problem.misfit(joined(fit, found)) < 0.2 * problem.misfit(fit)
    assert without(problem, found).misfit(fit) < 0.2 * problem.misfit(fit)


@pytest.mark.parametrize("seed", range(5))
def test_normal_rows_have_no_group_that_matters(seed: int) -> None:
    problem, fit = fitted(np.random.default_rng(seed).normal(size=(20_000, 4)))
    found = group_apart(problem, fit)  # a few rows more than the model has in its tail may be one
    assert found is None or found.weights[0] * found.means.max() ** 2 < 0.01
