import math

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.privacy import Ledger, noise, privatize, privatize_table
from sketchlearn.privacy.mechanism import choose_mechanism, draw
from sketchlearn.privacy.sensitivity import phase_bounds, reach, row_bounds
from sketchlearn.privacy.tables import threshold

PHI = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
ROWS = np.random.default_rng(0).normal(size=(9000, 2))
LABELS = np.array(["a"] * 5000 + ["b"] * 3998 + ["c"] * 2)
TABLE = sl.sketch(ROWS, PHI, group_by=LABELS)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_table_has_the_noise_of_one_release(delta):
    private = privatize_table(TABLE, 1.0, delta, groups=["a", "b", "d"], public_map=True)
    assert private.groups == ["a", "b", "d"]
    single = choose_mechanism(row_bounds(PHI), PHI.size, 1.0, delta)
    for label, s in private.items():
        assert s.privacy.epsilon == 1.0
        assert s.privacy.delta == delta
        assert s.privacy.sums_variance == pytest.approx(single.variance)
        exact = TABLE[label].sums if label in TABLE else 0
        assert np.abs(s.sums - exact).max() < 30 * math.sqrt(single.variance)
    assert abs(private["d"].count - 0) < 30 * math.sqrt(single.count_variance) + 2  # a group without rows is there


def test_the_union_keeps_the_promise_of_the_table(tmp_path):
    private = privatize_table(TABLE, 1.0, 1e-6, groups=["a", "b"], public_map=True)
    private.save(tmp_path / "x.parquet")
    for table in (private, sl.SketchTable.load(tmp_path / "x.parquet")):
        union = table.union()
        assert union.privacy.epsilon == 1.0
        assert union.privacy.sums_variance == pytest.approx(2 * private["a"].privacy.sums_variance)
        assert union.privacy.weight_variance == pytest.approx(2 * private["a"].privacy.weight_variance)
    other = privatize(sl.sketch(ROWS, PHI), 1.0, 1e-6, public_map=True)
    with pytest.raises(ValueError, match="whether one person can be in two"):
        private["a"] + other
    again = privatize_table(TABLE, 1.0, 1e-6, groups=["a", "b"], public_map=True)
    with pytest.raises(ValueError, match="whether one person can be in two"):
        private["a"] + again["b"]


def test_small_groups_stay_unseen():
    shown = privatize_table(TABLE, 1.0, 1e-6, public_map=True)
    assert shown.groups == ["a", "b"]
    assert shown["a"].privacy.delta == 1e-6
    least = shown["a"].privacy.details["threshold"]
    assert 20 < least < 500
    with pytest.raises(ValueError, match="public list with groups=, or delta"):
        privatize_table(TABLE, 1.0, public_map=True)
    alone = sl.SketchTable({"c": TABLE["c"]})
    with pytest.raises(ValueError, match="no group has enough rows"):
        privatize_table(alone, 1.0, 1e-6, public_map=True)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("records", [1, 3])
def test_a_group_of_one_person_shows_as_rarely_as_delta_says(mechanism, records):
    """The chance that any of one person's own groups is shown, counted: below delta, and not absurdly far below."""
    delta = 0.02
    spent = 0.0 if mechanism == "laplace" else 0.05
    chosen = choose_mechanism(phase_bounds(2), 2, 1.0, spent, "add-remove", records, mechanism)
    least = threshold(chosen, records, delta)
    times = 20_000
    for groups, rows in ((1, records), (records, 1)):
        if chosen.count_scale is not None:
            counts = noise.add_laplace(np.full((times, groups), rows, np.int64), chosen.count_scale)
        else:
            many = noise.add_gaussian(np.full((times, groups), rows * chosen.count_multiplier, np.int64), chosen.scale)
            counts = np.rint(many / chosen.count_multiplier)
        shown = (counts >= least).any(1).mean()
        assert shown <= delta + 6 * math.sqrt(delta / times)
    assert draw(np.zeros((2, 2), np.int64), 10 * least, phase_bounds(2), chosen)[1] > least


def test_rows_of_one_person_in_several_groups_reach_no_further():
    """Worst case over all ways to spread three rows over groups: no longer than three in one."""
    phi = sl.FourierFeatures.draw(dim=1, size=3, scale=1.0, seed=0)
    moved = reach(row_bounds(phi), "add-remove", 3)
    rng = np.random.default_rng(0)
    for _ in range(200):
        rows, labels = rng.normal(size=(3, 1)) * 50, rng.integers(0, 3, 3)
        sums = np.concatenate([s.sums.ravel() for s in sl.sketch(rows, phi, group_by=labels).values()]).astype(object)
        assert sum(abs(int(v)) for v in sums) <= moved.l1
        assert sum(int(v) ** 2 for v in sums) <= moved.l2_squared


def test_users_of_a_table():
    users = np.arange(9000) // 4
    table = sl.sketch(ROWS, PHI, group_by=LABELS, user=users, max_rows_per_user=2)
    private = privatize_table(table, 1.0, 1e-6, groups=["a", "b"], public_map=True)
    assert private["a"].privacy.records_per_user == 2


def test_a_table_is_charged_once(tmp_path):
    book = Ledger(tmp_path / "book.json", epsilon=1.0, delta=1e-5)
    privatize_table(TABLE, 0.6, 1e-6, public_map=True, ledger=book, dataset="people")
    assert book.left("people") == pytest.approx(0.4)
    with pytest.raises(sl.BudgetError):
        privatize_table(TABLE, 0.6, 1e-6, public_map=True, ledger=book, dataset="people")
    with pytest.raises(ValueError, match="go together"):
        privatize_table(TABLE, 0.6, 1e-6, public_map=True, ledger=book)
    with pytest.raises(TypeError, match="privatize_table"):
        privatize(TABLE, 1.0, public_map=True)


def _embedded(size=3):
    return sl.EmbeddedFeatures.of(sl.FourierFeatures.draw(dim=1, size=size, scale=1.0, seed=0))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_products_of_features_by_worst_row_search(size):
    """No row, and no pair of rows, among a hundred thousand goes beyond the bounds; the worst come near."""
    phi = _embedded(size)
    bounds = row_bounds(phi)
    times = bounds.multiplier_array().astype(float)
    rows = np.linspace(-3000, 3000, 100_001)[:, None]
    F = np.rint(phi.embed(rows) * 2**15)
    i, j = np.triu_indices(phi.width)
    all_ = np.hstack([F[:, i] * F[:, j], F]) * times
    lengths, squares = np.abs(all_).sum(1), (all_**2).sum(1)
    assert lengths.max() <= bounds.added.l1
    assert squares.max() <= bounds.added.l2_squared
    assert lengths.max() > 0.8 * bounds.added.l1
    assert squares.max() > 0.7 * bounds.added.l2_squared
    rng = np.random.default_rng(0)
    extreme = all_[np.argsort(squares)[-300:]]
    others = all_[rng.choice(len(all_), 300)]
    for a in (extreme, others):
        off = a[:, None, :] - all_[rng.choice(len(all_), 300)][None]
        assert np.abs(off).sum(2).max() <= bounds.replaced.l1
        assert (off**2).sum(2).max() <= bounds.replaced.l2_squared
    assert sl.sketch(rows[:1], phi).sums.astype(float).tolist() == (all_[0] / times).tolist()


def test_split_features_have_the_bounds_of_fourier_features():
    parts = [sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=s) for s in (0, 1)]
    from sketchlearn.features import SplitFeatures

    phi = SplitFeatures.of(*parts, [0])
    assert row_bounds(phi) == phase_bounds(8)
    rows = np.random.default_rng(0).normal(size=(5000, 2)) * 100
    for row in rows[:200]:
        sums = sl.sketch(row[None], phi).sums.astype(object).ravel()
        assert sum(abs(int(v)) for v in sums) <= row_bounds(phi).added.l1


def test_a_private_classifier_from_a_private_table(seeded):
    """Three classes far apart, released as one table: the classifier learned from it finds them."""
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [4, 0], [0, 4]])
    y = rng.integers(0, 3, 30_000)
    X = centres[y] + rng.normal(size=(30_000, 2))
    inner = sl.FourierFeatures.draw(dim=2, size=12, scale=2.0, seed=0)
    phi = sl.EmbeddedFeatures.of(inner)
    private = privatize_table(sl.sketch(X, phi, group_by=y), 2.0, 1e-7, groups=[0, 1, 2], public_map=True)
    model = sl.CompressiveClassifier(random_state=0).fit_sketch(private)
    test = rng.integers(0, 3, 3000)
    Z = centres[test] + rng.normal(size=(3000, 2))
    best = (np.argmin((Z[:, None] - centres) ** 2 @ [1, 1], axis=1) == test).mean()
    assert (model.predict(Z) == test).mean() > best - 0.02  # without a floor of the penalty 0.37
    assert sl.Model.of(model).privacy.epsilon == 2.0
