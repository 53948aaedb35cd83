"""How many clusters: one rule for the recommendation and the verdict, which knows the number of rows."""

import numpy as np
import pytest
from clusters import gaussian_clusters
from sklearn import datasets

import sketchlearn as sl
from sketchlearn.decoders import Code


def agrees(km):
    table = km.sweep_
    assert table.solution is km.solution_
    row = next(row for row in table if row.k == table.recommended)
    assert row.code is km.solution_.code
    assert ("not certified" in table.reason) == (not km.reliable_)
    assert sum(row.code is Code.RELIABLE for row in table) == km.reliable_
    return table.recommended


@pytest.mark.parametrize(("name", "clusters"), [("iris", {2, 3}), pytest.param("wine", {3}, marks=pytest.mark.slow)])
def test_small_tables_are_not_split_into_pieces(name, clusters):
    X = getattr(datasets, f"load_{name}")().data
    found = {agrees(sl.CompressiveKMeans("auto", standardize=True, random_state=s).fit(X)) for s in range(2)}
    assert found <= clusters  # 13 to 18 of iris before
    assert max(found) - min(found) <= 1


def test_a_few_rows_have_few_clusters():
    X = np.random.default_rng(0).normal(size=(25, 2))
    assert agrees(sl.CompressiveKMeans("auto", random_state=0).fit(X)) == 1  # at least twenty rows per cluster


@pytest.mark.parametrize(("k", "n"), [(3, 600), (7, 5000)])
def test_clusters_are_counted_and_certified(k, n):
    X = gaussian_clusters(k, 3, 60, n=n, seed=k)[0]
    km = sl.CompressiveKMeans("auto", random_state=0).fit(X)
    assert agrees(km) == k
    assert km.reliable_


def test_the_cost_never_rises_with_k():
    X = np.random.default_rng(0).uniform(size=(2000, 3))
    table = sl.sweep(sl.sketch(X, sl.design(X, n_components=12)), range(1, 13), random_state=0)
    assert (np.diff(table.column("inertia")) <= 0).all()


def test_a_mixture_of_fewer_components_is_named():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(3000, 2)) * [12.0, 0.5], rng.normal(size=(3000, 2)) * [0.5, 12.0] + [30, 30]])
    table = sl.sweep(sl.sketch(X, sl.design(X, n_components=10)), range(1, 11), random_state=0)
    assert table.recommended == 2  # long clusters are not cut
    assert "round clusters don't explain the sketch, but a Gaussian mixture with 2 components does" in table.reason
    assert table.solution.code is not Code.RELIABLE


def test_what_a_sweep_does_not_take_is_named():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    s = sl.sketch(rows, sl.design(rows, n_components=2, task="gmm"))
    wrong = [
        (
            "gmm",
            {"covariances": 1.0},
            "a sweep of task='gmm' has no option 'covariances': there are covariance_type, ex",
        ),
        ("kmeans", {"starts": 3}, "a sweep of task='kmeans' has no option 'starts': there are none"),
        ("stable", {"starts": 3}, "'starts': there are scatter_type"),
    ]
    for task, options, message in wrong:
        with pytest.raises(TypeError, match=message):
            sl.sweep(s, [1, 2], task=task, **options)
    with pytest.raises(ValueError, match="must be whole, got 1"):
        sl.sweep(s, [1, 1.5])
