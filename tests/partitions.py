"""Files that engines are tested with: uneven, some empty, with weights, groups and invalid rows."""

import os
import signal
import threading
import time
from contextlib import contextmanager
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
        mark = self.folder / f"{time.monotonic_ns()}-{os.getpid()}"
        mark.touch()
        time.sleep(self.seconds)
        mark.with_suffix(".slept").touch()
        return self.inner(size)


def slow(source, folder, seconds=0.15):
    folder.mkdir(exist_ok=True)
    parts = [p._replace(batches=Slow(p.batches, folder, seconds)) for p in source.parts]
    return replace(sl.Source.of_parts(parts, source.names, source.grouped), settings=source.settings)


def begun(folder):
    """Marks of parts that somebody began to read, in order."""
    return sorted(path for path in folder.iterdir() if not path.suffix)


@contextmanager
def killing_a_reader(folder, after):
    """Kill a process in the middle of a part, once so many were begun; gives a list of whom."""
    killed = []

    def kill():
        while not killed:
            marks = begun(folder)
            asleep = [mark for mark in marks if not mark.with_suffix(".slept").exists()]
            if len(marks) >= after and asleep:
                killed.append(int(asleep[-1].name.split("-")[1]))
                os.kill(killed[0], signal.SIGKILL)
            time.sleep(0.01)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    yield killed
    thread.join(timeout=30)
