"""
Canonical correlations and linear discriminants
===============================================

Canonical correlations and linear discriminants need only products of columns. One pass keeps these sums exactly. So
rows can arrive in parts or be removed again, and the result is the same as for all rows together.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

import sketchlearn as sl

rng = np.random.default_rng(0)
mood, season = rng.normal(size=(2, 5000))
answers = np.outer(mood, [1.0, 0.8, 0.0, 0.5]) + np.outer(season, [0.0, 0.3, 1.0, 0.0]) + rng.normal(size=(5000, 4))
sales = np.outer(mood, [0.6, 0.0, 0.4]) + np.outer(season, [0.0, 0.9, -0.4]) + rng.normal(size=(5000, 3))

# %%
# Two stores sketch their own rows, and the sketches are added. `"auto"` keeps the significant pairs.
both = np.column_stack([answers, sales])
phi = sl.QuadraticFeatures.draw(dim=7)
total = sl.sketch(both[:3000], phi) + sl.sketch(both[3000:], phi)
cca = sl.CompressiveCCA("auto").fit_sketch(total, targets=[4, 5, 6])
print(cca.correlations_.round(3), cca.p_values_)
print(cca.verdict_)

# %%
# What a pair has in common: scores of the answers against scores of the sales.
x, y = cca.transform(answers, sales)
fig, axes = plt.subplots(1, cca.n_components_ + 1, figsize=(11, 3.5))
for i, axis in enumerate(axes[:-1]):
    axis.scatter(x[:, i], y[:, i], s=2)
    axis.set(title=f"pair {i + 1}: correlation {cca.correlations_[i]:.2f}", xlabel="answers", ylabel="sales")

# %%
# Classes: one sketch each. The directions in which they differ most are those of the rows.
X, kinds = load_iris(return_X_y=True)
lda = sl.CompressiveLDA().fit(X, kinds)
scores = lda.transform(X)
axes[-1].scatter(scores[:, 0], scores[:, 1], c=kinds, s=8)
axes[-1].set(title=f"irises: {lda.score(X, kinds):.0%} right", xlabel="first discriminant", ylabel="second")
fig.tight_layout()
plt.show()
