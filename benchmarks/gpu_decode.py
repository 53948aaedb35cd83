"""Decoding k-means with many clusters on a GPU and on the processor, from the same sketches.

    python benchmarks/gpu_decode.py               # k = 100, 200, 400, 1000 on the GPU
    python benchmarks/gpu_decode.py 100 200 --cpu # on the processor too

Round clusters in 10 columns, 10 k d features, 1000 rows per cluster.  RSE is the cost over that of Lloyd's algorithm
from the true centres.  "apart" is the largest distance of a centre to the processor's, in widths of a cluster.
"""

import argparse
import time

import numpy as np
from kmeans import clusters
from scipy.spatial import cKDTree
from sklearn.cluster import KMeans

import sketchlearn as sl

DIM = 10


def decoded(sketch, k, engine):
    wall, cpu = time.perf_counter(), time.process_time()
    with sl.decoding_engine(engine):
        model = sl.decode(sketch, k, random_state=0)
    return model, time.perf_counter() - wall, time.process_time() - cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("k", nargs="*", type=int, default=[100, 200, 400, 1000])
    parser.add_argument("--cpu", action="store_true", help="on the processor too")
    parser.add_argument("--separation", type=int, default=100, help="variance of the centres, in that of a cluster")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    engines = ["gpu", "cpu"] if arguments.cpu else ["gpu"]
    for k in [20, *arguments.k]:  # the first compiles what there is to compile
        X, labels, width = clusters_of(k, arguments.separation, arguments.seed)
        centers = np.stack([np.bincount(labels, X[:, j], k) for j in range(DIM)], 1) / np.bincount(labels)[:, None]
        reference = KMeans(k, init=centers, n_init=1, max_iter=20).fit(X).inertia_
        phi = sl.design(X[:20_000], n_components=k, size=10 * k * DIM, seed=0)
        sketch = sl.sketch(X, phi)
        found = {}
        for engine in engines:
            model, wall, cpu = found[engine] = decoded(sketch, k, engine)
            if k == 20:
                continue
            cost = float((cKDTree(model.centers).query(X)[0] ** 2).sum())
            apart = ""
            if engine == "cpu":
                distances = cKDTree(found["gpu"][0].centers).query(model.centers)[0]
                apart = f"  apart {distances.max() / width:.1e}"
            print(
                f"k={k:<5} {engine}  {wall:7.2f} s  CPU {cpu:7.2f} s  RSE {cost / reference:.4f}  {model.code}{apart}",
                flush=True,
            )


def clusters_of(k, separation, seed):
    X, labels, width = clusters(k, DIM, separation, False, seed, n=1000 * k, known=True)
    return X.astype(np.float32), labels, width


if __name__ == "__main__":
    main()
