"""Ingests that are killed at random points, and many at once: nothing is lost, nothing is there twice.

``python tests/store/killed.py 30 [postgresql://...]`` kills thirty times; children are forked after everything is
imported, so that kills hit the work and not the imports.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))
from kills import forked, killed

import sketchlearn as sl
import sketchlearn.privacy
from sketchlearn.store import writing as module

FILES, ROWS = 60, 60
PHI = sl.FourierFeatures.draw(dim=2, size=200, scale=1.0, seed=0).with_columns(["x", "y"])


def write_files(folder):
    rng = np.random.default_rng(0)
    for i in range(FILES):
        ts = np.datetime64("2024-01-01", "us") + rng.integers(0, 5 * 86400, ROWS) * np.timedelta64(1, "s")
        table = pa.table({"x": rng.normal(size=ROWS), "y": rng.normal(size=ROWS), "ts": ts})
        pq.write_table(table, folder / f"{i:02}.parquet")


def ingest(place, folder, which="*"):
    module._COMMIT_SECONDS = 0.0  # a transaction for each file
    store = sl.Store(place)
    store.ingest(folder / f"{which}.parquet", PHI, time="ts", every="1d", workers=1, progress=False)
    store.rollup("1w", keep_sources=True)
    return 0


def is_valid(place, folder):
    """How many files the store holds, each whole and once; 99 if anything else is in it."""
    sources = []
    try:
        store = sl.Store(place)
        sources = store.sources("main")
        whole = sl.merge([sl.sketch(s["name"], PHI, columns=["x", "y"]) for s in sources]) if sources else None
        good = store.query("main").count == 0 if whole is None else store.query("main").sketch() == whole
    except (FileNotFoundError, ValueError) as error:
        good = isinstance(error, FileNotFoundError) or "there are none" in str(error) or "no store" in str(error)
        good = good or "not a store of sketches" in str(error)
    return len(sources) if good else 99


def is_complete(place, folder):
    """0 if every row is there once."""
    return int(sl.Store(place).query().sketch() != sl.sketch(str(folder / "*.parquet"), PHI, columns=["x", "y"]))


def done(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check(place, folder, kills, writers, seed=0, longest=2.0):
    """Kill ingests, then let several run at once: how many were killed, and how many files were in then."""
    write_files(folder)
    sl.sketch(str(folder / "00.parquet"), PHI, columns=["x", "y"], workers=1, progress=False)  # what is compiled
    rng = np.random.default_rng(seed)
    hit, states = 0, set()
    for _ in range(kills):
        hit += killed(rng, longest, ingest, place, folder)
        state = done(forked(is_valid, place, folder))
        assert state <= FILES
        states.add(state)
    patterns = ["*", "[0-2]*", "[3-5]*", "*[02468]"]  # every file for several of them
    together = [forked(ingest, place, folder, patterns[i % 4]) for i in range(writers)]
    assert [done(child) for child in together] == [0] * writers
    assert done(forked(is_complete, place, folder)) == 0
    return hit, states


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        place = sys.argv[2] if len(sys.argv) > 2 else str(Path(name) / "sketches.duckdb")
        hit, states = check(place, Path(name), int(sys.argv[1]), 8)
        print(hit, "were killed before they were done; files that were in:", sorted(states))  # noqa: T201
