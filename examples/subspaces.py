"""
Planes in many columns
======================

Find three planes in ten columns from a sketch.  Rows are uniform and stretched within the planes, and the planes are
unequally frequent.
"""

import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as sl

rng = np.random.default_rng(0)
bases = np.linalg.qr(rng.normal(size=(3, 10, 2)))[0]
owner = rng.choice(3, 10_000, p=[0.5, 0.3, 0.2])
inside = rng.uniform(-1.7, 1.7, (10_000, 2)) * [1.5, 0.5]
X = np.einsum("ndr,nr->nd", bases[owner], inside) + 0.05 * rng.normal(size=(10_000, 10))

# %%
# Each row is read once.
found = sl.CompressiveSubspaces(n_subspaces=3, dim=2, random_state=0).fit(X)
print(found.sketch_)
print(found.verdict_)

# %%
# Shares and errors of the planes, in degrees.
print(found.weights_.round(2), found.angles_std_.round(1))

# %%
# The rows from the side: each plane is seen edge on along some direction.
labels = found.predict(X[:3000])
fig, axes = plt.subplots(1, 3, figsize=(9, 3), layout="tight")
for k, ax in enumerate(axes):
    basis = found.bases_[k]
    across = X[:3000] - X[:3000] @ basis @ basis.T
    ax.hist([np.linalg.norm(across[labels == j], axis=1) for j in range(3)], 40, stacked=True)
    ax.set(title=f"plane {k}", xlabel="distance from the plane", yticks=[])
