"""Every bad input has its own one-line message and exit code, and leaves no output behind."""

import bz2
import decimal
import gzip
import io
import json
import lzma
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import sketchlearn as sl
from sketchlearn.engines.checkpoint import Checkpoint

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
    table("floatgroup.parquet", x=one, y=one, g=[value + 0.5 for value in one])
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
    _odd_tables(tmp_path)
    _odd_text(tmp_path)
    _odd_arrays(tmp_path)
    return tmp_path


def _odd_tables(folder):
    """Parquet, Arrow and SQLite files that are well-formed and still not what was asked for."""
    one = [1.0] * 3

    def table(name, **columns):
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")

    (folder / "zero.parquet").write_bytes(b"")
    (folder / "text_inside.parquet").write_text("x,y\n1,2\n" * 10)
    pq.ParquetWriter(folder / "nogroups.parquet", GOOD.schema).close()
    twice = pa.Table.from_arrays([pa.array(one)] * 3, ["x", "y", "y"])
    pq.write_table(twice, folder / "twice.parquet")
    table("nulls", x=one, y=pa.array([None] * 3, pa.float64()))
    table("days", x=one, y=pa.array([1, 2, 3], pa.date32()))
    table("categories", x=one, y=pa.array(["a", "b", "a"]).dictionary_encode())
    table("struct", x=one, y=[{"a": 1.0}] * 3)
    table("binary", x=one, y=[b"a"] * 3)
    table("unsigned", x=one, y=pa.array([1, 2, 2**63], pa.uint64()))
    table("decimals", x=one, y=pa.array([decimal.Decimal(2**53 + 1)] * 3, pa.decimal128(20, 0)))
    table("comma", **{"a,b": one, "Größe in m": ["x"] * 3})
    table("null_list", e=[[1.0, 2.0], None])
    table("null_inside", e=[[1.0, 2.0], [1.0, None]])
    table("nan_inside", e=[[1.0, 2.0], [float("nan"), 1.0]])
    table("big_inside", e=[[1, 2], [3, 2**53 + 1]])
    table("empty_lists", e=pa.array([[], []], pa.list_(pa.float64())))
    table("only_null_lists", e=pa.array([None, None], pa.list_(pa.float64())))
    table("nested_lists", e=[[[1.0, 2.0]]] * 2)
    table("text_lists", e=[["a", "b"]] * 2)
    table("wide_lists", e=[[1.0, 2.0, 3.0]] * 2)
    table("far", x=one, y=[1.0, 1e300, 1.0])
    table("minus", x=one, y=[1.0, float("-inf"), 1.0])
    for name, weights in {
        "nan": [1.0, float("nan"), 1.0], "null": [1.0, None, 1.0], "none": [0.0] * 3, "huge": [1e30, 0.0, 0.0],
        "tiny": [1.0, 1e-9, 1.0], "text": ["a"] * 3, "inf": [1.0, float("inf"), 1.0],
    }.items():  # fmt: skip
        table(f"weights_{name}", x=one, y=one, w=weights)
    table("groups_decimal", x=one, y=one, g=pa.array([decimal.Decimal("1.5")] * 3))
    table("groups_list", x=one, y=one, g=[[1]] * 3)
    table("groups_bytes", x=one, y=one, g=[b"a"] * 3)
    table("country", x=one, y=one, c=["DE", "FR", "DE"])
    with pa.ipc.new_file(folder / "empty.arrow", GOOD.schema):
        pass
    with pa.ipc.new_file(folder / "whole.arrow", GOOD.schema) as out:
        out.write_table(GOOD)
    whole = (folder / "whole.arrow").read_bytes()
    (folder / "cut.arrow").write_bytes(whole[: len(whole) // 2])
    for name in ("other", "again"):
        (folder / "part" / f"day={name}").mkdir(parents=True)
    pq.write_table(GOOD, folder / "part" / "day=other" / "0.parquet")
    pq.write_table(pa.table({"x": one, "y": [1.0, None, 1.0]}), folder / "part" / "day=again" / "0.parquet")
    (folder / "types").mkdir()
    table("types/0", x=one, y=one)
    table("types/1", x=one, y=["a"] * 3)
    (folder / "link.parquet").symlink_to("nowhere at all")
    (folder / "loop").mkdir()
    (folder / "loop" / "a.parquet").symlink_to("b.parquet")
    (folder / "loop" / "b.parquet").symlink_to("a.parquet")
    with sqlite3.connect(folder / "more.db") as connection:
        connection.execute("CREATE TABLE t (x REAL, y)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(1.0, 1.5), (2.0, 2**53 + 1)])
        connection.execute("CREATE TABLE b (x REAL, y)")
        connection.execute("INSERT INTO b VALUES (1.0, x'00')")
    connection.close()


def _odd_text(folder):
    for name, text in {
        "header.csv": "x,y\n", "blank.csv": "\n\n\n", "nohead.csv": "1.5,2.5\n3.5,4.5\n", "nohead2.csv": "7,3\n3,4\n",
        "semi.csv": "x;y\n1;2\n", "tabs.csv": "x\ty\n1\t2\n", "short.csv": "x,y\n1,2\n1\n", "twice.csv": "x,x\n1,2\n",
        "big.csv": f"x,y\n1,2\n1,{2**53 + 1}\n", "inf.csv": "x,y\n1,2\n1,inf\n", "na.csv": "x,y\n1,2\n1,\n",
        "over.csv": "x,y\n1,1e999\n", "spaces.csv": "x, y\n1, 2\n", "hex.csv": "x,y\n1,0x10\n",
        "late.csv": "x,y\n" + "1,2\n" * 300_000 + "1,apple\n", "thousands.csv": 'x,y\n1,"1,234.5"\n',
        "late_big.csv": "x,y\n" + "1,2\n" * 300_000 + f"1,{2**53 + 1}\n",
        "mixed.jsonl": '{"x": 1, "y": 2}\n{"x": 1, "y": "a"}\n', "array.jsonl": "[1, 2]\n", "empty.jsonl": "",
        "nested.jsonl": '{"x": 1, "y": {"a": 1}}\n', "missing.jsonl": '{"x": 1, "y": 2}\n{"x": 1}\n',
        "big.jsonl": f'{{"x": 1, "y": 2.5}}\n{{"x": 1, "y": {2**53 + 1}}}\n',
        "ragged.jsonl": '{"e": [1, 2]}\n{"e": [1]}\n',
    }.items():  # fmt: skip
        (folder / name).write_text(text)
    (folder / "latin.csv").write_bytes("x,y\n1,Müller\n".encode("latin-1"))
    (folder / "latin_head.csv").write_bytes("x,größe\n1,2\n".encode("latin-1"))
    (folder / "utf16.csv").write_bytes("x,y\n1,2\n".encode("utf-16"))
    (folder / "really_parquet.csv").write_bytes((folder / "good.parquet").read_bytes())
    (folder / "really_gzip.csv").write_bytes(gzip.compress(b"x,y\n1,2\n"))
    data = b"x,y\n" + b"1.5,2.5\n" * 5000
    for suffix, packed in {
        "bz2": bz2.compress(data), "xz": lzma.compress(data), "zst": pa.compress(data, "zstd", asbytes=True),
        "lz4": pa.compress(data, "lz4", asbytes=True), "br": pa.compress(data, "brotli", asbytes=True),
    }.items():  # fmt: skip
        (folder / f"cut.csv.{suffix}").write_bytes(packed[: len(packed) * 2 // 3])


def _odd_arrays(folder):
    np.save(folder / "complex.npy", X.astype(complex))
    np.save(folder / "objects.npy", np.array([[1, 2]], object), allow_pickle=True)
    np.save(folder / "norows.npy", np.zeros((0, 2)))
    np.save(folder / "cube.npy", np.zeros((3, 2, 2)))
    np.save(folder / "big.npy", np.array([[1, 2], [3, -(2**60)]]))
    np.save(folder / "three.npy", np.zeros((4, 3)))
    np.save(folder / "nan.npy", np.array([[1.0, 2.0], [np.nan, 1.0]]))
    whole = io.BytesIO()
    np.save(whole, X)
    (folder / "cut.npy").write_bytes(whole.getvalue()[:-100])


@pytest.fixture
def world(tmp_path, template, features, designed):
    """A copy of it."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True, symlinks=True)
    return tmp_path


SKETCH = ["sketch", "-f", "map.json", "-o", "out"]
CASES = [
    # what is wrong, arguments, exit code, words of the message
    ("missing file", [*SKETCH, "nowhere.parquet"], 3, "nowhere.parquet: there is no such file"),
    ("glob without matches", [*SKETCH, "nowhere/*.csv"], 3, "no file matches"),
    ("empty folder", [*SKETCH, "nothing"], 3, "no data files"),
    ("unknown suffix", [*SKETCH, "data.xyz"], 3, "suffix doesn't show the format; give --format, one of"),
    ("no row left", ["sketch", "good.parquet", "--where", "x > 99", "-o", "out"], 4, "a condition leaves none"),
    ("turned operator", [*SKETCH, "good.parquet", "--where", "x => 3"], 2, "write a column, one of"),
    ("missing numbers can be filled", [*SKETCH, "nan.parquet"], 4, "or --encode to fill them"),
    ("misspelt option", [*SKETCH, "good.parquet", "--featurs", "a"], 2, "--featurs; did you mean --features?"),
    ("a word for a number", ["sketch", "good.parquet", "-k", "many", "-o", "out"], 2, "give a whole number"),
    ("file in place of a model", ["learn", "good.sketch", "-o", "out"], 2, "a command must come first (kmeans"),
    ("a file, and no kind of model", ["learn", "good.sketch"], 2, "e.g. 'sketchlearn learn kmeans good.sketch'"),
    ("no number of clusters", ["learn", "kmeans", "good.sketch"], 2, "-k or --components is missing: number of"),
    ("nowhere to write", ["learn", "kmeans", "good.sketch", "-k", "3"], 2, "-o or --output is missing: where to write"),
    ("nothing to read", ["info"], 2, "PATH is missing: sketch, table, map"),
    (
        "no cluster at all",
        ["learn", "kmeans", "good.sketch", "-k", "0", "-o", "out"],
        2,
        "-k or --components must be at least 1",
    ),
    ("range from the end", ["sweep", "good.sketch", "-k", "9:2"], 2, "larger than the last one; write 2:9"),
    ("no ledger", ["ledger", "show", "nowhere.json"], 3, "there is no such ledger"),
    ("no ledger any more", ["ledger", "show", "map.json"], 3, "not a ledger"),
    ("sketch of another kind", ["learn", "pca", "good.sketch", "-k", "1", "-o", "out"], 5, "needs quadratic features"),
    ("sketch of one group", ["independence", "good.sketch"], 5, "needs products of Fourier features"),
    ("no table", ["learn", "classifier", "good.sketch", "-o", "out"], 5, "a classifier needs a table"),
    ("report as PDF", ["report", "map.json", "-o", "out.pdf"], 2, "give it a name that ends with .html"),
    ("model in place of a sketch", ["synthesize", "map.json", "-o", "out"], 5, "not a sketch but a model"),
    ("store without a dataset", ["store", "ingest", "new.duckdb", "good.parquet"], 2, "store init new.duckdb"),
    ("unknown format", [*SKETCH, "data.xyz", "--format", "excel"], 2, "--format excel: choose one of parquet, csv"),
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
    ("bad condition", [*SKETCH, "good.parquet", "--where", "x"], 2, "--where x:"),
    (
        "condition of another type",
        [*SKETCH, "good.parquet", "--where", "x = a"],
        2,
        "is not a number",
    ),
    ("condition on unknown column", [*SKETCH, "good.parquet", "--where", "q = 1"], 4, "no column 'q'"),
    ("nothing passes the condition", [*SKETCH, "good.parquet", "--where", "x > 99"], 4, "no rows"),
    ("wrong dtype", [*SKETCH, "good.parquet", "--dtype", "int8"], 2, "--dtype int8: choose one of float32, float64"),
    ("query on files", [*SKETCH, "good.parquet", "--query", "SELECT 1"], 2, "--query doesn't apply to Parquet"),
    ("database without query", [*SKETCH, "real.db"], 4, "say what to read with --query"),
    ("bad SQL", [*SKETCH, "real.db", "--query", "SELEC x"], 3, "syntax error"),
    ("unknown table", [*SKETCH, "real.db", "--query", "SELECT * FROM u"], 3, "no such table"),
    ("text from SQL", [*SKETCH, "real.db", "--query", "SELECT * FROM t"], 4, "column 'y' holds text"),
    ("not a database", [*SKETCH, "fake.db", "--query", "SELECT 1"], 3, "not a database"),
    ("bad DuckDB SQL", [*SKETCH, "duckdb:", "--query", "FROM nowhere"], 3, "nowhere"),
    ("dead server", [*SKETCH, "postgresql://u@127.0.0.1:1/x", "--query", "SELECT 1"], 3, "no connection"),
    # tables
    ("file of no bytes", [*SKETCH, "zero.parquet"], 3, "size is 0 bytes"),
    ("text called Parquet", [*SKETCH, "text_inside.parquet"], 3, "text_inside.parquet: can't be read as Parquet"),
    ("Parquet without row groups", [*SKETCH, "nogroups.parquet"], 4, "no rows"),
    ("two columns of one name", [*SKETCH, "twice.parquet"], 4, "more than one column named 'y'"),
    ("column of nulls", [*SKETCH, "nulls.parquet"], 4, "row 0 of nulls.parquet) holds NaN or a null in column 'y'"),
    ("only invalid rows", [*SKETCH, "nulls.parquet", "--skip-invalid"], 4, "all 3 rows hold NaN"),
    ("days", [*SKETCH, "days.parquet"], 4, "column 'y' holds values of type date32"),
    ("categories of text", [*SKETCH, "categories.parquet"], 4, "column 'y' holds text"),
    ("nested columns", [*SKETCH, "struct.parquet"], 4, "column 'y' holds values of type struct"),
    ("field of a nested column", [*SKETCH, "struct.parquet", "-c", "x,y.a"], 4, "has no column 'y.a'"),
    ("bytes", [*SKETCH, "binary.parquet"], 4, "column 'y' holds bytes"),
    ("unsigned overflow", [*SKETCH, "unsigned.parquet"], 4, "row 2 of unsigned.parquet): column 'y' has the integer"),
    ("whole decimals overflow", [*SKETCH, "decimals.parquet"], 4, "has the integer 9007199254740993"),
    ("names with commas", [*SKETCH, "comma.parquet", "-c", '"a,b",Größe in m'], 4, "column 'Größe in m' holds text"),
    ("names with commas unquoted", [*SKETCH, "comma.parquet", "-c", "a,b"], 4, "has no column 'a'; it has 'a,b'"),
    ("NaN names its column", [*SKETCH, "nan.parquet"], 4, "holds NaN or a null in column 'y'"),
    ("infinity names its column", [*SKETCH, "inf.parquet"], 4, "holds infinity in column 'y'"),
    ("minus infinity", [*SKETCH, "minus.parquet"], 4, "row 1 of minus.parquet) holds minus infinity in column 'y'"),
    ("too far out", [*SKETCH, "far.parquet"], 4, "too far out (the largest value is 1e+300 in column 'y')"),
    ("too large for float32", [*SKETCH, "far.parquet", "--dtype", "float32"], 4, "too large for float32"),
    ("overflow names its row", [*SKETCH, "big.parquet"], 4, "row 2 of big.parquet): column 'y' has the integer"),
    ("null list", [*SKETCH, "null_list.parquet"], 4, "row 1 of null_list.parquet) holds NaN or a null"),
    ("null in a list", [*SKETCH, "null_inside.parquet"], 4, "in position 1 of the lists in column 'e'"),
    ("NaN in a list", [*SKETCH, "nan_inside.parquet"], 4, "in position 0 of the lists in column 'e'"),
    (
        "overflow in a list",
        [*SKETCH, "big_inside.parquet"],
        4,
        "row 1 of big_inside.parquet): column 'e' has the integer",
    ),
    ("empty lists", [*SKETCH, "empty_lists.parquet"], 4, "the data has 0 columns"),
    ("only null lists", [*SKETCH, "only_null_lists.parquet"], 4, "its width is not known"),
    ("lists of lists", [*SKETCH, "nested_lists.parquet"], 4, "column 'e' holds values of type list"),
    ("lists of text", [*SKETCH, "text_lists.parquet"], 4, "string>, not numbers"),
    ("lists of another width", [*SKETCH, "wide_lists.parquet"], 4, "the data has 3 columns"),
    ("file in a partition", [*SKETCH, "part"], 4, "row 1 of day=again/0.parquet) holds NaN or a null in column 'y'"),
    (
        "row of a filtered file",
        [*SKETCH, "nan.parquet", "--where", "x > 0"],
        4,
        "of the rows of nan.parquet that pass the condition",
    ),
    ("types that change", [*SKETCH, "types"], 4, "types/1.parquet: column 'y' holds text"),
    ("link to nowhere", [*SKETCH, "link.parquet"], 3, "link.parquet: there is no such file"),
    ("links in a circle", [*SKETCH, "loop"], 3, "a link that leads nowhere"),
    ("Arrow without rows", [*SKETCH, "empty.arrow"], 4, "no rows"),
    ("truncated Arrow", [*SKETCH, "cut.arrow"], 3, "cut.arrow: can't be read as Arrow IPC"),
    # weights, groups, conditions
    ("NaN as weight", [*SKETCH, "weights_nan.parquet", "--weight-column", "w"], 4, "weight of row 1 is nan"),
    ("null as weight", [*SKETCH, "weights_null.parquet", "--weight-column", "w"], 4, "weight of row 1 is nan"),
    ("infinite weight", [*SKETCH, "weights_inf.parquet", "--weight-column", "w"], 4, "weight of row 1 is inf"),
    ("no weight at all", [*SKETCH, "weights_none.parquet", "--weight-column", "w"], 4, "weights of all rows are 0"),
    ("huge weight", [*SKETCH, "weights_huge.parquet", "--weight-column", "w"], 4, "too large for exact sums"),
    ("tiny weight", [*SKETCH, "weights_tiny.parquet", "--weight-column", "w"], 4, "below the grid"),
    ("text as weight", [*SKETCH, "weights_text.parquet", "--weight-column", "w"], 4, "the weights in 'w' are text"),
    ("groups of exact decimals", [*SKETCH, "groups_decimal.parquet", "--group-by", "g"], 4, "decimal128(2, 1); groups"),
    ("groups of lists", [*SKETCH, "groups_list.parquet", "--group-by", "g"], 4, "groups must be text"),
    ("groups of bytes", [*SKETCH, "groups_bytes.parquet", "--group-by", "g"], 4, "group_by='g' holds bytes"),
    ("unknown group column", [*SKETCH, "good.parquet", "--group-by", "g"], 4, "no column 'g'"),
    ("condition without value", [*SKETCH, "good.parquet", "--where", "x >"], 2, "and a value"),
    ("unknown comparison", [*SKETCH, "good.parquet", "--where", "x ~ 3"], 2, "write a column, one of"),
    ("condition without values", [*SKETCH, "good.parquet", "--where", "x in ()"], 2, "no values to compare with"),
    (
        "text compared with a number",
        [*SKETCH, "country.parquet", "-c", "x,y", "--where", "c > 3"],
        4,
        "can't be applied",
    ),
    ("condition on text files", [*SKETCH, "good.csv", "--where", "x = a"], 2, "is not a number"),
    # text
    ("header and nothing else", [*SKETCH, "header.csv"], 4, "no rows"),
    ("blank lines only", [*SKETCH, "blank.csv"], 3, "Empty CSV file"),
    ("no header", [*SKETCH, "nohead.csv"], 4, "first line holds numbers (1.5, 2.5) and no names"),
    ("no header, whole numbers", [*SKETCH, "nohead2.csv"], 4, "first line holds numbers (7, 3)"),
    ("semicolons", [*SKETCH, "semi.csv"], 4, "separated by ';'"),
    ("tabs in .csv", [*SKETCH, "tabs.csv"], 4, "separated by '\\t'"),
    ("line that is too short", [*SKETCH, "short.csv"], 3, "Expected 2 columns, got 1"),
    ("two names in a header", [*SKETCH, "twice.csv"], 4, "more than one column named 'x'"),
    (
        "integer text that would be rounded",
        [*SKETCH, "big.csv"],
        4,
        "row 1 of big.csv): column 'y' has the integer 9007",
    ),
    (
        "rounded far from the start",
        [*SKETCH, "late_big.csv"],
        4,
        "row 300000 of late_big.csv): column 'y' has the integer",
    ),
    ("word far from the start", [*SKETCH, "late.csv"], 4, "row 300000 of late.csv): column 'y' holds 'apple'"),
    ("infinity in text", [*SKETCH, "inf.csv"], 4, "row 1 of inf.csv) holds infinity in column 'y'"),
    ("nothing between commas", [*SKETCH, "na.csv"], 4, "row 1 of na.csv) holds NaN or a null in column 'y'"),
    ("text too large for a number", [*SKETCH, "over.csv"], 4, "holds infinity"),
    ("space in a header", [*SKETCH, "spaces.csv", "-c", "x,y"], 4, "has no column 'y'; it has 'x', ' y'"),
    ("hexadecimal", [*SKETCH, "hex.csv"], 4, "column 'y' holds '0x10', not a number"),
    ("thousands", [*SKETCH, "thousands.csv"], 4, "the first text is '1,234.5' in row 0 (counting from 0)"),
    ("Latin-1", [*SKETCH, "latin.csv"], 4, "text that is not UTF-8"),
    ("Latin-1 header", [*SKETCH, "latin_head.csv"], 3, "latin_head.csv: can't be read as delimited text: 'utf-8'"),
    ("UTF-16", [*SKETCH, "utf16.csv"], 3, "in UTF-16: give --encoding utf-16"),
    ("Parquet called CSV", [*SKETCH, "really_parquet.csv"], 3, "it is Parquet"),
    ("gzip without suffix", [*SKETCH, "really_gzip.csv"], 3, "compressed with gzip"),
    *(
        (f"truncated {s}", [*SKETCH, f"cut.csv.{s}"], 3, f"cut.csv.{s}: can't")
        for s in ("bz2", "xz", "zst", "lz4", "br")
    ),
    (
        "text among JSON numbers",
        [*SKETCH, "mixed.jsonl"],
        4,
        "mixed.jsonl, row 1 (counting from 0): column 'y' changes",
    ),
    ("JSON without names", [*SKETCH, "array.jsonl"], 4, "each line must be an object"),
    ("empty JSON lines", [*SKETCH, "empty.jsonl"], 3, "there are no JSON lines"),
    ("nested JSON", [*SKETCH, "nested.jsonl"], 4, "column 'y' holds values of type struct"),
    ("missing JSON field", [*SKETCH, "missing.jsonl"], 4, "row 1 of missing.jsonl) holds NaN or a null in column 'y'"),
    (
        "JSON integer that would be rounded",
        [*SKETCH, "big.jsonl"],
        4,
        "row 1 of big.jsonl): column 'y' has the integer",
    ),
    ("ragged JSON", [*SKETCH, "ragged.jsonl"], 4, "row 1 of ragged.jsonl): the lists in column 'e' have different"),
    # arrays
    ("complex npy", [*SKETCH, "complex.npy"], 4, "real numbers"),
    ("npy of objects", [*SKETCH, "objects.npy"], 3, "Python objects"),
    ("npy without rows", [*SKETCH, "norows.npy"], 4, "no rows"),
    ("npy of three dimensions", [*SKETCH, "cube.npy"], 4, "two dimensions"),
    ("truncated npy", [*SKETCH, "cut.npy"], 3, "cut.npy: can't be read as a .npy file"),
    ("npy overflow", [*SKETCH, "big.npy"], 4, "row 1 of big.npy): column 1 has the integer -1152921504606846976"),
    ("NaN in npy", [*SKETCH, "nan.npy"], 4, "row 1 of nan.npy) holds NaN or a null in column 0"),
    ("name of an npy column", [*SKETCH, "three.npy", "-c", "x,y"], 4, "use column numbers"),
    ("number of no npy column", [*SKETCH, "three.npy", "-c", "0,7"], 4, "no column number 7"),
    ("weights of npy by name", [*SKETCH, "three.npy", "--weight-column", "w"], 4, "use the number of a column"),
    ("dataset of npy", [*SKETCH, "three.npy", "--dataset", "a"], 2, "HDF5 files and Zarr groups"),
    # databases
    ("missing SQLite file", [*SKETCH, "missing.db", "--query", "SELECT 1"], 3, "missing.db: there is no such file"),
    ("missing DuckDB file", [*SKETCH, "duckdb:missing.duckdb", "--query", "SELECT 1"], 3, "does not exist"),
    ("query without rows", [*SKETCH, "more.db", "--query", "SELECT * FROM t WHERE x > 9"], 4, "no rows"),
    ("column twice in SQL", [*SKETCH, "more.db", "--query", "SELECT x, x FROM t"], 4, "more than one column named 'x'"),
    (
        "overflow in SQLite",
        [*SKETCH, "more.db", "--query", "SELECT * FROM t"],
        4,
        "row 1 of more.db): column 'y' has the",
    ),
    ("bytes in SQLite", [*SKETCH, "more.db", "--query", "SELECT * FROM b"], 4, "column 'y' holds binary values"),
    ("SQL that deletes", [*SKETCH, "more.db", "--query", "DELETE FROM t"], 3, "DELETE is not a query"),
    ("SQL that deletes afterwards", [*SKETCH, "more.db", "--query", "SELECT 1; DROP TABLE t"], 3, "one statement"),
    ("condition on a query", [*SKETCH, "more.db", "--query", "SELECT x", "--where", "x > 1"], 2, "into its WHERE"),
    ("DuckDB that writes", [*SKETCH, "duckdb:", "--query", "COPY (SELECT 1) TO 'o.csv'"], 3, "COPY is not a query"),
    ("DuckDB with two queries", [*SKETCH, "duckdb:", "--query", "SELECT 1; SELECT 2"], 3, "give one query"),
    ("DuckDB overflow", [*SKETCH, "duckdb:", "--query", f"SELECT 1 x, {2**60} y"], 4, "column 'y' has the integer"),
    ("DuckDB on a missing file", [*SKETCH, "duckdb:", "--query", "FROM 'no.parquet'"], 3, "No files found"),
    ("address", [*SKETCH, "gopher://host/x.parquet"], 3, "gopher"),
    # the command
    (
        "output is the input",
        ["sketch", "good.parquet", "-f", "map.json", "-o", "good.parquet"],
        6,
        "choose another output",
    ),
    ("output without a name", ["sketch", "good.parquet", "-f", "map.json", "-o", ""], 2, "name of a file"),
    ("append without groups", ["sketch", "good.csv", "--append", "-o", "table.parquet"], 4, "with --group-by"),
    (
        "append groups to a sketch",
        ["sketch", "country.parquet", "--append", "--group-by", "c", "-o", "good.sketch"],
        4,
        "leave out --group-by",
    ),
    (
        "append groups to data",
        ["sketch", "country.parquet", "--append", "--group-by", "c", "-o", "good.parquet"],
        6,
        "not written by",
    ),
    ("missing feature map", ["sketch", "good.parquet", "-f", "no.json", "-o", "out"], 3, "no.json: there is no"),
    ("foreign JSON as map", ["sketch", "good.parquet", "-f", "foreign.json", "-o", "out"], 5, "neither a feature map"),
    ("map of a newer version", ["sketch", "good.parquet", "-f", "future.json", "-o", "out"], 5, "recipe version 99"),
    ("data as map", ["sketch", "good.parquet", "-f", "good.parquet", "-o", "out"], 5, "neither a feature map"),
    ("more components than rows", ["sketch", "three.parquet", "-k", "9", "-o", "out"], 4, "fewer components with -k"),
    (
        "unknown task",
        ["sketch", "good.parquet", "--task", "dream", "-o", "out"],
        2,
        "--task dream: choose one of",
    ),
    ("unknown task of a design", ["design", "good.parquet", "--task", "dream", "-o", "out"], 2, "choose one of"),
    (
        "constant column standardised",
        ["design", "three.parquet", "-k", "2", "--standardize", "-o", "out"],
        4,
        "'x' is constant",
    ),
    ("no components", ["sketch", "good.parquet", "-k", "0", "-o", "out"], 2, "-k must be at least 1"),
    ("no workers", [*SKETCH, "good.parquet", "--workers", "0"], 2, "--workers must be at least 1"),
    ("not a number", [*SKETCH, "good.parquet", "--workers", "many"], 2, "--workers: give a whole number"),
    ("no output", ["sketch", "good.parquet"], 2, "-o or --output is missing"),
    ("unknown option", [*SKETCH, "good.parquet", "--colour"], 2, "--colour"),
    ("unknown verb", ["dream"], 2, "dream"),
    ("output is a folder", ["sketch", "good.parquet", "-f", "map.json", "-o", "nothing"], 6, "is a folder"),
    ("output in no folder", ["sketch", "good.parquet", "-f", "map.json", "-o", "no/out"], 6, "there is no folder no"),
    ("full disk", ["sketch", "good.parquet", "-f", "map.json", "-o", "/dev/full"], 6, "the disk is full"),
    ("follow a query", [*SKETCH, "real.db", "--query", "SELECT 1", "--follow"], 2, "--follow watches files"),
    ("idle without follow", [*SKETCH, "good.parquet", "--idle", "3"], 2, "--idle is for --follow"),
    ("nothing came", [*SKETCH, "nothing", "--follow", "--poll", "0.05", "--idle", "0.1"], 4, "no file came"),
    ("force without append", [*SKETCH, "good.parquet", "--force"], 2, "--force is for --append"),
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
    ("sketches of other features", ["merge", "good.sketch", "other.sketch", "-o", "out"], 5, "scale 1 vs 9"),
    ("unknown group", ["merge", "table.parquet", "-g", "7", "-o", "out"], 4, "no group '7'"),
    ("groups of a sketch", ["merge", "good.sketch", "-g", "1", "-o", "out"], 2, "tables of sketches"),
    ("subtract what was never added", ["subtract", "part.sketch", "good.sketch", "-o", "out"], 4, "never added"),
    ("compare other features", ["compare", "good.sketch", "other.sketch"], 5, "different feature maps"),
    ("compare one row", ["compare", "good.sketch", "one.sketch"], 4, "two rows"),
    ("no such encoding", [*SKETCH, "good.csv", "--encoding", "klingon"], 2, "--encoding klingon is not known"),
    ("a delimiter of two", [*SKETCH, "good.csv", "--delimiter", ";;"], 2, "--delimiter ';;': give one"),
    ("no clusters", ["learn", "kmeans", "good.sketch", "-k", "0", "-o", "out"], 2, "-k"),
    ("negative seed", ["learn", "kmeans", "good.sketch", "-k", "2", "--seed", "-1", "-o", "out"], 2, "--seed"),
    ("no privacy", ["privatize", "good.sketch", "--epsilon", "nan", "-o", "out"], 2, "--epsilon must be positive"),
    ("alpha out of range", ["compare", "good.sketch", "part.sketch", "--alpha", "2"], 2, "between 0 and 1"),
]


def test_the_table_is_long_and_its_messages_are_different():
    assert len(CASES) >= 200
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


_LIKE_OTHERS = """
import ctypes, os, sys
for ability in (1, 2):  # root may read everything, unless it gives up these two (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH)
    ctypes.CDLL(None).prctl(24, ability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-m", "sketchlearn.cli", *sys.argv[1:]])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="abilities of root can be given up on Linux only")
def test_no_permission(world):
    (world / "schemas").chmod(0)
    (world / "good.parquet").chmod(0)
    environment = {**os.environ, "PYTHONPATH": str(Path(sl.__file__).parents[1])}
    try:
        for path in ("schemas", "good.parquet"):
            command = [sys.executable, "-c", _LIKE_OTHERS, *map(str, SKETCH), path]
            done = subprocess.run(command, cwd=world, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 3, done.stderr
            assert "permission" in done.stderr.lower()
            assert "Traceback" not in done.stderr
    finally:
        (world / "schemas").chmod(0o700)


def test_a_file_that_changed_since_the_checkpoint(run, world):
    source = sl.read("good.parquet")
    phi = sl.FourierFeatures.draw(dim=2, size=30, scale=1.0, seed=0)
    point, _ = Checkpoint.begin("out.checkpoint", source, phi, {**source.settings, "on_invalid": "raise"}, 0)
    point.save(50, sl.sketch(X[:50], phi))
    pq.write_table(GOOD.slice(7), world / "good.parquet")
    code, _, err = run(*SKETCH, "good.parquet")
    assert (code, "has changed or is missing since the checkpoint; start over with --restart" in err) == (4, True)
    assert not (world / "out").exists()
    assert run(*SKETCH, "good.parquet", "--restart")[0] == 0
    assert sl.load(world / "out").count == 193


def test_a_pipe_is_read_once(run, world, designed):
    os.mkfifo("pipe.csv")
    text = (world / "good.csv").read_bytes()
    writer = threading.Thread(target=(world / "pipe.csv").write_bytes, args=(text,), daemon=True)
    writer.start()
    assert run("sketch", "pipe.csv", "-k", "3", "-o", "out")[0] == 0  # with a pilot from its first rows
    assert sl.load(world / "out").count == 200


@pytest.mark.parametrize("name", ["quoted", "bom", "crlf", "cr", "numbered", "blank", "xz", "unused"])
def test_odd_text_that_is_fine(run, world, name):
    rows = [[1.0, 2.0], [3.5, -4.0]]
    text = {
        "quoted": 'x,y\n"1","2"\n"3.5","-4"\n', "bom": "\ufeffx,y\n1,2\n3.5,-4\n", "crlf": "x,y\r\n1,2\r\n3.5,-4\r\n",
        "cr": "x,y\r1,2\r3.5,-4", "numbered": "0,1\n1,2\n3.5,-4\n", "blank": "\n\nx,y\n\n1,2\n\n3.5,-4\n\n",
    }.get(name, "x,y,z\n1,2,ü\n3.5,-4,a\n" if name == "unused" else "x,y\n1,2\n3.5,-4\n")  # fmt: skip
    data = text.encode("latin-1" if name == "unused" else "utf-8")
    path = "fine.csv.xz" if name == "xz" else "fine.csv"
    (world / path).write_bytes(lzma.compress(data) if name == "xz" else data)
    assert run(*SKETCH, path, *(["-c", "x,y"] if name in ("unused", "bom") else []))[0] == 0
    assert sl.load(world / "out") == sl.sketch(rows, sl.load(world / "out").features)


def test_no_permission_in_words(run, world, monkeypatch):
    from sketchlearn.sources import paths

    def refuse(*_):
        raise PermissionError(13, "Permission denied", "secret")

    monkeypatch.setattr(paths, "_below", refuse)
    code, _, err = run(*SKETCH, "schemas")
    assert (code, err) == (3, "sketchlearn: secret: permission denied; check who may read it\n")
