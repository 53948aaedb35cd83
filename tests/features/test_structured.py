"""Structured Fourier and quadratic features: algebra, kernels, recipes, decoding."""

import pickle

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.features import structured
from sketchlearn.features.operator import DerivedOperator

KINDS = ("hadamard", "gr2", "fastfood")


def draw(kind, d=20, m=100, **options):
    return sl.FourierFeatures.draw(dim=d, size=m, scale=2.0, seed=3, structure=kind, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("d", "m"), [(16, 16), (20, 100), (64, 130), (100, 300)])
def test_operator_is_its_matrix(kind, d, m):
    phi = draw(kind, d, m)
    w = phi.frequencies
    assert w.shape == (m, d)
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(4, d)), rng.normal(size=(4, m))
    for dtype, tol in ((np.float64, 1e-11), (np.float32, 2e-5)):
        op = phi.operator(dtype=dtype)
        assert op.shape == (m, d)
        assert op.dtype == dtype
        np.testing.assert_allclose(op.forward(x), x @ w.T, atol=tol * 10)
        np.testing.assert_allclose(op.adjoint(v), v @ w, atol=tol * 100)
        np.testing.assert_allclose((op.forward(x) * v).sum(1), (x * op.adjoint(v)).sum(1), atol=tol * 1000)
        np.testing.assert_allclose(op.squared_norms, (w * w).sum(1), rtol=tol * 10)
        s = rng.uniform(0.5, 2, size=(2, d))
        np.testing.assert_allclose(op.quadratic(s), s @ (w * w).T, rtol=tol * 100)
        index = np.array([5, -1, 5, m - 1])
        chosen = np.where(index[:, None] < 0, 0.0, w[index])
        np.testing.assert_allclose(op.rows(index).forward(x), x @ chosen.T, atol=tol * 10)
        np.testing.assert_allclose(op.scaled(0.3).forward(x), 0.3 * x @ w.T, atol=tol * 10)
        units = rng.uniform(0.5, 2, d)
        np.testing.assert_allclose(op.transformed(np.diag(units)).forward(x), (x / units) @ w.T, atol=tol * 30)
        full = np.eye(d) + 0.01 * rng.normal(size=(d, d))
        np.testing.assert_allclose(op.transformed(full).forward(x), x @ np.linalg.inv(full).T @ w.T, atol=tol * 30)
        lengths, back = op.normal(v[0], x)
        np.testing.assert_allclose(lengths, ((x @ w.T) ** 2).sum(0), rtol=tol * 100, atol=tol)
        np.testing.assert_allclose(back, ((x @ w.T) * v[0]) @ w, atol=tol * 1000)


def unit_blocks(kind, d, seed):
    """Directions of whole blocks: all radii 1."""
    p = structured.padded(d)
    blocks = structured.Blocks.draw(kind, d, seed, np.ones(3 * p))
    op = structured.StructuredOperator(blocks, np.ones(p), 1.0, np.float64)
    return op.forward(np.eye(p)).T


@pytest.mark.parametrize("kind", KINDS)
def test_rows_have_length_one(kind):
    np.testing.assert_allclose((unit_blocks(kind, 64, 1) ** 2).sum(1), 1.0, rtol=1e-6)


def test_hadamard_blocks_are_orthonormal():
    w = unit_blocks("hadamard", 128, 2)
    for block in np.split(w, 3):
        np.testing.assert_allclose(block @ block.T, np.eye(128), atol=1e-6)


@pytest.mark.parametrize("kind", ["gr2", "fastfood"])
def test_mean_kernel_is_gaussian(kind):
    """Five columns padded to eight: the average of cos w·(x - y) over blocks is the Gaussian kernel."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 5)) * [[0.5], [1.0], [2.0]]
    blocks = 1000  # of one map: they are drawn independently of each other
    phi = sl.FourierFeatures.draw(
        dim=5, size=8 * blocks, scale=1.3, radial="gaussian", seed=0, structure=kind, radii="iid"
    )
    values = np.cos(phi.operator(dtype=np.float64).forward(x)).reshape(3, blocks, 8).mean(2)
    expected = np.exp(-0.5 * (x**2).sum(1) / 1.3**2)
    error = values.std(1, ddof=1) / np.sqrt(blocks)
    assert (np.abs(values.mean(1) - expected) < 3 * error).all()
    assert (error < 0.01).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("law", ["gaussian", "adapted", "folded", "multiscale"])
def test_mean_square_frequency_is_that_of_the_scale(kind, law):
    phi = sl.FourierFeatures.draw(dim=40, size=4000, scale=0.7, radial=law, seed=1, structure=kind)
    assert (phi.norms**2).mean() == pytest.approx(40 / 0.7**2, rel=0.06)


def test_hadamard_is_refused_in_low_dimension():
    with pytest.raises(ValueError, match="at least 16 columns, got 15"):
        draw("hadamard", 15)
    assert draw("gr2", 5, 10).structure == "gr2"


def test_auto_takes_blocks_in_high_dimension_only():
    assert draw("auto", 20).structure == "dense"
    assert draw("auto", 64, 640).structure == "hadamard"
    assert draw("auto", 64, 30).structure == "dense"
    full = np.eye(64) + 0.1
    assert draw("auto", 64, 640, whitening=full).structure == "dense"
    with pytest.raises(ValueError, match="only with diagonal whitening"):
        draw("hadamard", 64, 640, whitening=full)
    with pytest.raises(ValueError, match="choose one of"):
        draw("circulant")


def test_storage_is_linear_in_the_size():
    phi = sl.FourierFeatures.draw(8192, 81_920, 90.0, "multiscale", structure="hadamard")
    assert phi.random_array().nbytes == 81_920 * (3 / 8 + 4)
    assert phi.operator().nbytes < 2e6


@pytest.mark.parametrize("kind", KINDS)
def test_pass_agrees_with_the_features_and_the_recipe_is_enough(kind):
    rng = np.random.default_rng(1)
    center = np.full(20, 5.0)
    phi = draw(kind, center=center)
    X = rng.normal(size=(500, 20)) + 5
    s = sl.sketch(X, phi)
    np.testing.assert_allclose(s.mean, phi(X).mean(0), atol=1e-6)
    np.testing.assert_allclose(s.mean, np.exp(1j * X @ phi.frequencies.T).mean(0), atol=1e-6)
    again = sl.FeatureMap.from_recipe(phi.recipe())
    assert again == phi
    assert again.fingerprint == phi.fingerprint
    for embed in (False, True):
        loaded = sl.Sketch.from_bytes(s.to_bytes(embed_frequencies=embed))
        assert loaded == s
        np.testing.assert_array_equal(loaded.mean, s.mean)
    assert pickle.loads(pickle.dumps(phi)) == phi
    assert phi != draw("dense", center=center)


def test_a_dense_recipe_has_the_fields_it_always_had():
    assert set(draw("dense").recipe()) == {
        "kind", "version", "dim", "size", "scale", "radial", "directions", "radii", "seed", "center", "whitening",
    }  # fmt: skip


def test_standardised_columns_stay_structured():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 32)) * np.geomspace(1e-3, 1e3, 32) + 7
    phi = sl.FourierFeatures.draw(dim=32, size=64, scale=3.0, seed=0, structure="hadamard")
    raw = phi.standardized(X.mean(0), X.std(0))
    a, b = sl.sketch(X, raw).mean, sl.sketch((X - X.mean(0)) / X.std(0), phi).mean
    np.testing.assert_allclose(np.abs(a), np.abs(b), atol=1e-4)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_extreme_scales_lose_nothing(scale):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(50, 20))
    a = sl.sketch(X * scale, sl.FourierFeatures.draw(dim=20, size=50, scale=scale, seed=0, structure="hadamard")).mean
    b = sl.sketch(X, sl.FourierFeatures.draw(dim=20, size=50, scale=1.0, seed=0, structure="hadamard")).mean
    np.testing.assert_allclose(a, b, atol=1e-5)


def inertia(X, centers):
    return ((X[:, None] - centers) ** 2).sum(2).min(1).mean()


@pytest.mark.parametrize("kind", KINDS)
def test_clusters_are_found_from_structured_sketches(kind):
    rng = np.random.default_rng(4)
    centers = rng.normal(size=(4, 20)) * 4
    X = centers[rng.integers(4, size=4000)] + rng.normal(size=(4000, 20))
    phi = sl.design(X[:500], n_components=4, seed=0, structure=kind)
    solution = sl.decode(sl.sketch(X, phi), 4, random_state=0)
    assert solution.reliable
    assert inertia(X, solution.centers) < 1.01 * inertia(X, centers)


@pytest.mark.parametrize("kind", ["dense", "hadamard"])
def test_greedy_decoding_finds_the_centres(kind):
    """At m = 10 k d dense and structured maps alike end 0.2 to 0.5 from the centres; twice as many leave a margin."""
    rng = np.random.default_rng(4)
    centers = rng.normal(size=(3, 20)) * 4
    X = centers[rng.integers(3, size=3000)] + rng.normal(size=(3000, 20))
    phi = sl.design(X[:500], n_components=3, size=1200, scale="separation", seed=0, structure=kind)
    solution = sl.decode(sl.sketch(X, phi), 3, decoder="clompr", random_state=0)
    assert np.sqrt(((solution.centers[:, None] - centers) ** 2).sum(2)).min(0).max() < 0.5
    assert solution.reliable


def test_a_mixture_is_found_from_a_structured_sketch():
    rng = np.random.default_rng(4)
    centers = rng.normal(size=(3, 16)) * 4
    X = centers[rng.integers(3, size=20_000)] + rng.normal(size=(20_000, 16))
    phi = sl.design(X[:1000], n_components=3, task="gmm", covariance_type="spherical", seed=0, structure="hadamard")
    solution = sl.decode(sl.sketch(X, phi), 3, task="gmm", covariance_type="spherical", random_state=0)
    found = solution.mixture.means
    assert np.sqrt(((found[:, None] - centers) ** 2).sum(2)).min(0).max() < 0.5


@pytest.mark.parametrize("radius", [None, 60.0])
@pytest.mark.parametrize("d", [32, 50])
def test_structured_quadratic_features(d, radius):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) @ rng.normal(size=(3, d)) + 2
    phi = sl.QuadraticFeatures.draw(dim=d, size=12 * d, seed=1, variant="hadamard", radius=radius)
    w = phi.direction_operator().forward(np.eye(d)).T
    np.testing.assert_allclose(phi(X), (X @ w.T) ** 2, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(phi.direction_operator().squared_norms, (w * w).sum(1), rtol=1e-6)
    s = sl.sketch(X, phi)
    np.testing.assert_allclose(s.mean, phi(X).mean(0), rtol=1e-5 if radius is None else 1e-2, atol=1e-3)
    parts = sl.sketch(X[:700], phi) + sl.sketch(X[700:], phi)
    if radius is None:
        np.testing.assert_allclose(parts.mean, s.mean, rtol=1e-6)
    else:
        assert parts == s
    assert sl.Sketch.from_bytes(s.to_bytes(embed_frequencies=True)) == s
    V = sl.CompressivePCA(n_components=3, random_state=0).fit_sketch(s).components_
    C = np.cov(X.T)
    assert np.trace(V @ C @ V.T) / np.trace(C) > 0.999


def test_quadratic_structure_by_name():
    phi = sl.QuadraticFeatures.draw(dim=100, size=500, seed=0)
    assert phi.redrawn("dense") == phi
    assert phi.redrawn("auto").variant == "hadamard"
    with pytest.raises(ValueError, match="quadratic features know"):
        phi.redrawn("gr2")
    with pytest.raises(ValueError, match="has no structure"):
        sl.QuadraticFeatures.draw(dim=20).redrawn("hadamard")
    with pytest.raises(ValueError, match="at least 16"):
        sl.QuadraticFeatures.draw(dim=10, size=20, variant="hadamard")


@pytest.mark.parametrize("kind", KINDS)
def test_some_of_the_frequencies_are_whole_blocks(kind):
    phi, rng = draw(kind, 20, 300), np.random.default_rng(1)
    op = phi.operator(dtype=np.float64)
    chosen = op.sample(70, rng)
    np.testing.assert_array_equal(chosen, np.arange(96))  # blocks of 32
    part = op.rows(chosen)
    assert isinstance(part, structured.StructuredOperator)
    x, v = rng.normal(size=(3, 20)), rng.normal(size=(3, 96))
    np.testing.assert_array_equal(part.forward(x), op.forward(x)[:, :96])
    np.testing.assert_allclose(part.adjoint(v), v @ phi.frequencies[:96], atol=1e-10)
    np.testing.assert_allclose(part.squared_norms, op.squared_norms[:96], rtol=1e-12)
    assert len(op.sample(299, rng)) == 300


@pytest.mark.parametrize("kept", [2**26, 5000, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_squares_are_those_of_the_matrix_whether_kept_or_not(kind, kept, monkeypatch):
    """In tiles of some blocks, for pieces, for a frequency 0 behind a whole block, in other units."""
    monkeypatch.setattr(structured, "_KEPT_ENTRIES", kept)
    monkeypatch.setattr(structured, "_TILE", 64)
    monkeypatch.setattr(structured, "_BLOCK", 64 * 7)  # columns, too
    rng, units = np.random.default_rng(1), np.linspace(0.1, 10.0, 20)
    op = draw(kind, 20, 320, whitening=np.diag(1.0 / units)).operator(dtype=np.float32)
    w = np.vstack([op.frequencies().astype(np.float64), np.zeros(20)])
    whole = op.rows(np.append(np.arange(320), -1))
    assert isinstance(whole, structured.StructuredOperator)
    half = rng.permutation(320)[:150]
    other = op.scaled(0.3).transformed(np.diag(units))
    cases = [(whole, w), (DerivedOperator(op, half), w[half]), (other, 0.3 * w[:-1] / units)]
    cases += [(part, w[at]) for at, part in whole.pieces(130)]
    assert [part.shape[0] for part, _ in cases[3:]] == [128, 128, 65]
    for part, matrix in cases:
        s, v = rng.uniform(0.5, 2, (3, 20)), rng.normal(size=(3, len(matrix)))
        for exponent in (2, 4):
            square = matrix**exponent
            for _ in range(2):  # made, and kept
                np.testing.assert_allclose(part.powers(s, exponent), s @ square.T, rtol=1e-4)
            error = part.powers_adjoint(v, exponent) - v @ square
            assert np.abs(error).max() < 1e-5 * np.abs(square).sum(0).max()
    assert sum(tile.size for tile in op._squares._kept.values()) <= kept
    assert bool(op._squares._kept) == bool(kept)


def test_short_transforms_are_a_matrix_where_that_is_cheaper():
    short, long = (draw("hadamard", d, 300).operator(dtype=np.float64) for d in (20, 200))
    assert long.cheapest() is long
    x = np.random.default_rng(0).normal(size=(3, 20))
    assert not isinstance(short.cheapest(), structured.StructuredOperator)
    np.testing.assert_allclose(short.cheapest().forward(x), short.forward(x), atol=1e-12)
    part = long.rows(np.array([3, 5, 200])).as_matrix()
    assert part.as_matrix() is part
    y = np.random.default_rng(1).normal(size=(2, long.shape[1]))
    np.testing.assert_allclose(part.forward(y), long.forward(y)[:, [3, 5, 200]], atol=1e-5)
    np.testing.assert_allclose(long.as_matrix().quadratic(y**2), long.quadratic(y**2), rtol=1e-5)
