"""What a release of a query would publish beside its sums: numbers of rows that depend on what is in the rows."""

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.privacy import privatize, privatize_table

PHI = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
ROWS = np.random.default_rng(0).normal(size=(600, 2))
SHOP = np.where(ROWS[:, 0] > 0, "a", "b")
DAYS = np.datetime64("2024-05-01") + np.arange(600) // 100
KEYED = {"time": DAYS, "every": "1d", "group_by": {"shop": SHOP}}


@pytest.fixture
def store():
    return sl.Store(":memory:")


def refused(sketch):
    """An exact number would be published; with noise there is none."""
    for s in (sketch, sl.Sketch.from_bytes(sketch.to_bytes()), sketch + sl.sketch(ROWS, PHI)):
        with pytest.raises(ValueError, match="depends on what is in them"):
            privatize(s, 1.0, relation="replace-one", public_map=True)
    assert privatize(sketch, 1.0, public_map=True).privacy.weight_variance > 0


def test_a_query_by_group_tells_neighbours_apart(store):
    """One row of another shop: 301 against 300, whatever epsilon says."""
    counts = []
    for moved in (SHOP, np.where(np.arange(600) == np.argmax(SHOP == "a"), "b", SHOP)):
        place = sl.Store(":memory:")
        place.ingest(ROWS, PHI, **{**KEYED, "group_by": {"shop": moved}})
        s = place.query(where={"shop": "a"}).sketch()
        counts.append(s.count)
        refused(s)
    assert counts[0] == counts[1] + 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda q: q.between(since="2024-05-02").sketch(),
        lambda q: q.between(until="2024-05-02").sketch(),
        lambda q: q.timeline()["2024-05-02"],
        lambda q: q.table(by="shop")["a"],
        lambda q: q.table(by="shop").union(["a"]),
        lambda q: list(q.sliding("2d"))[-1][1],
        lambda q: q.sketch() - q.timeline()["2024-05-02"],
        lambda q: q.sketch(decay="1y", now="2024-05-07"),
    ],
)
def test_every_way_to_choose_cells_is_remembered(store, ask):
    store.ingest(ROWS, PHI, **KEYED)
    chosen = ask(store.query())
    assert chosen.origin.by_content
    assert sl.Sketch.from_bytes(chosen.to_bytes()).origin.by_content
    store.rollup("1w")
    assert store.query(where={"shop": "a"}).sketch().origin.by_content


def test_all_rows_of_a_store_may_be_counted(store):
    store.ingest(ROWS, PHI, **KEYED)
    s = store.query().sketch()
    assert privatize(s, 1.0, relation="replace-one", public_map=True).count == 600


def _kept(store):
    store.retain("2d", now="2024-05-07")


def _forgotten(store):
    frame = {"x": ROWS[:, 0], "y": ROWS[:, 1]}
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame({**frame, "time": DAYS, "shop": SHOP})
    store.forget(rows, where="x > 1", reason="rows of a kind")


def _copied(store):
    _kept(store)
    other = sl.Store(":memory:")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sketchlearn.store.upkeep.Store", lambda place: other)
        patch.setattr(type(other), "__exit__", lambda *_: None)
        store.export("elsewhere")
    return other


@pytest.mark.parametrize("what", [_kept, _forgotten, _copied])
def test_what_was_dropped_by_its_content_is_remembered(store, what):
    phi = PHI.with_columns(["x", "y"])
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame({"x": ROWS[:, 0], "y": ROWS[:, 1], "time": DAYS, "shop": SHOP})
    store.ingest(rows, phi, time="time", every="1d", group_by=["shop"])
    left = (what(store) or store).query().sketch()
    assert left.origin.by_content
    assert 0 < left.count < 600


@pytest.mark.parametrize("options", [{"where": (0, ">", 0.0)}, {"on_invalid": "skip"}])
@pytest.mark.parametrize("keyed", [True, False])
def test_rows_that_were_chosen_on_the_way_in_stay_chosen(store, options, keyed):
    store.ingest(ROWS, PHI, **({"group_by": {"shop": SHOP}} if keyed and "where" not in options else {}), **options)
    refused(store.query().sketch())


def test_sketches_that_were_chosen_elsewhere_stay_chosen(store):
    store.add(sl.sketch(ROWS, PHI, group_by=SHOP)["a"], source="shop a")
    store.add(sl.sketch(ROWS[:50], PHI), source="fifty more")
    refused(store.query().sketch())


# -- users -----------------------------------------------------------------------------------------


def test_the_bound_on_users_survives_a_store(store):
    """Three rows per user went in, and the release claimed epsilon for one."""
    who = np.arange(600) % 50
    store.ingest(ROWS, PHI, **KEYED, user=who, max_rows_per_user=3, source="may")
    s = store.query().sketch()
    assert s.count == 150
    assert (s.origin.rows_per_user, s.origin.user) == (3, "an array")  # of one pass: once, not once per cell
    assert privatize(s, 1.0, public_map=True).privacy.records_per_user == 3
    with pytest.raises(ValueError, match="up to 3 rows of one user"):
        privatize(s, 1.0, records_per_user=1, public_map=True)
    store.ingest(ROWS + 1, user=who, max_rows_per_user=2, source="june", **KEYED)
    assert store.query().sketch().origin.rows_per_user == 5
    assert store.query(where={"shop": "a"}).sketch().origin.rows_per_user == 5
    store.rollup("1w")
    assert store.query(where={"shop": "a"}).sketch().origin.rows_per_user >= 5
    store.ingest(ROWS + 2, source="july", **KEYED)
    assert store.query().sketch().origin.rows_per_user is None


def test_files_of_a_store_are_bounded_too(store, tmp_path):
    """The bound was read and forgotten: all rows of a user counted."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    for name in "ab":
        table = {"x": ROWS[:, 0], "y": ROWS[:, 1], "day": DAYS.astype("M8[us]"), "who": np.arange(600) % 50}
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet", row_group_size=100)
    phi = PHI.with_columns(["x", "y"])
    options = {"time": "day", "every": "1d", "user": "who", "max_rows_per_user": 3}
    store.ingest(tmp_path / "*.parquet", phi, **options)
    s = store.query().sketch()
    assert s.count == 300
    assert (s.origin.rows_per_user, s.origin.user) == (6, "who")  # three in each file


def test_a_table_of_two_passes_has_the_bounds_of_both(store):
    """A user with three rows in a group of each pass has six; the release claimed epsilon for three."""
    who = np.zeros(600, int)
    first = sl.sketch(ROWS, PHI, group_by=np.full(600, "a"), user=who, max_rows_per_user=3)
    second = sl.sketch(ROWS, PHI, group_by=np.full(600, "b"), user=who, max_rows_per_user=3)
    both = sl.SketchTable({**first, **second})
    assert (first.rows_per_user, both.rows_per_user) == (3, 6)
    options = {"groups": ["a", "b"], "public_map": True}
    assert privatize_table(both, 1.0, 1e-3, **options)["a"].privacy.records_per_user == 6
    one = sl.sketch(ROWS, PHI, group_by=SHOP, user=who, max_rows_per_user=3)
    kept = sl.SketchTable.from_bytes(one.to_bytes())
    assert (kept.rows_per_user, kept.union().origin.rows_per_user, (kept + kept).rows_per_user) == (3, 3, 6)
    store.add(both, group_by="shop", source="both")
    assert store.query().sketch().origin.rows_per_user == 6
    with pytest.raises(ValueError, match="in some groups only"):
        privatize_table(sl.SketchTable({**first, "c": sl.sketch(ROWS, PHI)}), 1.0, 1e-3, **options)
