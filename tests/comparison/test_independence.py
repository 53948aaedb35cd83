"""Independence of two groups of columns: calibrated, sensitive, exact."""

import json
from itertools import permutations

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.comparison import two_groups
from sketchlearn.features import SplitFeatures


def test_p_values_of_independent_groups_are_uniform():
    rng = np.random.default_rng(0)

    def rows(n=300):
        return np.column_stack([rng.exponential(size=n), rng.integers(2, size=n), rng.standard_t(4, size=n)])

    phi = sl.design_independence(rows(2000), first=[0, 1], size=20)
    found = np.array([sl.independence(sl.sketch(rows(), phi, workers=1)).p_value for _ in range(200)])
    for level in (0.05, 0.25, 0.5):  # within four standard deviations of the share, and the error of the tail
        assert abs(np.mean(found < level) - level) < 4 * np.sqrt(level * (1 - level) / 200) + 0.02


@pytest.mark.parametrize("kind", ["square", "interaction", "line"])
def test_dependence_is_found(kind):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1500, 2))
    y = {"square": x[:, 0] ** 2, "interaction": np.sign(x[:, 0] * x[:, 1]), "line": 0.5 * x[:, 0]}[kind]
    X = np.column_stack([x, y + rng.normal(size=1500)])
    phi = sl.design_independence(X[:500], first=[0, 1])
    found = sl.independence(sl.sketch(X, phi))
    assert found.p_value < 1e-6
    assert 0 < found.dependence < 1
    halves = sl.sketch(X[:700], phi) + sl.sketch(X[700:], phi)
    assert sl.independence(halves) == found
    assert sl.independence(halves - sl.sketch(X[:700], phi)) == sl.independence(sl.sketch(X[700:], phi))


def test_the_statistic_is_that_of_the_features():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 3))
    phi = sl.design_independence(X, first=[2], size=10, seed=3)
    F = phi.embed(X)
    covariance = np.cov(F.T)
    a = np.r_[np.arange(10), 20 + np.arange(10)]
    b = np.setdiff1d(np.arange(40), a)
    found = sl.independence(sl.sketch(X, phi))
    assert found.statistic == pytest.approx(np.sum(covariance[np.ix_(a, b)] ** 2) * 399 / 400, rel=1e-6)
    traces = np.trace(covariance[np.ix_(a, a)]), np.trace(covariance[np.ix_(b, b)])
    assert found.expected == pytest.approx(traces[0] * traces[1] / 400, rel=1e-6)


def test_frames_files_and_recipes(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(np.random.default_rng(3).normal(size=(300, 3)), columns=["a", "b", "c"])
    phi = sl.design_independence(frame, first=["c", "a"], size=5)
    assert phi.inner.groups == ((2, 0), (1,))
    assert phi.columns == ("a", "b", "c")
    s = sl.sketch(frame, phi)
    s.save(tmp_path / "a.sketch")
    assert sl.independence(sl.load(tmp_path / "a.sketch")) == sl.independence(s)
    inner = phi.inner
    assert sl.FeatureMap.from_recipe(json.loads(inner.recipe_json())) == inner
    np.testing.assert_allclose(sl.sketch(frame.to_numpy(), inner).mean, inner(frame.to_numpy()).mean(0), atol=1e-6)
    for change, word in [
        ({"first": [0]}, "different columns"),
        ({"parts": []}, "two parts"),
        ({"size": 3}, "otherwise"),
    ]:
        with pytest.raises(ValueError, match=word):
            sl.FeatureMap.from_recipe(inner.recipe() | change)


def test_bad_arguments_are_refused():
    X = np.random.default_rng(4).normal(size=(50, 3))
    for first in ([], [0, 1, 2], [0, 0], [7], ["a"], [True]):
        with pytest.raises(ValueError, match="first"):
            sl.design_independence(X, first=first)
    with pytest.raises(ValueError, match="size"):
        sl.design_independence(X, first=[0], size=0)
    with pytest.raises(ValueError, match="pilot"):
        sl.design_independence(X[:, :1], first=[0])
    plain = sl.FourierFeatures.draw(dim=3, size=4, scale=1.0)
    with pytest.raises(TypeError, match="two groups"):
        sl.independence(sl.sketch(X, sl.EmbeddedFeatures.of(plain)))
    with pytest.raises(TypeError, match="products"):
        sl.independence(sl.sketch(X, plain))
    with pytest.raises(ValueError, match="five rows"):
        sl.independence(sl.sketch(X[:3], sl.design_independence(X, first=[0], size=3)))
    with pytest.raises(ValueError, match="plain"):
        SplitFeatures.of(plain.redrawn(quantized=True), plain, [0, 1, 2])


def test_a_constant_group_is_independent():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), np.full(500, 3.0), rng.normal(size=500)])
    phi = sl.design_independence(rng.normal(size=(100, 3)), first=[1])
    found = sl.independence(sl.sketch(X, phi))
    assert (found.p_value, found.dependence, found.dependent()) == (1.0, 0.0, False)


def test_mean_and_variance_are_those_of_all_permutations():
    """All 720 orders of six rows, computed from the features themselves."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 2)) * (rng.random((6, 2)) < 0.7)
    phi = sl.design_independence(rng.normal(size=(100, 2)), first=[0], size=5)
    sketch = sl.sketch(X, phi)
    mean, second = phi.moments_from_sums(sketch.sums, 6.0)
    z = phi.inner(X)
    waves = np.concatenate([z.real, z.imag], 1)
    size, half = phi.inner.size, phi.inner.parts[0].size
    first = np.r_[:half, size : size + half]
    other = np.setdiff1d(np.arange(2 * size), first)
    f, g = (waves[:, at] - waves[:, at].mean(0) for at in (first, other))
    seen = np.array([np.sum((f.T @ g[list(order)] / 6) ** 2) * 6 / 5 for order in permutations(range(6))])
    groups = (two_groups._Group.of(mean[at], second[np.ix_(at, at)], 6.0) for at in (first, other))
    middle, pairs, rows = two_groups.permuted(*groups, 6.0)
    np.testing.assert_allclose((middle, pairs + rows), (seen.mean(), seen.var()), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["zeros", "cauchy"])
def test_sizes_on_rows_with_many_zeros_and_heavy_tails(law):
    """5 % of 300 are 15, give or take 3.8; the law of many rows alone gives 8 to 14 %."""

    def rows(n=150):
        found = rng.normal(size=(n, 2)) * (rng.random((n, 2)) < 0.05)
        return found if law == "zeros" else rng.standard_cauchy((n, 2))

    rng = np.random.default_rng(0)
    phi = sl.design_independence(rows(1000), first=[0], size=10)
    p = np.array([sl.independence(sl.sketch(rows(), phi, workers=1)).p_value for _ in range(300)])
    assert (p < 0.05).sum() <= 15 + 3 * 3.8
    assert (p < 0.01).sum() <= 3 + 3 * 1.7


def test_kernels_are_as_wide_as_the_middle_of_the_rows():
    """A kernel as wide as the standard deviation of Cauchy rows sees the few far rows alone, and finds nothing."""
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.standard_cauchy((500, 2))
        X[:, 1] *= 1.0 + (np.abs(X[:, 0]) > 1.0)
        phi = sl.design_independence(X[:200], first=[0], size=20, seed=seed)
        found += sl.independence(sl.sketch(X, phi, workers=1)).p_value < 0.05
    assert found >= 36
