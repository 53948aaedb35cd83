"""Clusters of the nodes of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.models.base import register_model, stored
from sketchlearn.models.file import Reader
from sketchlearn.models.kmeans import ClusterModel
from sketchlearn.models.table import number
from sketchlearn.words import counted


@register_model
class SpectralModel(ClusterModel):
    """Centres among the embedded nodes of a graph, with the graph's eigenvalues; columns are eigenvectors or signals.

    Attributes
    ----------
    eigenvalues : ndarray (e,) or None
        Smallest eigenvalues of the normalised Laplacian; None if only a sketch of the embedded nodes was known, or
        signals took the place of eigenvectors.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sklearn.datasets import make_moons
    >>> X, _ = make_moons(300, noise=0.05, random_state=0)
    >>> model = sl.CompressiveSpectralClustering(2, random_state=0).fit(X).to_model()
    >>> model, model.columns
    (Model(spectral: 2 clusters of 300 nodes, 2 eigenvectors), ('eigenvector 1', 'eigenvector 2'))
    """

    task: str = "spectral"
    praise: ClassVar[str] = "The graph has a gap after this number of clusters"

    eigenvalues: Array | None = stored("e", default=None)

    @property
    def title(self) -> str:  # type: ignore[override]
        """The kind of model in words."""
        return "Spectral clustering"

    @property
    def headline(self) -> str:
        """What it is, in a few words."""
        column = self.columns[0].rsplit(" ", 1)[0] if self.named else "column"
        columns = counted(len(self.columns), column)
        return f"{counted(self.size, 'cluster')} of {self.row_count} nodes, {columns}"

    def own_numbers(self) -> list[tuple[str, str]]:
        """The gap of the eigenvalues, and the cost."""
        found = super().own_numbers()
        k = self.size
        if self.eigenvalues is None or len(self.eigenvalues) <= k or self.eigenvalues[k - 1] < 1e-9:  # parts
            return found
        gap = float(self.eigenvalues[k] / self.eigenvalues[k - 1])
        return [(number(gap), f"eigenvalue {k + 1} / eigenvalue {k} (a gap: the graph has {k} clusters)"), *found]

    def pictures(self) -> dict[str, Any]:
        """Eigenvalues, and how many of them are before the gap."""
        if self.eigenvalues is None:
            return {}
        return {"eigenvalues": {"values": np.maximum(self.eigenvalues, 0.0), "clusters": self.size}}

    def sweep_options(self) -> dict[str, Any] | None:
        """Other numbers of clusters have other eigenvectors."""
        return None

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """Eigenvalues rise."""
        super().check(reader, found)
        if "eigenvalues" in found and (np.diff(found["eigenvalues"]) < -1e-6).any():
            raise reader.fail("the eigenvalues should rise")
