"""
A cluster of one row in a thousand
==================================

A sketch of all rows sees it.  k-means on a sample may not.  The rows are a stream of two million, which is never held
in memory.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

import sketchlearn as sl

ROWS, DIM, ORDINARY, WEIGHT = 2_000_000, 10, 10, 1e-3
rng = np.random.default_rng(7)
centers = rng.normal(size=(ORDINARY + 1, DIM)) * 10
shares = np.append(np.full(ORDINARY, (1 - WEIGHT) / ORDINARY), WEIGHT)


def stream():
    source = np.random.default_rng(1)
    for _ in range(ROWS // 100_000):
        labels = source.choice(len(shares), 100_000, p=shares)
        yield (centers[labels] + source.normal(size=(100_000, DIM))).astype(np.float32)


# %%
# One pass over the rows; then the centres, from the sketch.
pilot = next(stream())[:1000]
sketch = sl.sketch(stream(), sl.design(pilot, n_components=ORDINARY + 1))
solution = sl.decode(sketch, ORDINARY + 1, random_state=0)
print(f"{ROWS:,} rows, sketch of {sketch.nbytes:,} bytes; {solution.verdict}")

# %%
# k-means on every two-hundredth row, for comparison.  About ten of those are in the rare cluster.
subsample = np.concatenate([batch[::200] for batch in stream()])
small = KMeans(ORDINARY + 1, n_init=10, random_state=0).fit(subsample)


def distance(found):
    return np.sqrt(((found - centers[-1]) ** 2).sum(1).min())


print(f"distance to the rare cluster, whose width is 1: {distance(solution.centers):.2f} from the sketch, "
      f"{distance(small.cluster_centers_):.2f} from k-means on {len(subsample):,} rows")  # fmt: skip

# %%
# The plane through three centres, one of them the rare one.
corner = centers[-1]
first = centers[0] - corner
second = centers[1] - corner
axes_of_plane = np.linalg.qr(np.stack([first, second], axis=1))[0]
fig, axes = plt.subplots(figsize=(6.5, 4.5))
axes.plot(*((subsample - corner) @ axes_of_plane).T, ".", markersize=2, color="0.75", label="every 200th row")
axes.plot(*((solution.centers - corner) @ axes_of_plane).T, "x", color="C3", markersize=8, label="from the sketch")
axes.annotate("1 row in 1000", (0, 0), xytext=(25, 25), textcoords="offset points", arrowprops={"arrowstyle": "->"})
axes.legend(loc="best")
axes.set_xlabel("towards one ordinary cluster")
fig.tight_layout()
plt.show()
