"""Non-negative matrix factorisation in scikit-learn's shape, learned from a sketch of all products of columns."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from sketchlearn.accepts import whole
from sketchlearn.arrays import Array
from sketchlearn.learn.parameters import MISSING, estimator, learned, parameter
from sketchlearn.learn.using import Inverts
from sketchlearn.models.base import Model
from sketchlearn.models.nmf import NMFModel


@estimator
class CompressiveNMF(Inverts):
    """Non-negative matrix factorisation from a sketch.

    Rows are combinations of a few components. Neither entries of components nor coefficients are negative. The sketch
    holds all products of columns. If the components and noise of single columns explain these, and the components have
    enough zeros, they are what the rows are made of, and the verdict says so. Otherwise they reconstruct rows about as
    well as those of a factorisation of the rows.

    Parameters
    ----------
    n_components : int
        Number of components, at most the number of columns.

    Attributes
    ----------
    components_ : ndarray (n_components, n_features)
        The components. Their average coefficients are 1, so they add up to about the mean of the rows; those with the
        largest sums come first.
    mean_ : ndarray (n_features,)
        Mean of the rows.
    errors_ : ndarray (n_components,)
        Standard errors of the components, as shares of their lengths, if their zeros are where they seem to be; NaN if
        they are not known.
    reconstruction_err_ : float
        About the Frobenius norm of what the components leave of all rows.
    reliable_, verdict_ : bool, str
        Whether the components explain the second moment and no others do, as a yes or no and in words.

    See Also
    --------
    sketchlearn.CompressivePCA : components that may be negative, from the same sketch.
    sketchlearn.CompressiveICA : sources that are independent.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> W = rng.exponential(size=(3, 40)) * (rng.random((3, 40)) < 0.5)
    >>> X = rng.exponential(size=(5000, 3)) @ W + 0.1 * rng.normal(size=(5000, 40))
    >>> nmf = sl.CompressiveNMF(3, random_state=0).fit(X)
    >>> nmf.reliable_, bool(nmf.errors_.max() < 0.02)
    (True, True)
    >>> left = X - nmf.inverse_transform(nmf.transform(X))
    >>> bool(left.std() < 0.1)
    True
    """

    task: ClassVar[str] = "nmf"
    model: ClassVar[type[Model]] = NMFModel
    row_types: ClassVar[tuple[Any, ...]] = (np.float64,)
    n_components: int = parameter(default=2, accepts=whole(), kw_only=False)
    missing: str | None = parameter(default=None, accepts=MISSING)
    sketch_size: ClassVar[None] = None  # type: ignore[misc]
    components_: Array = learned()
    mean_: Array = learned()
    errors_: Array = learned()
    reconstruction_err_: float = learned()
    n_components_: int = learned()

    def _set_columns(self, columns: int, names: tuple[str, ...] | None) -> None:
        super()._set_columns(columns, names)
        if self.n_components > columns:
            raise ValueError(f"n_components={self.n_components} must be between 1 and n_features={columns}")
