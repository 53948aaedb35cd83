"""
Topics of documents
===================

Documents are counts of words. Each document mixes a few topics, and each topic uses some of the words. One pass over
the counts keeps the products of columns, and the topics are found in these.
"""

import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as sl

rng = np.random.default_rng(0)
topics = rng.dirichlet(np.full(60, 0.1), size=4)  # each uses a few of 60 words
mixes = rng.dirichlet(np.full(4, 0.3), size=30_000)
documents = rng.poisson(80 * mixes @ topics)

# %%
# Add batches as they arrive; only one sketch is kept.
nmf = sl.CompressiveNMF(4, random_state=0)
for batch in np.array_split(documents, 10):
    nmf.partial_fit(batch)
print(nmf.sketch_)
print(nmf.verdict_)

# %%
# What was found, up to order.
found = nmf.components_ / nmf.components_.sum(1, keepdims=True)
order = (found @ topics.T).argmax(0)
fig, axes = plt.subplots(4, 1, sharex=True)
for l, axis in enumerate(axes):
    axis.bar(np.arange(60) - 0.2, topics[l], width=0.4, label="true")
    axis.bar(np.arange(60) + 0.2, found[order[l]], width=0.4, label="from the sketch")
axes[0].legend()
axes[-1].set_xlabel("word")
