import numpy as np
import pytest

from sketchlearn.atoms import (
    DiagonalGaussian,
    EllipticStable,
    FullGaussian,
    KnownGaussian,
    SphericalGaussian,
    TiedGaussian,
    sample_stable,
)
from sketchlearn.features.operator import DenseOperator

MATRIX = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 1.5]])
ATOMS = [
    SphericalGaussian(),
    DiagonalGaussian(),
    FullGaussian(),
    TiedGaussian(),
    KnownGaussian(1.5),
    KnownGaussian([1.0, 2.0, 3.0]),
    KnownGaussian(MATRIX),
    EllipticStable("diag"),
    EllipticStable("full"),
]
IDS = ["spherical", "diag", "full", "tied", "known-1", "known-d", "known-full", "stable-diag", "stable-full"]


def _case(atom, k=3, d=3, m=40, seed=0):
    rng = np.random.default_rng(seed)
    means, w = rng.normal(size=(k, d)), rng.normal(size=(m, d))
    shapes = atom.round_shapes(rng.uniform(0.5, 2, k), d)
    shapes = shapes * rng.uniform(0.8, 1.2, shapes.shape) + 0.1 * rng.uniform(size=shapes.shape)
    x = rng.normal(size=(k, m)) + 1j * rng.normal(size=(k, m))
    return means, shapes, DenseOperator(w), x


@pytest.mark.parametrize("atom", ATOMS, ids=IDS)
@pytest.mark.parametrize("seed", range(3))
def test_gradients_agree_with_finite_differences(atom, seed):
    means, shapes, w, x = _case(atom, seed=seed)

    def value(c, s):
        return float((np.conj(x) * atom.value(c, s, w)).real.sum())

    step = 1e-5
    for array, gradient, f in (
        (means, atom.vjp(means, shapes, w, x)[0], lambda v: value(v, shapes)),
        (shapes, atom.vjp(means, shapes, w, x)[1], lambda v: value(means, v)),
    ):
        numeric = np.zeros_like(array)
        for i in np.ndindex(array.shape):
            e = np.zeros_like(array)
            e[i] = step
            # fourth order: the truncation error stays below 1e-10
            numeric[i] = (8 * (f(array + e) - f(array - e)) - f(array + 2 * e) + f(array - 2 * e)) / (12 * step)
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * max(np.abs(numeric).max(initial=0), 1e-3))


@pytest.mark.parametrize("atom", ATOMS, ids=IDS)
def test_value_is_one_at_frequency_zero(atom):
    means, shapes, _, _ = _case(atom)
    np.testing.assert_allclose(atom.value(means, shapes, DenseOperator(np.zeros((1, 3)))), 1.0, atol=1e-12)


@pytest.mark.parametrize("atom", ATOMS, ids=IDS)
def test_value_is_the_average_of_features(atom):
    """The mean of n features has standard error at most 1/sqrt(n) per part: 5 sigma over 2 x 30 numbers."""
    means, shapes, w, _ = _case(atom, k=1, m=30)
    n = 100_000
    rng = np.random.default_rng(1)
    facts = atom.describe(shapes, 3)
    if isinstance(atom, EllipticStable):
        x = sample_stable(n, float(facts["alphas"][0]), means[0], facts["scatters"][0], rng)
    else:
        s = np.asarray(facts["covariances"])
        s = s[0] if s.shape[:1] == (1,) else s
        s = s * np.eye(3) if s.ndim < 2 else s
        x = rng.multivariate_normal(means[0], s, n)
    np.testing.assert_allclose(np.exp(1j * w.forward(x)).mean(0), atom.value(means, shapes, w)[0], atol=5 / np.sqrt(n))


@pytest.mark.parametrize("atom", ATOMS, ids=IDS)
def test_bounds_contain_round_shapes(atom):
    low, high = atom.shape_bounds(3, 0.1, 10.0)
    shapes = atom.round_shapes([1.0, 2.0], 3)
    assert shapes.shape[1] == atom.shape_size(3) == len(low)
    assert (shapes >= low).all()
    assert (shapes <= high).all()


def test_stable_with_alpha_two_is_gaussian():
    means, shapes, w, _ = _case(FullGaussian())
    stable = np.hstack([np.full((3, 1), 2.0), shapes])
    np.testing.assert_allclose(
        EllipticStable("full").value(means, stable, w), FullGaussian().value(means, shapes, w), rtol=1e-12
    )


@pytest.mark.parametrize("alpha", [0.0, -1.0, 2.5])
def test_impossible_alpha_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha"):
        sample_stable(3, alpha, [0.0], [1.0], np.random.default_rng(0))


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="scatter_type"):
        EllipticStable("round")
    with pytest.raises(ValueError, match="covariance"):
        KnownGaussian([[np.nan]])
