"""The three commands of a first-time user on a folder of Parquet files: seconds and peak memory of each.

python benchmarks/command_line.py [--rows 10000000] [--dtype float32]
"""

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sketchlearn as sl


def write_folder(folder, rows, files, dtype, seed):
    """Ten clusters in ten columns, written file by file."""
    rng = np.random.default_rng(seed)
    centers = 5 * rng.normal(size=(10, 10))
    for i, count in enumerate(np.diff(np.linspace(0, rows, files + 1).astype(int))):
        X = (centers[rng.integers(10, size=count)] + rng.normal(size=(count, 10))).astype(dtype)
        pq.write_table(pa.table({f"c{j}": X[:, j] for j in range(10)}), folder / f"part-{i}.parquet")


def run(folder, *arguments):
    """Seconds and peak resident memory (MB) of one command."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "sketchlearn.cli", *arguments], cwd=folder)
    peak = 0
    while process.poll() is None:
        with contextlib.suppress(TypeError, OSError):  # between the end of the process and our notice of it
            peak = max(peak, int(re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{process.pid}/status").read_text())[1]))
        time.sleep(0.01)
    assert process.returncode == 0, arguments
    return time.perf_counter() - start, peak / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        write_folder(folder / "data", arguments.rows, arguments.files, arguments.dtype, arguments.seed)
        for command in (
            ["sketch", "data/*.parquet", "-o", "all.sketch"],
            ["learn", "kmeans", "all.sketch", "-k", "10", "-o", "model.json"],
            ["report", "model.json"],
        ):
            seconds, peak = run(folder, *command)
            print(f"sketchlearn {' '.join(command):<55} {seconds:7.1f} s  {peak:6.0f} MB", flush=True)
        print(f"report.html: {(folder / 'report.html').stat().st_size / 1000:.0f} kB")
        s = sl.load(folder / "all.sketch")
        tables = [pq.read_table(f).to_pandas().to_numpy() for f in sorted((folder / "data").glob("*.parquet"))]
        X = np.ascontiguousarray(np.concatenate(tables))
        del tables
        phi = sl.FourierFeatures.draw(dim=10, size=1000, scale=3.0, seed=0)
        for label, features in ((f"the same map, m = {s.features.size}", s.features), ("m = 1000", phi)):
            best = {"Parquet": np.inf, "memory": np.inf}
            for _ in range(3):
                for kind, data in (("Parquet", str(folder / "data" / "*.parquet")), ("memory", X)):
                    start = time.perf_counter()
                    got = sl.sketch(data, features, workers=2)
                    best[kind] = min(best[kind], time.perf_counter() - start)
            assert got.count == arguments.rows
            ratio = best["Parquet"] / best["memory"]
            print(f"{label}: Parquet {best['Parquet']:.2f} s, memory {best['memory']:.2f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
