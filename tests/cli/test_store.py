"""``sketchlearn store`` from the first file to an alarm."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sketchlearn as sl
from sketchlearn.cli import main


@pytest.fixture
def run(capsys):
    def call(*arguments):
        code = main([str(a) for a in arguments])
        return code, capsys.readouterr()

    return call


def write_day(folder, day, shift=0.0, n=400):
    rng = np.random.default_rng(day)
    ts = np.datetime64("2024-05-01", "us") + day * np.timedelta64(86_400_000_000, "us")
    columns = {"a": rng.normal(size=n), "b": rng.normal(size=n) + shift, "ts": np.full(n, ts)}
    pq.write_table(pa.table({**columns, "shop": ["x", "y"] * (n // 2)}), folder / f"day{day:02}.parquet")


def test_from_the_first_file_to_an_alarm(run, tmp_path):
    for day in range(8):
        write_day(tmp_path, day)
    place, recipe = tmp_path / "s.duckdb", tmp_path / "map.json"
    assert run("design", tmp_path / "day00.parquet", "-c", "a,b", "-k", 3, "-o", recipe)[0] == 0
    assert run("store", "init", place, "-f", recipe, "--time", "ts", "--every", "1d", "--group-by", "shop")[0] == 0
    code, said = run("store", "ingest", place, tmp_path / "day*.parquet", "--json")
    assert code == 0
    assert json.loads(said.out) == {"added": 8, "known": 0, "rows": 3200, "cells": 16}
    assert json.loads(run("store", "ingest", place, tmp_path / "day*.parquet", "--json")[1].out)["known"] == 8
    out = tmp_path / "x.sketch"
    assert run("store", "query", place, "--where", "shop = x", "--since", "2024-05-03", "-o", out)[0] == 0
    assert sl.load(out).count == 1200
    code, said = run("store", "check", place)
    assert code == 0, said.out
    line = json.loads(said.out)
    assert line["period"] == "2024-05-08"
    assert line["level"] == pytest.approx(0.1 / 365.2425)
    assert run("store", "drift", place)[0] == 0
    write_day(tmp_path, 8, shift=1.0)
    assert run("store", "ingest", place, tmp_path / "day*.parquet")[0] == 0
    code, said = run("store", "check", place)
    assert code == 10
    assert json.loads(said.out)["columns"][0]["column"] == "b"
    code, said = run("store", "drift", place, "--json")
    assert code == 10
    assert json.loads(said.out)["changes"][0]["period"] == "2024-05-09"
    assert run("store", "forget", place, tmp_path / "day08.parquet", "--reason", "wrong file")[0] == 0
    assert run("store", "check", place)[0] == 0
    assert json.loads(run("store", "rollup", place, "1w", "--json")[1].out)["cells"] == 4
    assert "source" in run("store", "journal", place)[1].out
    assert json.loads(run("store", "info", place, "--json")[1].out)["datasets"]["main"]["rows"] == 3200


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["query", "missing.duckdb"], 3, "there is no such file"),
        (["query", "postgresql://u:secret@127.0.0.1:1/x"], 3, "postgresql://u@127.0.0.1:1/x: no connection"),
        (["rollup", "missing.duckdb", "1d"], 3, "missing.duckdb"),
        (["query", "missing.duckdb", "--by", "a", "--every", "1d"], 2, "choose one"),
    ],
)
def test_mistakes_are_named(run, tmp_path, monkeypatch, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    found, said = run("store", *arguments)
    assert found == code
    assert words in said.err
    assert not list(tmp_path.iterdir())
