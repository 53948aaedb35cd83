"""Data with known truth: the generators of the literature, and tables that ship with scikit-learn.

Every generator takes a number of rows and a ``seed`` and returns a frozen value: the rows and what they were drawn
from.  The same arguments give the same rows with the same version of NumPy.

Examples
--------
>>> import sketchlearn as sl
>>> data = sl.datasets.clusters(1000, n_clusters=5, dim=3, seed=0)
>>> data.rows.shape, data.labels.shape, data.centers.shape
((1000, 3), (1000,), (5, 3))
"""

from sketchlearn.datasets.clusters import (
    ClusterData,
    clusters,
    far_groups,
    heavy_tails,
    nested_clusters,
    oblong_clusters,
    rare_clusters,
    separated_variance,
)
from sketchlearn.datasets.groups import BagData, SpeakerData, bags, speakers
from sketchlearn.datasets.mixtures import MixtureData, StableData, gaussian_mixture, stable_mixture
from sketchlearn.datasets.structures import (
    GraphData,
    LowRankData,
    SourceData,
    SubspaceData,
    low_rank,
    planted_partition,
    sources,
    subspaces,
)
from sketchlearn.datasets.tables import TableData, load_table

__all__ = [
    "BagData", "ClusterData", "GraphData", "LowRankData", "MixtureData", "SourceData", "SpeakerData", "StableData",
    "SubspaceData", "TableData", "bags", "clusters", "far_groups", "gaussian_mixture", "heavy_tails", "load_table",
    "low_rank", "nested_clusters", "oblong_clusters", "planted_partition", "rare_clusters", "separated_variance",
    "sources", "speakers", "stable_mixture", "subspaces",
]  # fmt: skip
