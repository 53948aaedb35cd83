"""Makes the pictures of the documentation, from the code itself: python docs/pictures.py"""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

import sketchlearn as sl

IMAGES = Path(__file__).parent / "images"


def clusters(rng, k, n, spread=6.0):
    centers = rng.uniform(-1, 1, size=(k, 2)) * spread
    return centers[rng.integers(k, size=n)] + rng.normal(size=(n, 2)) * 0.5


def centres():
    rng = np.random.default_rng(3)
    X = clusters(rng, 8, 100_000)
    model = sl.CompressiveKMeans(8, random_state=0).fit(X)
    reference = KMeans(8, n_init=10, random_state=0).fit(X)
    fig, ax = plt.subplots(figsize=(6, 4.5))
    ax.plot(*X[:4000].T, ".", markersize=2, color="0.7", zorder=0)
    ax.scatter(
        *reference.cluster_centers_.T,
        marker="o",
        s=120,
        facecolors="none",
        edgecolors="C0",
        label="k-means on 100 000 rows",
    )
    ax.scatter(
        *model.cluster_centers_.T, marker="x", s=60, color="C3", label=f"from a sketch of {model.sketch_.nbytes} bytes"
    )
    ax.legend(loc="best")
    ax.set_title(f"cost relative to k-means: {-model.score(X) / reference.inertia_:.4f}")
    fig.savefig(IMAGES / "kmeans-centres.png", dpi=110, bbox_inches="tight")


def choice_of_k():
    rng = np.random.default_rng(5)
    X = clusters(rng, 7, 50_000, spread=8.0)
    s = sl.sketch(X, sl.design(X[:1000], n_components=12))
    fig, ax = plt.subplots(figsize=(6, 4))
    sl.plots.sweep(sl.sweep(s, range(2, 13), random_state=0), ax=ax)
    fig.savefig(IMAGES / "kmeans-sweep.png", dpi=110, bbox_inches="tight")


def rare_cluster():
    rng = np.random.default_rng(8)
    n, weight = 1_000_000, 1e-3
    X = clusters(rng, 5, n)
    rare = np.array([9.0, 8.0])
    few = rng.uniform(size=n) < weight
    X[few] = rare + 0.5 * rng.normal(size=(few.sum(), 2))
    model = sl.CompressiveKMeans(6, random_state=0).fit(X)
    sample = KMeans(6, n_init=10, random_state=0).fit(X[rng.choice(n, 2000, replace=False)])
    fig, ax = plt.subplots(figsize=(6, 4.5))
    ax.plot(*X[::250].T, ".", markersize=2, color="0.7", zorder=0)
    ax.scatter(
        *sample.cluster_centers_.T, marker="s", s=70, facecolors="none", edgecolors="C0", label="k-means on 2000 rows"
    )
    ax.scatter(*model.cluster_centers_.T, marker="x", s=60, color="C3", label="from the sketch of all rows")
    ax.annotate("1 row in 1000", rare, xytext=(3, 9), arrowprops={"arrowstyle": "->"})
    ax.legend(loc="lower right")
    fig.savefig(IMAGES / "kmeans-rare.png", dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    centres()
    choice_of_k()
    rare_cluster()
