"""Unions of subspaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import AnyArray, Array, Index
from sketchlearn.models.base import Model, register_model, stored
from sketchlearn.models.file import Reader
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.table import Column, Table, loadings, number


@register_model
class SubspacesModel(Model):
    """Linear subspaces that rows are near to.

    Attributes
    ----------
    bases : ndarray (k, d, r)
        Orthonormal bases in columns.
    weights : ndarray (k,)
        Shares of the rows.
    variances : ndarray (k, r)
        Second moments along the bases.
    noise_variance : float
        Variance in each direction across.
    angles_std : ndarray (k,)
        Standard error of each subspace: root mean square of the largest principal angle to the true one, in degrees.
    separation : float
        Smallest of the largest principal angles between two of the subspaces, in degrees; a file leaves it out.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models import SubspacesModel
    >>> model = SubspacesModel(rows=10, columns=("x", "y"), bases=np.eye(2)[:, :, None], weights=np.full(2, 0.5),
    ...                        variances=np.ones((2, 1)), noise_variance=0.01, angles_std=np.ones(2))
    >>> model, model.predict([[0.1, 2.0]])
    (Model(subspaces: 2 subspaces of 10 rows, 2 columns), array([1]))
    """

    task: str = "subspaces"
    title: ClassVar[str] = "Union of subspaces"
    thing: ClassVar[str] = "subspace"
    praise: ClassVar[str] = "Noise leaves the subspaces known"

    bases: Array = stored("k", "d", "r", shown=True)
    weights: Array = stored("k", shown=True)
    variances: Array = stored("k", "r", shown=True)
    noise_variance: float = stored(shown=True)
    angles_std: Array = stored("k", shown=True)
    separation: float = float("nan")

    def own_numbers(self) -> list[tuple[str, str]]:
        """Dimension and thickness."""
        return [
            (str(self.bases.shape[2]), "dimensions each"),
            (number(float(np.sqrt(self.noise_variance))), "standard deviation across"),
            (f"{self.angles_std.max():.2g}°", "largest standard error of a subspace"),
        ]

    def table(self) -> Table:
        """A line for each direction of each subspace: share, error, spread and loadings."""
        k, d, r = self.bases.shape
        names = [f"{l}.{i + 1}" if r > 1 else str(l) for l in range(k) for i in range(r)]
        along = self.bases.transpose(0, 2, 1).reshape(k * r, d)
        columns = [
            Column("subspace", names, "text"),
            Column("share", np.repeat(self.weights, r), "share"),
            Column("± degrees", np.repeat(self.angles_std, r), "number", 2),
            Column("standard deviation", np.sqrt(self.variances).ravel()),
            *loadings(self.columns, along.T),
        ]
        return Table("bases", "Bases of the subspaces", tuple(columns), "How much each column takes part.")

    def parts(self) -> Mixture:
        """A flat component for each subspace."""
        k, d, _ = self.bases.shape
        extra = np.maximum(self.variances - self.noise_variance, 0.0)
        covariances = np.einsum("kdr,kr,ker->kde", self.bases, extra, self.bases) + self.noise_variance * np.eye(d)
        return Mixture(self.weights, np.zeros((k, d)), covariances)

    def predict_rows(self, rows: Array) -> AnyArray:
        """The nearest subspace."""
        return assign(rows, self.bases)

    def transform_rows(self, rows: AnyArray) -> Array:
        """Coordinates in the nearest subspace, (n, r)."""
        return np.einsum("nd,ndr->nr", np.asarray(rows, np.float64), self.bases[self.predict_rows(rows)])

    def costs(self, rows: AnyArray) -> Array:
        """Squared distance of each row from its subspace."""
        return np.asarray((np.asarray(rows, np.float64) ** 2).sum(1) - (self.transform_rows(rows) ** 2).sum(1))

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """Shares are shares, bases orthonormal, variances not negative."""
        reader.check_weights(found["weights"])
        products = np.einsum("kdr,kds->krs", found["bases"], found["bases"])
        if not np.allclose(products, np.eye(products.shape[1]), atol=1e-6):
            raise reader.fail("the bases should be orthonormal")
        if (found["variances"] < 0).any() or found["noise_variance"] < 0 or (found["angles_std"] < 0).any():
            raise reader.fail("variances and errors must not be negative")


def assign(rows: npt.NDArray[np.floating], bases: Array) -> Index:
    """The subspace of each row: that with the longest projection.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models.subspaces import assign
    >>> assign(np.array([[3.0, 0.1], [0.1, -2.0]]), np.eye(2)[:, :, None])
    array([0, 1])
    """
    return np.asarray(np.stack([((rows @ basis) ** 2).sum(1) for basis in bases], 1).argmax(1))
