"""
A hundred points for fifty thousand rows
========================================

Points with the same average features as a sketch describe the data far better than the same number of random rows.
"""

import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as sl

rng = np.random.default_rng(0)
t = rng.uniform(0, np.pi, 50_000)
X = np.column_stack([2 * np.cos(t), 2 * np.sin(t)]) + 0.1 * rng.normal(size=(len(t), 2))

# %%
# The points are made from the sketch alone.
s = sl.sketch(X, sl.design(X[:2000], n_components=4, task="gmm", size=200))
points = sl.synthesize(s, 100, random_state=0)

# %%
# Judge them at new frequencies.
other = sl.FourierFeatures.draw(dim=2, size=1000, scale=0.7, radial="gaussian", seed=9)
z = sl.sketch(X, other).mean
for name, rows in (("points", points), ("random rows", X[rng.choice(len(X), 100)])):
    print(f"{name}: squared distance {np.mean(np.abs(other(rows).mean(0) - z) ** 2):.1e}")

# %%
fig, ax = plt.subplots()
ax.plot(*X[:3000].T, ".", markersize=1, alpha=0.3)
ax.plot(*points.T, "o", markersize=4)
ax.set_aspect("equal")
