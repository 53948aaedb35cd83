"""Every bound against a search for the worst row or pair of rows, on the integers that a sketch really sums."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as sl
from sketchlearn.kernels import _constants as K
from sketchlearn.privacy.quadratic import largest_eigenvalue
from sketchlearn.privacy.sensitivity import (
    PAIR_L1,
    PAIR_SQUARED,
    Bounds,
    Reach,
    phase_bounds,
    reach,
    register_bounds,
    row_bounds,
    sign_bounds,
)


def contribution(phi, x, bounds=None):
    """What one row adds to the sums, times the multipliers, as exact integers."""
    one = phi.sum_rows(np.atleast_2d(x)).sums.ravel()
    return one * (bounds or row_bounds(phi)).multiplier_array()


def lengths(v, pairs=False):
    v = [int(a) for a in v]
    circular = sum(math.hypot(a, b) for a, b in zip(v[: len(v) // 2], v[len(v) // 2 :], strict=True)) if pairs else 0
    return sum(map(abs, v)), sum(a * a for a in v), circular


# -- Fourier ---------------------------------------------------------------------------------


def test_all_float32_phases():
    """Proof by exhaustion of the constants: every remainder in [0, 1/2], both signs of cosine and sine.

    Nine of ten float32 numbers below 1/2 are below 2**-13.  There the cosine is rounded to at most 1, its last
    coefficient, because the rest of the polynomial is negative; and the sine is at most the largest remainder times
    its last coefficient, because the rest of that polynomial is negative too.
    """
    numba = pytest.importorskip("numba")
    from sketchlearn.kernels._compile import fma
    from sketchlearn.kernels._plain import _C32, _ROUND32, _S32, _ZERO32

    tiny = 2.0**-13
    for coefficients in (_C32, _S32):
        *rest, slope, _ = map(float, coefficients)
        assert slope + 1.001 * sum(map(abs, rest)) * tiny**2 < 0
    sine = 2**22 * float(_S32[-1]) * tiny * (1 + 2.0**-20) + 1
    assert float(_C32[-1]) <= 1.0
    assert 2**44 + sine**2 < PAIR_SQUARED
    assert 2**22 + sine < PAIR_L1

    @numba.njit(boundscheck=False, error_model="numpy")
    def scan(low, high):
        block = 4096
        r = np.empty(block, np.float32)
        out = np.empty((4, block), np.float32)
        r_bits, bits = r.view(np.int32), out.view(np.int32)
        squared = l1 = largest = 0
        for start in range(low, high, block):
            for i in range(block):
                r_bits[i] = min(start + i, high - 1)
            for i in range(block):
                x = r[i]
                u = x * x
                c, s = _C32[0], _S32[0]
                for q in range(1, len(_C32)):
                    c = fma(c, u, _C32[q])
                for q in range(1, len(_S32)):
                    s = fma(s, u, _S32[q])
                s = s * x
                out[0, i], out[1, i], out[2, i], out[3, i] = c + _ROUND32, -c + _ROUND32, s + _ROUND32, -s + _ROUND32
            for i in range(block):
                c = max(abs(np.int64(bits[0, i]) - _ZERO32), abs(np.int64(bits[1, i]) - _ZERO32))
                s = max(abs(np.int64(bits[2, i]) - _ZERO32), abs(np.int64(bits[3, i]) - _ZERO32))
                squared, l1, largest = max(squared, c * c + s * s), max(l1, c + s), max(largest, c, s)
        return squared, l1, largest

    squared, l1, largest = scan(int(np.float32(tiny).view(np.int32)), int(np.float32(0.5).view(np.int32)) + 1)
    assert (squared, l1) == (PAIR_SQUARED, PAIR_L1)
    assert largest == K.ENTRY_BOUND


def test_float64_phases_are_closer_to_the_circle():
    """Far rows: each part within 0.501 units of the circle, from the polynomials' errors."""
    from reference.fourier import waves

    rng = np.random.default_rng(0)
    near = rng.uniform(-0.5, 0.5, 100_000)
    t = np.concatenate([near, np.linspace(-0.5, 0.5, 20_001), rng.uniform(-1e6, 1e6, 20_000)])
    units = waves(t[:, None])[:, :, 0]
    exact = np.stack([np.cos(np.pi * t), np.sin(np.pi * t)]) * 2.0**22
    assert np.abs(units - exact)[:, np.abs(t) <= 0.5].max() <= 0.501
    assert (2**22 + 0.501 * math.sqrt(2)) ** 2 <= PAIR_SQUARED
    assert math.floor(math.sqrt(2) * 2**22 + 2 * 0.501) <= PAIR_L1
    assert ((units**2).sum(0) <= PAIR_SQUARED).all()
    assert (np.abs(units).sum(0) <= PAIR_L1).all()


@settings(max_examples=30, deadline=None)
@given(
    size=st.integers(1, 40), dim=st.integers(1, 5), seed=st.integers(0, 1000),
    far=st.sampled_from([0.0, 1.0, 1e3, 1e7]), single=st.booleans(),
)  # fmt: skip
def test_no_row_and_no_pair_exceeds_the_fourier_bounds(size, dim, seed, far, single):
    phi = sl.FourierFeatures.draw(dim=dim, size=size, scale=1.0, seed=seed)
    bounds = row_bounds(phi)
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(8, dim)) * rng.choice([1e-3, 1.0, 50.0]) + far
    rows = rows.astype(np.float32) if single else rows
    parts = [contribution(phi, x, bounds) for x in rows]
    for v in parts:
        l1, squared, circular = lengths(v, pairs=True)
        assert l1 <= bounds.added.l1
        assert squared <= bounds.added.l2_squared
        assert circular <= bounds.added.circular
    for a, b in itertools.combinations(parts, 2):
        l1, squared, circular = lengths(a - b, pairs=True)
        assert l1 <= bounds.replaced.l1
        assert squared <= bounds.replaced.l2_squared
        assert circular <= bounds.replaced.circular


@pytest.mark.parametrize("far", [0.0, 50.0, 1e7])
@pytest.mark.parametrize("single", [False, True])
def test_frequencies_of_an_earlier_model_change_no_bound(far, single):
    """Features have modulus 1 at any phase: bounds of a row don't depend on what frequencies were chosen from."""
    shapes = np.stack([np.diag([4.0, 1e-4]), np.array([[1.0, 0.9], [0.9, 1.0]])])
    mixture = sl.Mixture(np.array([0.7, 0.3]), np.array([[0.0, 0.0], [3.0, 1.0]]), shapes)
    phi = sl.design(previous=mixture, task="gmm", n_components=2, size=40)
    bounds = row_bounds(phi)
    assert bounds == row_bounds(sl.FourierFeatures.draw(dim=2, size=40, scale=1.0, seed=0))
    rows = mixture.sample(12, 0)[0] + far
    parts = [contribution(phi, x, bounds) for x in (rows.astype(np.float32) if single else rows)]
    for v in parts:
        l1, squared, circular = lengths(v, pairs=True)
        assert (l1 <= bounds.added.l1, circular <= bounds.added.circular) == (True, True)
        assert 0.999 * bounds.added.l2_squared < squared <= bounds.added.l2_squared  # every pair has modulus 1
    for a, b in itertools.combinations(parts, 2):
        l1, squared, circular = lengths(a - b, pairs=True)
        assert l1 <= bounds.replaced.l1
        assert squared <= bounds.replaced.l2_squared
        assert circular <= bounds.replaced.circular


def test_fourier_bounds_are_reached():
    """Independent frequencies can be brought into any phases: search finds rows within a percent of every bound."""
    phi = sl.FourierFeatures.draw(dim=2, size=3, scale=1.0, seed=1)
    bounds = row_bounds(phi)
    rows = np.random.default_rng(0).uniform(-500, 500, size=(60_000, 2))
    units = [contribution(phi, x, bounds) for x in _best(phi, rows, lambda z: np.abs(z.real) + np.abs(z.imag))]
    assert max(lengths(v)[0] for v in units) > 0.98 * bounds.added.l1
    assert max(lengths(v)[1] for v in units) > (1 - 1e-6) * bounds.added.l2_squared
    # a pair: all phases at 45 degrees, and all at the opposite
    here = _best(phi, rows, lambda z: z.real + z.imag)
    there = _best(phi, rows, lambda z: -z.real - z.imag)
    worst = [contribution(phi, a) - contribution(phi, b) for a, b in itertools.product(here, there)]
    assert max(lengths(v)[0] for v in worst) > 0.96 * bounds.replaced.l1
    assert max(lengths(v)[1] for v in worst) > 0.96 * bounds.replaced.l2_squared
    assert max(lengths(v, True)[2] for v in worst) > 0.96 * bounds.replaced.circular


def _best(phi, rows, score, count=5):
    # the kernel's phases are about the centre, which this map doesn't have
    return rows[np.argsort(score(phi(rows)).sum(1))[-count:]]


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("per_row", [None, 16, 12])
@pytest.mark.parametrize("structure", ["dense", "gr2"])
def test_one_bit_subsampled_and_structured_features(quantized, per_row, structure):
    if structure == "gr2" and per_row == 12:
        per_row = 8
    phi = sl.FourierFeatures.draw(
        dim=4, size=40, scale=1.0, seed=1, quantized=quantized, features_per_row=per_row, structure=structure
    )
    bounds = row_bounds(phi)
    assert len(bounds.multiplier_array()) == np.prod(phi.sums_shape)
    plain = Bounds(bounds.added, bounds.replaced, ((int(np.prod(phi.sums_shape)), 1),), "")
    assert bounds.added.l1 <= phi.row_bounds_l1 + bounds.multipliers[-1][1]
    assert plain.multiplier_array().max() == 1
    rng = np.random.default_rng(0)
    parts = [contribution(phi, x) for x in rng.normal(size=(40, 4)) * 10]
    for v in parts:
        l1, squared, _ = lengths(v)
        assert l1 <= bounds.added.l1
        assert squared <= bounds.added.l2_squared
    pairs = [lengths(a - b) for a, b in itertools.combinations(parts, 2)]
    assert max(l1 for l1, _, _ in pairs) <= bounds.replaced.l1
    assert max(squared for _, squared, _ in pairs) <= bounds.replaced.l2_squared
    if not quantized:
        assert max(lengths(v)[1] for v in parts) > 0.999 * bounds.added.l2_squared


def test_kept_features_and_signs():
    grouped = phase_bounds(3, 4, 12)
    assert len(grouped.multiplier_array()) == 28
    assert grouped.added.circular is None
    assert grouped.added.l2_squared == phase_bounds(3).added.l2_squared + grouped.multipliers[1][1] ** 2
    assert sign_bounds(3).added == Reach(6, 6, 5)  # 3 * sqrt(2) = 4.24, rounded up
    assert sign_bounds(3).replaced == sign_bounds(3).added  # bits differ by one at most
    assert sign_bounds(3, 2).replaced.l1 == 12 + 2 * sign_bounds(3, 2).multipliers[1][1]


@given(records=st.integers(1, 50), relation=st.sampled_from(["add-remove", "replace-one"]))
def test_a_group_of_rows_reaches_so_many_times_as_far(records, relation):
    one, many = (reach(phase_bounds(7), relation, k) for k in (1, records))
    assert (many.l1, many.l2_squared, many.circular) == (records * one.l1, records**2 * one.l2_squared,
                                                         records * one.circular)  # fmt: skip


# -- quadratic -------------------------------------------------------------------------------

VARIANTS = [("exact", 6, None), ("sphere", 8, 24), ("gaussian", 5, 12), ("complex", 6, 15), ("difference", 6, 15),
            ("sphere", 3, 2), ("sphere", 1, 4), ("sphere", 30, 100), ("orthogonal", 6, 11),
            ("orthogonal", 30, 60)]  # fmt: skip


def worst_directions(phi, rng, starts=30, steps=60):
    """Unit vectors with a large sum of squared features: power iterations from many starts, and structured ones."""
    d = phi.dim
    u = rng.normal(size=(starts, d))
    if not phi.is_exact:
        u = np.concatenate([u, phi.directions[:20].astype(float)])
    u = np.concatenate([u, np.eye(d), np.ones((1, d)), -np.eye(d)[:1]])
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    if not phi.is_exact:
        bounds = phi._bounds
        q = phi.directions / np.sqrt(bounds)[:, None]
        sign = np.ones(len(q))
        sign[phi.size :] = -1.0 if phi.variant == "difference" else 1.0
        for _ in range(steps):
            p = u @ q.T
            f = p**2 * sign
            if phi.paired:
                f = np.tile(f[:, : phi.size] + f[:, phi.size :], 2)
            u = (f * p * sign) @ q + 1e-12
            u /= np.linalg.norm(u, axis=1, keepdims=True)
    return u


@pytest.mark.parametrize(("variant", "dim", "size"), VARIANTS)
def test_no_clipped_row_exceeds_the_quadratic_bounds(variant, dim, size):
    center = np.linspace(-1, 2, dim)
    phi = sl.QuadraticFeatures.draw(dim=dim, size=size, variant=variant, radius=2.5, center=center, seed=3)
    bounds = row_bounds(phi)
    rng = np.random.default_rng(0)
    u = worst_directions(phi, rng)
    rows = center + 2.5 * np.concatenate([u, 40.0 * u, 0.3 * u, np.zeros((1, dim))])  # on the sphere, beyond, inside
    parts = [contribution(phi, x, bounds) for x in rows]
    found = [lengths(v) for v in parts]
    assert max(l1 for l1, _, _ in found) <= bounds.added.l1
    assert max(squared for _, squared, _ in found) <= bounds.added.l2_squared
    few = sorted(range(len(parts)), key=lambda i: -found[i][1])[:25]
    few += list(rng.choice(len(parts), 25))
    pairs = [lengths(parts[i] - parts[j]) for i, j in itertools.combinations(few, 2)]
    assert max(l1 for l1, _, _ in pairs) <= bounds.replaced.l1
    assert max(squared for _, squared, _ in pairs) <= bounds.replaced.l2_squared
    # not absurdly loose: within a factor of the best row found (in length, not squared)
    assert math.sqrt(bounds.added.l2_squared) <= 1.75 * math.sqrt(max(s for _, s, _ in found))


def test_orthogonal_features_have_the_smallest_sum():
    """r bases add up to r; of independent directions the sum is (1 + sqrt(r))^2 at most, three times as much."""
    d, bases = 64, 2
    found = {}
    for variant in ("orthogonal", "sphere"):
        phi = sl.QuadraticFeatures.draw(dim=d, size=bases * d, variant=variant, radius=1.0, seed=0)
        bounds = row_bounds(phi)
        (_, times), (_, linear) = bounds.multipliers
        found[variant] = (bounds.added.l1 / 2**22 - linear * math.sqrt(d)) / times
        if variant == "orthogonal":  # the sums of the columns take a sixth at most
            assert linear * math.sqrt(d) < 0.17 * bounds.added.l1 / 2**22
    assert bases <= found["orthogonal"] < 1.05 * bases
    assert found["sphere"] > 2 * found["orthogonal"]


@pytest.mark.slow
def test_replacing_a_row_reaches_beyond_adding_one():
    """The published constant for replacing a row equals that for adding one; two unit vectors refute it."""
    phi = sl.QuadraticFeatures.draw(dim=64, size=640, variant="sphere", radius=1.0, seed=0)
    bounds = row_bounds(phi)
    rng = np.random.default_rng(0)
    q, _ = np.linalg.qr(rng.normal(size=(64, 2)))
    v = contribution(phi, q[:, 0]) - contribution(phi, q[:, 1])
    assert lengths(v)[0] <= bounds.replaced.l1
    squares = np.abs(v[:640]).sum() / (2 * 2**22)
    adding = np.linalg.eigvalsh((phi.directions / np.sqrt(phi.squared_norms)[:, None]).T
                                @ (phi.directions / np.sqrt(phi.squared_norms)[:, None]))[-1]  # fmt: skip
    typical = np.abs(v[:640]).sum() / np.abs(contribution(phi, q[:, 0])[:640]).sum()
    assert typical > 1.2  # a pair of random rows moves the sums further than one of them
    assert squares <= 2 * adding
    assert bounds.replaced.l1 > 1.3 * bounds.added.l1


def test_the_certified_bound_is_far_below_the_simple_one():
    phi = sl.QuadraticFeatures.draw(dim=64, size=640, variant="sphere", radius=1.0, seed=0)
    bounds = row_bounds(phi)
    assert bounds.proof == "traceless Gram matrix, certified"
    s4 = math.sqrt(bounds.added.l2_squared - 2**44) / (2 * 2**22)
    assert 1.2 < s4 < 1.75  # largest square times largest eigenvalue gives about 4.1
    u = worst_directions(phi, np.random.default_rng(0))
    found = max(lengths(contribution(phi, x, bounds)[:640])[1] for x in u)
    assert math.sqrt(found) / (2 * 2**22) > 0.75 * s4


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 30), seed=st.integers(0, 10_000), scale=st.sampled_from([1e-6, 1.0, 1e8]))
def test_eigenvalues_are_bounded_from_above_and_closely(n, seed, scale):
    a = np.random.default_rng(seed).normal(size=(n, n)) * scale
    a = a + a.T
    top = np.linalg.eigvalsh(a)[-1]
    bound = largest_eigenvalue(a)
    assert top <= bound <= top + 1e-5 * np.abs(a).sum(1).max()


def test_large_eigenvalue_problems_use_another_guess():
    a = np.random.default_rng(0).normal(size=(900, 40))
    gram = a @ a.T
    top = np.linalg.eigvalsh(gram)[-1]
    assert top <= largest_eigenvalue(gram) <= 1.00001 * top


# -- what has no bound -----------------------------------------------------------------------


def test_float64_sums_have_no_sensitivity():
    with pytest.raises(TypeError, match=r"public bounds=\(lower, upper\)"):
        row_bounds(sl.QuadraticFeatures.draw(dim=3))


def test_unknown_kinds_are_refused_and_maps_may_know_their_own(monkeypatch):
    phi = sl.FourierFeatures.draw(dim=1, size=2, scale=1.0, seed=0)
    monkeypatch.setattr(type(phi), "kind", "coins")
    with pytest.raises(TypeError, match="no sensitivity is known of coins features"):
        row_bounds(phi)
    register_bounds("coins")(lambda features: phase_bounds(features.size))
    assert row_bounds(phi) == phase_bounds(2)
    own = Bounds(Reach(1, 1), Reach(2, 4), ((4, 1),), "by hand")
    monkeypatch.setattr(type(phi), "row_bounds", lambda self: own, raising=False)
    assert row_bounds(phi) is own
    monkeypatch.setattr(type(phi), "row_bounds", lambda self: 3, raising=False)
    with pytest.raises(TypeError, match="must return Bounds"):
        row_bounds(phi)


def test_relations_have_names():
    with pytest.raises(ValueError, match="relation='bounded'"):
        reach(phase_bounds(1), "bounded", 1)


@pytest.mark.parametrize(
    "options", [{}, {"quantized": True}, {"features_per_row": 20}, {"features_per_row": 20, "quantized": True}]
)
def test_bounds_of_bits_and_of_some_features_hold(options):
    rng = np.random.default_rng(0)
    phi = sl.FourierFeatures.draw(dim=3, size=100, scale=0.1, seed=0, **options)
    bounds = row_bounds(phi)
    assert len(bounds.multiplier_array()) == np.prod(phi.sums_shape)
    sums = [contribution(phi, row, bounds).astype(object) for row in rng.normal(size=(50, 3)) * 10]
    for one, other in itertools.pairwise(sums):
        assert abs(one).sum() <= bounds.added.l1
        assert (one**2).sum() <= bounds.added.l2_squared
        assert abs(one - other).sum() <= bounds.replaced.l1
        assert ((one - other) ** 2).sum() <= bounds.replaced.l2_squared
    counted = 0 if len(bounds.multipliers) == 1 else bounds.multipliers[1][1]  # the row in the number of its group
    assert bounds.added.l1 - counted <= phi.row_bounds_l1
    assert bounds.added.l2_squared - counted**2 <= phi.row_bounds_squared


def test_structured_quadratic_features_have_no_known_bounds():
    phi = sl.QuadraticFeatures.draw(dim=20, size=40, seed=0, variant="hadamard", radius=1.0)
    with pytest.raises(TypeError, match="no sensitivity is known"):
        row_bounds(phi)
