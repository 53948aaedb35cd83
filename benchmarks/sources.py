"""What reading costs: passes over files against the pass over the same rows in memory; groups; memory.

python benchmarks/sources.py [--rows 10000000] [--groups]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

import sketchlearn as sl

_CHILD = """
import re, sys
import sketchlearn as sl
phi = sl.FourierFeatures.draw(dim=10, size=1000, scale=3.0, seed=0)
s = sl.sketch(sys.argv[1], phi, workers=2)
# the peak that getrusage tells is inherited from the parent
peak = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]
print(s.count, int(peak) // 1024)
"""


def interleaved(methods, repeats):
    """Best time and result of each method, run in turn so that a busy moment hurts all of them."""
    best, results = dict.fromkeys(methods, np.inf), {}
    for _ in range(repeats):
        for name, function in methods.items():
            start = time.perf_counter()
            results[name] = function()
            best[name] = min(best[name], time.perf_counter() - start)
    return best, results


def passes(rows, repeats):
    """Each figure is the minimum over the repeats, in seconds and relative to the pass in memory."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 10)).astype(np.float32)
    groups = rng.integers(0, 1000, rows)
    phi = sl.FourierFeatures.draw(dim=10, size=1000, scale=3.0, seed=0)
    sl.sketch(X[:1000], phi, group_by=groups[:1000])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = pa.table({f"c{i}": X[:, i] for i in range(10)})
        pq.write_table(table, folder / "x.parquet")
        few = table.slice(0, rows // 10)
        pc.write_csv(few, folder / "x.csv")
        with pa.ipc.new_file(folder / "x.arrow", table.schema) as out:
            out.write_table(table, max_chunksize=100_000)
        best, results = interleaved(
            {
                "in memory": lambda: sl.sketch(X, phi, workers=2),
                "Parquet": lambda: sl.sketch(folder / "x.parquet", phi, workers=2),
                "Arrow IPC": lambda: sl.sketch(folder / "x.arrow", phi, workers=2),
                "CSV (a tenth of the rows)": lambda: sl.sketch(folder / "x.csv", phi, workers=2, dtype="float32"),
                "1000 groups, in memory": lambda: sl.sketch(X, phi, workers=2, group_by=groups).union(),
            },
            repeats,
        )
        for label, seconds in best.items():
            tenth = label.startswith("CSV")
            assert tenth or results[label] == results["in memory"]
            ratio = seconds / (0.1 if tenth else 1.0) / best["in memory"]
            print(f"{label:<28} {seconds:7.2f} s  {ratio:5.2f} times the pass in memory", flush=True)
        # a process of its own: the peak of this one has the array in it
        count, peak = subprocess.run(
            [sys.executable, "-c", _CHILD, folder / "x.parquet"], capture_output=True, text=True, check=True
        ).stdout.split()
        print(f"peak memory of a process that sketches the Parquet file: {peak} MB ({int(count):,} rows)")


def groups(repeats):
    """Grouped over ungrouped passes, 1000 groups in random order, by size of data and sketch."""
    rng = np.random.default_rng(0)
    for rows, columns, size, dtype in (
        (1_000_000, 10, 1000, "float32"),
        (1_000_000, 10, 1000, "float64"),
        (1_000_000, 50, 1000, "float32"),
        (300_000, 10, 1000, "float64"),
        (1_000_000, 10, 200, "float64"),
    ):
        X, labels = rng.normal(size=(rows, columns)).astype(dtype), rng.integers(1000, size=rows)
        phi = sl.FourierFeatures.draw(dim=columns, size=size, scale=3.0, seed=0)
        names = [f"c{i}" for i in range(columns)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.parquet"
            table = {name: X[:, i] for i, name in enumerate(names)}
            pq.write_table(pa.table({**table, "key": [f"k{v}" for v in labels]}), path)
            best, _ = interleaved(
                {
                    "memory": lambda X=X, phi=phi: sl.sketch(X, phi),
                    "memory, groups": lambda X=X, phi=phi, g=labels: sl.sketch(X, phi, group_by=g),
                    "Parquet": lambda p=path, phi=phi, c=names: sl.sketch(p, phi, columns=c),
                    "Parquet, groups": lambda p=path, phi=phi, c=names: sl.sketch(p, phi, columns=c, group_by="key"),
                },
                repeats + 1,
            )
        in_memory, parquet = (best[f"{kind}, groups"] / best[kind] for kind in ("memory", "Parquet"))
        print(
            f"{rows:>9,} x {columns} {dtype}, m = {size}: groups cost {in_memory:.2f}, from Parquet {parquet:.2f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--groups", action="store_true", help="only what groups cost, by size")
    arguments = parser.parse_args()
    if arguments.groups:
        groups(arguments.repeats)
        return
    passes(arguments.rows, arguments.repeats)


if __name__ == "__main__":
    main()
