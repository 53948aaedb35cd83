"""Second moments of rows with missing entries, from the pairs of columns that are there.

A missing entry is NaN (a null of a table).  Let m_i be 1 where column i is there and 0 where it is not, and z the row
about the map's centre with 0 for what is missing.  The sums are those of all products of the 2 d columns (z, m):
``z_i z_j`` is the product of two columns over the rows that hold both, ``m_i m_j`` the number of these rows, and
``z_i m_j`` the sum of column i over them.  They add up like any others, so parts can be merged, taken away and weighted
by the algebra that all sums have, and with a radius they are integers: the same bytes for any order of the rows.

The mean of a column is that of its entries.  The covariance of two columns is their average product about these means
over the rows that hold both ("available cases", Little and Rubin, Statistical Analysis with Missing Data, 2nd ed. 2002,
section 3.4).  Where entries are missing independently of all values, these estimates have no bias beyond that of small
samples, and errors as from fewer rows.  Where they are missing depending on what is in the row they are those of the
rows that happen to hold both columns; an EM for normal rows still corrects for values that other columns show, and
nothing corrects for values that no column shows.  Entries of the matrix come from different rows, so it can have
negative eigenvalues; these are set to zero, in units of the columns' standard deviations, and the variances kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.features.base import register
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.features.second_moment import IncompleteRowsMap
from sketchlearn.kernels import Plan

_DIGITS = 2.0**-46  # relative rounding error of a second moment about the centre


@register
@dataclass(frozen=True, eq=False, repr=False)
class PairwiseFeatures(IncompleteRowsMap):
    """All products of two columns for rows with missing entries (NaN); make one with :meth:`draw`.

    Decoders of the second moment (principal components, regression, canonical correlation, classifiers) take it as
    they take all products of complete rows.  Rows may miss any number of entries; infinite ones are invalid.

    Attributes
    ----------
    dim, size : int
        Columns of the data, and number of products, ``dim * (dim + 1) / 2``.
    radius : float or None
        What a row holds is clipped to this distance from `center`, and summed exactly.
    center : ndarray (dim,) or None
        Subtracted from the rows first.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 1)) + 0.5 * rng.normal(size=(5000, 3))
    >>> X[rng.random(X.shape) < 0.2] = np.nan
    >>> s = sl.sketch(X, sl.PairwiseFeatures.draw(dim=3))
    >>> s.features.shares(s.sums, s.weight).round(1)
    array([[0.8, 0.6, 0.6],
           [0.6, 0.8, 0.6],
           [0.6, 0.6, 0.8]])
    >>> sl.CompressivePCA(1).fit_sketch(s).explained_variance_ratio_.round(1)
    array([0.9])
    """

    kind: ClassVar[str] = "pairwise"
    array_axes: ClassVar[Mapping[str, int]] = {"center": 1}
    dim: int
    size: int
    radius: float | None = None
    center: Array | None = None

    @classmethod
    def draw(cls, dim: int, *, radius: float | None = None, center: npt.ArrayLike | None = None) -> Self:
        """A map for `dim` columns; nothing in it is random.

        Parameters
        ----------
        dim : int
            Columns of the data.
        radius : float, optional
            A public bound: what a row holds is clipped to this distance from `center`.
        center : array (dim,), optional
            A point near the data.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> sl.PairwiseFeatures.draw(dim=3, radius=10.0)
        PairwiseFeatures(dim=3, size=6, radius=10)
        """
        like = QuadraticFeatures.draw(dim, radius=radius, center=center)
        return cls(like.dim, like.size, like.radius, like.center)

    def _validated(self) -> Self:
        phi = self.draw(self.dim, radius=self.radius, center=self.center)
        if self.size != phi.size:
            raise ValueError(f"{self.dim} columns have {phi.size} products, not {self.size}")
        return phi

    # -- numbers -----------------------------------------------------------------------------

    @cached_property
    def _centre(self) -> Array:
        return np.zeros(self.dim) if self.center is None else self.center

    @cached_property
    def _both(self) -> QuadraticFeatures:
        """All products of the 2 d columns (z, unit * m): their sums are ours."""
        return QuadraticFeatures.draw(2 * self.dim, radius=self.radius)

    @property
    def _unit(self) -> float:
        return 1.0 if self.radius is None else self.radius

    def __call__(self, X: npt.ArrayLike) -> Array:
        """Products of the columns of a few rows, (n, size), clipped if there is a radius; NaN where one is missing.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> sl.PairwiseFeatures.draw(dim=2)([[2.0, float("nan")]])
        array([[ 4., nan, nan]])
        """
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"expected rows with {self.dim} columns, got an array of shape {rows.shape}")
        rows = rows - self._centre
        if self.radius is not None:
            length = np.sqrt(np.nansum(rows * rows, axis=1))
            rows = rows * (self.radius / np.maximum(length, self.radius))[:, None]
        i, j = np.triu_indices(self.dim)
        return rows[:, i] * rows[:, j]

    # -- sums --------------------------------------------------------------------------------

    @property
    def sums_shape(self) -> tuple[int, ...]:
        return self._both.sums_shape

    @property
    def sums_dtype(self) -> np.dtype[Any]:
        return self._both.sums_dtype

    @property
    def entry_bound(self) -> int | None:
        return self._both.entry_bound

    def add_sums(self, a: AnyArray, b: AnyArray, out: AnyArray | None = None) -> AnyArray:
        return self._both.add_sums(a, b, out)

    @property
    def row_cost(self) -> float:
        return 4.0 * self.dim * (self.dim + 10.0)

    @property
    def fewest_rows(self) -> int:
        return self._both.fewest_rows

    def plan(self) -> Plan:
        """Products of the columns that are there, and of what says which are."""
        numbers = {} if self.radius is None else {"radius": self.radius}
        arrays = {"center": self._centre}
        return Plan("present products", self.dim, self.sums_shape, self.sums_dtype, arrays, numbers)

    # -- averages ----------------------------------------------------------------------------

    def _parts(self, sums: AnyArray, weight: float) -> tuple[Array, Array, Array]:
        """Averages over all rows, (d, d) each: products, column i where j is there, and whether both are there."""
        d, unit = self.dim, self._unit
        both = np.zeros((2 * d, 2 * d))
        both[np.triu_indices(2 * d)] = self._both.mean_from_sums(sums, weight)
        products = both[:d, :d] + np.triu(both[:d, :d], 1).T
        present = both[d:, d:] + np.triu(both[d:, d:], 1).T
        return products, both[:d, d:] / unit, present / unit**2

    def shares(self, sums: AnyArray, weight: float) -> Array:
        """Share of the rows that hold both columns, (dim, dim)."""
        return self._parts(sums, float(weight))[2]

    def row_mean_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Average of what each column holds; NaN for a column that holds nothing."""
        return np.asarray(self._means(*self._parts(sums, weight)[1:]) + self._centre)

    @staticmethod
    def _means(linear: Array, present: Array) -> Array:
        there = np.diag(present)
        return np.where(there > 0, np.diag(linear) / np.where(there > 0, there, 1.0), np.nan)

    def mean_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Average product of each two columns about the centre, over the rows that hold both; NaN if none does."""
        products, _, present = self._parts(sums, weight)
        return self._triangle(np.where(present > 0, products / np.where(present > 0, present, 1.0), np.nan))

    def centred_mean_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Covariances, without negative eigenvalues; ValueError if no row holds some two columns."""
        S, present = self._covariance(sums, weight)
        if not (present > 0).all():
            empty = np.flatnonzero(np.diag(present) <= 0)
            i, j = (empty[0], empty[0]) if len(empty) else np.argwhere(present <= 0)[0]
            names = self.columns or tuple(f"column {k}" for k in range(self.dim))
            what = f"{names[i]} holds nothing" if i == j else f"no row holds both {names[i]} and {names[j]}"
            raise ValueError(f"{what}: their covariance is not known")
        return self._triangle(positive(S))

    def _covariance(self, sums: AnyArray, weight: float) -> tuple[Array, Array]:
        """Covariances as they are, NaN where no row holds both columns, and the shares of such rows."""
        products, linear, present = self._parts(sums, weight)
        m = self._means(linear, present)
        # sum over the rows with both: (z_i - m_i) (z_j - m_j)
        moment = products - linear * m[None, :] - linear.T * m[:, None]
        S = np.where(present > 0, moment / np.where(present > 0, present, 1.0) + np.outer(m, m), np.nan)
        return S, present

    def precision_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Rounding error to expect in the variance of each column: what can't be told from zero."""
        if self.radius is not None:
            return self._both.precision_from_sums(sums, weight)[: self.dim]
        products, _, present = self._parts(sums, weight)
        there = np.maximum(np.diag(present), 1e-300)
        return np.asarray(_DIGITS * np.diag(products) / there)

    def feature_variances(self, sums: AnyArray, weight: float) -> Array:
        """Variances over all rows that give the averages their noise: of normal rows, over the share that is seen."""
        S, present = self._covariance(sums, weight)
        v = np.diag(S)
        variances = (np.outer(v, v) + S**2) / np.where(present > 0, present, 1.0)
        return np.nan_to_num(self._triangle(np.where(present > 0, variances, np.inf)), nan=1e300, posinf=1e300)

    def impossible(self, sums: AnyArray, weight: int) -> str | None:
        found = self._both.impossible(sums, weight)
        if found is not None or not weight:
            return found
        present = self.shares(sums, float(weight))
        there = np.diag(present)
        most = np.minimum(there[:, None], there) * (1 + 1e-9) + 1e-12
        if (present < -1e-12).any() or (present > most).any() or (there > 1 + 1e-9).any():
            return "more rows would hold two columns than hold one of them"
        return None

    def describe(self) -> str:
        bound = "" if self.radius is None else f", rows clipped to radius {self.radius:.6g}"
        return f"all products of columns, from the pairs that are there{bound}"

    def __repr__(self) -> str:
        extra = "" if self.radius is None else f", radius={self.radius:.6g}"
        extra += "" if self.center is None else ", center=..."
        return f"PairwiseFeatures(dim={self.dim}, size={self.size}{extra})"


def positive(S: Array) -> Array:
    """A matrix of covariances without negative eigenvalues: set to zero in standardised units, with the variances kept.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.features.pairwise import positive
    >>> np.linalg.eigvalsh(positive(np.array([[1.0, 2.0], [2.0, 1.0]]))).round(6) + 0.0
    array([0., 2.])
    """
    scale = np.sqrt(np.maximum(np.diag(S), 0.0))
    inverse = np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0)
    values, vectors = np.linalg.eigh(S * np.outer(inverse, inverse))
    if values.min(initial=0.0) >= -1e-12:
        return S
    clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
    back = np.sqrt(np.maximum(np.diag(clipped), 1e-300))
    return np.asarray(clipped * np.outer(scale / back, scale / back))
