"""Whatever rows come from, the sketch has the same bytes; options do what they say everywhere or are refused."""

import gzip
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import sketchlearn as sl
from sketchlearn.sources.paths import find_files

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pc = pytest.importorskip("pyarrow.csv")

PHI = sl.FourierFeatures.draw(dim=3, size=40, scale=1.0, seed=0)
X = np.random.default_rng(0).normal(size=(5000, 3)).astype(np.float32)
W = np.random.default_rng(1).integers(0, 4, 5000)
G = np.random.default_rng(2).integers(0, 7, 5000)
TABLE = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
RICH = TABLE.append_column("w", pa.array(W)).append_column("g", pa.array([f"g{v}" for v in G]))
WANT = sl.sketch(X, PHI).to_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    pq.write_table(TABLE, path / "x.parquet", row_group_size=700)
    pq.write_table(RICH, path / "rich.parquet", row_group_size=900)
    pc.write_csv(TABLE, path / "x.csv")
    pc.write_csv(RICH, path / "rich.csv")
    (path / "x.csv.gz").write_bytes(gzip.compress((path / "x.csv").read_bytes()))
    pc.write_csv(TABLE, path / "x.tsv", pc.WriteOptions(delimiter="\t"))
    with pa.ipc.new_file(path / "x.arrow", TABLE.schema) as out:
        out.write_table(TABLE, max_chunksize=600)
    with pa.ipc.new_stream(path / "x.arrows", TABLE.schema) as out:
        out.write_table(TABLE, max_chunksize=600)
    with (path / "x.jsonl").open("w") as out:
        out.writelines(json.dumps(dict(zip("abc", map(float, row), strict=True))) + "\n" for row in X)
    np.save(path / "x.npy", X)
    np.save(path / "y0.npy", X[:2000])
    np.save(path / "y1.npy", X[2000:])
    lists = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3)
    pq.write_table(pa.table({"id": ["x"] * 5000, "e": lists}), path / "embedding.parquet")
    connection = sqlite3.connect(path / "x.db")
    connection.execute("CREATE TABLE t (a REAL, b REAL, c REAL, w INTEGER, g TEXT)")
    rows = zip(*X.T.astype(float).tolist(), W.tolist(), [f"g{v}" for v in G], strict=True)
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    for i in range(3):
        part = path / "parts" / f"year={2019 + i}"
        part.mkdir(parents=True)
        pq.write_table(TABLE.slice(i * 2000, 2000), part / "data.parquet")
    return path


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("x.parquet", {}),
        ("parts", {}),
        ("parts/*/*.parquet", {}),
        ("embedding.parquet", {"columns": "e"}),
        ("x.csv", {"dtype": "float32"}),
        ("x.csv.gz", {"dtype": "float32"}),
        ("x.tsv", {"dtype": "float32"}),
        ("x.arrow", {}),
        ("x.arrows", {}),
        ("x.jsonl", {}),
        ("x.npy", {}),
        ("y?.npy", {}),
        ("x.db", {"query": "SELECT a, b, c FROM t"}),
        ("rich.parquet", {"columns": ["a", "b", "c"]}),
        ("rich.csv", {"columns": ["a", "b", "c"], "dtype": "float32"}),
    ],
)
def test_files_give_the_same_bytes(folder, name, options):
    assert sl.sketch(folder / name, PHI, **options).to_bytes() == WANT
    source = sl.read(str(folder / name), **options)
    assert sum(len(rows) for rows in source) == 5000
    # a stream that starts later has the rest
    late = np.concatenate([b.rows for b in source.stream(512, 4321)])
    assert np.array_equal(late, X[4321:])


def test_array_stores(tmp_path):
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("group/x", data=X, chunks=(512, 3))
        file.create_dataset("line", data=np.zeros(5))
    assert sl.sketch(tmp_path / "x.h5", PHI).to_bytes() == WANT
    assert sl.sketch(tmp_path / "x.h5", PHI, dataset="/group/x").to_bytes() == WANT
    with h5py.File(tmp_path / "x.h5") as file:
        assert sl.sketch(file["group/x"], PHI).to_bytes() == WANT
    array = zarr.create_array(store=str(tmp_path / "x.zarr"), shape=X.shape, chunks=(512, 3), dtype="f4")
    array[:] = X
    assert sl.sketch(tmp_path / "x.zarr", PHI).to_bytes() == WANT
    assert sl.sketch(array, PHI).to_bytes() == WANT
    with pytest.raises(ValueError, match="no two-dimensional dataset 'y'"):
        sl.read(tmp_path / "x.h5", dataset="y")


def test_duckdb(folder, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    query = f"SELECT a, b, c FROM '{folder / 'x.parquet'}'"
    assert sl.sketch("duckdb:", PHI, query=query).to_bytes() == WANT
    with duckdb.connect(tmp_path / "x.duckdb") as connection:
        connection.execute(f"CREATE TABLE t AS {query}")
        assert sl.sketch(connection, PHI, query="FROM t").to_bytes() == WANT
        assert sl.sketch(connection.sql("FROM t"), PHI).to_bytes() == WANT
    assert sl.sketch(tmp_path / "x.duckdb", PHI, query="FROM t;").to_bytes() == WANT


def test_frames_and_streams():
    frames = [TABLE, TABLE.to_reader(), TABLE.combine_chunks().to_batches()[0]]
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    narwhals = pytest.importorskip("narwhals")
    frame = TABLE.to_pandas()
    frame.index = frame.index + 7  # an index is not data
    frames += [frame, pandas.DataFrame(X), polars.from_arrow(TABLE), polars.from_arrow(TABLE).lazy()]
    frames += [narwhals.from_native(polars.from_arrow(TABLE))]
    for data in frames:
        assert sl.sketch(data, PHI).to_bytes() == WANT, type(data)


@pytest.mark.parametrize(
    ("name", "format"), [("x.csv", "csv"), ("x.tsv", "tsv"), ("x.jsonl", "jsonl"), ("x.arrows", "arrow")]
)
def test_open_files_are_read_once_from_where_they_are(folder, name, format):
    with (folder / name).open("rb") as file:
        assert sl.sketch(file, PHI, format=format, dtype="float32").to_bytes() == WANT


@pytest.mark.parametrize("name", ["rich.parquet", "rich.csv", "x.db", "frame", "pandas", "polars", "dataset"])
def test_weights_groups_and_filters(folder, name):
    frames = {"frame": RICH, "pandas": RICH.to_pandas()}
    if name == "polars":
        frames["polars"] = pytest.importorskip("polars").from_arrow(RICH)
    if name == "dataset":
        import pyarrow.dataset as ds

        frames["dataset"] = ds.dataset(folder / "rich.parquet")
    data = frames.get(name, folder / name)
    options = {"query": "SELECT * FROM t"} if name == "x.db" else {}
    if name == "rich.csv":
        options["dtype"] = "float32"
    chosen = {**options, "columns": ["a", "b", "c"]}
    assert sl.sketch(data, PHI, weight_column="w", **chosen) == sl.sketch(X, PHI, sample_weight=W)
    table = sl.sketch(data, PHI, group_by="g", weight_column="w", **options)
    assert table.groups == [f"g{v}" for v in range(7)]
    for v in range(7):
        assert table[f"g{v}"] == sl.sketch(X[v == G], PHI, sample_weight=W[v == G])
    if name != "x.db":
        some = sl.sketch(data, PHI, where=["w >= 2", ("g", "in", ["g1", "g3"])], **chosen)
        assert some == sl.sketch(X[(W >= 2) & np.isin(G, [1, 3])], PHI)


def test_weights_of_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X)
    assert sl.sketch(frame, PHI, sample_weight=W) == sl.sketch(X, PHI, sample_weight=W)
    assert sl.sketch(frame, PHI, group_by=G) == sl.sketch(X, PHI, group_by=G)


def test_filters_leave_out_row_groups(tmp_path):
    pq.write_table(pa.table({"a": np.arange(10_000.0)}), tmp_path / "x.parquet", row_group_size=1000)
    source = sl.read(tmp_path / "x.parquet", where="a < 1500")
    assert len(source.parts) == 1  # two row groups of ten
    assert sum(len(rows) for rows in source) == 1500


def test_partition_keys_are_columns_only_when_named(folder):
    assert sl.read(folder / "parts").names == ("a", "b", "c")
    table = sl.sketch(folder / "parts", PHI, group_by="year")
    assert table.counts == {2019: 2000, 2020: 2000, 2021: 1000}
    assert sl.sketch(folder / "parts", PHI, where="year = 2021") == sl.sketch(X[4000:], PHI)
    assert sl.read(folder / "parts", columns=["year", "a"]).names == ("year", "a")


def test_a_map_with_names_reads_its_columns(folder):
    phi = PHI.with_columns(["c", "a", "b"])
    assert sl.sketch(folder / "rich.parquet", phi) == sl.sketch(X[:, [2, 0, 1]], phi)
    assert sl.Sketch.from_bytes(sl.sketch(RICH, phi).to_bytes()).features.columns == ("c", "a", "b")
    with pytest.raises(ValueError, match="the columns of the data are a, b, c"):
        sl.sketch(folder / "rich.parquet", phi, columns=["a", "b", "c"])
    with pytest.raises(sl.IncompatibleSketchError, match="other values of columns"):
        sl.sketch(RICH, phi) + sl.sketch(X, PHI)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None, 3], pa.int64()),
        pa.array([1.0, None, 3.0], pa.float32()),
        pa.array([1, None, 3], pa.decimal128(5, 2)),
        pa.array([True, None, True]),
        pa.array([1.0, float("inf"), 2.0]),
        pa.array([None, None, 3.0]),
        pa.array([[1.0], None, [2.0]]),
        pa.array([1.0, None, 2.0]).dictionary_encode(),
    ],
)
def test_nulls_are_invalid_rows(column):
    phi = sl.FourierFeatures.draw(dim=1, size=10, scale=1.0, seed=0)
    table = pa.table({"a": column})
    with pytest.raises(ValueError, match=r"row [01] "):
        sl.sketch(table, phi)
    s = sl.sketch(table, phi, on_invalid="skip")
    assert s.skipped + s.count == 3
    assert s.skipped >= 1


def test_types_stay_as_narrow_as_they_are():
    assert next(iter(sl.read(TABLE))).dtype == np.float32
    assert next(iter(sl.read(RICH, columns=["a", "w"]))).dtype == np.float64
    assert next(iter(sl.read(TABLE, dtype="float64"))).dtype == np.float64


def test_invalid_rows_are_named_with_their_file(tmp_path):
    bad = X.copy()
    bad[3210, 1] = np.nan
    for i in range(2):
        rows = bad[i * 2500 : (i + 1) * 2500]
        pq.write_table(pa.table(dict(zip("abc", rows.T, strict=True))), tmp_path / f"{i}.parquet", row_group_size=500)
    with pytest.raises(ValueError, match=r"row 3210 \(counting from 0, row 710 of 1\.parquet\)"):
        sl.sketch(tmp_path, PHI)
    with pytest.raises(ValueError, match="row 3210 "):
        sl.sketch(bad, PHI, group_by=G)


def test_pilot_samples_come_from_everywhere(tmp_path):
    pq.write_table(pa.table({"a": np.arange(100_000.0)}), tmp_path / "sorted.parquet", row_group_size=1000)
    for data in (tmp_path / "sorted.parquet", np.arange(100_000.0)[:, None]):
        sample = sl.read(data).sample(500, seed=1)
        assert sample.shape == (500, 1)
        assert abs(sample.mean() - 50_000) < 8000
        assert np.array_equal(sample, sl.read(data).sample(500, seed=1))


def test_standardised_maps_need_no_second_copy():
    Y = X.astype(float) * [1, 1000, 1e-3] + [50, 0, 1]
    phi = PHI.standardized(Y.mean(0), Y.std(0))
    assert phi.recipe()["center"] is not None
    s, t = sl.sketch(Y, phi), sl.sketch((Y - Y.mean(0)) / Y.std(0), PHI)
    assert np.allclose(np.abs(s.mean), np.abs(t.mean), atol=1e-4)
    assert sl.Sketch.from_bytes(s.to_bytes()) == s
    with pytest.raises(ValueError, match="spread of column 1"):
        PHI.standardized([0, 0, 0], [1, 0, 1])


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (TABLE, {"columns": ["a", "z"]}, "no column 'z'"),
        (TABLE, {"columns": []}, "empty"),
        (TABLE, {"columns": ["a", "a"]}, "twice"),
        (TABLE, {"where": "a ~ 3"}, "write a column"),
        (TABLE, {"where": [("a", "like", 3)]}, "unknown operator"),
        (TABLE, {"where": "a = text"}, "is not a number"),
        (TABLE, {"query": "SELECT 1"}, "doesn't apply"),
        (TABLE, {"dtype": "int8"}, "float32"),
        (TABLE, {"group_by": "a"}, "groups must be text"),
        (RICH, {}, "'g' holds text"),
        (RICH, {"columns": "a", "weight_column": "g"}, "the weights in 'g' are text"),
        (pa.table({"a": [2**60]}), {}, "beyond 2\\*\\*53"),
        (pa.table({"a": [[1.0], [1.0, 2.0]]}), {}, "different lengths"),
        (pa.table({"a": [[1.0]], "b": [1.0]}), {}, "only column"),
        (X, {"weight_column": "w"}, "doesn't apply"),
        (X, {"columns": ["a"]}, "no column names"),
        (X, {"columns": [7]}, "no column number 7"),
        (X, {"group_by": [1, 2]}, "one label per row"),
        (iter([X]), {"group_by": G}, "doesn't apply"),
        ("nowhere/*.parquet", {}, "no file matches"),
        ("nowhere.parquet", {}, "no such file"),
    ],
)
def test_bad_options_are_named(data, options, message):
    with pytest.raises((ValueError, OverflowError, FileNotFoundError), match=message):
        sl.sketch(data, PHI, **options)


def test_files_with_other_columns_are_refused(tmp_path):
    pq.write_table(TABLE, tmp_path / "0.parquet")
    pq.write_table(TABLE.rename_columns(["a", "b", "x"]), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"1.parquet and .*0.parquet have different columns \('c', 'x'\)"):
        sl.read(tmp_path)
    pq.write_table(TABLE.select(["c", "b", "a"]), tmp_path / "1.parquet")  # another order is fine
    assert sl.sketch(tmp_path, PHI) == sl.sketch(np.vstack([X, X]), PHI)


def test_a_missing_package_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(sl.MissingPackageError, match=r"pip install 'sketchlearn\[postgres\]'"):
        sl.read("postgresql://localhost/x", query="SELECT 1")


def test_a_pilot_is_fair_on_data_made_with_the_same_seed():
    # labels and keys drawn from the same stream would be the same numbers
    rng = np.random.default_rng(0)
    rows = np.floor(10 * rng.random(50_000))[:, None]
    counts = np.bincount(sl.read(rows).sample(1000, seed=0)[:, 0].astype(int), minlength=10)
    assert np.abs(counts - 100).max() < 5 * np.sqrt(90)


def _first_squared(rows):
    return rows[:, :1] ** 2


def test_rows_can_go_through_a_function(tmp_path):
    phi = sl.FourierFeatures.draw(dim=1, size=5, scale=1.0, seed=0)
    X, w = np.random.default_rng(0).normal(size=(100, 2)), np.arange(1, 101) / 8
    want = sl.sketch(X[:, :1] ** 2, phi, sample_weight=w, group_by=np.arange(100) % 3)
    source = sl.read(X, sample_weight=w, group_by=np.arange(100) % 3).map(_first_squared, ["square"])
    assert sl.sketch(source, phi) == want
    assert source.names == ("square",)
    np.testing.assert_array_equal(np.sort(source.sample(100), axis=0), np.sort(X[:, :1] ** 2, axis=0))
    np.save(tmp_path / "x.npy", X)
    plain = sl.read(tmp_path / "x.npy").map(_first_squared)
    assert sl.sketch(plain, phi) == sl.sketch(X[:, :1] ** 2, phi)
    with pytest.raises(ValueError, match="checkpoints need files"):
        sl.sketch(plain, phi, checkpoint=tmp_path / "state")
    marked = sl.read(tmp_path / "x.npy").map(_first_squared, mark="first column squared")
    assert sl.sketch(marked, phi, checkpoint=tmp_path / "state") == sl.sketch(plain, phi)
    with pytest.raises(ValueError, match="another map"):
        sl.sketch(sl.read(tmp_path / "x.npy").map(abs, mark="other"), phi, checkpoint=tmp_path / "state")
    stream = sl.read(iter(np.split(X, 4))).map(_first_squared)
    assert stream.sample(10).shape == (10, 1)
    assert sl.sketch(stream, phi) == sl.sketch(plain, phi)
    with pytest.raises(ValueError, match="must keep all of them"):
        list(sl.read(X).map(lambda rows: rows[1:]))


def test_unknown_options_are_refused():
    for call in (sl.read, lambda X, **options: sl.sketch(X, None, **options)):
        with pytest.raises(TypeError, match=r"column|feature map"):
            call(np.zeros((2, 2)), column=[0])
    with pytest.raises(TypeError, match="unexpected keyword argument 'column': did you mean 'columns'"):
        sl.sketch(np.zeros((2, 1)), sl.FourierFeatures.draw(dim=1, size=5, scale=1.0), column=[0])
    with pytest.raises(TypeError, match="did you mean 'weight_column' or 'sample_weight'"):
        sl.read(np.zeros((2, 2)), weights=np.ones(2))
    with pytest.raises(TypeError, match="'nonsense': the options for rows are columns, weight_column"):
        sl.read(np.zeros((2, 2)), nonsense=1)


def test_a_source_can_be_read_twice_at_once(tmp_path):
    """What a reading knows about places is its own."""
    for i in range(2):
        np.save(tmp_path / f"{i}.npy", np.full((10, 1), float(i)))
    source = sl.read([tmp_path / "0.npy", tmp_path / "1.npy"])
    one, two = source.stream(5), source.stream(5, 12)
    assert [len(batch.rows) for batch in one] == [5, 5, 5, 5]
    assert sum(len(batch.rows) for batch in two) == 8
    assert one.place(13) == two.place(13) == ", row 3 of 1.npy"
    assert one.place(3) == ", row 3 of 0.npy"


SQLITE_TRICKS = [
    "WITH x AS (SELECT 1) DELETE FROM t",
    "SELECT a, b, c FROM t) LIMIT 0; DELETE FROM t; SELECT * FROM (SELECT a, b, c FROM t",
    "INSERT INTO t SELECT a, b, c FROM t RETURNING a, b, c",
    "SELECT a, b, load_extension('x') AS c FROM t",
    "SELECT a, b, writefile('made', 'x') AS c FROM t",
    "EXPLAIN DELETE FROM t",
    "/**/ATTACH 'made' AS m",
    "-- x\nVACUUM INTO 'made'",
    "SELECT * FROM pragma_user_version(5)",
    "SELECT * FROM pragma_wal_checkpoint",
    "BEGIN IMMEDIATE",
    "SAVEPOINT x",
    "CREATE TEMP TABLE made (x)",
]


@pytest.mark.parametrize("own", [False, True])
def test_sqlite_can_not_be_tricked_into_writing(tmp_path, monkeypatch, own):
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("x.db", check_same_thread=False)) as connection:
        connection.execute("CREATE TABLE t (a REAL, b REAL, c REAL)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", X[:50].astype(float).tolist())
        connection.commit()
        before = Path("x.db").read_bytes()
        for query in SQLITE_TRICKS:
            with pytest.raises((ValueError, OSError)):
                sl.sketch(connection if own else "x.db", PHI, query=query)
            assert Path("x.db").read_bytes() == before
            assert sorted(p.name for p in tmp_path.iterdir()) == ["x.db"], query
            assert not connection.in_transaction
        assert sl.sketch(connection if own else "x.db", PHI, query="SELECT * FROM t").count == 50
        connection.execute("DELETE FROM t WHERE a > 0")  # whose connection it is may write again
        assert connection.execute("PRAGMA query_only").fetchone() == (0,)


DUCKDB_TRICKS = [
    "COPY t TO 'made.csv'",
    "SELECT a, b, nextval('s') AS c FROM t",
    "SELECT * FROM query('DELETE FROM t')",
    "SELECT a, b, c FROM t; DELETE FROM t",
    "/**/ATTACH 'made.db'",
    "EXPLAIN ANALYZE DELETE FROM t",
    "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
    "CREATE TABLE made AS SELECT 1",
    "EXPORT DATABASE 'made'",
    "CALL pragma_version()",
    "SET memory_limit = '1GB'",
    "CHECKPOINT",
    "PREPARE p AS DELETE FROM t",
]


@pytest.mark.parametrize("own", [False, True])
def test_duckdb_can_not_be_tricked_into_writing(tmp_path, monkeypatch, own):
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("x.duckdb") as connection:
        connection.execute("CREATE TABLE t (a REAL, b REAL, c REAL); CREATE SEQUENCE s")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", X[:50].astype(float).tolist())
        connection.execute("CHECKPOINT")
        if not own:
            connection.close()
        for query in DUCKDB_TRICKS:
            with pytest.raises((ValueError, OSError)):
                sl.sketch(connection if own else "x.duckdb", PHI, query=query)
            assert not list(tmp_path.glob("made*")), query
        assert sl.sketch(connection if own else "x.duckdb", PHI, query="FROM t").count == 50
        again = connection if own else duckdb.connect("x.duckdb")
        with again:
            assert again.execute("SELECT count(*) FROM t").fetchone() == (50,)
            assert again.execute("SELECT nextval('s')").fetchone() == (1,)


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_other_columns_of_arrow_files_are_not_unpacked(tmp_path, kind):
    from sketchlearn.sources.ipc import _open

    table = pa.table({"text": ["x" * 1000] * 50, "b": np.arange(50.0), "a": np.ones(50)})
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with make(str(tmp_path / "t.arrow"), table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    reader, numbered = _open(str(tmp_path / "t.arrow"), (1, 2))
    assert numbered == (kind == "file")
    assert (reader.get_batch(0) if numbered else next(iter(reader))).schema.names == ["b", "a"]
    phi = sl.FourierFeatures.draw(dim=2, size=10, scale=1.0, seed=0)
    rows = np.column_stack([np.ones(50), np.arange(50.0)])
    assert sl.sketch(tmp_path / "t.arrow", phi, columns=["a", "b"]) == sl.sketch(rows, phi)


def test_a_file_is_read_once_by_whatever_names(tmp_path):
    """Listed twice, by a link, by another name, by a glob and a path: its rows count once, and that is said."""
    rows, link, hard = tmp_path / "b.csv", tmp_path / "a.csv", tmp_path / "c.csv"
    rows.write_text("x\n1\n2\n")
    phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    link.symlink_to(rows)
    os.link(rows, hard)
    for given in ([rows, rows], [rows, link], [link, rows], [rows, hard], str(tmp_path / "*.csv"), tmp_path):
        with pytest.warns(sl.DataWarning, match="its rows are read once"):
            assert sl.sketch(given, phi).count == 2
        with pytest.warns(sl.DataWarning, match="its rows are read once"):
            assert list(find_files([str(v) for v in (given if isinstance(given, list) else [given])]).paths) == [
                str(rows)
            ]
    assert sl.sketch(link, phi).count == 2  # alone it is a file like any other
    (tmp_path / "d.csv").write_text("x\n1\n2\n")  # the same rows in another file are other rows
    assert sl.sketch([rows, tmp_path / "d.csv"], phi).count == 4


def test_groups_given_as_an_array_are_those_of_the_column(tmp_path):
    """Dates, time zones, missing values and categoricals: the labels are the same, and what is no label is refused."""
    pd = pytest.importorskip("pandas")
    phi, x = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0), np.arange(6.0)
    dates = pd.to_datetime(["2020-01-01", "2020-01-02", None] * 2)
    columns = {
        "dates": dates,
        "nanoseconds": dates.as_unit("ns") + pd.Timedelta(1, "ns"),
        "time zone": dates.tz_localize("Europe/Berlin"),
        "categorical": pd.Categorical(["a", "b", None] * 2),
        "integers": pd.Categorical([3, 7, None] * 2),
        "nullable": pd.array([1, 2, None] * 2, dtype="Int64"),
        "text": np.array(["a", "b", None] * 2, object),
        "NaN": np.array(["a", "b", np.nan] * 2, object),
        "strings": pd.array(["a", "b", None] * 2, dtype="string"),
        "booleans": pd.array([True, False, None] * 2, dtype="boolean"),
    }
    for name, values in columns.items():
        frame = pd.DataFrame({"x": x, "g": values})
        expected = sl.sketch(frame, phi, columns=["x"], group_by="g")
        assert set(expected.counts.values()) == {2}, name
        for given in (values, frame["g"], list(values)):
            found = sl.sketch(x[:, None], phi, group_by=given)
            assert {(type(k), k): s for k, s in found.items()} == {(type(k), k): s for k, s in expected.items()}, name
            assert sl.sketch(frame, phi, columns=["x"], group_by=given).counts == expected.counts, name
    for wrong in ([1.5, 2.5] * 3, pd.to_timedelta([1, 2, 3] * 2, unit="D"), [b"a", b"b"] * 3, ["a", 1] * 3):
        with pytest.raises(ValueError, match="group"):
            sl.sketch(x[:, None], phi, group_by=wrong)
