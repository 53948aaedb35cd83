"""CPU time and peak memory of every estimator on thirty shapes of data, each in a process of its own.

python benchmarks/shapes.py rows.jsonl [--only kmeans] [--shapes 3:8] [--seconds 300]   # resumes where it stopped

A line a shape: CPU seconds of one core for design, pass and decoding together (one thread), the growth of the resident
set over that of the process with the rows in memory, the size of map and sketch, and what the estimator said.  Loops
are compiled and libraries loaded by a small fit before.  A line ends with OVER where CPU exceeds 60 s, or memory four
times map and sketch and 512 MB; not for time where the verdict says "unfinished", nor where an error refused it or a
warning announced it before.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

SMALL = 512.0  # MB that are always allowed
SHAPES = [  # estimator, its parameters, kind of rows, rows, columns
    ("kmeans", {"n_clusters": 10}, "normal", 3000, 1000),
    ("kmeans", {"n_clusters": 100}, "clusters", 20000, 10),
    ("kmeans", {"n_clusters": 50}, "skewed", 20000, 50),
    ("kmeans", {"n_clusters": 30}, "points", 6000, 2),
    ("kmeans", {"n_clusters": 30}, "points", 6000, 10),
    ("kmeans", {"n_clusters": 10}, "skewed", 3000, 300),
    ("kmeans", {"n_clusters": 3}, "normal", 3000, 2000),
    ("kmedians", {"n_clusters": 20}, "skewed", 5000, 20),
    ("mixture", {"n_components": 5}, "skewed", 3000, 50),
    ("mixture", {"n_components": 5}, "skewed", 3000, 100),
    ("mixture", {"n_components": 20, "covariance_type": "diag"}, "skewed", 5000, 50),
    ("mixture", {"n_components": 10, "covariance_type": "spherical"}, "clusters", 5000, 300),
    ("mixture", {"n_components": 5, "covariance_type": "tied"}, "clusters", 5000, 30),
    ("mixture", {"n_components": 50, "covariance_type": "diag"}, "clusters", 20000, 5),
    ("ica", {}, "laplace", 10000, 10),
    ("ica", {}, "laplace", 10000, 30),
    ("ica", {}, "laplace", 10000, 50),
    ("ica", {}, "laplace", 10000, 100),
    ("pca", {"n_components": 20}, "normal", 3000, 2000),
    ("pca", {"n_components": 50}, "normal", 3000, 500),
    ("pca", {"n_components": 5}, "normal", 3000, 4000),
    ("regression", {}, "regression", 3000, 1500),
    ("regression", {}, "regression", 3000, 2000),
    ("cca", {"n_components": 3}, "pairs", 3000, 400),
    ("classifier", {}, "labels", 5000, 200),
    ("classifier", {}, "labels", 5000, 1000),
    ("mixture_regression", {"n_components": 5}, "regression", 5000, 20),
    ("subspaces", {"n_subspaces": 3, "dim": 2}, "normal", 3000, 20),
    ("anomaly", {}, "normal", 5000, 200),
    ("verifier", {"n_components": 16}, "labels", 5000, 20),
]


def rows(kind, n, d, rng):
    """Rows and targets of a kind; targets may be None."""
    if kind == "points":
        return rng.normal(size=(30, d))[rng.integers(30, size=n)], None
    if kind == "clusters":
        return 6.0 * rng.normal(size=(50, d))[rng.integers(50, size=n)] + rng.normal(size=(n, d)), None
    if kind == "laplace":
        return rng.laplace(size=(n, d)) @ rng.normal(size=(d, d)), None
    X = rng.exponential(size=(n, d)) if kind == "skewed" else rng.normal(size=(n, d))
    if kind == "regression":
        return X, X[:, 0] + rng.normal(size=n)
    if kind == "pairs":
        return X, X[:, :5] + rng.normal(size=(n, 5))
    if kind == "labels":
        y = rng.integers(5, size=n)
        return X + y[:, None] * rng.normal(size=d) * 0.2, y
    return X, None


def estimator(name, parameters):
    """An estimator of the library."""
    import sketchlearn as sl

    return {
        "kmeans": sl.CompressiveKMeans, "kmedians": sl.CompressiveKMedians, "mixture": sl.CompressiveGaussianMixture,
        "ica": sl.CompressiveICA, "pca": sl.CompressivePCA, "regression": sl.CompressiveLinearRegression,
        "cca": sl.CompressiveCCA, "classifier": sl.CompressiveClassifier, "subspaces": sl.CompressiveSubspaces,
        "mixture_regression": sl.CompressiveMixtureRegressor, "anomaly": sl.CompressiveAnomalyDetector,
        "verifier": sl.CompressiveVerifier,
    }[name](**parameters)  # fmt: skip


def measured(number):
    """One shape in this process: a dict of what it took."""
    name, parameters, kind, n, d = SHAPES[number]
    rng = np.random.default_rng(number)
    X, y = rows(kind, 400, min(d, 6), rng)
    few = {key: min(value, 2) if isinstance(value, int) else value for key, value in parameters.items()}
    estimator(name, few | ({"dim": 1} if "dim" in few else {})).fit(X, y)
    X, y = rows(kind, n, d, rng)
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.process_time()
    size, said, before_it = 0.0, "", []
    try:
        with warnings.catch_warnings(record=True) as before_it:
            warnings.simplefilter("always")
            model = estimator(name, parameters).fit(X, y)
        said = str(getattr(model, "verdict_", ""))
        sketch = getattr(model, "sketch_", None)
        sketch = sketch.union() if hasattr(sketch, "union") else sketch
        if sketch is not None:
            phi, per = sketch.features, {"exact": 0, "sphere": 1}.get(getattr(sketch.features, "variant", ""), 4)
            size = (phi.size * phi.dim * per + sketch.sums.nbytes) / 2**20
    except Exception as problem:
        said = f"{type(problem).__name__}: {problem}"
    cpu = time.process_time() - begin
    return {"cpu": cpu, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before, "size": size,
            "said": said, "announced": any("of memory" in str(w.message) for w in before_it)}  # fmt: skip


def line(row):
    """A row of the table."""
    name, parameters, kind, n, d = SHAPES[row["shape"]]
    words = f"{row['shape']:2} {name} {n} x {d} {kind} " + " ".join(map(str, parameters.values()))
    if "ended" in row:
        return f"{words:49}  OVER: ended with {row['ended']}"
    refused = row["said"].startswith("ValueError") and row["cpu"] < 10
    large = row["memory"] > max(4 * row["size"], SMALL) and not row["announced"]
    over = " OVER" * (not refused and (large or (row["cpu"] > 60 and "unfinished" not in row["said"])))
    return f"{words:49}{row['cpu']:8.1f}{row['memory']:8.0f}{row['size']:8.1f}  {row['said'][:90]}{over}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--only", help="one estimator")
    parser.add_argument("--shapes", default=f"0:{len(SHAPES)}", help="numbers of the first shape and past the last")
    parser.add_argument("--seconds", type=int, default=300, help="CPU after which a process is ended")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(measured(given.one)))
        return
    rows = [json.loads(text) for text in given.rows.read_text().splitlines()] if given.rows.exists() else []
    for number in range(*map(int, given.shapes.split(":"))):
        if (given.only and SHAPES[number][0] != given.only) or any(row["shape"] == number for row in rows):
            continue
        command = [sys.executable, "-W", "ignore", __file__, str(given.rows), "--one", str(number)]
        limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (given.seconds, given.seconds))  # noqa: E731
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)
        found = (
            json.loads(done.stdout) if not done.returncode else {"ended": f"{done.returncode}: {done.stderr[-200:]}"}
        )
        rows.append({"shape": number} | found)
        with given.rows.open("a") as file:
            print(json.dumps(rows[-1]), file=file)
    print(f"{'':49}{'CPU s':>8}{'MB':>8}{'map MB':>8}  said")
    for row in sorted(rows, key=lambda row: row["shape"]):
        print(line(row))


if __name__ == "__main__":
    main()
