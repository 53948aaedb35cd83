"""Second moments of rows with missing entries at the precision of an EM on the rows, from one pass.

A missing entry is NaN.  Let theta0 = (m, S) be a mean and a covariance that were estimated from pilot rows.  The sums
are those of what each row's products are expected to be, given the entries that it holds and normal rows of this mean
and covariance:

    T(x) = E[(x, x x') | x_o] = (m + P z, (m + P z)(m + P z)' + C),   C = S - P S P',

with o the columns that are there, z = x - m (0 where it is not known), and ``P = S_{.o} S_oo^{-1}``.  T is a function
of one row, so its sums merge like those of complete rows.  Their average is M(theta0), one step of an EM on all rows
(Little and Rubin, Statistical Analysis with Missing Data, 2nd ed. 2002, section 11.2).

What the rows tell.  Where entries are missing independently of all values, ``E T`` is linear in the mean mu of the rows
and in ``V = E (x - m)(x - m)'``, whatever their law:

    E[P z] = E[P] (mu - m),   E[P z z' P' + C] = S + K(V - S),   K(X) = E[P X P'].

So ``mu = m + E[P]^-1 E[P z]`` and ``V = S + K^-1(E[P z z' P' + C] - S)`` have no bias, whatever theta0 is.  I - K is
also the derivative of the EM map for normal rows: this is a step of Newton's method towards the point where the EM on
all rows stands still, and as precise as that, if theta0 is near it.

What is known of K.  ``E[P] = (S - E[C]) S^-1`` is known from all rows, for E[C] is among the sums.  K comes from the
gaps of the N pilot rows, of which some are filled, or more are made, until each column is there as often as in all rows
(how many hold it is the last of the sums).  So parts may miss more or less than the pilot.  What is left is the error
of theta0 times that of K, of the order 1/N, beside an error of EM of n**-1/2.  Where gaps depend on values that rows
show, the derivative is another one (Kenward and Molenberghs, Statistical Science 13, 1998), and what is left is a small
share of the error of the pilot, N**-1/2.  With a diagonal S, K counts the pairs that are there, and V is the products
of :class:`~sketchlearn.PairwiseFeatures`.

In units of S the estimate is a matrix near the identity.  Should it have negative eigenvalues, they are set to zero.
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
from sketchlearn.features.patterns import Information, Patterns
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.features.second_moment import IncompleteRowsMap
from sketchlearn.kernels import PRODUCT_BITS, Plan

FLOOR = 2.0**-26
"""Share of a column's variance that is left to it when all others are known: half of the digits of a number are lost
in directions that narrow, so that narrower ones can't be told from none."""
_ERRORS = 1e-3  # relative error of a standard error, which is known to some percent at best


@register
@dataclass(frozen=True, eq=False, repr=False)
class CompletedFeatures(IncompleteRowsMap):
    """Products of columns as they are expected given what each row holds, for rows with missing entries (NaN).

    Designed from pilot rows by ``sl.design(rows, task="pca", missing="em")``.  Decoders of the second moment (principal
    components, regression, canonical correlation) take it as they take all products of complete rows, and give what an
    EM algorithm for normal rows gives.  Rows may miss any number of entries; infinite ones are invalid.

    Attributes
    ----------
    dim, size : int
        Columns of the data, and number of products, ``dim * (dim + 1) / 2``.
    mean, covariance : ndarray (dim,), (dim, dim)
        With which gaps are filled.
    patterns : Patterns
        Which entries the pilot rows miss.
    center : ndarray (dim,)
        Subtracted from the completed rows.
    radius : float or None
        Completed rows are clipped to this distance from `center`, and summed exactly.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 1)) + 0.1 * rng.normal(size=(5000, 3))
    >>> X[rng.random(X.shape) < 0.2] = np.nan
    >>> phi = sl.design(X, task="pca", missing="em")
    >>> phi
    CompletedFeatures(dim=3, size=6)
    >>> sl.CompressivePCA(1).fit_sketch(sl.sketch(X, phi)).explained_variance_ratio_.round(2)
    array([0.99])
    """

    kind: ClassVar[str] = "completed"
    array_axes: ClassVar[Mapping[str, int]] = {"mean": 1, "covariance": 2, "center": 1}
    dim: int
    size: int
    mean: Array
    covariance: Array
    patterns: Patterns
    center: Array
    radius: float | None = None

    @classmethod
    def draw(
        cls,
        mean: npt.ArrayLike,
        covariance: npt.ArrayLike,
        patterns: Patterns,
        *,
        center: npt.ArrayLike | None = None,
        radius: float | None = None,
    ) -> Self:
        """A map with explicit parameters; nothing in it is random.

        Parameters
        ----------
        mean, covariance : array (dim,), (dim, dim)
            With which gaps are filled, near those of the rows.
        patterns : Patterns
            Which entries rows miss, and how often.
        center : array (dim,), optional
            A point near the data; by default the mean.
        radius : float, optional
            A public bound: completed rows are clipped to this distance from `center`.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> from sketchlearn.features.patterns import Patterns
        >>> X = np.array([[1.0, np.nan], [2.0, 3.0], [0.0, 1.0]])
        >>> sl.CompletedFeatures.draw([1.0, 2.0], np.eye(2), Patterns.of(X), radius=10.0)
        CompletedFeatures(dim=2, size=3, radius=10)
        """
        m, S = np.array(mean, np.float64), np.array(covariance, np.float64)
        c = m.copy() if center is None else np.array(center, np.float64)
        if m.ndim != 1 or not len(m):
            raise ValueError(f"mean must be a number for each column, got shape {m.shape}")
        return cls(len(m), len(m) * (len(m) + 1) // 2, m, S, patterns, c, radius)._validated()

    def _validated(self) -> Self:
        d = self.dim
        for name, shape in (("mean", (d,)), ("covariance", (d, d)), ("center", (d,))):
            value = getattr(self, name)
            if value is None or value.shape != shape or not np.isfinite(value).all():
                raise ValueError(f"{name} must be finite numbers of shape {shape}")
            value.flags.writeable = False
        if self.size != d * (d + 1) // 2:
            raise ValueError(f"{d} columns have {d * (d + 1) // 2} products, not {self.size}")
        if self.patterns.there.shape[1] != d:
            raise ValueError(f"patterns are for {self.patterns.there.shape[1]} columns, and the map has {d}")
        if not (self.covariance == self.covariance.T).all():
            raise ValueError("covariance must be symmetric")
        self._products  # noqa: B018  (checks radius and center)
        self._precision  # noqa: B018  (checks that the covariance is positive)
        return self

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"patterns": self.patterns.to_json()}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        cls._check_names(parameters)
        return super().from_parameters(
            {**parameters, "patterns": Patterns.from_json(parameters["patterns"], parameters["dim"])}
        )

    # -- numbers -----------------------------------------------------------------------------

    @cached_property
    def _products(self) -> QuadraticFeatures:
        """All products of completed rows: their sums come first."""
        return QuadraticFeatures.draw(self.dim, radius=self.radius, center=self.center)

    @cached_property
    def _precision(self) -> Array:
        from sketchlearn.kernels.completed import inverse

        return inverse(self.covariance)

    @cached_property
    def _scale(self) -> Array:
        return np.sqrt(np.diag(self.covariance))

    @cached_property
    def _root(self) -> Array:
        return np.asarray(np.linalg.cholesky(self.covariance))

    @cached_property
    def _known(self) -> dict[bytes, Information]:
        return {}

    def _information(self, sums: AnyArray, weight: float) -> Information:
        """What rows tell with the gaps of the pilot, as often in each column as in these rows; the last is kept."""
        shares = np.clip(self.held(sums, weight), 0.0, 1.0)
        key = shares.tobytes()
        if key not in self._known:
            self._known.clear()
            self._known[key] = Information(self.covariance, self._precision, self.patterns.with_held(shares))
        return self._known[key]

    def __call__(self, X: npt.ArrayLike) -> Array:
        """Expected products of the columns about the centre of a few rows, (n, size).

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> from sketchlearn.features.patterns import Patterns
        >>> S, seen = [[1.0, 0.5], [0.5, 1.0]], Patterns(np.array([[True, False]]), np.array([1]))
        >>> sl.CompletedFeatures.draw([0.0, 0.0], S, seen)([[2.0, float("nan")]])  # 2 * 1, and 1 + (1 - 0.25)
        array([[4.  , 2.  , 1.75]])
        """
        from sketchlearn.kernels.completed import CompletedProductsSummer

        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"expected rows with {self.dim} columns, got an array of shape {rows.shape}")
        summer, none = CompletedProductsSummer(self.plan()), np.empty(0, np.int64)
        out = np.empty((len(rows), self.size))
        for k in range(len(rows)):
            filled, spread = summer.completed(rows[k : k + 1], none)
            out[k] = self._products(filled + self.mean)[0] + spread * self._spread_units
        return out

    @cached_property
    def _spread_units(self) -> Array:
        return self._triangle(np.outer(self._scale, self._scale)) * 4.0**-PRODUCT_BITS

    # -- sums --------------------------------------------------------------------------------

    @property
    def sums_shape(self) -> tuple[int, ...]:
        *pair, length = self._products.sums_shape
        return *pair, length + self.size + self.dim

    @property
    def sums_dtype(self) -> np.dtype[Any]:
        return self._products.sums_dtype

    @property
    def entry_bound(self) -> int | None:
        # a covariance of what is missing may be above that of the column by rounding
        bound = self._products.entry_bound
        return None if bound is None else 2 * bound

    def add_sums(self, a: AnyArray, b: AnyArray, out: AnyArray | None = None) -> AnyArray:
        return self._products.add_sums(a, b, out)

    @property
    def row_cost(self) -> float:
        return self.dim * (self.dim + 10.0) * 2.0

    @property
    def fewest_rows(self) -> int:
        return self._products.fewest_rows

    def plan(self) -> Plan:
        """Products of the columns of completed rows, and what their gaps leave open."""
        numbers = {} if self.radius is None else {"radius": self.radius}
        arrays = {
            "center": self.center, "mean": self.mean, "precision": self._precision, "units": 1.0 / self._scale
        }  # fmt: skip
        return Plan("completed products", self.dim, self.sums_shape, self.sums_dtype, arrays, numbers)

    # -- averages ----------------------------------------------------------------------------

    def _open(self, sums: AnyArray, weight: float) -> Array:
        """Average covariance of what rows miss, (d, d)."""
        return self._square(self._counted(sums)[: self.size] / weight * self._spread_units)

    def held(self, sums: AnyArray, weight: float) -> Array:
        """Share of the rows that hold each column, (dim,)."""
        return np.asarray(self._counted(sums)[self.size :] / weight)

    def _counted(self, sums: AnyArray) -> Array:
        """What comes after the sums of products: whole numbers."""
        found = np.asarray(sums[..., -self.size - self.dim :], np.float64)
        return found if self.radius is not None else found.sum(axis=0)

    def _square(self, triangle: Array) -> Array:
        S = np.zeros((self.dim, self.dim))
        S[np.triu_indices(self.dim)] = triangle
        return S + np.triu(S, 1).T

    def _own(self, sums: AnyArray) -> AnyArray:
        return np.asarray(sums[..., : -self.size - self.dim])

    def mean_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Average expected products about the centre: what was summed, before it is solved for the covariance."""
        return self._products.mean_from_sums(self._own(sums), weight) + self._triangle(self._open(sums, weight))

    def row_mean_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Mean of the rows; ValueError if no row holds some column."""
        return np.asarray(self.mean + self._step(sums, weight)[0])

    def centred_mean_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Covariances of the rows, without negative eigenvalues; ValueError if no row holds some column."""
        moved, change = self.step(sums, weight)
        whole = np.eye(self.dim) + change - np.outer(moved, moved)
        values, vectors = np.linalg.eigh(whole)
        if values.min() < 0.0:
            whole = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return self._triangle(self._root @ whole @ self._root.T)

    def about_origin_from_sums(self, sums: AnyArray, weight: float) -> Array:
        mean = self.row_mean_from_sums(sums, weight)
        return self.centred_mean_from_sums(sums, weight) + self._triangle(np.outer(mean, mean))

    def step(self, sums: AnyArray, weight: float, tolerance: float = 1e-8) -> tuple[Array, Array]:
        """From the mean and covariance of the map to those of the rows, in units of the covariance: (d,), (d, d).

        The second part is about the mean of the map.
        """
        moved, centred = self._step(sums, weight)
        told = self._information(sums, weight)
        expected = self._square(self._products.centred_mean_from_sums(self._own(sums), weight))
        expected += np.outer(centred, centred) + self._open(sums, weight)
        change = told.solve((expected - self.covariance)[None], tolerance)[0]
        return np.asarray(np.linalg.solve(self._root, moved)), told.whitened(change)

    def _step(self, sums: AnyArray, weight: float) -> tuple[Array, Array]:
        """From the mean of the map to that of the rows, and to that of completed rows, (d,) each."""
        few = self.held(sums, weight) * weight < 0.5  # not one row
        if few.any():
            names = self.columns or tuple(f"column {k}" for k in range(self.dim))
            raise ValueError(f"{names[int(np.argmax(few))]} holds nothing: its covariances are not known")
        back = np.linalg.inv(self._root)
        values, vectors = np.linalg.eigh(np.eye(self.dim) - back @ self._open(sums, weight) @ back.T)
        centred = self._products.row_mean_from_sums(self._own(sums), weight) - self.mean
        # a direction of which less than a row is seen is taken to be seen so far
        seen = vectors.T @ (back @ centred) / np.maximum(values, min(1.0 / weight, 1.0))
        return np.asarray(self._root @ (vectors @ seen)), np.asarray(centred)

    def seen_share(self, sums: AnyArray, weight: float) -> float:
        return float(self._shares(sums, weight).min())

    def _shares(self, sums: AnyArray, weight: float) -> Array:
        """Shares of the rows that hold two columns, as columns are missing together in the pilot."""
        return self.patterns.with_held(np.clip(self.held(sums, weight), 0.0, 1.0)).shares

    def contrast_variances(self, contrasts: Array, sums: AnyArray, weight: float) -> tuple[Array, Array]:
        S = self.covariance
        told = self._information(sums, weight).solve(S @ contrasts @ S, _ERRORS)
        means = S @ np.linalg.pinv(S - self._open(sums, weight), hermitian=True) @ S
        return np.asarray(2.0 * np.sum(contrasts * told, axis=(1, 2))), np.asarray(means)

    def precision_from_sums(self, sums: AnyArray, weight: float) -> Array:
        """Rounding error to expect in the variance of each column: what can't be told from zero."""
        own = self._products.precision_from_sums(self._own(sums), weight)
        return np.asarray(np.maximum(own, FLOOR * np.diag(self.covariance)))

    def feature_variances(self, sums: AnyArray, weight: float) -> Array:
        """Variances over all rows that give the averages their noise: of normal rows, over the share that is seen."""
        S = self._square(self.centred_mean_from_sums(sums, weight))
        v = np.diag(S)
        return self._triangle((np.outer(v, v) + S**2) / np.maximum(self._shares(sums, weight), 1e-9))

    def impossible(self, sums: AnyArray, weight: int) -> str | None:
        found = self._products.impossible(self._own(sums), weight)
        if found is not None or not weight:
            return found
        held = self.held(sums, float(weight))
        if (held < 0.0).any() or (held > 1.0).any():
            return "more rows would hold a column than there are"
        left, v = np.diag(self._open(sums, float(weight))), np.diag(self.covariance)
        if (left < -1e-6 * v).any() or (left > (1 + 1e-6) * v).any():
            return "what rows miss would vary more than the columns do"
        return None

    def describe(self) -> str:
        bound = "" if self.radius is None else f", completed rows clipped to radius {self.radius:.6g}"
        return f"all products of columns, completed where entries are missing{bound}"

    def __repr__(self) -> str:
        extra = "" if self.radius is None else f", radius={self.radius:.6g}"
        return f"CompletedFeatures(dim={self.dim}, size={self.size}{extra})"
