"""Seconds of decoding, wall and CPU: medians of interleaved runs, with one thread and with all, quiet and busy.

    python benchmarks/decoding.py                                  # round clusters, k = 10 and 100 in ten dimensions
    python benchmarks/decoding.py --sketches a.sketch:10 b.sketch:20   # sketches of your own, with k
    python benchmarks/decoding.py --busy                           # beside two processes that keep the machine busy
    python benchmarks/decoding.py --other ../old/src               # against another version of the library, in turns
    python benchmarks/decoding.py --rows a.npy:10 digits:10 --other ../old/src   # cost over k-means', rows of your own

Every run is a process of its own that decodes once to warm up, then three times.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

CHILD = """
import contextlib, json, sys, time, statistics
import sketchlearn as sl
try:
    from sketchlearn.threads import limited
except ImportError:
    limited = None
path, k, threads = sys.argv[1], int(sys.argv[2]), sys.argv[3]
s = sl.load(path)
one = threads == "1" and limited is not None
with limited(1) if one else contextlib.nullcontext():
    sl.decode(s, k, random_state=0)
    walls, cpus = [], []
    for seed in range(1, 4):
        wall, cpu = time.perf_counter(), time.process_time()
        solution = sl.decode(s, k, random_state=seed)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
print(json.dumps([statistics.median(walls), statistics.median(cpus), bool(solution.reliable)]))
"""

COST = """
import json, sys, time
import numpy as np
import sketchlearn as sl
path, k, seeds = sys.argv[1], int(sys.argv[2]), [int(a) for a in sys.argv[3:]]
X = np.load(path).astype(np.float64)
out = []
for seed in seeds:
    pilot = X[np.random.default_rng(seed).choice(len(X), min(1000, len(X)), replace=False)]
    s = sl.sketch(X, sl.design(pilot, n_components=k, seed=seed), progress=False)
    if not out:
        sl.decode(s, k, random_state=0)
    wall = time.perf_counter()
    centers = sl.decode(s, k, random_state=seed).centers
    wall = time.perf_counter() - wall
    nearest = np.full(len(X), np.inf)
    for c in centers:
        np.minimum(nearest, ((X - c) ** 2).sum(1), out=nearest)
    out.append([float(nearest.sum()), wall])
print(json.dumps(out))
"""


def run(source, path, k, threads):
    environment = dict(os.environ, PYTHONPATH=str(source))
    if threads == "1":
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    else:
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
            environment.pop(name, None)
    return child(environment, CHILD, path, k, threads)


def child(environment, program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    out = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def costs(items, sources, seeds, folder):
    """Cost of the centres over that of k-means with three starts, one row a version."""
    from sklearn.cluster import KMeans

    print("rows                    k version |  median    mean  wall s  seeds")
    for item in items:
        name, _, k = item.rpartition(":")
        path = digits(folder) if name == "digits" else Path(name)
        reference = KMeans(int(k), n_init=3, random_state=0).fit(np.load(path).astype(np.float64)).inertia_
        for version, source in sources.items():
            found = np.array(child(dict(os.environ, PYTHONPATH=str(source)), COST, path, k, *seeds))
            ratio, each = found[:, 0] / reference, " ".join(f"{value:.4f}" for value in found[:, 0] / reference)
            print(
                f"{path.stem:<21} {k:>3} {version:<7} | {np.median(ratio):.4f}  {ratio.mean():.4f}"
                f"  {np.median(found[:, 1]):>6.2f}  {each}",
                flush=True,
            )


def digits(folder):
    """Ten principal components of scikit-learn's digits."""
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA

    path = folder / "digits.npy"
    np.save(path, PCA(10, svd_solver="full").fit_transform(load_digits().data))
    return path


def round_clusters(folder):
    import sketchlearn as sl

    for k in (10, 100):
        rng = np.random.default_rng(k)
        X = (rng.normal(size=(k, 10)) * 10)[rng.integers(k, size=50_000)] + rng.normal(size=(50_000, 10))
        path = folder / f"round-{k}.sketch"
        sl.sketch(X, sl.design(X[:1000], n_components=k), progress=False).save(path)
        yield path, k


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sketches", nargs="*", help="file:k")
    parser.add_argument("--other", help="source folder of another version")
    parser.add_argument("--rows", nargs="*", help="file.npy:k, or digits:k")
    parser.add_argument("--seeds", type=int, nargs="*", default=[901, 902, 903, 904, 905])
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    sources = {"this": Path(__file__).parent.parent / "src"}
    if arguments.other:
        sources["other"] = Path(arguments.other)
    spin = [sys.executable, "-c", "while True: sum(range(10000))"]
    busy = [subprocess.Popen(spin) for _ in range(2)] if arguments.busy else []
    try:
        with tempfile.TemporaryDirectory() as folder:
            if arguments.rows:
                return costs(arguments.rows, sources, arguments.seeds, Path(folder))
            if arguments.sketches:
                cases = [(Path(item.rpartition(":")[0]), int(item.rpartition(":")[2])) for item in arguments.sketches]
            else:
                cases = list(round_clusters(Path(folder)))
            print("sketch                version threads |   wall s    CPU s  reliable")
            for path, k in cases:
                rows = {}
                for _ in range(arguments.repeats):
                    for name, source in sources.items():
                        for threads in ("1", "all"):
                            rows.setdefault((name, threads), []).append(run(source, path, k, threads))
                for (name, threads), found in rows.items():
                    wall, cpu = (float(np.median([row[i] for row in found])) for i in (0, 1))
                    print(
                        f"{path.stem:<21} {name:<7} {threads:<7} | {wall:>8.3f} {cpu:>8.3f}  {found[0][2]}", flush=True
                    )
    finally:
        for process in busy:
            process.kill()


if __name__ == "__main__":
    main()
