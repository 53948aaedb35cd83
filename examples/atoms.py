"""
More atoms than columns
=======================

Every row combines a few of six directions in five columns. One pass over the rows keeps sums of powers of projections,
and the directions are found in these, although there are more of them than columns.
"""

import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as sl

rng = np.random.default_rng(1)
atoms = rng.normal(size=(6, 5))
atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
codes = rng.normal(size=(100_000, 6)) * (rng.random((100_000, 6)) < 0.15)
rows = codes @ atoms + 0.05 * rng.normal(size=(100_000, 5))

# %%
# Add batches as they arrive; only one sketch is kept.
found = sl.CompressiveDictionaryLearning(6, random_state=0)
for batch in np.array_split(rows, 10):
    found.partial_fit(batch)
print(found.sketch_)
print(found.verdict_)

# %%
# What was found, up to order and sign: cosines with the true atoms.
fig, axis = plt.subplots()
image = axis.imshow(np.abs(found.components_ @ atoms.T), vmin=0.0, vmax=1.0)
axis.set(xlabel="true atom", ylabel="atom of the sketch")
fig.colorbar(image, label="cosine")
