"""A store gives the bytes of one pass over the selected rows, whatever was added, rolled up or forgotten."""

import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sketchlearn as sl
from sketchlearn.files import LockedError

PHI = sl.FourierFeatures.draw(dim=2, size=30, scale=1.0, seed=0).with_columns(["x", "y"])
SHOPS = np.array(["north", "south", None], object)


def rows(n, seed=0, days=30):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "x": rng.normal(size=n),
            "y": rng.normal(size=n),
            "ts": np.datetime64("2024-01-20", "us") + rng.integers(0, days * 86400, n) * np.timedelta64(1, "s"),
            "shop": SHOPS[rng.integers(0, 3, n)].tolist(),
            "kind": rng.integers(0, 2, n),
        }
    )


def of(table, *masks):
    """The sketch of some rows in one pass that chose them."""
    keep = np.logical_and.reduce([np.ones(table.num_rows, bool), *masks])
    where = {"where": "keep = 1"} if masks else {}
    return sl.sketch(table.append_column("keep", pa.array(keep.astype(int))), PHI, **where)


def column(table, name):
    return np.array(table.column(name).to_pylist(), object if name == "shop" else None)


OPTIONS = {"time": "ts", "every": "1d", "group_by": ["shop", "kind"]}


def test_any_selection_has_the_bytes_of_one_pass(store):
    a, b = rows(700), rows(500, seed=1)
    store.ingest(a, PHI, source="a", **OPTIONS)
    store.ingest(b, source="b")
    both = pa.concat_tables([a, b])
    shop, kind, ts = (column(both, name) for name in ("shop", "kind", "ts"))
    ts = ts.astype("M8[us]")
    assert store.query().sketch().to_bytes() == of(both).to_bytes()
    assert store.query(where={"shop": "north"}).sketch().to_bytes() == of(both, shop == "north").to_bytes()
    assert store.query(where={"shop": [None, "south"]}).sketch() == of(both, shop != "north")
    assert store.query(where="shop = north and kind = 1").sketch() == of(both, shop == "north", kind == 1)
    chosen = store.query(since="2024-02-01", until="2024-02-10", where=lambda g: g["kind"] == 0)
    inside = (ts >= np.datetime64("2024-02-01")) & (ts < np.datetime64("2024-02-10"))
    assert chosen.sketch().to_bytes() == of(both, inside, kind == 0).to_bytes()
    assert chosen.count == (inside & (kind == 0)).sum()
    table = store.query().table(by="shop")
    assert table.groups == ["north", "south", None]
    assert all(table[g] == of(both, shop == g) for g in table)
    months = store.query().timeline("1mo")
    assert list(months) == ["2024-01-01", "2024-02-01"]
    assert months["2024-02-01"] == of(both, ts >= np.datetime64("2024-02-01"))


def test_nothing_is_added_twice(store):
    table = rows(300)
    assert store.ingest(table, PHI, **OPTIONS).rows == 300
    again = store.ingest(table, **OPTIONS)  # known by its sums
    assert (again.rows, again.added, len(again.known)) == (0, (), 1)
    assert store.ingest(rows(300), source="named").rows == 300
    assert store.ingest(rows(10, seed=3), source="named").rows == 0
    assert store.query().count == 600


def test_files_are_sources_of_their_own_and_changes_are_noticed(place, tmp_path):
    store = sl.Store(place)
    tables = {name: rows(100, seed) for seed, name in enumerate("abc")}
    for name, table in tables.items():
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=30)
    first = store.ingest(tmp_path / "[ab].parquet", PHI, **OPTIONS)
    assert len(first.added) == 2
    more = store.ingest(tmp_path / "*.parquet")
    assert [len(more.added), len(more.known), more.rows] == [1, 2, 100]
    assert store.query().sketch() == of(pa.concat_tables(tables.values()))
    pq.write_table(rows(50, 7), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b.parquet was added before and has changed"):
        store.ingest(tmp_path / "*.parquet")
    store.ingest(tmp_path / "*.parquet", replace=True)
    assert store.query().sketch() == of(pa.concat_tables([tables["a"], rows(50, 7), tables["c"]]))
    assert store.forget(str(tmp_path / "c.parquet")) > 0
    assert store.query().sketch().to_bytes() == of(pa.concat_tables([tables["a"], rows(50, 7)])).to_bytes()


def test_an_ingest_is_all_or_nothing(place, tmp_path):
    store = sl.Store(place)
    pq.write_table(rows(50), tmp_path / "1.parquet")
    bad = rows(50, 1)
    bad = bad.set_column(0, "x", pa.array([np.nan] * 50))
    pq.write_table(bad, tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"2\.parquet"):
        store.ingest(tmp_path / "*.parquet", PHI, atomic=True, **OPTIONS)
    assert store.query().count == 0
    assert store.sources() == []
    with pytest.raises(ValueError, match="no cell was selected"):
        store.query().sketch()


def test_rolled_up_cells_give_the_same_bytes(store):
    a, b = rows(400), rows(300, seed=1)
    store.ingest(a, PHI, source="a", **OPTIONS)
    store.ingest(b, source="b")
    both = pa.concat_tables([a, b])
    before = store.query(where={"shop": "south"}).sketch().to_bytes()
    kept = store.rollup("1mo", keep_sources=True)
    assert kept <= 2 * 2 * 6
    assert store.forget("a") > 0
    assert store.query().sketch().to_bytes() == of(b).to_bytes()
    store.ingest(a, source="a")
    assert store.rollup("1mo") <= 2 * 6
    assert store.query(where={"shop": "south"}).sketch().to_bytes() == before
    with pytest.raises(ValueError, match="inside a cell from 2024-02-01 to 2024-03-01"):
        store.query(since="2024-02-05").sketch()
    with pytest.raises(ValueError, match="rolled up with those of other sources"):
        store.forget("a")
    store.forget(a, reason="asked for")  # the rows themselves
    rest = store.query().sketch()
    assert rest.sums.tobytes() == of(b).sums.tobytes()
    assert rest.count == of(b).count
    assert store.ingest(a, source="a").rows == 0
    assert [line["what"] for line in store.journal()] == ["rollup", "forget", "rollup", "forget"]
    assert of(both).count == 700


def test_a_sketch_is_subtracted_from_its_cell(store):
    X = np.random.default_rng(0).normal(size=(60, 2))
    phi = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=1)
    days = np.repeat(np.array(["2024-01-01", "2024-01-02"], "M8[D]"), 30)
    store.ingest(X, phi, time=days, every="1d", group_by={"shop": ["a"] * 60})
    some = sl.sketch(X[30:35], phi)
    store.forget(some, time="2024-01-02T08:00", groups={"shop": "a"})
    left = store.query().sketch()
    assert left.sums.tobytes() == sl.sketch(np.delete(X, np.s_[30:35], axis=0), phi).sums.tobytes()
    with pytest.raises(ValueError, match="never added"):
        store.forget(sl.sketch(X[:40] + 9, phi), time="2024-01-02", groups={"shop": "a"})
    with pytest.raises(ValueError, match="cell 2024-01-05 a: there is no such cell"):
        store.forget(some, time="2024-01-05", groups={"shop": "a"})
    assert store.query().sketch() == left


def test_old_cells_are_dropped(store):
    table = rows(300)
    store.ingest(table, PHI, **OPTIONS)
    store.retain("10d", now="2024-02-20")
    ts = column(table, "ts").astype("M8[us]")
    assert store.query().sketch() == of(table, ts >= np.datetime64("2024-02-10"))


def test_forgetting_is_a_sketch_with_sample_weights(store):
    X = np.random.default_rng(0).normal(size=(90, 2))
    phi = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=1)
    day = np.arange(90) % 30
    store.ingest(X, phi, time=np.datetime64("2024-01-01") + day, every="1d")
    decayed = store.query().sketch(decay="4d")
    weights = np.rint(2.0 ** (16 - (29 - day) / 4)) / 2**16
    assert decayed.to_bytes() == sl.sketch(X, phi, sample_weight=weights).to_bytes()
    assert decayed.effective_count < 90


def test_windows_slide_by_subtraction(store):
    X = np.random.default_rng(0).normal(size=(90, 2))
    phi = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=1)
    day = np.arange(90) % 30
    store.ingest(X, phi, time=np.datetime64("2024-01-01") + day, every="1d")
    for i, (label, window) in enumerate(store.query().sliding("7d")):
        inside = (day <= i) & (day > i - 7)
        assert label == str(np.datetime64("2024-01-01") + i)
        # times decide how many rows there are
        expected = sl.sketch(np.hstack([X, inside[:, None]]), phi, columns=[0, 1], where=(2, "=", 1))
        assert window.to_bytes() == expected.to_bytes()


def test_weights_and_skipped_rows_survive(store):
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(50, 2)), rng.choice([0.25, 1.0, 3.0, 0.7], 50)
    X[3, 0] = np.nan
    phi = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=1)
    store.ingest(X, phi, group_by={"g": (np.arange(50) % 3).tolist()}, sample_weight=w, on_invalid="skip")
    expected = sl.sketch(X, phi, sample_weight=w, on_invalid="skip")
    assert store.query().sketch().to_bytes() == expected.to_bytes()


def test_quadratic_features_keep_their_float_sums(store):
    X = np.random.default_rng(0).normal(size=(200, 3))
    phi = sl.QuadraticFeatures.draw(dim=3, size=12, seed=0)
    store.ingest(X, phi, group_by={"g": (np.arange(200) % 3).tolist()})
    np.testing.assert_allclose(store.query().sketch().mean, sl.sketch(X, phi).mean, rtol=1e-12)


def test_sketches_from_elsewhere_are_cells(store):
    X = np.random.default_rng(0).normal(size=(60, 2))
    phi = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=1)
    table = sl.sketch(X, phi, group_by=["a", "b"] * 30)
    store.add(table, group_by="shop", time="2024-03-05", every="1d", source="spark")
    assert store.add(table, group_by="shop", time="2024-03-05", source="spark").known == ("spark",)
    store.add(table["a"], groups={"shop": "c"}, time="2024-03-06")
    assert store.query().count == 90
    assert store.query(since="2024-03-06").sketch() == table["a"]


def test_private_cells_need_to_be_told_whose_they_are(store):
    X = np.random.default_rng(len(repr(store))).normal(size=(60, 2))
    phi = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=1)
    first, second = (
        sl.privatize(sl.sketch(part, phi), epsilon=1.0, delta=1e-6, public_map=True) for part in (X[:30], X[30:])
    )
    store.add(first, time="2024-03-05", every="1d")
    assert store.query().sketch() == first
    store.add(second, time="2024-03-06")
    with pytest.raises(ValueError, match="users="):
        store.query().sketch()
    together = store.query().sketch(users="disjoint")
    assert together.privacy is not None
    assert together.privacy.epsilon == pytest.approx(1.0)


def test_a_dataset_keeps_its_map_and_its_columns(store):
    store.ingest(rows(50), PHI, **OPTIONS)
    other = sl.FourierFeatures.draw(dim=2, size=30, scale=1.0, seed=1).with_columns(["x", "y"])
    with pytest.raises(sl.IncompatibleSketchError, match="seed 0 vs 1"):
        store.ingest(rows(50, 2), other)
    with pytest.raises(ValueError, match="every='1d', not '1h'"):
        store.ingest(rows(50, 2), every="1h")
    with pytest.raises(ValueError, match="don't fit into"):
        store.rollup("7h")
    store.ingest(rows(20), other, dataset="second")
    with pytest.raises(ValueError, match="which dataset"):
        store.query()
    assert store.query("second").count == 20


def test_a_copy_has_the_same_bytes_and_adds_nothing_twice(place, tmp_path):
    store = sl.Store(place)
    store.ingest(rows(100), PHI, source="a", **OPTIONS)
    copy = tmp_path / "copy.duckdb"
    assert store.export(copy) == len(store.query().cell_keys())
    assert store.export(copy) == 0
    assert sl.Store(copy).query(where={"kind": 1}).sketch() == store.query(where={"kind": 1}).sketch()
    sl.Store(copy).ingest(rows(100, 1), source="b")
    assert store.import_from(copy) > 0
    assert store.query().count == 200


def test_a_locked_file_is_waited_for_and_then_named(tmp_path):
    import subprocess
    import sys

    place = tmp_path / "s.duckdb"
    sl.Store(place).ingest(rows(20), PHI, **OPTIONS)
    script = f"import duckdb, sys; c = duckdb.connect({str(place)!r}); print(1, flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    other.stdout.readline()
    try:
        with pytest.raises(LockedError, match="another process works on this store"):
            sl.Store(place, wait=0.2).query()
    finally:
        other.communicate()
    assert sl.Store(place).query().count == 20


def test_roll_ups_at_the_same_time_lose_nothing_and_add_nothing_twice(place):
    from concurrent.futures import ThreadPoolExecutor

    sl.Store(place).create(PHI, time="ts", every="1d", group_by=["shop", "kind"])

    def work(number):
        store = sl.Store(place)
        for part in range(3):
            store.ingest(rows(40, 3 * number + part), source=f"{number} {part}", workers=1)
            store.rollup("1mo", keep_sources=True)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert sl.Store(place).query().sketch() == of(pa.concat_tables([rows(40, i) for i in range(18)]))


def test_something_else_is_refused(tmp_path):
    foreign = tmp_path / "x.duckdb"
    foreign.write_bytes(b"not a database" * 1000)
    with pytest.raises(sl.SketchFileError, match=r"x.duckdb: not a DuckDB file"):
        sl.Store(foreign).query()
    with pytest.raises(FileNotFoundError):
        sl.Store(tmp_path / "missing.duckdb").query()
    with pytest.raises(ValueError, match="is not a period"):
        sl.Store(tmp_path / "new.duckdb").ingest(rows(5), PHI, time="ts", every="daily")


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_engines_write_the_same_cells(tmp_path, engine):
    pq.write_table(rows(400), tmp_path / "a.parquet", row_group_size=100)
    store = sl.Store(":memory:")
    store.ingest(tmp_path / "a.parquet", PHI, engine=engine, workers=2, **OPTIONS)
    assert store.query(where={"kind": 1}).sketch() == of(rows(400), column(rows(400), "kind") == 1)


def test_a_dask_frame_writes_cells():
    dd = pytest.importorskip("dask.dataframe")
    frame = rows(400).to_pandas()
    store = sl.Store(":memory:")
    assert store.ingest(dd.from_pandas(frame, npartitions=3), PHI, source="frame", **OPTIONS).rows == 400
    assert store.query().sketch() == of(rows(400))


# -- Spark (`make test-engines`) ---------------------------------------------------------------------

spark_warns = pytest.mark.filterwarnings("ignore")  # it has many warnings


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql")

    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parent)]))
        more = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
        for name, value in more.items():
            patch.setenv(name, value)
        build = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        build = build.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
        session = build.config("spark.sql.session.timeZone", "America/New_York").getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture
def here(tmp_path):
    pq.write_table(rows(400), tmp_path / "a.parquet", row_group_size=100)
    made = sl.Store(":memory:")
    made.ingest(tmp_path / "a.parquet", PHI, **OPTIONS)
    return made


def same(a, b):
    keys = a.query().cell_keys()
    assert keys == b.query().cell_keys()
    parts = [(s.timeline(), s.table()) for s in (a.query(), b.query())]
    assert parts[0] == parts[1]
    return True


@spark_warns
def test_a_spark_frame_writes_the_cells_of_a_pass_here(spark, here, tmp_path):
    frame = spark.read.parquet(str(tmp_path / "a.parquet")).repartition(3)
    store = sl.Store(tmp_path / "s.duckdb")
    assert store.ingest(frame, PHI, source="frame", **OPTIONS).rows == 400
    assert store.ingest(frame, source="frame").rows == 0
    assert same(store, here)


@spark_warns
def test_spark_times_with_a_zone_are_moments(spark, here, tmp_path):
    """Spark keeps them in the zone of the session; buckets are those of UTC."""
    table = rows(400)
    zoned = table.column("ts").cast("int64").cast(pa.timestamp("us", "UTC"))
    pq.write_table(table.set_column(table.column_names.index("ts"), "ts", zoned), tmp_path / "b.parquet")
    store = sl.Store(":memory:")
    store.ingest(spark.read.parquet(str(tmp_path / "b.parquet")), PHI, source="zoned", **OPTIONS)
    assert same(store, here)


@spark_warns
def test_spark_executors_read_files_and_every_file_is_a_source(spark, here, tmp_path):
    store = sl.Store(":memory:")
    first = store.ingest(tmp_path / "a.parquet", PHI, engine=spark, **OPTIONS)
    assert len(first.added) == 1
    assert store.ingest(tmp_path / "*.parquet", engine=spark).known == first.added
    assert same(store, here)
