import json
import math
import warnings

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.privacy import InsecureNoiseWarning, RepeatedReleaseWarning, insecure_noise, privatize
from sketchlearn.privacy.mechanism import choose_mechanism, draw, rescaled, stacked
from sketchlearn.privacy.sensitivity import phase_bounds, row_bounds
from sketchlearn.privacy.split import count_multiplier, least_rows, share_of_count


@pytest.fixture
def phi():
    return sl.FourierFeatures.draw(dim=2, size=50, scale=1.0, seed=0)


@pytest.fixture
def exact(phi):
    return sl.sketch(np.random.default_rng(0).normal(size=(5000, 2)), phi)


QUADRATIC = [
    sl.QuadraticFeatures.draw(dim=3, radius=4.0),
    sl.QuadraticFeatures.draw(dim=6, size=15, variant="sphere", radius=4.0),
    sl.QuadraticFeatures.draw(dim=6, size=15, variant="complex", radius=4.0, center=np.ones(6)),
]


def _off(draws):
    """Eight standard deviations of a variance estimated from Laplace noise, relative; squares have long tails."""
    return 8 * math.sqrt(5 / draws)


# -- what a private sketch is ----------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_nothing_exact_is_left(exact, delta, relation):
    s = privatize(exact, 1.0, delta, relation=relation, public_map=True)
    assert s.features == exact.features
    assert (s.sums != exact.sums).mean() > 0.99
    assert s.skipped == 0
    assert not np.isfinite(s.lower).any()
    assert not np.isfinite(s.upper).any()
    # one in five at most has no noise in its count by chance: not all of twelve
    chosen = choose_mechanism(row_bounds(exact.features), 50, 1.0, delta, relation)
    counts = {s.count} | {draw(exact.sums, exact.count, row_bounds(exact.features), chosen)[1] for _ in range(11)}
    assert (counts == {exact.count}) == (relation == "replace-one")
    assert relation == "replace-one" or chosen.count_variance > 4.0
    record = s.privacy
    assert (record.epsilon, record.delta, record.relation) == (1.0, delta, relation)
    assert record.records_per_user == 1
    assert record.mechanism == ("discrete-gaussian" if delta else "circular-discrete-laplace")
    assert record.library == sl.__version__
    assert record.details["map"] == "declared public by the releaser"
    assert record.details["noise"].startswith("OpenDP")
    assert type(record).from_json(record.to_json()) == record


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("mechanism", ["auto", "laplace"])
def test_noise_has_the_variance_that_the_record_says(phi, delta, relation, mechanism):
    many = sl.FourierFeatures.draw(dim=2, size=4000, scale=1.0, seed=0)
    exact = sl.sketch(np.zeros((5000, 2)), many)
    s = privatize(exact, 1.0, delta, relation=relation, mechanism=mechanism, public_map=True)
    off = (s.sums - exact.sums).astype(float)
    assert np.mean(off**2) == pytest.approx(s.privacy.sums_variance, rel=_off(off.size))
    assert abs(off.mean()) < 7 * math.sqrt(s.privacy.sums_variance / off.size)
    assert np.corrcoef(off[0], off[1])[0, 1] == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize(
    ("delta", "draws"),
    [(1e-6, 100), pytest.param(0.0, 400, marks=pytest.mark.slow), pytest.param(1e-6, 400, marks=pytest.mark.slow)],
)
def test_the_number_of_rows_has_the_variance_that_the_record_says(phi, delta, draws):
    bounds = phase_bounds(2)
    chosen = choose_mechanism(bounds, 2, 1.0, delta)
    counts = [draw(np.zeros((2, 2), np.int64), 5000, bounds, chosen)[1] for _ in range(draws)]
    assert np.var(counts) == pytest.approx(chosen.count_variance, rel=_off(draws))
    assert abs(np.mean(counts) - 5000) < 7 * math.sqrt(chosen.count_variance / draws)


@pytest.mark.parametrize("features", QUADRATIC, ids=lambda f: f.variant)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_quadratic_sketches_get_noise_in_both_parts(features, delta):
    exact = sl.sketch(np.random.default_rng(0).normal(size=(1000, features.dim)), features)
    record = privatize(exact, 1.0, delta, public_map=True).privacy
    *products, (d, linear) = record.details["variances"]
    m = sum(length for length, _ in products)
    assert (m, d) == (features.size, features.dim)
    assert products[0][1] == record.sums_variance
    squares = sum(length * variance for length, variance in products) / m
    if features.is_exact:  # squares and products: as lengths of matrices count them
        assert products[0][1] / products[1][1] == pytest.approx(2.0, rel=1e-9)
        assert record.delta == 0.0  # of so few columns the noise of a matrix is the least
    bounds = row_bounds(features)
    chosen = choose_mechanism(bounds, features.size, 1.0, delta)
    off = np.array([draw(exact.sums, 1000, bounds, chosen)[0] - exact.sums for _ in range(300)], float)
    assert np.mean(off[:, :m] ** 2) == pytest.approx(squares, rel=_off(300 * m))
    assert np.mean(off[:, m:] ** 2) == pytest.approx(linear, rel=_off(300 * d))


def test_averages_are_near(exact):
    s = privatize(exact, 5.0, 1e-6, public_map=True)
    assert np.abs(s.mean - exact.mean).max() < 0.1


def test_an_empty_sketch_can_be_released(phi):
    s = privatize(sl.Sketch.empty(phi), 1.0, 1e-6, public_map=True)
    assert s.count >= 1
    assert np.isfinite(s.mean).all()


# -- how much noise --------------------------------------------------------------------------


def test_the_least_proven_noise_is_chosen():
    pure = choose_mechanism(phase_bounds(100), 100, 1.0)
    assert pure.name == "circular-discrete-laplace"
    assert pure.delta == 0.0
    by_coordinates = choose_mechanism(row_bounds(QUADRATIC[0]), 6, 1.0)
    assert by_coordinates.name == "matrix-laplace"
    assert choose_mechanism(row_bounds(QUADRATIC[1]), QUADRATIC[1].size, 1.0).name == "discrete-laplace"
    assert choose_mechanism(phase_bounds(100), 100, 1.0, 1e-6).name == "discrete-gaussian"
    # few features and a large epsilon: pure noise is smaller, and delta is not spent
    few = choose_mechanism(phase_bounds(1), 1, 10.0, 1e-12)
    assert few.name == "circular-discrete-laplace"
    assert few.delta == 0.0


def test_circular_noise_saves_a_quarter():
    bounds = phase_bounds(100)
    circular = choose_mechanism(bounds, 100, 1.0, relation="replace-one")
    coordinates = 2 * (bounds.replaced.l1 / 1.0) ** 2
    assert circular.variance / coordinates == pytest.approx(0.75, rel=1e-4)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_more_records_more_noise(relation, delta):
    one, three = (choose_mechanism(phase_bounds(100), 100, 1.0, delta, relation, k) for k in (1, 3))
    assert three.scale / one.scale == pytest.approx(3.0, rel=0.01)
    if relation == "add-remove":
        assert math.sqrt(three.count_variance / one.count_variance) == pytest.approx(3.0, rel=0.3)


def test_the_budget_is_spent_and_not_more():
    from fractions import Fraction

    bounds = phase_bounds(100)
    for epsilon in (1e-3, 0.1, 1.0, 7.3):
        chosen = choose_mechanism(bounds, 100, epsilon)
        spent = bounds.added.circular / Fraction(chosen.scale) + 1 / Fraction(chosen.count_scale)
        assert spent <= Fraction(epsilon)
        assert float(spent) == pytest.approx(epsilon, rel=1e-9)


def test_gaussian_count_is_part_of_the_vector():
    bounds = phase_bounds(1000)
    chosen = choose_mechanism(bounds, 1000, 1.0, 1e-6)
    assert chosen.details["sensitivity_squared"] == bounds.added.l2_squared + chosen.count_multiplier**2
    assert chosen.scale == pytest.approx(4.224679 * math.sqrt(chosen.details["sensitivity_squared"]), rel=1e-6)
    # the number of rows costs little and is known well
    assert chosen.details["sensitivity_squared"] < 1.03 * bounds.added.l2_squared
    assert math.sqrt(chosen.count_variance) < 60


def test_the_split_beats_the_closed_form_of_the_thesis():
    epsilon, m = 0.1, 400
    n = least_rows(m, epsilon)
    noise_energy, row_energy = 6 * m * (m / epsilon) ** 2, float(m)
    x = float(share_of_count(epsilon, m, noise_energy, row_energy))

    def error(x):
        a, b, c = 1 / (n * epsilon) ** 2, 1 + 3 / n, noise_energy * 3 / (n * n * row_energy)
        return (1 + a / x**2) * (b + c / (1 - x) ** 2) - 1

    a = 1 / (n * epsilon) ** 2
    thesis = min((r.real for r in np.roots([1, 0, 2 * a, -a]) if abs(r.imag) < 1e-9), key=abs)
    assert error(x) < error(thesis)
    assert error(x) <= min(error(t) for t in np.geomspace(1e-5, 0.5, 300)) * (1 + 1e-6)
    assert 0 < x < 0.05


def test_the_multiplier_of_the_count_minimises_the_error():
    squared, entries = 1000 * 2**44, 2000
    best = count_multiplier(squared, entries)

    def error(s):
        return (squared + s * s) * (entries * 3.0 / squared + 1 / (s * s))

    assert error(best) <= min(error(s) for s in np.geomspace(best / 10, best * 10, 101)) * (1 + 1e-9)


def test_stacking_and_dividing_are_inverse():
    bounds = row_bounds(QUADRATIC[0])
    chosen = choose_mechanism(bounds, 6, 1.0, 1e-6, mechanism="gaussian")
    sums = np.arange(-4, 5, dtype=np.int64)
    back, rows = rescaled(stacked(sums, 17, bounds, chosen), (9,), bounds, chosen)
    assert (back == sums).all()
    assert rows == 17


def test_huge_sums_are_clipped_not_wrapped():
    bounds = row_bounds(QUADRATIC[1])
    chosen = choose_mechanism(bounds, 15, 1.0, 1e-6)
    sums = np.full(21, 2**62 + 5, np.int64)
    assert (stacked(sums, 2**50, bounds, chosen) > 0).all()


# -- what is refused -------------------------------------------------------------------------


def test_a_map_from_the_data_must_be_vouched_for(exact):
    with pytest.raises(ValueError, match=r"public bounds=\(lower, upper\)"):
        privatize(exact, 1.0, 1e-6)


def test_private_sketches_stay_as_they_are(exact):
    s = privatize(exact, 1.0, 1e-6, public_map=True)
    with pytest.raises(ValueError, match="already private"):
        privatize(s, 1.0, 1e-6, public_map=True)


def test_fractional_weights_are_refused(phi):
    s = sl.sketch(np.zeros((3, 2)), phi, sample_weight=[0.5, 1.0, 1.0])
    with pytest.raises(ValueError, match="fractional weights"):
        privatize(s, 1.0, public_map=True)


def test_float64_sums_are_refused():
    s = sl.sketch(np.zeros((3, 2)), sl.QuadraticFeatures.draw(dim=2))
    with pytest.raises(TypeError, match="no bound"):
        privatize(s, 1.0, public_map=True)


def test_skipped_rows_make_the_number_of_rows_private(phi):
    s = sl.sketch(np.array([[0.0, 1.0], [np.nan, 0.0]]), phi, on_invalid="skip")
    with pytest.raises(ValueError, match="depends on what is in them"):
        privatize(s, 1.0, relation="replace-one", public_map=True)
    assert privatize(s, 1.0, public_map=True).skipped == 0


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"epsilon": math.nan}, "epsilon must be a number"),
        ({"epsilon": True}, "epsilon must be a number"),
        ({"epsilon": 1.0, "delta": 1.0}, "below 1"),
        ({"epsilon": 1.0, "delta": -0.1}, "at least 0"),
        ({"epsilon": 1.0, "relation": "bounded"}, "relation="),
        ({"epsilon": 1.0, "records_per_user": 0}, "records_per_user"),
        ({"epsilon": 1.0, "mechanism": "gaussian"}, "needs delta"),
        ({"epsilon": 1.0, "mechanism": "snapping"}, "mechanism="),
        ({"epsilon": 1.0, "dataset": "customers"}, "go together"),
    ],
)
def test_requests_that_make_no_sense(exact, arguments, match):
    with pytest.raises(ValueError, match=match):
        privatize(exact, public_map=True, **arguments)


def test_only_sketches_can_be_released():
    with pytest.raises(TypeError, match="takes a sketch"):
        privatize(np.zeros(3), 1.0, public_map=True)


def test_there_is_no_seed():
    with pytest.raises(TypeError):
        privatize(None, 1.0, random_state=0)
    with pytest.raises(TypeError):
        privatize(None, 1.0, seed=0)


def test_releases_with_a_seed_say_so(exact):
    with pytest.warns(InsecureNoiseWarning), insecure_noise(0):
        a = privatize(exact, 1.0, 1e-6, public_map=True)
    assert "NOT PRIVATE" in a.privacy.details["noise"]
    assert "NOT PRIVATE" in a.privacy.explain()


def test_the_second_release_is_announced(exact, phi):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        privatize(exact, 1.0, 1e-6, public_map=True)
        other = sl.sketch(np.ones((5, 2)), phi)
        privatize(other, 1.0, public_map=True)
    with pytest.warns(RepeatedReleaseWarning, match=r"release number 2 .* epsilon=1.5"):
        privatize(exact, 0.5, public_map=True)


# -- in words --------------------------------------------------------------------------------


def test_the_record_explains_itself(exact):
    text = " ".join(privatize(exact, 1.0, 1e-6, public_map=True).privacy.explain().split())
    assert "one person" in text
    assert "2.72" in text  # exp(1)
    assert "number of rows" in text
    assert "map" in text
    with pytest.warns(RepeatedReleaseWarning):
        other = privatize(exact, 0.5, relation="replace-one", records_per_user=3, public_map=True)
    text = " ".join(other.privacy.explain().split())
    assert "up to 3 rows" in text
    assert "is public" in text
    assert "always" in text


def test_a_tiny_delta_is_not_said_to_be_zero(exact):
    record = privatize(exact, 1.0, 1e-12, public_map=True).privacy
    assert "a probability of 0.000000000001 (delta)" in " ".join(record.explain().split())


def test_models_and_reports_repeat_the_promise(exact, tmp_path):
    s = privatize(exact, 1.0, 1e-6, public_map=True)
    model = sl.Model.of(sl.CompressiveGaussianMixture(1, random_state=0).fit_sketch(s))
    model.save(tmp_path / "model.json")
    again = sl.Model.load(tmp_path / "model.json")
    assert again.privacy == s.privacy
    page = sl.plots.report(again)
    assert "What is promised to the people in the data" in page
    assert "at most 2.72 times as likely (epsilon = 1)" in page
    plain = sl.plots.report(sl.CompressiveGaussianMixture(1, random_state=0).fit_sketch(exact))
    assert "promised" not in plain
    damaged = json.loads(model.to_json())
    damaged["sketch"]["privacy"]["epsilon"] = -1.0
    damaged.pop("seal", None)
    with pytest.raises(sl.ModelFileError):
        sl.Model.from_json(json.dumps(damaged))
