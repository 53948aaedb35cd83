"""Speed of the one pass, against the bare matrix product and against what people use now.

All methods run in one process, interleaved; each figure is the minimum over the repeats.  Ratios are
times relative to NumPy's sgemm of the same rows and frequencies in tiles of 256 rows.

    python benchmarks/sketching.py            # add --pycle after: pip install pycle
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time

import numpy as np

import sketchlearn as sl
from sketchlearn.kernels import active_kernel


def sgemm(X, W, out):
    for i in range(0, len(X), len(out)):
        block = X[i : i + len(out)]
        np.matmul(block, W, out=out[: len(block)])


def numpy_tiles(X, W, rows=256, columns=512):
    """Cosines and sines in float32, in the tile shape found best for them."""
    total = np.zeros((2, W.shape[1]))
    for i in range(0, len(X), rows):
        for j in range(0, W.shape[1], columns):
            phase = X[i : i + rows] @ W[:, j : j + columns]
            total[0, j : j + columns] += np.cos(phase).sum(0)
            total[1, j : j + columns] += np.sin(phase).sum(0)
    return total


def numpy_exp(X, W):
    return np.exp(1j * (X @ W)).mean(0)


def interleaved(methods, repeats):
    best = dict.fromkeys(methods, np.inf)
    for _ in range(repeats):
        for name, (function, divisor) in methods.items():
            start = time.perf_counter()
            function()
            best[name] = min(best[name], (time.perf_counter() - start) / divisor)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--pycle", action="store_true", help="time pycle 1.2 too (it must be installed)")
    arguments = parser.parse_args()
    print(f"kernel: {active_kernel()}, numpy {np.__version__}")
    print(
        f"{'d':>4} {'m':>6} {'n':>7} | {'sgemm':>9} {'sketch':>9} {'2 threads':>9} {'np tiles':>9} {'np exp':>9}"
        f" | {'/sgemm':>7} {'1/2 thr':>7} {'tiles/':>7} {'exp/':>7}" + (f" {'pycle/':>7}" if arguments.pycle else "")
    )
    for d, m, n in [(2, 1000, 200_000), (10, 100, 400_000), (10, 1000, 200_000), (10, 5000, 100_000),
                    (50, 1000, 100_000), (100, 1000, 100_000), (100, 5000, 100_000), (500, 2000, 100_000)]:  # fmt: skip
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, d)).astype(np.float32)
        phi = sl.FourierFeatures.draw(dim=d, size=m, scale=np.sqrt(d), seed=0)
        W = np.ascontiguousarray(phi.frequencies.T.astype(np.float32))
        out = np.empty((256, m), np.float32)
        few = X[: max(2000, n // 100)]
        share = len(few) / n
        methods = {
            "sgemm": (lambda X=X, W=W, out=out: sgemm(X, W, out), 1),
            "sketch": (lambda X=X, phi=phi: sl.sketch(X, phi, workers=1), 1),
            "two": (lambda X=X, phi=phi: sl.sketch(X, phi, workers=2), 1),
            "tiles": (lambda X=few, W=W: numpy_tiles(X, W), share),
            "exp": (lambda X=few[:2000], W=W: numpy_exp(X, W), 2000 / n),
        }
        if arguments.pycle:
            from pycle.sketching import SimpleFeatureMap, computeSketch

            slow = SimpleFeatureMap("ComplexExponential", phi.frequencies.T)
            rows = few[:1000].astype(float)
            methods["pycle"] = (lambda X=rows, f=slow: computeSketch(X, f), 1000 / n)
        best = interleaved(methods, arguments.repeats if n * m * d < 5e9 else 3)
        rate = {k: n * m / v / 1e9 for k, v in best.items()}
        line = f"{d:>4} {m:>6} {n:>7} | {rate['sgemm']:>9.3f} {rate['sketch']:>9.3f} {rate['two']:>9.3f} "
        line += f"{rate['tiles']:>9.3f} {rate['exp']:>9.3f} | {best['sketch'] / best['sgemm']:>7.2f} "
        line += f"{best['sketch'] / best['two']:>7.2f} {best['tiles'] / best['sketch']:>7.1f} "
        line += f"{best['exp'] / best['sketch']:>7.1f}"
        if arguments.pycle:
            line += f" {best['pycle'] / best['sketch']:>7.1f}"
        print(line, flush=True)
    print("\nrates in 10^9 features per second; /sgemm: sketch relative to the bare product (one thread);")
    print("1/2 thr: speed-up of two threads; the last columns: how many times faster than the alternatives")


if __name__ == "__main__":
    main()
