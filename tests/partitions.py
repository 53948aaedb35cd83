"""Files that engines are tested with: uneven, some empty, with weights, groups and invalid rows."""

import os
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sketchlearn as sl

PHI = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
READING = {"columns": ["x", "y"], "weight_column": "w"}
OPTIONS = {**READING, "on_invalid": "skip"}


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, rows))
    y[11::97] = np.nan
    groups = pa.array(np.array(["a", "b", f"only {seed}"])[rng.integers(0, 3, rows)], mask=np.arange(rows) % 99 == 0)
    w = np.arange(rows) % 5 / (4 if seed % 2 else 1)  # whole in some files, fractional in others
    return pa.table({"x": x, "y": y, "g": groups, "w": w})


def write_files(folder, sizes):
    folder.mkdir(exist_ok=True)
    for i, rows in enumerate(sizes):
        pq.write_table(table(rows, i), folder / f"{i:03d}.parquet")
    return folder


def uneven(count):
    return [(37 * i * i) % 301 if i % 5 else 0 for i in range(1, count + 1)]


class Slow:
    """Batches of a file that take their time, and tell who reads them."""

    def __init__(self, batches, folder, seconds):
        self.inner, self.folder, self.seconds = batches, folder, seconds

    def __call__(self, size):
        (self.folder / f"{time.monotonic_ns()}-{os.getpid()}").touch()
        time.sleep(self.seconds)
        return self.inner(size)


def slow(source, folder, seconds=0.15):
    folder.mkdir(exist_ok=True)
    parts = [p._replace(batches=Slow(p.batches, folder, seconds)) for p in source.parts]
    return replace(sl.Source.of_parts(parts, source.names, source.grouped), settings=source.settings)


def readers(folder):
    """Processes that read, the latest first."""
    return [int(path.name.split("-")[1]) for path in sorted(folder.iterdir(), reverse=True)]
