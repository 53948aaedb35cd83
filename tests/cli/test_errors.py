"""Every bad input has its own one-line message and exit code, and leaves no output behind."""

import gzip
import json
import os
import shutil
import sqlite3

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import sketchlearn as sl

X = np.random.default_rng(0).normal(size=(200, 2))
GOOD = pa.table({"x": X[:, 0], "y": X[:, 1]})


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder with something wrong of every kind."""
    tmp_path = tmp_path_factory.mktemp("template")
    features = sl.FourierFeatures.draw(dim=2, size=30, scale=1.0, seed=0)

    def table(name, **columns):
        pq.write_table(pa.table(columns), tmp_path / name)

    one = [1.0] * 3
    pq.write_table(GOOD, tmp_path / "good.parquet")
    pc.write_csv(GOOD, tmp_path / "good.csv")
    table("text.parquet", x=one, y=["a", "b", "c"])
    table("dates.parquet", x=one, y=pa.array([1, 2, 3], pa.timestamp("s")))
    table("three.parquet", x=one, y=one, z=one)
    table("nan.parquet", x=one, y=[1.0, float("nan"), 1.0])
    table("inf.parquet", x=one, y=[1.0, 1.0, float("inf")])
    table("null.parquet", x=one, y=[1.0, None, 1.0])
    table("big.parquet", x=one, y=[1, 2, 2**60])
    table("empty.parquet", x=pa.array([], pa.float64()), y=pa.array([], pa.float64()))
    table("lists.parquet", e=[[1.0, 2.0], [1.0]])
    table("mixed_lists.parquet", e=[[1.0, 2.0]], y=[1.0])
    table("weights.parquet", x=one, y=one, w=[1.0, -1.0, 1.0])
    table("floatgroup.parquet", x=one, y=one, g=one)
    (tmp_path / "schemas").mkdir()
    table("schemas/0.parquet", x=one, y=one)
    table("schemas/1.parquet", x=one, other=one)
    (tmp_path / "kinds").mkdir()
    table("kinds/0.parquet", x=one, y=one)
    (tmp_path / "kinds" / "1.csv").write_text("x,y\n1,2\n")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "fake.parquet").write_bytes(b"this is no Parquet file at all")
    whole = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    packed = gzip.compress((tmp_path / "good.csv").read_bytes())
    (tmp_path / "cut.csv.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "notgzip.csv.gz").write_bytes(b"x,y\n1,2\n")
    (tmp_path / "ragged.csv").write_text("x,y\n1,2\n1,2,3\n")
    (tmp_path / "word.csv").write_text("x,y\n1,2\n1,apple\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "bad.jsonl").write_text('{"x": 1, "y": 2}\n{"x": 1, \n')
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY no")
    np.save(tmp_path / "line.npy", np.zeros(5))
    np.save(tmp_path / "words.npy", np.array([["a", "b"]]))
    (tmp_path / "data.xyz").write_text("?")
    (tmp_path / "fake.arrow").write_bytes(b"no arrow")
    (tmp_path / "fake.h5").write_bytes(b"no hdf")
    (tmp_path / "fake.db").write_bytes(b"this is not a database, but long enough to look at" * 10)
    with sqlite3.connect(tmp_path / "real.db") as connection:
        connection.execute("CREATE TABLE t (x REAL, y TEXT)")
        connection.execute("INSERT INTO t VALUES (1, 'a')")
    connection.close()
    s = sl.sketch(X, features)
    s.save(tmp_path / "good.sketch")
    sl.sketch(X[:50], features).save(tmp_path / "part.sketch")
    other = sl.FourierFeatures.draw(dim=2, size=30, scale=9.0, seed=0)
    sl.sketch(X, other).save(tmp_path / "other.sketch")
    sl.sketch(X[:1], features).save(tmp_path / "one.sketch")
    data = bytearray(s.to_bytes())
    (tmp_path / "cut.sketch").write_bytes(data[:-10])
    data[200] ^= 1
    (tmp_path / "damaged.sketch").write_bytes(data)
    data = bytearray(s.to_bytes())
    data[8] = 9
    (tmp_path / "future.sketch").write_bytes(data)
    (tmp_path / "foreign.json").write_text("{}")
    recipe = {"features": {**features.recipe(), "version": 99}}
    (tmp_path / "future.json").write_text(json.dumps(recipe))
    (tmp_path / "half.checkpoint").write_bytes(b"\x89SKPOINT...")
    sl.sketch(X, features, group_by=np.arange(200) % 2).save(tmp_path / "table.parquet")
    return tmp_path


@pytest.fixture
def world(tmp_path, template, features, designed):
    """A copy of it."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path


SKETCH = ["sketch", "-f", "map.json", "-o", "out"]
CASES = [
    # what is wrong, arguments, exit code, words of the message
    ("missing file", [*SKETCH, "nowhere.parquet"], 3, "nowhere.parquet: there is no such file"),
    ("glob without matches", [*SKETCH, "nowhere/*.csv"], 3, "no file matches"),
    ("empty folder", [*SKETCH, "nothing"], 3, "no data files"),
    ("unknown suffix", [*SKETCH, "data.xyz"], 3, "suffix doesn't tell"),
    ("unknown format", [*SKETCH, "data.xyz", "--format", "excel"], 4, "format='excel' is not known"),
    ("several formats", [*SKETCH, "kinds"], 3, "different formats (csv, parquet)"),
    ("not Parquet", [*SKETCH, "fake.parquet"], 3, "can't be read as Parquet"),
    ("truncated Parquet", [*SKETCH, "cut.parquet"], 3, "cut.parquet: can't be read"),
    ("truncated gzip", [*SKETCH, "cut.csv.gz"], 3, "cut.csv.gz: can't be read as delimited text"),
    ("no gzip", [*SKETCH, "notgzip.csv.gz"], 3, "notgzip.csv.gz: can't be read"),
    ("ragged CSV", [*SKETCH, "ragged.csv"], 3, "Expected 2 columns, got 3"),
    ("a word among numbers", [*SKETCH, "word.csv"], 4, "'y' holds text"),
    ("empty CSV", [*SKETCH, "empty.csv"], 3, "Empty CSV file"),
    ("damaged JSON", [*SKETCH, "bad.jsonl"], 3, "bad.jsonl: can't be read as JSON lines"),
    ("damaged npy", [*SKETCH, "bad.npy"], 3, "can't be read as a .npy file"),
    ("one-dimensional npy", [*SKETCH, "line.npy"], 4, "two dimensions"),
    ("npy of words", [*SKETCH, "words.npy"], 4, "real numbers"),
    ("not Arrow", [*SKETCH, "fake.arrow"], 3, "can't be read as Arrow IPC"),
    ("not HDF5", [*SKETCH, "fake.h5"], 3, "can't be read as HDF5"),
    ("mixed schemas", [*SKETCH, "schemas"], 4, "have different columns ('other', 'y')"),
    ("text column", [*SKETCH, "text.parquet"], 4, "column 'y' holds text, not numbers"),
    ("date column", [*SKETCH, "dates.parquet"], 4, "column 'y' holds values of type timestamp"),
    ("too many columns", [*SKETCH, "three.parquet"], 4, "the data has 3 columns, the feature map was drawn for 2"),
    ("unknown column", [*SKETCH, "good.parquet", "-c", "x,z"], 4, "has no column 'z'; it has 'x', 'y'"),
    ("column named twice", [*SKETCH, "good.parquet", "-c", "x,x"], 4, "'x' twice"),
    ("empty column name", [*SKETCH, "good.parquet", "-c", "x,,y"], 2, "empty name"),
    ("NaN", [*SKETCH, "nan.parquet"], 4, "row 1 (counting from 0, row 1 of nan.parquet) holds NaN"),
    ("infinity", [*SKETCH, "inf.parquet"], 4, "row 2 (counting from 0, row 2 of inf.parquet)"),
    ("null", [*SKETCH, "null.parquet"], 4, "row 1 (counting from 0, row 1 of null.parquet)"),
    ("integer overflow", [*SKETCH, "big.parquet"], 4, "beyond 2**53"),
    ("empty Parquet", [*SKETCH, "empty.parquet"], 4, "no rows"),
    ("ragged embeddings", [*SKETCH, "lists.parquet"], 4, "different lengths: 2 and 1"),
    ("lists among numbers", [*SKETCH, "mixed_lists.parquet"], 4, "must be the only column"),
    ("negative weight", [*SKETCH, "weights.parquet", "--weight-column", "w"], 4, "weight of row 1 is -1.0"),
    ("unknown weight column", [*SKETCH, "good.parquet", "--weight-column", "v"], 4, "no column 'v'"),
    ("groups of decimals", [*SKETCH, "floatgroup.parquet", "--group-by", "g"], 4, "groups must be text"),
    ("bad condition", [*SKETCH, "good.parquet", "--where", "x"], 4, "where='x'"),
    ("condition of another type", [*SKETCH, "good.parquet", "--where", "x = a"], 4, "can't be applied"),
    ("condition on unknown column", [*SKETCH, "good.parquet", "--where", "q = 1"], 4, "no column 'q'"),
    ("nothing passes the condition", [*SKETCH, "good.parquet", "--where", "x > 99"], 4, "no rows"),
    ("wrong dtype", [*SKETCH, "good.parquet", "--dtype", "int8"], 4, "'float32' or 'float64'"),
    ("query on files", [*SKETCH, "good.parquet", "--query", "SELECT 1"], 4, "query doesn't apply to Parquet"),
    ("database without query", [*SKETCH, "real.db"], 4, "say what to read with query"),
    ("bad SQL", [*SKETCH, "real.db", "--query", "SELEC x"], 3, "syntax error"),
    ("unknown table", [*SKETCH, "real.db", "--query", "SELECT * FROM u"], 3, "no such table"),
    ("text from SQL", [*SKETCH, "real.db", "--query", "SELECT * FROM t"], 4, "column 'y' holds text"),
    ("not a database", [*SKETCH, "fake.db", "--query", "SELECT 1"], 3, "not a database"),
    ("bad DuckDB SQL", [*SKETCH, "duckdb:", "--query", "FROM nowhere"], 3, "nowhere"),
    ("dead server", [*SKETCH, "postgresql://u@127.0.0.1:1/x", "--query", "SELECT 1"], 3, "no connection"),
    ("missing feature map", ["sketch", "good.parquet", "-f", "no.json", "-o", "out"], 3, "no.json: there is no"),
    ("foreign JSON as map", ["sketch", "good.parquet", "-f", "foreign.json", "-o", "out"], 5, "neither a feature map"),
    ("map of a newer version", ["sketch", "good.parquet", "-f", "future.json", "-o", "out"], 5, "recipe version 99"),
    ("data as map", ["sketch", "good.parquet", "-f", "good.parquet", "-o", "out"], 5, "neither a feature map"),
    ("more components than rows", ["sketch", "three.parquet", "-k", "9", "-o", "out"], 4, "fewer components (-k)"),
    ("unknown task", ["sketch", "good.parquet", "--task", "dream", "-o", "out"], 4, "task='dream'"),
    (
        "constant column standardised",
        ["design", "three.parquet", "-k", "2", "--standardize", "-o", "out"],
        4,
        "'x' is constant",
    ),
    ("no components", ["sketch", "good.parquet", "-k", "0", "-o", "out"], 2, "-k must be at least 1"),
    ("no workers", [*SKETCH, "good.parquet", "--workers", "0"], 2, "--workers must be at least 1"),
    ("not a number", [*SKETCH, "good.parquet", "--workers", "many"], 2, "'--workers'"),
    ("no output", ["sketch", "good.parquet"], 2, "Missing option"),
    ("unknown option", [*SKETCH, "good.parquet", "--colour"], 2, "--colour"),
    ("unknown verb", ["dream"], 2, "dream"),
    ("output is a folder", ["sketch", "good.parquet", "-f", "map.json", "-o", "nothing"], 6, "is a folder"),
    ("output in no folder", ["sketch", "good.parquet", "-f", "map.json", "-o", "no/out"], 6, "there is no folder no"),
    ("full disk", ["sketch", "good.parquet", "-f", "map.json", "-o", "/dev/full"], 6, "the disk is full"),
    ("follow a query", [*SKETCH, "real.db", "--query", "SELECT 1", "--follow"], 2, "--follow watches files"),
    ("idle without follow", [*SKETCH, "good.parquet", "--idle", "3"], 2, "--idle is for --follow"),
    ("nothing came", [*SKETCH, "nothing", "--follow", "--poll", "0.05", "--idle", "0.1"], 4, "no file came"),
    ("append with features", [*SKETCH, "good.parquet", "--append"], 2, "leave out --features"),
    ("append to another file", ["sketch", "good.csv", "--append", "-o", "damaged.sketch"], 5, "checksum"),
    ("bounds and data", ["design", "good.parquet", "--lower", "0", "--upper", "1", "-o", "out"], 2, "either data or"),
    ("half of the bounds", ["design", "--lower", "0", "-o", "out"], 2, "both --lower and --upper"),
    ("crossed bounds", ["design", "--lower", "1", "--upper", "0", "-o", "out"], 2, "below its upper"),
    ("bounds of words", ["design", "--lower", "a", "--upper", "b", "-o", "out"], 2, "numbers separated"),
    ("truncated sketch", ["info", "cut.sketch"], 5, "truncated"),
    ("damaged sketch", ["info", "damaged.sketch"], 5, "checksum"),
    ("sketch of a newer version", ["info", "future.sketch"], 5, "format version 9"),
    ("no sketch at all", ["info", "good.csv"], 5, "not a sketch"),
    ("Parquet that is no table", ["info", "good.parquet"], 5, "not a table of sketches"),
    ("damaged checkpoint", ["info", "half.checkpoint"], 5, "damaged"),
    ("info on a folder", ["info", "nothing"], 3, "is a folder"),
    ("sketches of other features", ["merge", "good.sketch", "other.sketch", "-o", "out"], 5, "scale 1.0 vs 9.0"),
    ("unknown group", ["merge", "table.parquet", "-g", "7", "-o", "out"], 4, "no group '7'"),
    ("groups of a sketch", ["merge", "good.sketch", "-g", "1", "-o", "out"], 2, "tables of sketches"),
    ("subtract what was never added", ["subtract", "part.sketch", "good.sketch", "-o", "out"], 4, "never added"),
    ("compare other features", ["compare", "good.sketch", "other.sketch"], 5, "different feature maps"),
    ("compare one row", ["compare", "good.sketch", "one.sketch"], 4, "two rows"),
    ("alpha out of range", ["compare", "good.sketch", "part.sketch", "--alpha", "2"], 2, "between 0 and 1"),
]


def test_the_table_is_long_and_its_messages_are_different():
    assert len(CASES) >= 40
    assert len({name for name, *_ in CASES}) == len(CASES)


@pytest.mark.parametrize(("arguments", "code", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_bad_input(run, world, arguments, code, words):
    before = {p: p.read_bytes() for p in world.rglob("*") if p.is_file()}
    got, out, err = run(*arguments)
    assert got == code, err
    assert words in err
    lines = [line for line in err.splitlines() if line.startswith("sketchlearn: ")]
    assert len(lines) == 1
    assert "Traceback" not in err
    assert out == b""
    assert {p: p.read_bytes() for p in world.rglob("*") if p.is_file()} == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(run, world):
    (world / "schemas").chmod(0)
    (world / "good.parquet").chmod(0)
    try:
        for path in ("schemas", "good.parquet"):
            code, _, err = run(*SKETCH, path)
            assert code == 3
            assert "permission" in err.lower()
    finally:
        (world / "schemas").chmod(0o700)


def test_no_permission_in_words(run, world, monkeypatch):
    from sketchlearn.sources import paths

    def refuse(*_):
        raise PermissionError(13, "Permission denied", "secret")

    monkeypatch.setattr(paths, "_below", refuse)
    code, _, err = run(*SKETCH, "schemas")
    assert (code, err) == (3, "sketchlearn: secret: permission denied; check who may read it\n")
