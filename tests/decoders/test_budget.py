"""Every decoding has a budget of work: what costs more is not begun, or stops with the best so far, and says so."""

import tracemalloc
import warnings

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.decoders import Code
from sketchlearn.decoders.budget import SECOND, Budget, affords, charge, over, running, spending
from sketchlearn.decoders.drive import Run, Stage, drive
from sketchlearn.decoders.ica import affordable, fewest_directions, work
from sketchlearn.decoders.kmeans.default import Decoding, decode_tuning_free, greedy_search, over_complete, own_widths
from sketchlearn.decoders.problem import Problem
from sketchlearn.designs.pca import design_pca, design_regression
from sketchlearn.features.operator import DenseOperator, WidenedOperator


@pytest.fixture(scope="module")
def skewed():
    X = np.random.default_rng(0).exponential(size=(4000, 6))
    return sl.sketch(X, sl.design(X, n_components=10, seed=0))


def test_work_is_counted_and_what_is_left_out_is_told():
    with spending(Budget(2.0)) as budget:
        charge(1.5 * SECOND)
        assert not over("a descent")
        assert not affords(SECOND, "messages")
        charge(SECOND)
        assert over("a descent")
        assert running() is budget
    assert budget.words.endswith("no time for messages, a descent.")
    charge(1e30)
    assert not over("anything")  # outside of a decoding there is no budget


def test_shares_of_what_is_left_are_counted_together():
    budget = Budget(3.0)
    budget.charge(SECOND)
    shares = budget.shares(2)
    with spending(shares[0]):
        charge(2.0 * SECOND)
        assert over("more steps")
    budget.absorb(shares)
    assert budget.left == 0.0
    assert "more steps" in budget.words


def test_a_stage_that_costs_too_much_is_left_out():
    ran = []
    stages = [
        Stage[Run]("dear", lambda run: "always", lambda run: ran.append("dear"), lambda run: 10.0 * SECOND),
        Stage[Run]("cheap", lambda run: "always", lambda run: ran.append("cheap"), lambda run: 0.1 * SECOND),
    ]
    with spending(Budget(1.0)) as budget:
        drive(stages, Run())
    assert ran == ["cheap"]
    assert "'dear'" in budget.words


def test_past_its_budget_a_decoding_returns_the_best_so_far_and_says_so(skewed):
    with sl.decoding_budget(0.02):
        found = sl.decode(skewed, 10, random_state=0)
    assert found.code is Code.UNFINISHED
    assert found.verdict.startswith("Unfinished. The budget of 0.02 s")
    assert found.centers.shape == (10, 6)
    assert np.isfinite(found.centers).all()
    with sl.decoding_budget(float("inf")):
        whole = sl.decode(skewed, 10, random_state=0)
    assert whole.code is not Code.UNFINISHED
    assert found.inertia < 3.0 * whole.inertia


def test_the_work_of_a_decoding_is_the_same_every_time(skewed):
    spent = []
    for _ in range(2):
        with spending(Budget(60.0)) as budget:
            decode_tuning_free(skewed, 10, rng=np.random.default_rng(0))
        spent.append(budget.spent)
    assert spent[0] == spent[1] > 0


def test_mixtures_stop_too():
    X = np.random.default_rng(0).exponential(size=(3000, 20))
    with sl.decoding_budget(0.5):
        found = sl.CompressiveGaussianMixture(3, random_state=0).fit(X)
    assert found.solution_.code is Code.UNFINISHED
    assert np.isfinite(found.score(X))


def test_all_numbers_of_a_sweep_share_a_budget(skewed):
    with sl.decoding_budget(0.1):
        few = sl.sweep(skewed, range(1, 40), random_state=0)
    assert len(few) < 39
    assert [row.k for row in few] == list(range(1, len(few) + 1))
    assert "budget of 0.1 s of CPU left no time" in few.reason
    assert f"{len(few) + 1} or more components" in few.reason
    with sl.decoding_budget(0.1):
        found = sl.CompressiveKMeans("auto", random_state=0).fit_sketch(skewed)
    assert "budget of 0.1 s" in found.sweep_.reason
    whole = sl.sweep(skewed, range(1, 4), random_state=0)
    assert len(whole) == 3
    assert "budget" not in whole.reason


def test_many_components_get_a_larger_budget():
    with spending(components=100) as few, spending(components=1000) as inner:
        assert few.seconds == 60
        assert inner is few  # that of the decoding under way
    with spending(components=1000) as many:
        assert many.seconds == 100
    with sl.decoding_budget(5), spending(components=1000) as told:
        assert told.seconds == 5


def test_a_budget_is_positive():
    for wrong in (0, -1.0, True, "long", float("nan")):
        with pytest.raises(ValueError, match="positive number of seconds"), sl.decoding_budget(wrong):
            pass


def test_components_of_too_many_columns_are_refused_before_the_pass(monkeypatch):
    """With the number of columns that can be had; 100 asked for a matrix of 30 000 x 30 000 after 99 s."""

    def passed(*args, **options):
        raise AssertionError("the pass has begun")

    monkeypatch.setattr("sketchlearn.learn.base.make_sketch", passed)
    with pytest.raises(ValueError, match=r"up to \d+ columns can be separated"):
        sl.CompressiveICA().fit(np.random.default_rng(0).laplace(size=(300, 100)))


def test_directions_are_as_many_as_the_budget_allows():
    with spending(Budget(60.0)):
        assert affordable(300, 10) == 300
        some = affordable(3 * 60**2, 60)
        assert fewest_directions(60) <= some < 3 * 60**2
        assert work(some, 60) <= 60.0 * SECOND < work(some + 1, 60)
    with spending(Budget(1e9)):
        assert affordable(30_000, 100) == 30_000


def test_all_products_are_kept_where_random_features_would_be_more_work():
    """2000 columns and a target were 160 000 features of 2001 numbers each."""
    assert design_regression(dim=2001)[0].is_exact
    assert design_pca(dim=4000, n_components=20)[0].is_exact


def test_a_wide_map_is_not_copied_again_and_again():
    """Three times the map for the problem that decoders see; it was seven times."""
    phi = sl.FourierFeatures.draw(dim=700, size=8000, scale=20.0, seed=0)
    sketch = sl.sketch(np.random.default_rng(0).normal(size=(500, 700)), phi, workers=1)
    size = 4 * phi.size * phi.dim
    tracemalloc.start()
    try:
        Problem.from_sketch(sketch)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * size


def test_a_large_matrix_seen_in_blocks_is_the_same_operator():
    rng = np.random.default_rng(0)
    turns = rng.normal(size=(70_000, 70)).astype(np.float32)
    wide, dense = DenseOperator.of_half_turns(turns, 0.5, np.float64), DenseOperator(turns * (0.5 * np.pi))
    assert isinstance(wide, WidenedOperator)
    points, values = rng.normal(size=(3, 70)), rng.normal(size=(2, 70_000))
    np.testing.assert_allclose(wide.forward(points), dense.forward(points), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(wide.adjoint(values), dense.adjoint(values), rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(wide.squared_norms, dense.squared_norms, rtol=1e-5)
    metric = np.diag(rng.uniform(1.0, 2.0, 70))
    np.testing.assert_allclose(
        wide.transformed(metric).scaled(2.0).forward(points), dense.transformed(metric).scaled(2.0).forward(points),
        rtol=1e-5, atol=1e-4,
    )  # fmt: skip
    part = wide.rows(np.array([5, -1, 7]))
    np.testing.assert_allclose(part.frequencies(), dense.rows(np.array([5, -1, 7])).frequencies(), rtol=1e-6)
    covariances = rng.uniform(size=(2, 70))
    single = wide.astype(np.float32)
    np.testing.assert_allclose(single.quadratic(covariances), dense.quadratic(covariances), rtol=1e-4)
    np.testing.assert_allclose(
        single.quadratic_adjoint(values**2, "diag"), dense.quadratic_adjoint(values**2, "diag"), rtol=1e-3
    )


def test_much_memory_is_announced_before_the_search(monkeypatch, skewed):
    with warnings.catch_warnings():
        warnings.simplefilter("error", sl.DataWarning)
        sl.decode(skewed, 3, random_state=0)
    monkeypatch.setattr("sketchlearn.decoders.budget.LARGE", 1.0)
    with pytest.warns(sl.DataWarning, match="of memory, 4.6 times the map and the sketch"):
        sl.decode(skewed, 3, random_state=0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for shape in ("full", "diag"):
            sl.decode(skewed, 1, task="gmm", covariance_type=shape, random_state=0)
    # six columns: four times 21 products of four bytes, beside six numbers of four bytes and two of eight
    assert [str(w.message).split(", ")[1] for w in said if "of memory" in str(w.message)] == [
        f"{4 * 21 * 4 / 40:.2g} times the map and the sketch"
    ]


def test_products_of_coordinates_are_kept_up_to_a_number_of_bytes():
    """Twice as many in single precision as in double."""
    w = np.random.default_rng(0).normal(size=(13_200, 50))
    single, double = (DenseOperator(w.astype(dtype)) for dtype in (np.float32, np.float64))
    matrix = np.cov(w.T)[None]
    both = [operator.quadratic(matrix) for operator in (single, double)]
    np.testing.assert_allclose(*both, rtol=1e-4)
    assert "_products" in vars(single)
    assert "_products" not in vars(double)


def test_leading_components_of_many_columns_are_those_of_all():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 600)) * np.linspace(3.0, 0.1, 600)
    s = sl.sketch(X, design_pca(dim=600)[0])
    few, all_ = (sl.decode(s, k, task="pca") for k in (5, 600))
    whole = all_.values + all_.isotropic
    np.testing.assert_allclose(few.values + few.isotropic, whole[:5], rtol=1e-9)
    np.testing.assert_allclose(np.abs(np.sum(few.vectors * all_.vectors[:, :5], axis=0)), 1.0, rtol=1e-9)
    assert few.isotropic == pytest.approx(whole[5:].mean())
    assert few.residual == pytest.approx(np.linalg.norm(whole[5:]) / np.linalg.norm(whole))


@pytest.mark.parametrize("seconds", [pytest.param(0.05, marks=pytest.mark.slow), 0.5])
def test_a_budget_that_ends_in_the_richer_model_keeps_what_explains_more(seconds):
    rng = np.random.default_rng(1)
    t = rng.uniform(size=(8000, 2))
    X = np.hstack([np.sin(6 * t), t**2, rng.exponential(size=(8000, 2))])
    problem = Problem.from_sketch(sl.sketch(X, sl.design(X, n_components=80, seed=0)))
    run = Decoding(problem, 80, np.random.default_rng(0), None, None)
    greedy_search(run)
    own_widths(run)
    before = run.best
    with spending(Budget(seconds)):
        richer = over_complete(run)
    assert run.best.misfit <= before.misfit
    assert (richer is None) == (run.best is before)


def test_without_a_richer_model_nothing_is_said_of_the_cost():
    """A fit that explains little can't judge its own centres."""
    rng = np.random.default_rng(2)
    X = np.hstack([np.sin(6 * rng.uniform(size=(6000, 2))), rng.exponential(size=(6000, 4))])
    sketch = sl.sketch(X, sl.design(X, n_components=60, seed=0))
    with sl.decoding_budget(0.05):
        found = sl.decode(sketch, 60, random_state=0)
    assert found.code is Code.UNFINISHED
    assert "over-complete mixture" in found.verdict
    assert np.isnan(found.excess_cost)
    assert np.isnan(found.excess_cost_bound)
