"""What every decoder of a task does with every kind of map."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.decoders import DECODERS, Code, Solution, register_decoder
from sketchlearn.designs.gmm import design_gmm

CENTERS = np.array([[0.0, 0.0], [9.0, 1.0], [-2.0, 8.0]])
SHIFT, SPREAD = np.array([40.0, -7.0]), np.array([3.0, 3.0])


def _rows(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    return CENTERS[rng.integers(3, size=n)] + rng.normal(size=(n, 2))


X = _rows()
MAPS = {
    "designed": lambda: sl.design(X[:1000], n_components=3, size=300, seed=0),
    "for mixtures": lambda: design_gmm(X[:1000], 3, "spherical", seed=0),
    "drawn": lambda: sl.FourierFeatures.draw(dim=2, size=300, scale=2.0, seed=0),
}
CASES = [(task, decoder) for task in ("kmeans", "kmedians", "gmm") for decoder in DECODERS[task]]
CASES.remove(("gmm", "moments"))  # of quadratic features


def _decode(sketch, task, decoder, k=3, **options):
    if decoder == "known":
        spread = sketch.features.spread
        options["covariances"] = np.ones(2) if spread is None else spread**2
    elif task == "gmm":
        options["covariance_type"] = "spherical"
    return sl.decode(sketch, k, task=task, decoder=decoder, random_state=3, **options)


def _places(solution):
    places = solution.means if solution.task == "gmm" else solution.centers
    return places[np.lexsort(places.round(1).T)]


@pytest.mark.parametrize("map_", MAPS)
@pytest.mark.parametrize(("task", "decoder"), CASES)
def test_solutions_say_what_they_are(task, decoder, map_):
    s = sl.sketch(X, MAPS[map_]())
    solution = _decode(s, task, decoder, trace=True)
    assert isinstance(solution, Solution)
    assert solution.task == task
    assert solution.decoder
    assert solution.weights.sum() == pytest.approx(1.0)
    assert (solution.weights >= 0).all()
    assert solution.ratio == pytest.approx(solution.residual / solution.noise_floor) or not solution.reliable
    assert solution.reliable == (solution.code is Code.RELIABLE)
    assert ("not certified" in solution.verdict.lower()) <= (solution.code is not Code.RELIABLE)
    assert solution.trace or solution.reliable
    again = _decode(s, task, decoder, trace=False)
    np.testing.assert_array_equal(_places(again), _places(solution))
    assert (again.verdict, again.code, again.trace) == (solution.verdict, solution.code, [])


@pytest.mark.parametrize(("task", "decoder"), CASES)
def test_the_order_of_the_frequencies_does_not_matter(task, decoder):
    phi = MAPS["drawn"]()
    s = sl.sketch(X, phi)
    order = np.random.default_rng(0).permutation(phi.size)
    turned = phi.with_random_array(phi.half_turns[order])
    other = sl.Sketch(turned, s.sums[:, order], s.weight, s.weight_bits, s.lower, s.upper)
    a, b = _decode(s, task, decoder), _decode(other, task, decoder)
    np.testing.assert_allclose(_places(a), _places(b), atol=0.15)
    assert a.ratio == pytest.approx(b.ratio, rel=0.05)


@pytest.mark.parametrize("map_", ["designed", "drawn"])
@pytest.mark.parametrize(("task", "decoder"), CASES)
def test_solutions_move_and_stretch_with_the_rows(task, decoder, map_):
    phi = MAPS[map_]()
    there = sl.sketch(SHIFT + SPREAD * X, phi.standardized(SHIFT, SPREAD))
    a, b = _decode(sl.sketch(X, phi), task, decoder), _decode(there, task, decoder)
    np.testing.assert_allclose(_places(b), SHIFT + SPREAD * _places(a), atol=0.15 * SPREAD[0])
    assert b.ratio == pytest.approx(a.ratio, rel=0.05)


@pytest.mark.parametrize(("task", "decoder"), CASES)
def test_one_component_is_the_mean(task, decoder):
    rows = _rows() @ np.diag([0.0, 1.0]) + np.random.default_rng(1).normal(size=(4000, 2))
    rows[:, 1] = np.random.default_rng(2).normal(size=4000)
    s = sl.sketch(rows, sl.design(rows[:1000], n_components=1, seed=0))
    solution = _decode(s, task, decoder, k=1)
    np.testing.assert_allclose(_places(solution)[0], rows.mean(0), atol=0.1)
    np.testing.assert_allclose(solution.weights, [1.0])


@pytest.mark.parametrize("state", [5, np.random.default_rng(5), np.random.RandomState(5), None])
def test_any_random_state_will_do(state):
    s = sl.sketch(X, MAPS["designed"]())
    assert sl.decode(s, 3, random_state=state).reliable


def test_a_decoder_and_a_task_of_ones_own():
    @register_decoder("centre", "plain")
    def centre(sketch, k, *, rng, trace, sign=1.0):
        return Solution(task="centre", decoder="plain", residual=sign * k, noise_floor=1.0, ratio=4.0 / k)

    try:
        s = sl.sketch(X, MAPS["drawn"]())
        solution = sl.decode(s, 2, task="centre", sign=-1.0)
        assert solution.residual == -2.0
        assert solution.code is Code.UNCERTIFIED
        assert not solution.reliable
        assert sl.sweep(s, [1, 2, 3, 4], task="centre").recommended == 4  # none is certified: the least misfit
        with pytest.raises(ValueError, match="already"):
            register_decoder("centre", "plain")(centre)
        with pytest.raises(ValueError, match="plain"):
            sl.decode(s, 2, task="centre", decoder="other")
    finally:
        del DECODERS["centre"]
    with pytest.raises(ValueError, match="kmeans, kmedians, gmm, stable, family, pca"):
        sl.decode(s, 2, task="centre")


def test_decoders_are_loaded_when_they_are_used(tmp_path):
    import subprocess
    import sys

    code = (
        "import sys, sketchlearn.decoders, sketchlearn.comparison; "
        "print([m for m in ('numba', 'scipy', 'sklearn') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert out.stdout.strip() == "[]"
