"""A decoder of one's own for k-means: k points of the best of some random draws; estimators know it by name."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.decoders import ClusterSolution, Code, register_decoder
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.weights import reweighted


@register_decoder("kmeans", "toy-guess")
def guess(sketch, k, *, rng, trace, guesses=300, criterion="means"):
    """Means drawn inside the box, weights by least squares, the best misfit wins."""
    problem = Problem.from_sketch(sketch)
    best = None
    for _ in range(guesses):
        means = rng.uniform(*problem.box, size=(k, problem.dim))
        state = reweighted(problem, State.shared(np.zeros(k), means, 0.1))
        misfit, weights = problem.misfit(state), state.weights
        if best is None or misfit < best[0]:
            best = misfit, means, weights / max(weights.sum(), 1e-12)
            if trace is not None:
                trace.append({"misfit": misfit})
    misfit, means, weights = best
    mixture = sl.Mixture(weights, means, np.full(k, 0.1)).scaled(problem.scale, problem.center)
    return ClusterSolution(
        task="kmeans", decoder="toy-guess", residual=misfit, noise_floor=float("nan"), ratio=float("nan"),
        code=Code.UNCERTIFIED, verdict="a guess", iterations=guesses, trace=trace or [],
        mixture=mixture, centers=mixture.means, weights=weights, inertia=float("nan"), criterion=criterion,
    )  # fmt: skip


X = np.random.default_rng(0).normal(size=(4000, 2)) + np.repeat([[0.0, 0.0], [20.0, 0.0]], 2000, axis=0)
S = sl.sketch(X, sl.design(X, n_components=2, seed=0))


def test_it_is_known_by_name():
    solution = sl.decode(S, 2, decoder="toy-guess", random_state=0, trace=True)
    np.testing.assert_allclose(np.sort(solution.centers[:, 0]), [0.0, 20.0], atol=4.0)
    assert (solution.code, solution.reliable, len(solution.trace) > 0) == ("uncertified", False, True)


def test_estimators_models_and_errors_know_it(tmp_path):
    km = sl.CompressiveKMeans(2, decoder="toy-guess", random_state=0).fit(X)
    assert (km.verdict_, km.reliable_) == ("a guess", False)
    sl.Model.of(km).save(tmp_path / "m.json")
    assert sl.Model.load(tmp_path / "m.json").decoder == "toy-guess"
    with pytest.raises(ValueError, match="toy-guess"):
        sl.decode(S, 2, decoder="no such")
