"""How often the certificate of compressive k-means is right, on data made to mislead it and on data it must accept.

    python benchmarks/certificate.py run rows.jsonl [--seeds 0:20] [--cases nested,rare]   # resumable
    python benchmarks/certificate.py show rows.jsonl                                       # the rates

Wrong means: the cost is more than 1.05 times that of k-means on the rows (RSE), or a true cluster with a larger share
than the stated smallest one has no component within two widths.  `grid` holds well-specified problems at 5kd, all
others are off the model, nested, too coarse, rare or under-determined.  The cost of k-means is the best of two random
starts and of one at the true centres.  Coverage is that of 95 % intervals from `centers_std_` around the means of
clusters that are eight widths from all others.
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.cluster import KMeans

import sketchlearn as sl

ROWS = 20_000
GRID = [(5, 2), (10, 10), (20, 10), (10, 10), (5, 2), (10, 10), (20, 10), (10, 50)]


class Case:
    """Rows, the true centres, widths and shares, the number of clusters to ask for, and the map (None: designed)."""

    def __init__(self, X, centers, shares, k, width=1.0, features=None, size=None, name=""):
        self.X, self.labels = X if isinstance(X, tuple) else (X, None)
        self.centers, self.shares, self.k = centers, shares, k
        self.width, self.features, self.size, self.name = width, features, size, name


def drawn(rng, centers, shares, n=ROWS, widths=None, noise=None):
    labels = rng.choice(len(centers), n, p=shares)
    noise = rng.normal(size=(n, centers.shape[1])) if noise is None else noise
    return centers[labels] + noise * (1.0 if widths is None else widths[labels][:, None]), labels


def grid_problem(rng, k, d, separation, unbalanced, n=ROWS):
    centers = rng.normal(size=(k, d)) * np.sqrt(separation)
    shares = np.exp(rng.uniform(0, np.log(20), k)) if unbalanced else np.ones(k)
    shares /= shares.sum()
    X, labels = drawn(rng, centers, shares, n)
    scale, shift = np.exp(rng.uniform(-3, 3)), rng.normal(size=d)
    return (X * scale + 10 * scale * shift, labels), centers * scale + 10 * scale * shift, shares, scale


def grid(seed):
    """Well specified, 5kd."""
    rng = np.random.default_rng([1, seed])
    k, d = GRID[seed % 8]
    separation, unbalanced = (10, 100, 1000)[seed // 8 % 3], bool(seed // 24 % 2)
    X, centers, shares, width = grid_problem(rng, k, d, separation, unbalanced)
    return Case(X, centers, shares, k, width, size=5 * k * d, name=f"({k},{d}) {separation} {unbalanced}")


def grid2(seed):
    """Well specified, 2kd: under-determined for the search."""
    rng = np.random.default_rng([2, seed])
    k, d = GRID[seed % 8]
    separation, unbalanced = (10, 100, 1000)[seed // 8 % 3], bool(seed // 24 % 2)
    X, centers, shares, width = grid_problem(rng, k, d, separation, unbalanced)
    return Case(X, centers, shares, k, width, size=2 * k * d, name=f"({k},{d}) {separation} {unbalanced}")


def few(seed):
    """Fewer components than clusters."""
    rng = np.random.default_rng([3, seed])
    k, d = GRID[seed % 3]
    X, centers, shares, width = grid_problem(rng, k, d, (10, 100, 1000)[seed // 3 % 3], bool(seed // 9 % 2))
    return Case(X, centers, shares, k - 1, width, size=5 * k * d, name=f"({k},{d})")


def nested(seed, low=10.0, high=1e4):
    """Groups of clusters, far apart."""
    rng = np.random.default_rng([4, seed])
    d, groups, each = int(rng.choice([2, 5, 10])), int(rng.integers(2, 4)), int(rng.integers(2, 5))
    apart = np.exp(rng.uniform(np.log(low), np.log(high)))
    far = rng.normal(size=(groups, d))
    distances = np.sqrt(((far[:, None] - far) ** 2).sum(2))
    far *= apart / distances[~np.eye(groups, dtype=bool)].min()
    near = rng.normal(size=(groups * each, d)) * 10 / np.sqrt(2 * d)
    centers = np.repeat(far, each, axis=0) + near
    k = len(centers)
    return Case(drawn(rng, centers, np.full(k, 1 / k)), centers, np.full(k, 1 / k), k, name=f"d{d} k{k} {apart:.0f}")


def nested1000(seed):
    """Groups of clusters, 10 to 1000 widths apart."""
    return nested(seed + 10_000, 10.0, 1e3)


def coarse(seed):
    """Bounds 3 to 100 000 times too wide."""
    rng = np.random.default_rng([5, seed])
    d, k = int(rng.choice([2, 5, 10])), int(rng.integers(3, 9))
    centers = rng.normal(size=(k, d)) * 10
    X = drawn(rng, centers, np.full(k, 1 / k))
    wide = np.exp(rng.uniform(np.log(3), np.log(1e5)))
    reach = np.abs(X[0]).max() * wide
    features = sl.design(bounds=(np.full(d, -reach), np.full(d, reach)), n_components=k, seed=seed)
    return Case(X, centers, np.full(k, 1 / k), k, features=features, name=f"d{d} k{k} x{wide:.0f}")


def rare(seed, missing=0):
    """A cluster of 0.05 to 1 % of the rows, 8 widths from another."""
    rng = np.random.default_rng([6, seed])
    d, k = int(rng.choice([2, 3, 5, 10])), int(rng.integers(1, 5))
    centers = rng.normal(size=(k, d)) * 10
    step = rng.normal(size=d)
    share = np.exp(rng.uniform(np.log(5e-4), np.log(1e-2)))
    centers = np.vstack([centers, centers[0] + 8 * step / np.linalg.norm(step)])
    shares = np.append(np.full(k, (1 - share) / k), share)
    return Case(drawn(rng, centers, shares), centers, shares, k + 1 - missing, name=f"d{d} k{k + 1} {share:.1e}")


def rare_unasked(seed):
    """The same, and one cluster fewer asked for."""
    return rare(seed, 1)


def pair(seed):
    """Two clusters 1 to 4 widths apart, asked as one."""
    rng = np.random.default_rng([7, seed])
    d, k = int(rng.choice([2, 5, 10])), int(rng.integers(1, 6))
    centers = rng.normal(size=(k, d)) * 12
    step = rng.normal(size=d)
    centers = np.vstack([centers, centers[0] + rng.uniform(1, 4) * step / np.linalg.norm(step)])
    shares = np.append(np.full(k, 1 / (k + 1)), 1 / (k + 1))
    return Case(drawn(rng, centers, shares), centers, shares, k, name=f"d{d} k{k}")


def shape(seed):
    """Clusters that are not round Gaussians."""
    rng = np.random.default_rng([8, seed])
    k, d = int(rng.choice([3, 5, 10])), int(rng.choice([2, 5, 10]))
    centers, n = rng.normal(size=(k, d)) * np.sqrt(rng.choice([10, 100])), ROWS
    shares = np.full(k, 1 / k)
    kind = ("oblong", "student", "laplace", "outliers", "square", "widths", "rings")[seed % 7]
    noise = rng.normal(size=(n, d))
    if kind == "oblong":
        axes = np.stack([np.linalg.qr(rng.normal(size=(d, d)))[0] * np.exp(rng.uniform(-1, 1, d)) for _ in range(k)])
        labels = rng.choice(k, n)
        X = centers[labels] + np.einsum("nab,nb->na", axes[labels], noise)
    elif kind == "square":
        X = rng.uniform(-10, 10, (n, d))
    elif kind == "widths":
        X = drawn(rng, centers * 2, shares, widths=np.exp(rng.uniform(-1.15, 1.15, k)))[0]
        centers = centers * 2
    else:
        if kind == "student":
            noise = rng.standard_t(3, (n, d))
        elif kind == "laplace":
            noise = rng.laplace(size=(n, d))
        elif kind == "rings":
            noise = 3 * noise / np.linalg.norm(noise, axis=1, keepdims=True)
        X = drawn(rng, centers, shares, noise=noise)[0]
        if kind == "outliers":
            far = rng.uniform(size=n) < 0.02
            X[far] = rng.uniform(X.min(0), X.max(0), (far.sum(), d))
    return Case(X, None, None, k, name=f"{kind} d{d} k{k}")


def short(seed):
    """Too few rows, or too few features."""
    rng = np.random.default_rng([9, seed])
    k, d = ((5, 2), (10, 10))[seed % 2]
    n = int(np.exp(rng.uniform(np.log(10 * k), np.log(1000))))
    X, centers, shares, width = grid_problem(rng, k, d, (10, 100, 1000)[seed // 2 % 3], bool(seed // 6 % 2), n)
    size = int(k * d * rng.uniform(1.0, 5.0))
    return Case(X, centers, shares, k, width, size=size, name=f"({k},{d}) n={n} m={size}")


CASES = {f.__name__: f for f in (grid, grid2, few, nested, nested1000, coarse, rare, rare_unasked, pair, shape, short)}


def cost(X, centers):
    best = np.full(len(X), np.inf)
    for c in centers:
        np.minimum(best, ((X - c) ** 2).sum(1), out=best)
    return best.sum()


def measure(name, seed):
    case = CASES[name](seed)
    features = case.features
    if features is None:
        pilot = case.X[np.random.default_rng(seed).choice(len(case.X), min(1000, len(case.X)), replace=False)]
        features = sl.design(pilot, n_components=case.k, size=case.size, seed=seed)
    s = sl.sketch(case.X, features, progress=False)
    start = time.process_time()
    solution = sl.decode(s, case.k, random_state=seed)
    seconds = time.process_time() - start
    reference = KMeans(case.k, n_init=2, random_state=0).fit(case.X).inertia_
    if case.centers is not None and len(case.centers) == case.k:
        reference = min(reference, KMeans(case.k, init=case.centers, n_init=1).fit(case.X).inertia_)
    row = {"case": name, "seed": seed, "name": case.name, "seconds": seconds, "code": str(solution.code)}
    row |= {"rse": cost(case.X, solution.centers) / reference, "reliable": solution.reliable, "ratio": solution.ratio}
    row |= {"smallest": solution.smallest, "closest": solution.closest, "decoder": solution.decoder}
    row["missed"] = None
    if case.centers is not None:
        distances = np.sqrt(((case.centers[:, None] - solution.mixture.means) ** 2).sum(2)).min(1)
        lost = np.bincount(case.labels, minlength=len(case.centers))[distances > 2 * case.width] / len(case.X)
        row["missed"] = float(lost.max(initial=0.0))
        if solution.centers_std is not None and len(case.centers) == case.k and case.k > 1:
            row |= coverage(case, solution)
    return row


def coverage(case, solution):
    """Share of coordinates within 1.96 standard errors, where clusters are apart, so that centres are their means."""
    distances = np.sqrt(((solution.centers[:, None] - case.centers) ** 2).sum(2))
    own = distances.argmin(1)
    apart = np.sqrt(((case.centers[:, None] - case.centers) ** 2).sum(2)) + 1e300 * np.eye(len(case.centers))
    alone = (apart.min(1) > 8 * case.width)[own]
    if len(set(own.tolist())) < len(own) or not alone.any():
        return {}
    z = ((solution.centers - case.centers[own]) / solution.centers_std)[alone]
    weight = (solution.weights - case.shares[own]) / np.maximum(solution.weights_std, 1e-12)
    return {"covered": float((np.abs(z) < 1.96).mean()), "weights": float((np.abs(weight[alone]) < 1.96).mean())}


def run(arguments):
    path = Path(arguments.rows)
    done = set()
    if path.exists():
        done = {(row["case"], row["seed"]) for row in map(json.loads, path.read_text().splitlines())}
    first, last = map(int, arguments.seeds.split(":"))
    for seed in range(first, last):
        for name in arguments.cases.split(",") if arguments.cases else CASES:
            if (name, seed) not in done:
                row = measure(name, seed)
                with path.open("a") as file:
                    file.write(json.dumps(row) + "\n")


def wrong(row):
    return row["rse"] > 1.05 or (row["missed"] or 0.0) > row["smallest"]


def show(arguments):
    rows = [json.loads(line) for line in Path(arguments.rows).read_text().splitlines()]
    print("case          runs  right  reliable  right and reliable  wrong and reliable  median s")
    for name in CASES:
        part = [r for r in rows if r["case"] == name]
        if not part:
            continue
        right = [r for r in part if r["rse"] <= 1.05]
        reliable = [r for r in part if r["reliable"]]
        bad = [r for r in reliable if wrong(r)]
        both = [r for r in right if r["reliable"]]
        print(f"{name:<12} {len(part):>5} {len(right):>6} {len(reliable):>9} {len(both):>19} {len(bad):>19} "
              f"{np.median([r['seconds'] for r in part]):>9.2f}")  # fmt: skip
    hard = [r for r in rows if r["case"] != "grid"]
    easy = [r for r in rows if r["case"] == "grid"]
    bad = [r for r in hard if r["reliable"] and wrong(r)]
    print(f"\n{len(hard)} hard problems: {len(bad)} wrong and reliable")
    for r in bad:
        print(
            f"  {r['case']} {r['seed']} {r['name']}: RSE {r['rse']:.3f}, missed {r['missed']}, "
            f"smallest {r['smallest']:.2g}"
        )
    if easy:
        sure = sum(r["reliable"] for r in easy)
        print(f"{len(easy)} well-specified problems at 5kd: {sure} reliable ({sure / len(easy):.1%}), "
              f"{sum(r['rse'] > 1.05 for r in easy)} with RSE above 1.05")  # fmt: skip
    covered = [r["covered"] for r in rows if "covered" in r]
    if covered:
        weights = [r["weights"] for r in rows if "weights" in r]
        print(f"95 % intervals cover {np.mean(covered):.1%} of the coordinates of centres, {np.mean(weights):.1%} of "
              f"weights ({len(covered)} fits)")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in (("run", run), ("show", show)):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("rows", help="file of results, one JSON object per line")
        if name == "run":
            command.add_argument("--seeds", default="0:20")
            command.add_argument("--cases", default="")
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    main()
