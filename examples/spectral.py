"""
Bent clusters
=============

k-means needs round clusters.  For other shapes, join each row to its nearest neighbours.  In the first eigenvectors of
this graph, bent clusters become points, and these are sketched and clustered.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

import sketchlearn as sl

X, truth = make_moons(2000, noise=0.07, random_state=0)

# %%
# On the rows, and on the graph.
plain = sl.CompressiveKMeans(2, random_state=0).fit(X).predict(X)
graph = sl.CompressiveSpectralClustering(2, n_neighbors=10, random_state=0).fit(X)
for name, labels in (("k-means", plain), ("spectral", graph.labels_)):
    print(f"{name}: agreement with the truth {adjusted_rand_score(truth, labels):.3f}")
print(graph.verdict_)

# %%
# The sketch of the embedded nodes takes a few kilobytes for any graph.  Sketches from several machines can be added.
print(f"{graph.sketch_.count:,} nodes in {graph.sketch_.nbytes:,} bytes")

# %%
fig, axes = plt.subplots(1, 2, figsize=(8, 3), sharex=True, sharey=True)
for ax, labels, title in ((axes[0], plain, "k-means"), (axes[1], graph.labels_, "nearest-neighbour graph")):
    ax.scatter(*X.T, c=np.asarray(labels), s=3, cmap="coolwarm")
    ax.set(title=title, aspect="equal")
plt.show()
