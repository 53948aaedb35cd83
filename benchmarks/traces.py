"""Which stage solved each of some problems, and what it found, by the trace alone.

    python benchmarks/traces.py [--seed 0] [--markdown]

One line a problem: the ratio of its cost to that of k-means on the rows where that says something, the stage that
ended the decoding, why it ran, and what it found.  `--markdown` prints the table of docs/how-to/read-a-trace.md.
"""

import argparse
import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import certificate
import numpy as np
from sklearn import datasets
from sklearn.cluster import KMeans

import sketchlearn as sl
from sketchlearn.decoders.families import Known, sample_stable


def rows(k, d, seed, separation=5.0, n=20_000):
    rng = np.random.default_rng([seed, k, d])
    return (separation * rng.normal(size=(k, d)))[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def clustered(X, k, seed, size=None, **options):
    phi = sl.design(X[:2000], n_components=k, size=size, seed=seed, **options)
    return X, sl.sketch(X, phi, progress=False), k, {}


def of_certificate(name, seed):
    case = certificate.CASES[name](seed)
    phi = case.features or sl.design(case.X[:2000], n_components=case.k, size=case.size, seed=seed)
    return case.X, sl.sketch(case.X, phi, progress=False), case.k, {}


def table(name, k, seed):
    X = getattr(datasets, f"load_{name}")().data
    return clustered((X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1.0), k, seed)


def private(epsilon, seed):
    X = rows(3, 2, seed, 8.0, 100_000)
    phi = sl.design(bounds=(X.min(0) - 5, X.max(0) + 5), n_components=3, seed=seed)
    released = sl.privatize(sl.sketch(X, phi), epsilon=epsilon, delta=1e-6, public_map=True)
    return X, released, 3, {}


def one_bit(seed):
    X = rows(6, 4, seed)
    scale = sl.design(X[:2000], n_components=6, seed=seed).scale
    phi = sl.FourierFeatures.draw(dim=4, size=250, scale=scale, quantized=True, seed=seed)
    return X, sl.sketch(X, phi, progress=False), 6, {}


def far_rows(seed):
    X = rows(5, 3, seed)
    X[:5, 0] = 400.0
    return X, sl.sketch(X, sl.design(X, n_components=5, seed=seed), progress=False), 5, {}


def mixture(kind, X, k, seed):
    phi = sl.design(X[:2000], n_components=k, task="gmm", covariance_type=kind, seed=seed)
    return None, sl.sketch(X, phi, progress=False), k, {"task": "gmm", "covariance_type": kind}


def heavy_tailed(seed):
    rng = np.random.default_rng(seed)
    X = np.concatenate([sample_stable(10_000, 1.4, np.full(2, m), np.eye(2), rng) for m in (0.0, 30.0)])
    X = X[rng.permutation(len(X))]
    phi = sl.design(X[:2000], n_components=2, task="stable", seed=seed)
    return None, sl.sketch(X, phi, progress=False), 2, {"task": "stable"}


def planes(seed):
    rng = np.random.default_rng(seed)
    bases = np.linalg.qr(rng.normal(size=(3, 8, 2)))[0][rng.integers(3, size=20_000)]
    X = np.einsum("ndr,nr->nd", bases, rng.normal(size=(20_000, 2))) + 0.05 * rng.normal(size=(20_000, 8))
    phi = sl.design(X[:2000], n_components=3, task="subspaces", seed=seed)
    return None, sl.sketch(X, phi, progress=False), 3, {"task": "subspaces", "dim": 2}


def points(seed):
    X, s, k, _ = clustered(rows(4, 3, seed), 4, seed)
    return X, s, k, {"task": "family", "family": Known(1.0)}


PROBLEMS = {
    "5 round clusters": lambda seed: clustered(rows(5, 2, seed), 5, seed),
    "10 in 10 columns, 2 frequencies a number": lambda seed: clustered(rows(10, 10, seed), 10, seed, 200),
    "50 round clusters": lambda seed: clustered(rows(50, 10, seed), 50, seed),
    "medians of 5 clusters": lambda seed: (*clustered(rows(5, 2, seed), 5, seed)[:3], {"task": "kmedians"}),
    "groups of clusters, 1000 widths apart": lambda seed: of_certificate("nested1000", seed),
    "groups of clusters, up to 10 000 widths": lambda seed: of_certificate("nested", seed),
    "a cluster of few rows": lambda seed: of_certificate("rare", seed),
    "the same, not asked for": lambda seed: of_certificate("rare_unasked", seed),
    "fewer components than clusters": lambda seed: of_certificate("few", seed),
    "a close pair asked as one": lambda seed: of_certificate("pair", seed),
    "clusters of other shapes": lambda seed: of_certificate("shape", seed),
    "few rows or few features": lambda seed: of_certificate("short", seed),
    "bounds far too wide": lambda seed: of_certificate("coarse", seed),
    "wine": lambda seed: table("wine", 3, seed),
    "iris": lambda seed: table("iris", 3, seed),
    "digits": lambda seed: table("digits", 10, seed),
    "private, epsilon 1": lambda seed: private(1.0, seed),
    "private, epsilon 0.02": lambda seed: private(0.02, seed),
    "one-bit features": one_bit,
    "five rows far away": far_rows,
    "a mixture of full Gaussians": lambda seed: mixture("full", rows(4, 3, seed, 3.0), 4, seed),
    "t laws as diagonal Gaussians": lambda seed: mixture(
        "diag", rows(3, 2, seed) + np.random.default_rng(seed).standard_t(3, (20_000, 2)), 3, seed
    ),
    "two heavy-tailed clusters": heavy_tailed,
    "three planes in 8 columns": planes,
    "clusters of a known width": points,
}


def solved_by(model):
    """The stage that the answer is from: the one that was accepted, or the last that found something."""
    told = [step for step in model.trace if step["found"] != "nothing better" and " so far that" not in step["found"]]
    found = [step for step in told if "can't be seen" not in step["found"]]
    return ([step for step in found if step["accepted"]] or found)[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    if arguments.markdown:
        print("| problem | stages | ended by | because | cost |\n|---|---|---|---|---|")
    for name, make in PROBLEMS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X, sketch, k, options = make(arguments.seed)
            model = sl.decode(sketch, k, random_state=arguments.seed, **options)
        ratio, centers = "", getattr(model, "centers", None)
        if X is not None and centers is not None and model.task == "kmeans":
            squares = (X**2).sum(1)[:, None] - 2 * X @ centers.T + (centers**2).sum(1)
            best = KMeans(k, n_init=5, random_state=0).fit(X).inertia_ / len(X)
            ratio = f"{float(squares.min(1).mean()) / best:.3f}"
        end = solved_by(model)
        parts = [name, str(len(model.trace)), end["stage"], end["why"], ratio]
        if arguments.markdown:
            print(f"| {' | '.join(parts)} |")
        else:
            print(f"{' | '.join(parts)}\n    {'accepted' if end['accepted'] else 'not certified'}: {end['found']}")


if __name__ == "__main__":
    main()
