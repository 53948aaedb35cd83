import numpy as np
import pytest

from sketchlearn.decoders.families import (
    DIAGONAL,
    FULL,
    GAUSSIANS,
    SHARED,
    SPHERICAL,
    TIED,
    Factors,
    Known,
    Stable,
    sample_stable,
)
from sketchlearn.features.operator import DenseOperator

MATRIX = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 1.5]])
FAMILIES = {
    "shared": SHARED,
    "spherical": SPHERICAL,
    "diag": DIAGONAL,
    "full": FULL,
    "tied": TIED,
    "known-1": Known(1.5),
    "known-d": Known([1.0, 2.0, 3.0]),
    "known-full": Known(MATRIX),
    "factors": Factors(2),
    "stable-diag": Stable("diag"),
    "stable-full": Stable("full"),
}


def _case(family, k=3, d=3, m=40, seed=0):
    rng = np.random.default_rng(seed)
    means, w = rng.normal(size=(k, d)), rng.normal(size=(m, d))
    root = rng.normal(size=(k, d, d)) * 0.3 + np.eye(d)
    shapes = family.from_covariances(root @ np.swapaxes(root, 1, 2), np.ones(k))
    if family.boxed and family.name != "factors":
        shapes = shapes * rng.uniform(0.8, 1.2, shapes.shape) + 0.1 * rng.uniform(size=shapes.shape)
    if family.name == "factors":
        shapes = family.widened(rng.uniform(0.5, 2.0, (k, d)), np.ones(k), rng)
    return means, shapes, DenseOperator(w)


def _differences(f, array, step=1e-5):
    """Gradient of a function of an array by differences of fourth order, whose error is below 1e-10."""
    numeric = np.zeros_like(array)
    for i in np.ndindex(array.shape):
        e = np.zeros_like(array)
        e[i] = step
        numeric[i] = (8 * (f(array + e) - f(array - e)) - f(array + 2 * e) + f(array - 2 * e)) / (12 * step)
    return numeric


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
def test_gradients_agree_with_finite_differences(name, seed):
    family = FAMILIES[name]
    _, shapes, w = _case(family, seed=seed)
    x = np.random.default_rng(seed).normal(size=family.damping(shapes, w).shape)

    def value(s):
        return float((x * family.damping(s, w)).sum())

    numeric = _differences(value, shapes)
    if shapes.ndim == 3 and family.name != "factors":  # (forms of matrices look at one triangle)
        numeric = 0.5 * (numeric + np.swapaxes(numeric, 1, 2))
    gradient = family.damping_vjp(shapes, w, x)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * max(np.abs(numeric).max(initial=0), 1e-3))


@pytest.mark.parametrize("name", FAMILIES)
def test_slopes_are_the_derivatives_in_the_free_numbers(name):
    family = FAMILIES[name]
    _, shapes, w = _case(family)
    slopes = family.slopes(shapes, w)
    assert slopes.shape == (len(shapes), 40, family.numbers(3))
    step = np.random.default_rng(1).normal(size=(len(shapes), family.numbers(3)))
    moved = [family.damping(family.moved(shapes, h * step), w) for h in (1e-6, -1e-6)]
    expected = np.broadcast_to((moved[0] - moved[1]) / 2e-6, (len(shapes), 40)) if family.numbers(3) else 0.0
    np.testing.assert_allclose(np.einsum("lms,ls->lm", slopes, step), expected, rtol=1e-4, atol=1e-6)


def test_no_step_leaves_the_stabilities_there_are():
    shapes = np.array([[1.9, 1.0, 2.0]])
    np.testing.assert_allclose(Stable("diag").moved(shapes, np.array([[0.5, 0.5, -9.0]])), [[2.0, 1.5, 0.2]])


@pytest.mark.parametrize("name", FAMILIES)
def test_value_is_one_at_frequency_zero(name):
    means, shapes, _ = _case(FAMILIES[name])
    np.testing.assert_allclose(FAMILIES[name].values(means, shapes, DenseOperator(np.zeros((1, 3)))), 1.0, atol=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_value_is_the_average_of_features(name):
    """The mean of n features has standard error at most 1/sqrt(n) per part: 5 sigma over 2 x 30 numbers."""
    family, n = FAMILIES[name], 100_000
    means, shapes, w = _case(family, k=1, m=30)
    x = means[0] + family.draw(shapes, np.zeros(n, np.intp), 3, np.random.default_rng(1))
    features = np.exp(1j * w.forward(x)).mean(0)
    np.testing.assert_allclose(features, family.values(means, shapes, w)[0], atol=5 / np.sqrt(n))


@pytest.mark.parametrize("name", FAMILIES)
def test_pairs_are_the_covariances_of_features(name):
    """Less what a row contributes to its mean, if the family says so: 5 sigma of averages of numbers up to 4."""
    family, n = FAMILIES[name], 100_000
    _, shapes, w = _case(family, k=1, m=6)
    x = family.draw(shapes, np.zeros(n, np.intp), 3, np.random.default_rng(1))
    phases, e = w.forward(x), np.exp(family.damping(shapes, w))[0]
    left = np.exp(1j * phases) - e * (1 + 1j * phases if family.projected else 1)
    direct, conjugate = family.pairs(w.frequencies(), shapes)
    np.testing.assert_allclose(left.T @ left.conj() / n, direct, atol=20 / np.sqrt(n))
    np.testing.assert_allclose(left.T @ left / n, conjugate, atol=20 / np.sqrt(n))


@pytest.mark.parametrize("name", FAMILIES)
def test_bounds_contain_round_shapes(name):
    family = FAMILIES[name]
    low, high = family.bounds(3, 0.1, 10.0)
    shapes = family.rounded([1.0, 2.0], 3)
    assert shapes.shape[1:] == low.shape
    assert (shapes >= low).all()
    assert (shapes <= high).all()
    np.testing.assert_allclose(np.diagonal(family.covariances(shapes, 2, 3), axis1=1, axis2=2).shape, (2, 3))


def test_stable_with_alpha_two_is_gaussian():
    means, shapes, w = _case(DIAGONAL)
    stable = np.hstack([np.full((3, 1), 2.0), shapes])
    np.testing.assert_allclose(Stable("diag").values(means, stable, w), DIAGONAL.values(means, shapes, w), rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, -1.0, 2.5])
def test_impossible_alpha_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha"):
        sample_stable(3, alpha, [0.0], [1.0], np.random.default_rng(0))


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="scatter_type"):
        Stable("round")
    with pytest.raises(ValueError, match="covariance"):
        Known([[np.nan]])


def test_names_of_earlier_versions_are_still_known():
    import sketchlearn.atoms

    with pytest.warns(FutureWarning, match="families.Known"):
        assert sketchlearn.atoms.KnownGaussian is Known
    assert set(GAUSSIANS) == {"spherical", "diag", "full", "tied"}
