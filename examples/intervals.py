"""
Intervals that follow the noise
===============================

A sine with more noise in its right half.  A joint mixture of predictor and target is decoded from one sketch.
"""

import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as sl

rng = np.random.default_rng(0)
x = rng.uniform(-3, 3, (8000, 1))
y = np.sin(2 * x[:, 0]) + np.where(x[:, 0] > 0, 0.3, 0.1) * rng.normal(size=len(x))

# %%
# Each row is read once, and only one sketch is kept.
reg = sl.CompressiveMixtureRegressor(n_components=8, random_state=0).fit(x, y)
print(reg.sketch_)

# %%
# The mean, and an interval that contains nine rows out of ten.
grid = np.linspace(-3, 3, 200)[:, None]
low, high = reg.predict_interval(grid, 0.9)
fig, ax = plt.subplots()
ax.plot(x[:1000, 0], y[:1000], ".", markersize=2, alpha=0.4)
ax.plot(grid[:, 0], reg.predict(grid))
ax.fill_between(grid[:, 0], low, high, alpha=0.3)
below, above = reg.predict_interval(x, 0.9)
print(f"{np.mean((below < y) & (y < above)):.1%} of the rows are inside")
