"""
Clustering embeddings
=====================

Vectors from a language or image model have hundreds of columns.  Dense frequencies then need as much memory as the data
and d multiply-adds per feature.  Structured frequencies need a few bytes and log d additions.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as sl

ROWS, DIM, TOPICS = 20_000, 384, 8
rng = np.random.default_rng(0)
topics = rng.normal(size=(TOPICS, DIM))
labels = rng.integers(TOPICS, size=ROWS)
X = topics[labels] + rng.normal(size=(ROWS, DIM))
X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)  # unit vectors, as most models give

# %%
# ``structure="auto"`` uses Walsh-Hadamard blocks from 64 columns on.
phi = sl.design(X[:1000], n_components=TOPICS, size=3 * TOPICS * DIM, seed=0, structure="auto")
start = time.perf_counter()
sketch = sl.sketch(X, phi)
middle = time.perf_counter()
solution = sl.decode(sketch, TOPICS, random_state=0)
end = time.perf_counter()
print(phi)
print(f"pass {middle - start:.1f} s, decoding {end - middle:.1f} s; {solution.verdict}")
print(f"frequencies: {phi.random_array().nbytes:,} bytes instead of {4 * phi.size * DIM:,}")

# %%
# Which topic each row belongs to, from the centres alone.
found = (X @ solution.centers.T.astype(np.float32) - 0.5 * (solution.centers**2).sum(1)).argmax(1)
table = np.zeros((TOPICS, TOPICS), int)
np.add.at(table, (labels, found), 1)
table = table[:, table.argmax(1)] if len(set(table.argmax(1))) == TOPICS else table
print(f"{table.max(1).sum() / ROWS:.1%} of the rows are with their topic")
fig, axes = plt.subplots(figsize=(4.5, 4))
axes.imshow(table, cmap="Blues")
axes.set_xlabel("centre from the sketch")
axes.set_ylabel("topic")
fig.tight_layout()
