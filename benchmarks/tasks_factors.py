"""Non-negative factors and dictionaries from a sketch and from the rows: recovery, errors on new rows, CPU seconds.

python benchmarks/tasks_factors.py                  # all parts, seeds 100 to 104
python benchmarks/tasks_factors.py --part factors   # generated rows: distance of the worst component from the true one
python benchmarks/tasks_factors.py --part rows      # real rows: error of new rows over that of NMF on the rows
python benchmarks/tasks_factors.py --part atoms     # sparse rows: how many atoms are found, errors of codes of new rows
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
import warnings

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_breast_cancer, load_digits, load_sample_image
from sklearn.decomposition import NMF, MiniBatchDictionaryLearning
from sklearn.feature_extraction.image import extract_patches_2d

import sketchlearn as sl
from sketchlearn.models.dictionary import sparse_codes
from sketchlearn.models.nmf import nonnegative_codes

PARTS = {}


def part(function):
    PARTS[function.__name__] = function
    return function


def generated(kind, n, seed):
    """Rows of some kind and their components."""
    rng = np.random.default_rng(seed)
    if kind == "counts, d=100, k=5":  # topics of documents of 50 words
        W = rng.dirichlet(np.full(100, 0.1), size=5)
        return rng.poisson(50 * rng.dirichlet(np.full(5, 0.3), size=n) @ W).astype(float), W
    if kind == "no zeros, d=30, k=4":
        W = rng.random((4, 30))
        X = rng.exponential(size=(n, 4)) @ W
        return X + 0.1 * X.std(0) * rng.normal(size=X.shape), W
    d, k, noise = {
        "half zeros, d=30, k=4, noise 0.1": (30, 4, 0.1), "half zeros, d=60, k=10, noise 0.1": (60, 10, 0.1),
        "half zeros, d=60, k=10, noise 0.5": (60, 10, 0.5), "half zeros, d=200, k=20, noise 0.2": (200, 20, 0.2),
    }[kind]  # fmt: skip
    W = rng.exponential(size=(k, d)) * (rng.random((k, d)) < 0.5)
    X = rng.exponential(size=(n, k)) * (rng.random((n, k)) < 0.5) @ W
    return X + noise * X.std(0) * rng.normal(size=X.shape), W


GENERATED = [
    "half zeros, d=30, k=4, noise 0.1", "half zeros, d=60, k=10, noise 0.1", "half zeros, d=60, k=10, noise 0.5",
    "half zeros, d=200, k=20, noise 0.2", "counts, d=100, k=5", "no zeros, d=30, k=4",
]  # fmt: skip


def worst(found, true):
    """The largest distance of a component from the true one, both of length 1."""
    a, b = (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300) for x in (found, true))
    at = linear_sum_assignment(-a @ b.T)
    return np.linalg.norm(a[at[0]] - b[at[1]], axis=1).max()


def error(components, rows):
    return np.linalg.norm(rows - nonnegative_codes(rows, components) @ components)


def timed(fit):
    begin = time.process_time()
    found = fit()
    return found, time.process_time() - begin


@part
def factors(seeds):
    for kind in GENERATED:
        table = {}
        for seed in seeds:
            X, W = generated(kind, 22_000, seed)
            X, new = X[:20_000], X[20_000:]
            ours, seconds = timed(lambda X=X, W=W, seed=seed: sl.CompressiveNMF(len(W), random_state=seed).fit(X))
            peer, slow = timed(  # (which refuses rows that noise makes negative)
                lambda X=X, W=W: NMF(len(W), init="nndsvda", max_iter=2000, tol=1e-6).fit(np.maximum(X, 0.0))
            )
            row = {
                "distance, sketch": worst(ours.components_, W), "distance, rows": worst(peer.components_, W),
                "error claimed": ours.errors_.max(), "reliable": ours.reliable_,
                "new rows, over NMF's": error(ours.components_, new) / error(peer.components_, new),
                "s, sketch": seconds, "s, rows": slow,
            }  # fmt: skip
            for name, value in row.items():
                table.setdefault(name, []).append(float(value))
        show(f"{kind}, 20 000 rows", table)


@part
def rows(seeds):
    X = load_breast_cancer().data
    photograph = load_sample_image("china.jpg").mean(2)
    patches = extract_patches_2d(photograph, (8, 8), max_patches=12_000, random_state=0).reshape(-1, 64)
    tables = {
        "digits": load_digits().data,
        "breast cancer, standardised": X / X.std(0),
        "8 x 8 of a photograph": patches,
    }
    for name, every in tables.items():
        for k in (5, 10, 20):
            table = {}
            for seed in seeds:
                order = np.random.default_rng(seed).permutation(len(every))
                X, new = every[order[len(every) // 3 :]], every[order[: len(every) // 3]]
                peer, slow = timed(lambda X=X, k=k: NMF(k, init="nndsvda", max_iter=2000, tol=1e-6).fit(X))
                for decoder in ("auto", "cone", "draws"):
                    ours, seconds = timed(
                        lambda X=X, k=k, seed=seed, decoder=decoder: sl.CompressiveNMF(
                            k, decoder=decoder, random_state=seed
                        ).fit(X)
                    )
                    share = error(ours.components_, new) / error(peer.components_, new)
                    table.setdefault(f"{decoder}: error, over NMF's", []).append(share)
                    table.setdefault(f"{decoder}: s", []).append(seconds)
                table.setdefault("NMF: s", []).append(slow)
            show(f"{name}, k={k}", table)


ATOMS = [(6, 6, 0.1), (6, 9, 0.1), (8, 16, 0.1), (8, 12, 0.3), (12, 24, 0.1)]


@part
def atoms(seeds):
    for d, k, share in ATOMS:
        table = {}
        for seed in seeds:
            rng = np.random.default_rng(seed)
            D = rng.normal(size=(k, d))
            D /= np.linalg.norm(D, axis=1, keepdims=True)
            codes = rng.normal(size=(101_000, k)) * (rng.random((101_000, k)) < share)
            X = codes @ D + 0.05 * rng.normal(size=(101_000, d))
            X, new = X[:100_000], X[100_000:]
            many = int(np.ceil(share * k))
            found, seconds = {}, {}
            ours = sl.CompressiveDictionaryLearning(k, random_state=seed)
            fitted, seconds["sketch"] = timed(lambda ours=ours, X=X: ours.fit(X))
            found["sketch"] = fitted.components_
            peer = MiniBatchDictionaryLearning(k, alpha=0.1, batch_size=256, max_iter=5, random_state=seed)
            peer, seconds["rows"] = timed(lambda peer=peer, X=X: peer.fit(X))
            found["rows"] = peer.components_ / np.linalg.norm(peer.components_, axis=1, keepdims=True)
            found["true"] = D
            for name, A in found.items():
                cosines = np.abs(A @ D.T)
                at = linear_sum_assignment(-cosines)
                left = new - sparse_codes(new, A, many) @ A
                table.setdefault(f"{name}: atoms found", []).append((cosines[at] > 0.97).sum())
                table.setdefault(f"{name}: error", []).append(np.sqrt((left**2).mean() / (new**2).mean()))
                if name in seconds:
                    table.setdefault(f"{name}: s", []).append(seconds[name])
            table.setdefault("certified", []).append(fitted.reliable_)
            off = np.sqrt(np.maximum(2.0 - 2.0 * np.abs(found["sketch"] @ D.T).max(1), 0.0))
            table.setdefault("largest distance", []).append(off.max())
            table.setdefault("largest claimed", []).append(fitted.errors_.max())
        show(f"{k} atoms in {d} columns, each in {share:.0%} of 100 000 rows", table)


def show(title, table):
    """Medians over seeds, and all values."""
    print(f"\n{title}")
    for name, found in table.items():
        print(f"  {name:<40} {np.median(found):10.4g}   {' '.join(f'{v:.4g}' for v in found)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=list(PARTS), action="append")
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101, 102, 103, 104])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.part or PARTS:
        PARTS[name](options.seeds)


if __name__ == "__main__":
    main()
