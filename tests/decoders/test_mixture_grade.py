"""Grades of Gaussian mixtures: what judges say, what the verdict makes of it, and where nothing can be said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

import sketchlearn as sl
from sketchlearn.decoders import Code
from sketchlearn.decoders.families import FULL
from sketchlearn.decoders.mixtures import grade as grades
from sketchlearn.decoders.mixtures.default import decode_problem, mixture_problem
from sketchlearn.decoders.mixtures.grade import BAD, CERTIFIED, GOOD, Grade, of_graded
from sketchlearn.decoders.mixtures.setting import Setting
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State

pytestmark = pytest.mark.filterwarnings("ignore::sketchlearn.DataWarning")

RNG = np.random.default_rng(11)
CLUSTERS = 5.0 * RNG.normal(size=(3, 3))[RNG.integers(3, size=10_000)] + RNG.normal(size=(10_000, 3))
CUBE = RNG.uniform(size=(10_000, 3))


def decoded(X: np.ndarray, k: int, **options: object) -> sl.Model:
    sketch = sl.sketch(X, sl.design(X[:2000], n_components=k, task="gmm", seed=0))
    return sl.decode(sketch, k, task="gmm", random_state=0, **options)


def below(X: np.ndarray, model: sl.Model) -> float:
    """Nats per row below the best of EM on the rows."""
    best = GaussianMixture(model.size, n_init=3, reg_covar=1e-4 * X.var(0).mean(), random_state=0).fit(X).score(X)
    return best - float(model.mixture.log_density(X).mean())


@pytest.mark.parametrize(("X", "k", "code"), [(CLUSTERS, 3, Code.RELIABLE), (CUBE, 3, Code.GOOD)])
def test_a_mixture_near_the_best_is_reliable_or_good(X: np.ndarray, k: int, code: Code) -> None:
    model = decoded(X, k)
    assert model.code is code
    assert model.verdict.startswith(f"{code.capitalize()}: about ")
    assert 0.0 < model.excess_nats <= model.excess_nats_bound <= GOOD
    assert below(X, model) <= model.excess_nats_bound
    assert model.trace[-1]["stage"] == "grade"


def test_a_row_far_away_is_counted_and_its_column_named() -> None:
    X = CLUSTERS.copy()
    X[0, 1] = 400.0
    phi = sl.design(CLUSTERS[:2000], n_components=3, task="gmm", seed=0).replace(columns=("a", "price", "c"))
    model = sl.decode(sl.sketch(X, phi), 3, task="gmm", random_state=0)
    assert below(X, model) > CERTIFIED
    assert model.excess_nats_bound > CERTIFIED
    assert model.code in (Code.DOUBTFUL, Code.MISFIT)
    assert "Try first: price clipped or transformed (it reaches from" in model.verdict
    assert model.means_std is None


def test_nothing_is_said_where_noise_was_added_or_the_search_was_only_a_beginning() -> None:
    sketch = sl.sketch(CUBE, sl.design(bounds=([0.0] * 3, [1.0] * 3), n_components=2, seed=0))
    private = sl.privatize(sketch, epsilon=5.0, delta=1e-6, public_map=True)
    one_bit = sl.sketch(CUBE, sl.FourierFeatures.draw(dim=3, size=500, scale=0.3, quantized=True, seed=0))
    found = [sl.decode(some, 2, task="gmm", random_state=0) for some in (private, one_bit)]
    found.append(sl.decode(sketch, 2, task="gmm", project=False, random_state=0))
    for model in found:
        assert np.isnan([model.excess_nats, model.excess_nats_bound]).all()
        assert model.code not in (Code.GOOD, Code.DOUBTFUL)


def test_estimators_files_and_sweeps_have_the_numbers() -> None:
    gm = sl.CompressiveGaussianMixture(2, random_state=0).fit(CUBE)
    model = sl.Model.of(gm)
    again = sl.Model.from_json(model.to_json())
    assert (again.excess_nats, again.excess_nats_bound) == (gm.excess_nats_, gm.excess_nats_bound_)
    assert again.code is model.code
    assert f"{gm.excess_nats_:.2g}" in [value for value, _ in model.numbers()]
    older = replace(model, excess_nats=float("nan"), excess_nats_bound=float("nan"))
    assert "excess_nats" not in older.to_json()
    assert np.isnan(sl.Model.from_json(older.to_json()).excess_nats)
    assert f"at most {model.excess_nats_bound:.2g} nats per row below the best" in model.nearness


# -- what judges say -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def setting() -> Setting:
    sketch = sl.sketch(CUBE, sl.design(CUBE[:2000], n_components=1, task="gmm", seed=0))
    return decode_problem(mixture_problem(sketch, "full"), 1, "full", rng=np.random.default_rng(0)).setting


def normal(mean: float, width: float) -> State:
    return State(FULL, np.ones(1), np.full((1, 3), mean), width**2 * np.eye(3)[None])


def test_the_divergence_is_that_of_normal_laws(setting: Setting) -> None:
    """Closed form: 3 (log s + (1 + m^2) / (2 s^2) - 1/2), with 10 000 draws or more and an error of 2 %."""
    m, s = 0.3, 1.2
    expected = 3.0 * (np.log(s) + (1.0 + m**2) / (2.0 * s**2) - 0.5)
    found = grades._divergence(normal(0.0, 1.0), normal(m, s).mixture(), replace_draws(setting))
    assert found == pytest.approx(expected, rel=0.05)


def test_the_excess_is_what_the_best_has_more_and_zero_for_the_best(setting: Setting) -> None:
    """Of a mean that is off by m in three columns 3 m^2 / 2, with standard error m sqrt(3 / n) of n draws.

    The standard error for the best is sqrt(2 p) / 2 n.
    """
    judge, m = normal(0.0, 1.0), 0.2
    off = grades._excess(judge, normal(m, 1.0).mixture(), setting)
    assert off == pytest.approx(1.5 * m**2, abs=4.0 * m * np.sqrt(3.0 / (2.0 * grades.DRAWS)))
    assert abs(grades._excess(judge, judge.mixture(), setting)) < 4.0 * np.sqrt(18.0) / (2.0 * grades.DRAWS)


def replace_draws(setting: Setting) -> Setting:
    many = replace(setting)
    many.k = 30  # draws grow with k
    return many


def test_far_rows_cost_half_their_squared_distance() -> None:
    box, n = (np.array([-3.0, -40.0]), np.array([3.0, 3.0])), 1000.0
    standard = sl.Mixture(np.ones(1), np.zeros((1, 2)), np.ones(1))
    far, column = grades._far(box, standard, n)
    assert column == 1
    assert far == pytest.approx((800.0 - np.log(4.0 * n)) / n)  # two ends of two columns
    assert grades._far((np.full(2, -3.0), np.full(2, 3.0)), standard, n)[0] == 0.0
    # averages of a hundred times as many rows hide ten times as many
    many, _ = grades._far(box, standard, 1e4)
    more, _ = grades._far(box, standard, 1e6)
    usual = np.log(4.0)
    assert more * 1e6 + 10 * (usual + np.log(1e6)) == pytest.approx(10 * (many * 1e4 + usual + np.log(1e4)))


# -- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("worst", "words"),
    [
        ("judges", "a larger sketch"),
        ("rows", "more rows, fewer components"),
        ("far", "b clipped or transformed (it reaches from"),
    ],
)
def test_codes_follow_the_numbers_and_words_the_worst_part(worst: str, words: str) -> None:
    def said(code: Code, excess: float, bound: float) -> tuple[Code, str]:
        given = Grade(excess, bound, 0.1, 0.1, 0.1, 1, worst)
        return of_graded(code, "certificate", given, 3, ("a", "b"), (np.zeros(2), np.full(2, 9.0)))

    assert said(Code.RELIABLE, 0.01, CERTIFIED)[0] is Code.RELIABLE
    assert said(Code.UNDETERMINED, 0.01, 1.0)[0] is Code.UNDETERMINED
    assert said(Code.MISFIT, 0.01, GOOD)[0] is Code.GOOD
    for code in (Code.RELIABLE, Code.MISFIT):
        found, verdict = said(code, 0.01, CERTIFIED + 0.01)
        assert found is Code.DOUBTFUL
        assert f"Try first: {words}" in verdict
        assert said(code, BAD + 0.01, 2.0)[0] is Code.MISFIT


def test_problems_have_no_grade_where_nothing_explains_them(setting: Setting) -> None:
    sketch = sl.sketch(CUBE, sl.design(CUBE[:2000], n_components=2, task="gmm", seed=0))
    run = decode_problem(Problem.from_sketch(sketch), 2, "spherical", rng=np.random.default_rng(0), project=False)
    assert run.certificate.ratio > run.certificate.limit
    box = (sketch.lower, sketch.upper)
    assert grades.graded(run.setting, run.certificate, run.solution.mixture, None, box, certified=False) is None
