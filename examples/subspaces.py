"""
Planes in many columns
======================

Find three planes in ten columns from a sketch.  Rows are uniform and stretched within the planes, and the planes are
unequally frequent.
"""

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
