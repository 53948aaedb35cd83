"""
Clusters that are bent
======================

k-means wants round clusters.  A graph that joins each row with its nearest ones doesn't: its first eigenvectors are
coordinates in which bent clusters are points, and these are sketched and clustered.
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
# The sketch of the embedded nodes is a few kilobytes, whatever the graph; nodes of many machines would add up.
print(f"{graph.sketch_.count:,} nodes in {graph.sketch_.nbytes:,} bytes")

# %%
fig, axes = plt.subplots(1, 2, figsize=(8, 3), sharex=True, sharey=True)
for ax, labels, title in ((axes[0], plain, "k-means"), (axes[1], graph.labels_, "nearest-neighbour graph")):
    ax.scatter(*X.T, c=np.asarray(labels), s=3, cmap="coolwarm")
    ax.set(title=title, aspect="equal")
plt.show()
