"""What a cluster costs: wall time of Dask, Ray and Spark on one machine, in units of the local engine.

    python benchmarks/engines.py --rows 50000000 --engines dask ray spark [--data FOLDER]

Parquet files with float32 columns, two workers against two threads on the same files, taken in turns; start-up
(processes, compiled loops on the workers) is excluded by a small pass before.  The bytes must be the same.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sketchlearn as sl

DIM = 10


def write(folder: Path, rows: int, files: int) -> None:
    """Mixtures of a few Gaussians, 2**18 rows per row group."""
    for number in range(files):
        rng = np.random.default_rng(number)
        count = rows // files
        centers = np.random.default_rng(0).normal(size=(8, DIM)) * 4
        X = (centers[rng.integers(0, 8, count)] + rng.normal(size=(count, DIM))).astype(np.float32)
        table = pa.table({f"x{k}": X[:, k] for k in range(DIM)})
        pq.write_table(table, folder / f"{number:03d}.parquet", row_group_size=2**18, compression="snappy")


@contextmanager
def dask(workers: int) -> Iterator[Any]:
    """A local cluster of Dask."""
    import distributed

    cluster = distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


@contextmanager
def ray(workers: int) -> Iterator[Any]:
    """A local cluster of Ray."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
    import ray as library

    library.init(
        num_cpus=workers, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1",
        logging_level="ERROR", object_store_memory=200_000_000,
    )  # fmt: skip
    yield "ray"
    library.shutdown()


@contextmanager
def spark(workers: int) -> Iterator[Any]:
    """A local session of Spark."""
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master(f"local[{workers}]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(workers))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@contextmanager
def processes(workers: int) -> Iterator[Any]:
    """Processes start anew for every pass: their start-up is included."""
    yield "processes"


CLUSTERS = {"dask": dask, "ray": ray, "spark": spark, "processes": processes}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--features", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", help="folder where files are kept for the next time")
    parser.add_argument("--engines", nargs="+", default=["dask"], choices=CLUSTERS)
    options = parser.parse_args()
    phi = sl.FourierFeatures.draw(dim=DIM, size=options.features, scale=2.0, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(options.data or folder) / f"{options.rows}-rows"
        little = Path(folder) / "little"
        little.mkdir()
        if not data.exists():  # complete or not there
            unfinished = data.with_suffix(".unfinished")
            unfinished.mkdir(parents=True, exist_ok=True)
            write(unfinished, options.rows, options.files)
            unfinished.rename(data)
        write(little, 4000 * options.workers, 4 * options.workers)
        size = sum(path.stat().st_size for path in data.iterdir())
        what = f"{options.rows:,} rows x {DIM}, {size / 2**20:,.0f} MB, m = {options.features}"
        print(f"{what}, {options.workers} workers", flush=True)
        sl.sketch(little, phi, progress=False)

        def timed(engine: Any) -> tuple[float, sl.Sketch]:
            begin = time.perf_counter()
            made = sl.sketch(data, phi, engine=engine, workers=options.workers, progress=False)
            return time.perf_counter() - begin, made

        for name in options.engines:
            with CLUSTERS[name](options.workers) as engine:
                for _ in range(3):
                    sl.sketch(little, phi, engine=engine, workers=options.workers, progress=False)
                local, there = [], []
                for _ in range(options.repeats):
                    seconds, here = timed("threads")
                    local.append(seconds)
                    seconds, made = timed(engine)
                    there.append(seconds)
                    assert made.to_bytes() == here.to_bytes()
            ratios = [b / a for a, b in zip(local, there, strict=True)]
            shown = ", ".join(f"{r:.2f}" for r in ratios)
            print(
                f"{name}: threads {statistics.median(local):.1f} s, {name} {statistics.median(there):.1f} s, "
                f"ratio {statistics.median(ratios):.2f} ({shown}); the same bytes"
            )


if __name__ == "__main__":
    main()
