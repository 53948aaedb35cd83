"""Rows made from a sketch, and whether rows follow a law."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.comparison.points import misfit


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    t = rng.uniform(0, np.pi, 6000)
    return np.column_stack([2 * np.cos(t), 2 * np.sin(t)]) + 0.1 * rng.normal(size=(6000, 2))


@pytest.fixture(scope="module")
def sketch(rows):
    return sl.sketch(rows, sl.FourierFeatures.draw(dim=2, size=200, scale=0.7, radial="gaussian", seed=1))


@pytest.fixture(scope="module")
def law(rows):
    """A crude description, so that moving has something to do."""
    return sl.Mixture(np.ones(1), rows.mean(0)[None], np.cov(rows.T)[None])


def test_moved_points_are_worth_many_rows(rows, sketch, law):
    fresh = sl.FourierFeatures.draw(dim=2, size=500, scale=0.7, radial="gaussian", seed=9)
    operator, z = fresh.operator(dtype=np.float64), fresh(rows).mean(0)
    rng = np.random.default_rng(2)
    random = np.mean([misfit(rows[rng.choice(len(rows), 50)], operator, z) for _ in range(20)])
    points = sl.synthesize(sketch, 50, mixture=law, random_state=0)
    assert points.shape == (50, 2)
    assert misfit(points, operator, z) < random / 4
    np.testing.assert_array_equal(points, sl.synthesize(sketch, 50, mixture=law, random_state=0))


def test_draws_come_from_the_mixture(sketch, law):
    drawn = sl.synthesize(sketch, 3000, mixture=law, random_state=0)
    np.testing.assert_allclose(drawn.mean(0), law.mean, atol=5 * np.sqrt(law.total_variance / 3000))
    assert sl.synthesize(sketch, 3, method="mixture", mixture=law, random_state=0).shape == (3, 2)
    assert sl.synthesize(sketch, 5, random_state=0).shape == (5, 2)


def test_bad_requests_are_refused(sketch, law):
    for options, word in [
        ({"n": 0}, "positive"),
        ({"n": 5, "method": "magic"}, "choose"),
        ({"n": 5, "mixture": sl.Mixture(np.ones(1), np.zeros((1, 3)), np.ones(1))}, "columns"),
    ]:
        with pytest.raises(ValueError, match=word):
            sl.synthesize(sketch, **options)
    with pytest.raises(TypeError, match="Fourier"):
        sl.synthesize(sl.sketch(np.eye(2), sl.QuadraticFeatures.draw(dim=2)), 5)
    with pytest.raises(ValueError, match="two rows"):
        sl.synthesize(sl.sketch(np.zeros((1, 2)), sketch.features), 5)


# -- goodness of fit ------------------------------------------------------------------------------

MIXTURE = sl.Mixture(
    np.array([0.3, 0.7]),
    np.array([[-1.5, 0.0], [1.0, 0.5]]),
    np.array([[[0.4, 0.1], [0.1, 0.2]], [[1.0, 0], [0, 0.5]]]),
)


def p_values(n, repeats, seed, law=MIXTURE, weights=None):
    phi = sl.FourierFeatures.draw(dim=2, size=60, scale=0.8, seed=3)
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(repeats):
        drawn = rng.permutation(MIXTURE.sample(n, rng)[0])
        out.append(sl.goodness_of_fit(sl.sketch(drawn, phi, sample_weight=weights), law).p_value)
    return np.array(out)


def test_rows_of_the_mixture_are_rejected_as_often_as_promised():
    p = p_values(400, 300, seed=5)
    # three standard deviations of a share of 300
    assert np.mean(p < 0.05) == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / 300))
    assert np.mean(p < 0.5) == pytest.approx(0.5, abs=3 * np.sqrt(0.25 / 300))


def test_other_laws_are_found_out():
    wider = sl.Mixture(MIXTURE.weights, MIXTURE.means, MIXTURE.covariances * 1.3)
    assert np.median(p_values(4000, 5, seed=6, law=wider)) < 1e-3
    weights = np.where(np.arange(4000) < 2000, 0.5, 1.5)
    assert np.median(p_values(4000, 9, seed=7, weights=weights)) > 0.02


def test_a_fit_needs_rows_and_a_mixture(sketch):
    with pytest.raises(ValueError, match="two rows"):
        sl.goodness_of_fit(sl.sketch(np.zeros((1, 2)), sketch.features), MIXTURE)
    with pytest.raises(TypeError, match="mixture"):
        sl.goodness_of_fit(sketch, "normal")
    found = sl.goodness_of_fit(sketch, MIXTURE)
    assert found.counts == (6000, np.inf)
    assert found.differs(1e-6)


def test_rows_respect_the_box_bounds_whole_numbers_and_labels():
    rng = np.random.default_rng(0)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"children": rng.poisson(1.0, 3000), "age": rng.uniform(18, 80, 3000), "plan": rng.choice(["a", "b"], 3000)}
    )
    encoder = sl.Encoder.fit(frame)
    phi = sl.design(frame[:500], encoder=encoder, n_components=5, standardize=True)
    s = sl.sketch(frame, phi)
    for method in ("mixture", "points"):
        made = sl.synthesize(s, 300, method=method, integers=["children"], bounds=(0.0, 70.5), random_state=0)
        children, age, plan = made[:, 0], made[:, 1], made[:, 2:]
        assert (children == np.rint(children)).all()
        assert children.min() >= 0
        assert children.max() <= frame["children"].max()
        assert age.min() >= 18
        assert age.max() <= 70.5
        assert np.isin(plan, (0.0, 1.0)).all()
        assert (plan.sum(1) <= 1).all()
        # means: 300 draws of deviation 1, and rounding at the edge of the box
        assert abs(children.mean() - 1.0) < 0.3
    with pytest.raises(ValueError, match="no column 'kids'; there are children"):
        sl.synthesize(s, 10, integers=["kids"])
