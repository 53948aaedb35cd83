"""Sketches of data sets that are too large for a laptop: one pass on a GPU, decoded anywhere.

    python -m experiments.gpu_large maps            # maps that are designed from pilot rows; needs scikit-learn
    python -m experiments.gpu_large pass FOLDER     # needs NumPy, CuPy and threadpoolctl, no compiler of Python
    python -m experiments run private-large background-large --full     # decodes the sketches in experiments/sketches

The pass writes ``sketches.zip``: one file per sketch, and seconds and device of each pass in ``passes.json``.  It stops
after the given minutes; a later pass into the same folder goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import sketchlearn as sl
from experiments.published import public_map, published_map
from sketchlearn.datasets import separated_variance
from sketchlearn.features import FeatureMap

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float32]
HERE = Path(__file__).resolve().parent
SKETCHES = HERE / "sketches"
MAPS = HERE / "results" / "gpu_maps.json"

PRIVATE_K = PRIVATE_D = 10
PRIVATE_SIZES = (2, 4, 10, 100)  # features over kd (Chatalic 2020, Figure 9.4)
PRIVATE_SETS = 10
BACKGROUND_K, BACKGROUND_D = 64, 12  # Keriven 2017, Table 5.2
BACKGROUND_SIZES = (1000, 3000, 10_000)
BACKGROUND_SETS = 3
SPEAKERS, CLAIMED = 1000, 50
SPREAD = 0.12  # of speakers' means, in widths: the equal error rate of EM is then about that of speech, 30 %
CHUNK = 200_000  # rows


class Job(NamedTuple):
    """One sketch: which data, which map."""

    data: str
    k: int
    d: int
    n: int
    seed: int
    size: int
    map: str
    per_row: int = 0

    @property
    def name(self) -> str:
        """Of its file."""
        return "-".join(map(str, self))


def private_jobs(n: int, seed: int, sizes: tuple[int, ...] = PRIVATE_SIZES) -> list[Job]:
    """Sketches of one private data set: both maps in all sizes, and one feature per row at 4kd."""
    one = ("private", PRIVATE_K, PRIVATE_D, n, seed)
    jobs = [Job(*one, m * PRIVATE_K * PRIVATE_D, name) for m in sizes for name in ("published", "default")]
    return jobs + [Job(*one, 4 * PRIVATE_K * PRIVATE_D, name, 1) for name in ("published", "default")]


def background_jobs(n: int, seed: int, k: int = BACKGROUND_K, sizes: tuple[int, ...] = BACKGROUND_SIZES) -> list[Job]:
    """Sketches of one background population."""
    return [Job("background", k, BACKGROUND_D, n, seed, m, name) for m in sizes for name in ("published", "default")]


# -- rows --------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def private_centers(k: int, d: int, seed: int) -> Array:
    """Centres of a private data set."""
    return np.random.default_rng([17, seed]).standard_normal((k, d)) * np.sqrt(separated_variance(k, d))


@lru_cache(maxsize=4)
def world(k: int, d: int, seed: int) -> Any:
    """Speakers of the background, and behind them those that are claimed."""
    return sl.datasets.speakers(SPEAKERS + CLAIMED, k, d, speaker_spread=SPREAD, seed=np.random.default_rng([18, seed]))


def chunk(job: Job, part: int, count: int) -> Array:
    """Some rows: balanced round clusters, or a session of one speaker."""
    rng = np.random.default_rng([19, job.seed, part])
    if job.data == "background":
        return np.asarray(world(job.k, job.d, job.seed).session(part % SPEAKERS, count, rng))
    centers = private_centers(job.k, job.d, job.seed)
    return centers[rng.integers(job.k, size=count)] + rng.standard_normal((count, job.d))


def rows_of(job: Job, workers: int = 1) -> Rows:
    """All rows of a data set; as many speakers as chunks, at most all."""
    each = min(CHUNK, max(1, job.n // SPEAKERS)) if job.data == "background" else CHUNK
    starts = range(0, job.n, each)
    rows = np.empty((job.n, job.d), np.float32)
    (private_centers if job.data == "private" else world)(job.k, job.d, job.seed)  # once, not in every thread

    def fill(part: int) -> None:
        start = starts[part]
        rows[start : start + each] = chunk(job, part, min(each, job.n - start))

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(fill, range(len(starts))))
    return rows


# -- maps --------------------------------------------------------------------------------------------------------------


def designed(job: Job) -> FeatureMap:
    """The map of a job: from public constants, or from pilot rows of a hundred speakers (needs scikit-learn)."""
    if job.data == "private":
        options: dict[str, Any] = {"features_per_row": job.per_row} if job.per_row else {}
        return public_map(job.k, job.d, job.size, job.seed, designed=job.map == "default", **options)
    pilot = np.concatenate([chunk(job, part, 50) for part in range(100)])
    if job.map == "published":
        from sketchlearn.designs.scale import keriven

        return published_map(job.d, job.size, keriven(pilot, job.k, job.seed), job.seed)
    return sl.design(pilot, n_components=job.k, task="gmm", covariance_type="diag", size=job.size, seed=job.seed)


def write_maps(sets: int = BACKGROUND_SETS) -> None:
    """Keep the recipes of maps that are designed from rows."""
    jobs = [job for seed in range(sets) for job in background_jobs(2 * 10**8, seed)]
    recipes = {job.name: json.loads(designed(job).recipe_json()) for job in jobs}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(recipe)}" for name, recipe in recipes.items())
    MAPS.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def map_of(job: Job) -> FeatureMap:
    """The map of a job, from its recipe if it was kept."""
    recipes = json.loads(MAPS.read_text(encoding="utf-8")) if MAPS.exists() else {}
    return FeatureMap.from_recipe(recipes[job.name]) if job.name in recipes else designed(job)


# -- sketches ----------------------------------------------------------------------------------------------------------


def held(folder: Path = SKETCHES) -> dict[str, Any]:
    """Passes that a folder holds: seconds and device by name of the sketch."""
    path = folder / "passes.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def sketch_of(job: Job, folder: Path = SKETCHES) -> tuple[sl.Sketch, float]:
    """The sketch of a job and the seconds of its pass: from the folder, or made here."""
    done = held(folder).get(job.name)
    if done is not None:
        with zipfile.ZipFile(folder / "sketches.zip") as archive:
            return sl.Sketch.from_bytes(archive.read(job.name)), float(done["seconds"])
    start = time.process_time()
    sketch = sl.sketch(_rows(job._replace(size=0, map="", per_row=0)), map_of(job), progress=False)
    return sketch, time.process_time() - start


@lru_cache(maxsize=1)
def _rows(job: Job) -> Rows:
    return rows_of(job)


def make(jobs: list[Job], folder: Path, engine: Any = "gpu", minutes: float = 5.0, to_device: Any = None) -> int:
    """Make the sketches that a folder lacks, data set by data set; returns how many are left."""
    folder.mkdir(parents=True, exist_ok=True)
    done = held(folder)
    waiting = [job for job in jobs if job.name not in done]
    stop = time.monotonic() + 60 * minutes
    for same in _by_data(waiting):
        start = time.monotonic()
        rows: Any = rows_of(same[0], os.cpu_count() or 1)
        print(f"{same[0].data} {same[0].seed}: {rows.shape} drawn in {time.monotonic() - start:.1f} s", flush=True)
        rows = rows if to_device is None else to_device(rows)
        for job in same:
            if time.monotonic() > stop:
                return len(waiting)
            phi = map_of(job)
            sl.sketch(rows[: 2 * CHUNK], phi, engine=engine, progress=False)  # kernels compiled, frequencies drawn
            start = time.monotonic()
            sketch = sl.sketch(rows, phi, engine=engine, progress=False)
            done[job.name] = {"seconds": round(time.monotonic() - start, 4), "engine": str(engine)}
            with zipfile.ZipFile(folder / "sketches.zip", "a") as archive:
                archive.writestr(job.name, sketch.to_bytes())
            (folder / "passes.json").write_text(json.dumps(done, indent=0), encoding="utf-8")
            print(f"{job.name}: {done[job.name]['seconds']} s", flush=True)
            waiting.remove(job)
    return len(waiting)


def _by_data(jobs: list[Job]) -> Iterator[list[Job]]:
    for first in dict.fromkeys(job[:5] for job in jobs):
        yield [job for job in jobs if job[:5] == first]


def _to_device(rows: Rows) -> Any:
    import cupy

    return cupy.asarray(rows)


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["maps", "pass"])
    parser.add_argument("folder", nargs="?", type=Path, default=SKETCHES)
    parser.add_argument("--private-rows", type=int, default=10**7)
    parser.add_argument("--background-rows", type=int, default=2 * 10**8)
    parser.add_argument("--minutes", type=float, default=4.5)
    given = parser.parse_args()
    if given.what == "maps":
        write_maps()
        return
    # the first data sets first: an early stop leaves some of each
    jobs = []
    for seed in range(max(PRIVATE_SETS, BACKGROUND_SETS)):
        jobs += private_jobs(given.private_rows, seed) if seed < PRIVATE_SETS else []
        jobs += background_jobs(given.background_rows, seed) if seed < BACKGROUND_SETS else []
    left = make(jobs, given.folder, minutes=given.minutes, to_device=_to_device)
    print(f"{left} sketches left", flush=True)


if __name__ == "__main__":
    main()
