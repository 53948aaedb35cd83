"""Grades of centres: what judges say, what the verdict makes of it, and where nothing can be said."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.decoders import Code
from sketchlearn.decoders.kmeans.advice import of_graded
from sketchlearn.decoders.kmeans.grade import PARTS, Concentration, Grade, Hidden, _Drawn, concentration
from sketchlearn.decoders.kmeans.judges import Draws, Opinions, _Court
from sketchlearn.decoders.problem import Problem
from tests.decoders.test_groups import excess

pytestmark = pytest.mark.filterwarnings("ignore::sketchlearn.DataWarning")

RNG = np.random.default_rng(5)
OBLONG = 6.0 * RNG.normal(size=(6, 4))[(_owner := RNG.integers(6, size=20_000))] + np.exp(RNG.normal(size=(6, 4)))[
    _owner
] * RNG.normal(size=(20_000, 4))
CLUSTERS = RNG.normal(size=(20_000, 2)) + 9.0 * RNG.integers(0, 2, (20_000, 1))


def decoded(X: np.ndarray, k: int, seed: int = 0, task: str = "kmeans", **options: object) -> sl.Model:
    return sl.decode(
        sl.sketch(X, sl.design(X[:2000], n_components=k, seed=seed, **options)), k, task=task, random_state=0
    )


def test_round_clusters_stay_reliable_and_data_of_other_shape_is_good() -> None:
    sure = decoded(CLUSTERS, 2)
    assert (sure.code, sure.verdict[:9]) == (Code.RELIABLE, "Reliable:")
    good = decoded(OBLONG, 6)
    assert (good.code, good.reliable, good.verdict[:5]) == (Code.GOOD, False, "Good:")
    for solution, X in ((sure, CLUSTERS), (good, OBLONG)):
        assert max(excess(X, solution.centers), solution.excess_cost_bound) <= 0.03
        assert 0.0 < solution.excess_cost <= solution.excess_cost_bound


def test_a_small_sketch_is_doubtful_and_the_verdict_asks_for_a_larger_one() -> None:
    solution = decoded(np.random.default_rng(0).uniform(size=(5000, 6)), 15, size=150)
    assert solution.excess_cost_bound > 0.03
    assert "a larger sketch (900 features; it has 150)" in solution.verdict


def test_five_far_rows_among_five_thousand_are_not_reliable() -> None:
    X = 8.0 * RNG.normal(size=(20, 10))[RNG.integers(20, size=5000)] + RNG.normal(size=(5000, 10))
    X[:5] = 100.0 * RNG.normal(size=(5, 10))
    phi = sl.design(X[1000:3000], n_components=20, seed=0)  # a map that has not seen them
    solution = sl.decode(sl.sketch(X, phi), 20, random_state=0)
    assert excess(X, solution.centers) > 0.05
    assert solution.code in (Code.DOUBTFUL, Code.MISFIT)
    assert "Try first: clip column" in solution.verdict
    assert "(it reaches" in solution.verdict
    assert "can't see" in solution.verdict


def test_a_cluster_that_no_centre_shows_is_named() -> None:
    X = np.random.default_rng(0).normal(size=(60_000, 2))
    X[:100] += [9.0, 0.0]
    solution = decoded(X[np.random.default_rng(1).permutation(len(X))], 2)
    assert re.search(r"A cluster of 0\.1\d % of the rows near \((8\.|9).* has no centre of its own", solution.verdict)


def test_few_rows_with_much_of_the_cost_are_named_with_their_column() -> None:
    X = np.random.default_rng(0).normal(size=(30_000, 4))
    X[:60, 2] = np.random.default_rng(1).uniform(30.0, 300.0, 60)
    phi = sl.design(X, n_components=3, seed=0).replace(columns=("a", "b", "price", "c"))
    verdict = sl.decode(sl.sketch(X, phi), 3, random_state=0).verdict
    assert "far out in price, carry" in verdict


def test_medians_have_a_grade_in_their_own_units() -> None:
    solution = decoded(OBLONG, 5, task="kmedians")
    assert "more than those of k-medians on all rows" in solution.verdict
    assert 0.0 < solution.excess_cost < solution.excess_cost_bound < 0.03


def test_nothing_is_said_where_noise_was_added_or_the_box_is_not_known() -> None:
    sketch = sl.sketch(OBLONG, sl.design(bounds=([-20.0] * 4, [20.0] * 4), n_components=3, seed=0))
    private = sl.privatize(sketch, epsilon=5.0, delta=1e-6, public_map=True)
    one_bit = sl.sketch(OBLONG, sl.FourierFeatures.draw(dim=4, size=500, scale=2.0, quantized=True, seed=0))
    for some in (private, one_bit):
        found = sl.decode(some, 3, random_state=0)
        assert np.isnan([found.excess_cost, found.excess_cost_bound]).all()
        assert found.code not in (Code.GOOD, Code.DOUBTFUL)


def test_estimators_and_files_have_the_numbers() -> None:
    km = sl.CompressiveKMeans(5, random_state=0).fit(OBLONG)
    model = sl.Model.of(km)
    again = sl.Model.from_json(model.to_json())
    assert (again.excess_cost, again.excess_cost_bound, again.code) == (
        km.excess_cost_,
        km.excess_cost_bound_,
        model.code,
    )
    assert f"{100 * km.excess_cost_:.2g} %" in [value for value, _ in model.numbers()]
    assert model.summary()["excess_cost_bound"] == km.excess_cost_bound_
    older = replace(model, excess_cost=float("nan"), excess_cost_bound=float("nan"))
    assert "excess_cost" not in older.to_json()
    assert np.isnan(sl.Model.from_json(older.to_json()).excess_cost)


def test_the_last_stage_of_the_trace_is_the_grade() -> None:
    solution = decoded(OBLONG, 4)
    last = solution.trace[-1]
    assert last["stage"] == "grade"
    assert set(PARTS[1:]) <= set(last)
    assert "more than the least cost (at most" in solution.explain()


# -- words ---------------------------------------------------------------------------------------


def grade(worst: str, **changes: object) -> Grade:
    said = Opinions(0.02, 0.01, 0.01, 0, 2.0)
    parts = dict.fromkeys(PARTS[1:], 0.001) | {worst: 0.05}
    made = Grade(0.02, 0.06, parts, said, 0.0, np.ones(2), 9.0, None, ())
    return replace(made, **changes)


PROBLEM = Problem.from_sketch(sl.sketch(CLUSTERS, sl.design(CLUSTERS[:2000], n_components=3, seed=0)))


def said(code: Code, given: Grade, what: str = "k-means", blind: bool = False) -> tuple[Code, str]:
    return of_graded(code, "Not certified. Certificate.", given, PROBLEM, ("age", "kids"), 3, what, blind, ())


@pytest.mark.parametrize(
    ("worst", "words"),
    [
        ("judges", "make a larger sketch"),
        ("coarse", "design a finer map, for more than 3 clusters"),
        ("tails", "clip age or take its logarithm (it reaches"),
        ("far", "clip age or take its logarithm (it reaches"),
    ],
)
def test_the_verdict_asks_for_what_takes_most_away(worst: str, words: str) -> None:
    code, verdict = said(Code.MISFIT, grade(worst))
    assert code is Code.DOUBTFUL
    cost = "the centres cost about 2 % more than those of k-means on all rows (at most 6 % more, with 90 % confidence)"
    assert verdict.startswith(f"Doubtful: {cost}. Try first: {words}")
    assert "k-medians or" not in said(Code.MISFIT, grade(worst), "k-medians")[1]


def test_a_column_without_far_values_is_not_to_be_clipped() -> None:
    for worst in ("tails", "far"):
        assert "Try first: make a larger sketch" in said(Code.MISFIT, grade(worst, reach=2.0))[1]


def test_codes_follow_the_numbers() -> None:
    for code, excess_cost, bound, expected in (
        (Code.RELIABLE, 0.001, 0.01, Code.RELIABLE),
        (Code.RELIABLE, 0.02, 0.06, Code.DOUBTFUL),
        (Code.UNDETERMINED, 0.001, 0.01, Code.UNDETERMINED),
        (Code.MISFIT, 0.001, 0.01, Code.GOOD),
        (Code.MISFIT, 0.02, 0.05, Code.DOUBTFUL),
        (Code.MISFIT, 0.2, 0.9, Code.MISFIT),
        (Code.UNCERTIFIED, 0.001, 0.01, Code.GOOD),
    ):
        assert said(code, grade("judges", excess=excess_cost, bound=bound))[0] is expected
    assert "no upper bound" in said(Code.MISFIT, grade("judges", excess=0.5, bound=1.5))[1]


def test_one_column_with_all_of_the_variance_is_to_be_standardised() -> None:
    verdict = said(Code.MISFIT, grade("judges", variances=np.array([1.0, 99.0])))[1]
    assert "standardise the columns (kids has 99 % of the variance), or make a larger sketch" in verdict


def test_what_else_is_known_is_said() -> None:
    more = grade("judges", concentration=Concentration(0.0003, 0.48, (1,)), hidden=(Hidden(0.01, np.zeros(2)),))
    verdict = said(Code.MISFIT, more, blind=True)[1]
    assert "0.03 % of the rows, far out in kids, carry 48 % of the cost" in verdict
    assert "A cluster of 1 % of the rows near" in verdict
    assert "can't see what the farthest rows in age cost" in verdict


@pytest.mark.parametrize(("columns", "words"), [(1, "b,"), (2, "b and c,"), (3, "several columns,")])
def test_few_rows_are_far_in_the_columns_that_hold_their_cost(columns: int, words: str) -> None:
    """Of 1000 rows six are far, each in one of some columns, of which the first has a little more."""
    apart = np.ones((1000, 4))
    for row in range(6):
        apart[row, 1 + row % columns] = 1000.0 - 10.0 * (row % columns)
    drawn = _Drawn(np.full(1000, 1e-3), np.zeros(1000, int), np.zeros(1000, int), apart)
    few = concentration(drawn, False)
    assert few is not None
    assert (few.rows, few.columns) == (pytest.approx(0.006), tuple(range(1, 1 + columns)))
    assert few.cost == pytest.approx(apart[:6].sum() / apart.sum())
    problem = Problem.from_sketch(sl.sketch(OBLONG, sl.design(OBLONG[:2000], n_components=3, seed=0)))
    given = grade("judges", concentration=few, variances=np.ones(4))
    verdict = of_graded(Code.MISFIT, "Not certified.", given, problem, tuple("abcd"), 3, "k-means", False, ())[1]
    assert f"0.6 % of the rows, far out in {words} carry" in verdict


def test_rows_on_their_centres_have_no_excess() -> None:
    centers = np.eye(3)
    for criterion in ("means", "medians"):
        court = _Court(centers, criterion, np.random.default_rng(0))
        draws = Draws(np.repeat(centers, 5, axis=0), np.ones(15), centers)
        assert court.between(draws, draws) == 0.0


def test_constant_columns_are_not_those_in_which_rows_are_far() -> None:
    for columns, words in (((0, 1), "far out in age, carry"), ((1,), "of the rows carry 48 % of the cost")):
        few = grade("judges", concentration=Concentration(0.0003, 0.48, columns))
        given = Code.MISFIT, "Not certified.", few, PROBLEM, ("age", "kids"), 3, "k-means", False, ("kids",)
        assert words in of_graded(*given)[1]
    least = grade("judges", concentration=Concentration(1e-9, 0.48, (0,)))
    assert "0.005 % of the rows, far out in age" in said(Code.MISFIT, least)[1]  # (one of 20 000)
    far = grade("judges")
    verdict = of_graded(Code.MISFIT, "Not certified.", far, PROBLEM, ("age", "kids"), 3, "k-means", True, ("age",))[1]
    assert "can't see" not in verdict


def test_one_feature_has_a_grade_without_halves() -> None:
    sketch = sl.sketch(OBLONG, sl.design(OBLONG[:2000], n_components=1, size=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(sl.DataWarning, match=r"1 cluster in .* has .* numbers.* arbitrary\. Sketch the rows again"):
            sl.decode(sketch, 1)
        warnings.simplefilter("ignore", sl.DataWarning)
        assert np.isfinite(sl.decode(sketch, 1, random_state=0).excess_cost)


def test_a_cluster_of_more_than_all_rows_is_no_promise() -> None:
    rows = np.concatenate([np.random.default_rng(1).normal(size=(2000, 1)), np.full((2000, 1), 8.0)])
    found = sl.decode(sl.sketch(rows[:5], sl.design(rows[:5], n_components=5)), 5, random_state=0)
    assert found.smallest >= 1.0
    assert "Another cluster may be there without being noticed, whatever its size" in found.verdict


def test_halves_with_fewer_numbers_than_the_centres_give_no_bound() -> None:
    """Judges agree with any centres there: three times the best cost was called good with 1 % at most."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = np.concatenate(
            [rng.normal(size=(2000, 2)) * [1, w] + p for w, p in ((1, [0, 0]), (1, [8, 8]), (3, [0, 12]))]
        )
        found = sl.decode(sl.sketch(X, sl.design(X, n_components=3, size=5, seed=seed)), 3, random_state=0)
        assert found.code in (Code.DOUBTFUL, Code.MISFIT, Code.UNDETERMINED)
        assert "no upper bound can be given" in found.verdict
