"""Unions of linear subspaces in scikit-learn's shape, learned from a sketch."""

from __future__ import annotations

from typing import Any, ClassVar

from sketchlearn.accepts import whole
from sketchlearn.arrays import Array
from sketchlearn.designs.subspaces import default_size
from sketchlearn.learn.labels import LabelledRows
from sketchlearn.learn.parameters import estimator, learned, parameter
from sketchlearn.learn.using import ScoresByCost, Transforms
from sketchlearn.models.base import Model
from sketchlearn.models.subspaces import SubspacesModel


@estimator
class CompressiveSubspaces(Transforms, ScoresByCost, LabelledRows):
    """Subspace clustering from a sketch: rows near one of several linear subspaces.

    The density is decoded as a mixture of flat components, several in each subspace. So rows need not be normal within
    a subspace, and subspaces need not be equally frequent. The verdict says how far noise may have turned each
    subspace.

    Parameters
    ----------
    n_subspaces : int
        Number of subspaces. They pass through the origin, so subtract a common mean from the rows first.
    dim : int
        Their dimension.
    sketch_size : int, optional
        Number of features; by default ``20 * n_subspaces * n_features * dim``, at least 200.

    Attributes
    ----------
    bases_ : ndarray (n_subspaces, n_features, dim)
        Orthonormal bases in columns, along falling second moments; frequent subspaces first.
    weights_ : ndarray (n_subspaces,)
        Shares of the rows.
    variances_ : ndarray (n_subspaces, dim)
        Second moments along the bases.
    noise_variance_ : float
        Variance in each direction across.
    angles_std_ : ndarray (n_subspaces,)
        Standard errors in degrees: the root mean square of the largest principal angle to the true subspace.
    labels_ : ndarray (n_samples,)
        Subspaces of the rows given to `fit`, by a second pass when first asked for.
    reliable_, verdict_ : bool, str
        Whether the misfit is at the noise floor and the subspaces are well known and distinct, as a yes or no and in
        words.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> lines = np.eye(3)[rng.integers(2, size=5000)] * rng.normal(size=(5000, 1))
    >>> X = lines + 0.05 * rng.normal(size=(5000, 3))
    >>> found = sl.CompressiveSubspaces(n_subspaces=2, dim=1, random_state=0).fit(X)
    >>> np.abs(found.bases_[:, :, 0]).max(0).round(1), found.reliable_
    (array([1., 1., 0.]), True)
    >>> one, other = found.predict([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> bool(one != other)
    True
    """

    task: ClassVar[str] = "subspaces"
    model: ClassVar[type[Model]] = SubspacesModel
    counted: ClassVar[str] = "n_subspaces"
    averages: ClassVar[bool] = True
    n_subspaces: int = parameter(default=2, accepts=whole(), kw_only=False)
    dim: int = parameter(default=1, accepts=whole(), kw_only=False, decode="dim")
    bases_: Array = learned()
    weights_: Array = learned()
    variances_: Array = learned()
    noise_variance_: float = learned()
    angles_std_: Array = learned()

    # -- learning ------------------------------------------------------------------------------

    def design_request(self) -> dict[str, Any]:
        """The number of subspaces."""
        if self.dim > self.n_features_in_:
            raise ValueError(f"dim={self.dim} is more than the n_features={self.n_features_in_} columns of X")
        return {"task": self.task, "n_components": int(self.n_subspaces)}

    def default_size(self, columns: int, rows: float | None) -> int | None:
        """Twenty features per number of the bases."""
        return default_size(int(self.n_subspaces), columns, int(self.dim))

    @property
    def _n_features_out(self) -> int:
        return int(self.bases_.shape[2])
