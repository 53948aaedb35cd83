"""Many components: what is made in pieces, of samples and in single precision equals, or stands for, the whole."""

from dataclasses import replace

import numpy as np
import pytest
from clusters import gaussian_clusters, mean_cost

import sketchlearn as sl
from sketchlearn.decoders import problem as problems
from sketchlearn.decoders.certificate import Certifier, certify
from sketchlearn.decoders.families import FULL
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.greedy import search
from sketchlearn.decoders.steps.splits import halves
from sketchlearn.decoders.steps.weights import prune_indices


def _problem(k, d, seed=0):
    X, centers, width = gaussian_clusters(k, d, 100, seed=seed)
    problem = Problem.from_sketch(sl.sketch(X, sl.design(X[:1000], n_components=k, seed=seed)))
    return problem, State.shared(np.full(k, 1 / k), problem.normalised(centers), (width / problem.scale) ** 2)


def test_pieces_that_stay_in_the_cache_give_the_whole(monkeypatch):
    problem, state = _problem(20, 5)
    args = state.means, float(state.shapes[0]), state.weights

    def everything():
        fresh = problem.reweighted(problem.u)  # (pieces are kept: those of another size belong to another problem)
        gram, along = fresh.gram(state)
        value, slope, by_weight, by_mean = fresh.shared_width(*args)
        height, gradient = fresh.correlation(state.means, fresh.u * fresh.z)
        return fresh.residual(state), gram, along, value, slope, by_weight.copy(), by_mean, height, gradient

    whole = everything()
    monkeypatch.setattr(problems, "_WHOLE", 2**12)
    monkeypatch.setattr(problems, "_TILE", 2**11)
    assert problem.large(20)
    for one, other in zip(whole, everything(), strict=True):
        np.testing.assert_allclose(other, one, atol=2e-6 * np.abs(one).max(), rtol=2e-5)


def test_weights_are_told_by_a_part_of_the_frequencies(monkeypatch):
    problem, state = _problem(20, 5)
    assert problem.sampled(20) is problem
    monkeypatch.setattr(problems, "_WHOLE", 2**12)
    part = problem.sampled(20)
    assert part.size == 256 < problem.size
    gram, along = part.gram(state)
    np.testing.assert_allclose(np.linalg.solve(gram, along), 0.05, rtol=0.25)


def test_pruning_removes_what_costs_least_each_time():
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(60, 14))
    gram = atoms.T @ atoms
    b = gram @ np.abs(rng.normal(size=14))
    expected = np.arange(14)
    while len(expected) > 6:
        inverse = np.linalg.inv(gram[np.ix_(expected, expected)])
        a = inverse @ b[expected]
        expected = np.delete(expected, np.argmin(np.where(a > 0, a * a / np.diag(inverse), -1.0)))
    assert prune_indices(gram, b, 6)[0].tolist() == expected.tolist()


def test_a_certificate_in_single_precision_says_the_same(monkeypatch):
    problem, state = _problem(20, 6)
    double = Certifier(problem, np.random.default_rng(0)).certify(state, mend=False)
    monkeypatch.setattr(certify, "_MOST_DOUBLE", 10)
    single = Certifier(problem, np.random.default_rng(0)).certify(state, mend=False)
    assert double.passed
    assert single.passed
    for finding, other in zip(double.examination.findings, single.examination.findings, strict=True):
        assert other.score == pytest.approx(finding.score, rel=0.02, abs=0.02)
    np.testing.assert_allclose(single.examination.means_std, double.examination.means_std, rtol=1e-3)
    np.testing.assert_allclose(single.state.means, double.state.means, atol=1e-3 * double.state.width)


def test_memory_says_how_many_components_have_a_certificate():
    problem, _ = _problem(20, 6)
    wide = replace(problem, operator=sl.FourierFeatures.draw(dim=10, size=40_000, scale=1.0).operator())
    certifier = Certifier(wide, np.random.default_rng(0))
    assert certifier.can(400)
    assert not certifier.can(500)


def test_searches_from_coarse_to_fine_find_clusters_in_many_columns():
    problem, truth = _problem(10, 20)
    found = search(problem, 10, np.random.default_rng(0), coarse=True)
    assert found.explained
    apart = np.linalg.norm(found.state.means[:, None] - truth.means, axis=2)
    assert (apart.min(0) < 3.0 * truth.width).all()  # (a centre is known to a fraction of a width in each column)


def test_bends_are_slopes_of_the_misfit_in_covariances():
    problem, truth = _problem(4, 3)
    state = truth.with_weights(np.array([0.1, 0.3, 0.2, 0.4]))
    slopes = problem.bends(state)
    start = State(FULL, state.weights, state.means, np.repeat(truth.shapes[0] * np.eye(3)[None], 4, 0))
    for component, (i, j) in ((0, (0, 0)), (1, (1, 2)), (3, (2, 1))):
        values = []
        for step in (-1e-3, 1e-3):
            covariances = start.shapes.copy()
            covariances[component, i, j] += step / 2
            covariances[component, j, i] += step / 2
            values.append(problem.misfit(replace(start, shapes=covariances)))
        expected = (values[1] - values[0]) / 2e-3
        assert state.weights[component] * slopes[component, i, j] == pytest.approx(expected, rel=0.02, abs=1e-6)


def test_a_component_between_two_clusters_is_split_where_they_are():
    """Two of twenty clusters taken as one: that component is the one to split, and each half goes to its cluster."""
    problem, truth = _problem(20, 5, seed=4)
    apart = np.linalg.norm(truth.means[:, None] - truth.means, axis=2) + 1e9 * np.eye(20)
    i, j = np.unravel_index(np.argmin(apart), apart.shape)
    weights, means = truth.weights.copy(), truth.means.copy()
    weights[i] += weights[j]
    means[i] = 0.5 * (means[i] + means[j])
    rest = np.delete(np.arange(20), j)
    wrong = State.shared(weights[rest], means[rest], float(truth.shapes[0]))
    left, right = halves(problem, wrong, 1)
    np.testing.assert_allclose(0.5 * (left + right), means[i], atol=1e-6)
    direction = (truth.means[i] - truth.means[j]) / apart[i, j]
    moved = (left - right) / np.linalg.norm(left - right)
    assert abs(moved @ direction) > 0.95


def test_a_hundred_clusters_are_found_as_a_large_problem(monkeypatch):
    monkeypatch.setattr(problems, "_WHOLE", 2**15)
    X, centers, _ = gaussian_clusters(100, 5, 100, seed=3)
    model = sl.decode(sl.sketch(X, sl.design(X[:1000], n_components=100)), 100, random_state=0)
    assert model.reliable
    assert mean_cost(X, model.centers) < 1.02 * mean_cost(X, centers)
