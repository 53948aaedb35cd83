"""A cluster of one row in a thousand: a sketch of all rows sees it, a subsample may not.

The rows are a stream of two million that is never held in memory.
"""

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


def distance(found):
    return np.sqrt(((found - centers[-1]) ** 2).sum(1).min())


pilot = next(stream())[:1000]
sketch = sl.sketch(stream(), sl.design(pilot, n_components=ORDINARY + 1))
solution = sl.decode(sketch, ORDINARY + 1, random_state=0)
subsample = np.concatenate([batch[::200] for batch in stream()])
small = KMeans(ORDINARY + 1, n_init=10, random_state=0).fit(subsample)

print(f"{ROWS:,} rows, sketch of {sketch.nbytes:,} bytes; {solution.verdict}")
print(f"distance to the rare cluster: {distance(solution.centers):.2f} from the sketch, "
      f"{distance(small.cluster_centers_):.2f} from k-means on {len(subsample):,} rows")  # fmt: skip
