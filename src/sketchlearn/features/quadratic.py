"""Quadratic features: random measurements of the second moment, or all its entries.

A feature is ``(a·x)**2`` for a random direction a, or a combination of two such squares.  Averaged over rows it is
``<a a', E x x'>``: linear in the second moment, of which a few times ``k * dim`` such numbers determine the k
leading directions (Gribonval, Blanchard, Keriven and Traonmilin, "Compressive statistical learning with random
feature moments", section 4).  The sum of the rows is carried along, so that the features of the centred rows,
``y - phi(mean)``, need no second pass.

Directions have small integer entries: normal numbers in steps of 1/29, cut off at 4.3 standard deviations.  The
same integers are used by the pass and by the decoders, so nothing is approximated by that; a direction costs a
byte per coordinate, and drawing a billion of them takes seconds.

Precision.  With a `radius`, rows are clipped to the ball of that radius about `center` and each feature is rounded
to a fixed grid: the sums are integers, the same for any order, batches, threads or machine.  Without one the sums
are float64 with an error term (pairs), accurate under any number of merges but not bit for bit the same; a
projection is computed in float32 about a provisional centre, an error of about 1e-7 of the spread of the data in a
single feature and much less in the average.  All products of columns (``"exact"``) of float64 rows are computed in
float64 about a provisional centre.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sketchlearn.accepts import SEED, whole
from sketchlearn.features import portable, structured
from sketchlearn.features.base import register
from sketchlearn.features.dense import integer_bases, positive
from sketchlearn.features.moments import MomentSums
from sketchlearn.features.operator import IntegerOperator, Operator
from sketchlearn.kernels import Plan
from sketchlearn.kernels.directions import project, squared_norms

VARIANTS = ("gaussian", "sphere", "orthogonal", "complex", "difference", "hadamard", "exact")
_STEPS = 29.0
_DOUBLE_ENTRIES = 2**27  # structured products are float64 up to here


def _normal_table() -> npt.NDArray[np.int8]:
    """Normal quantiles at 2**16 equally likely points, in steps of 1/29."""
    u = (np.arange(2**16, dtype=np.float64) + 0.5) * 2.0**-16
    return np.rint(portable.normal_quantile(u) * _STEPS).astype(np.int8)


def integer_normals(out: npt.NDArray[np.int8], seed: int) -> npt.NDArray[np.int8]:
    """Fill a contiguous array with normal numbers in steps of 1/29: the same for the same seed, on any machine."""
    flat, table, bits = out.reshape(-1), _normal_table(), portable.Bits(seed, 4)
    step = 2**22
    for i in range(0, flat.size, step):
        part = flat[i : i + step]
        words = bits.words(-(-part.size // 4)).astype("<u8", copy=False)
        part[:] = table[words.view("<u2")[: part.size]]
    return out


@register
@dataclass(frozen=True, eq=False, repr=False)
class QuadraticFeatures(MomentSums):
    """Random quadratic features of a recipe; make one with :meth:`sketchlearn.QuadraticFeatures.draw`.

    Attributes
    ----------
    dim, size : int
        Columns of the data and number of features.
    variant : str
        ``"gaussian"``: ``(a·x)**2`` with standard normal a.  ``"sphere"``: the same with unit vectors.
        ``"orthogonal"``: with unit vectors in groups of dim, each an orthonormal basis (up to rounding of their
        integers). The features of a row then add up to ``size / dim`` times its squared length. No other directions
        have so small a bound, so releases without delta get the least noise.
        ``"complex"``: ``|a·x|**2`` with complex normal a.  ``"difference"``: ``((a·x)**2 - (b·x)**2) / 2``, whose
        mean square is the squared Frobenius norm of the second moment.  ``"hadamard"``: like sphere, with unit vectors
        that are rows of structured blocks (see :mod:`sketchlearn.features.structured`): for tens of thousands of
        columns.  ``"exact"``: all products of two columns.
    seed : int
        Seed of the draw.
    radius : float or None
        Rows are clipped to this distance from `center`, and summed exactly.
    center : ndarray (dim,) or None
        Subtracted from the rows first.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> phi = sl.QuadraticFeatures.draw(dim=50, size=1000, seed=0)
    >>> phi
    QuadraticFeatures(dim=50, size=1000, variant=sphere, seed=0)
    >>> sl.QuadraticFeatures.draw(dim=50, size=2000, seed=0)  # more than 50 * 51 / 2: no need for anything random
    QuadraticFeatures(dim=50, size=1275, variant=exact, seed=0)
    """

    kind: ClassVar[str] = "quadratic"
    array_axes: ClassVar[Mapping[str, int]] = {"center": 1}
    dim: int
    size: int
    variant: str
    seed: int
    radius: float | None = None
    center: npt.NDArray[np.float64] | None = None

    @classmethod
    def draw(
        cls,
        dim: int,
        size: int | None = None,
        seed: int = 0,
        *,
        variant: str = "auto",
        radius: float | None = None,
        center: npt.ArrayLike | None = None,
    ) -> QuadraticFeatures:
        """A map with explicit parameters.

        Parameters
        ----------
        dim : int
            Columns of the data.
        size : int, optional
            Number of features; without it, all products of two columns.
        seed : int
            The same seed and parameters give the same directions on any machine.
        variant : {"auto", "gaussian", "sphere", "orthogonal", "complex", "difference", "hadamard", "exact"}
            ``"auto"`` is ``"sphere"``, or ``"exact"`` where `size` is at least dim (dim + 1) / 2.
        radius : float, optional
            A public bound: rows are clipped to this distance from `center`.
        center : array (dim,), optional
            A public point near the data.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> phi = sl.QuadraticFeatures.draw(dim=3, size=4, seed=1, variant="gaussian", radius=10.0)
        >>> X = np.random.default_rng(0).normal(size=(100, 3))
        >>> bool(np.allclose(sl.sketch(X, phi).mean, phi(X).mean(0), atol=1e-4))
        True
        """
        whole().check("dim", dim)
        products = int(dim) * (int(dim) + 1) // 2
        if size is None:
            if variant not in ("auto", "exact"):
                raise ValueError(f"variant={variant!r} needs a size")
            size = products
        whole().check("size", size)
        if variant == "auto":
            variant = "exact" if size >= products else "sphere"
        if variant == "exact":
            if size < products:
                raise ValueError(f"variant='exact' has {products} features in {dim} columns, got size={size}")
            size = products
        centre = None
        if center is not None:
            centre = np.array(center, np.float64)
            if centre.shape != (dim,) or not np.isfinite(centre).all():
                raise ValueError(f"center must be {dim} finite numbers, got shape {centre.shape}")
        return cls(int(dim), int(size), variant, seed, radius, centre)._validated()

    def redrawn(
        self, structure: str = "dense", quantized: bool = False, features_per_row: int | None = None
    ) -> QuadraticFeatures:
        """The map with structured directions; where `structure` is ``"auto"``, if these are faster.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> sl.QuadraticFeatures.draw(dim=1024, size=8192, seed=0).redrawn("auto").variant
        'hadamard'
        """
        if quantized or features_per_row is not None:
            return super().redrawn(structure, quantized, features_per_row)
        chosen = structured.choose(structure, self.dim, self.size, None)
        if chosen not in ("dense", "hadamard"):
            raise ValueError(f"structure={structure!r}: quadratic features know dense, hadamard and auto")
        if chosen == "dense" or self.variant not in ("sphere", "orthogonal"):
            if structure == "hadamard":
                raise ValueError(f"variant={self.variant!r} has no structure")
            return self
        return self.replace(variant="hadamard", _expected=None, _embedded=None)._validated()

    def _validated(self) -> Self:
        if self.variant not in VARIANTS:
            raise ValueError(f"variant={self.variant!r}: choose one of auto, {', '.join(VARIANTS)}")
        SEED.check("seed", self.seed)
        object.__setattr__(self, "seed", int(self.seed))
        if self.variant == "exact" and self.size != self.dim * (self.dim + 1) // 2:
            raise ValueError(
                f"exact features of {self.dim} columns are {self.dim * (self.dim + 1) // 2}, not {self.size}"
            )
        if self.variant == "hadamard":
            structured.choose("hadamard", self.dim, self.size, None)
        if self.radius is not None:
            object.__setattr__(self, "radius", positive(self.radius, "radius"))
            if not 1e-90 < self.radius < 1e90:
                raise ValueError(f"radius must be positive and finite, got {self.radius!r}")
        if self.center is not None:
            self.center.flags.writeable = False
        return self

    # -- numbers -----------------------------------------------------------------------------

    @property
    def is_exact(self) -> bool:
        """Whether the features are all products of columns."""
        return self.variant == "exact"

    @property
    def paired(self) -> bool:
        """Whether a feature has two directions: number j and number ``size + j``."""
        return self.variant in ("complex", "difference")

    @property
    def directions(self) -> npt.NDArray[np.int8]:
        """Integer directions, one per row: (size, dim), twice as many for complex and difference, none for exact.

        Those of the variant ``"hadamard"`` are no integers: this is the bits they are made of.
        """
        return self.random_array()

    @cached_property
    def _blocks(self) -> structured.Blocks:
        return structured.Blocks.from_array(self.random_array(), "hadamard", self.dim, self.size)

    @property
    def random_shape(self) -> tuple[int, ...]:
        if self.variant == "hadamard":
            return (structured.Blocks.bytes_of("hadamard", self.dim, self.size),)
        return (0 if self.is_exact else self.size * (1 + self.paired)), self.dim

    @property
    def random_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int8)

    def draw_array(self) -> npt.NDArray[np.int8]:
        if self.variant == "hadamard":
            return structured.Blocks.draw("hadamard", self.dim, self.seed, np.full(self.size, 1.0)).to_array()
        if self.variant == "orthogonal":
            return integer_bases(self.dim, self.size, self.seed, _STEPS)
        return integer_normals(np.empty(self.random_shape, np.int8), self.seed)

    def direction_operator(self) -> Operator:
        """Products with all directions."""
        if self.variant == "hadamard":
            dtype = np.float64 if self.size * self.dim <= _DOUBLE_ENTRIES else np.float32
            return structured.StructuredOperator(self._blocks, np.ones(self.dim), 1.0, dtype)
        return IntegerOperator(self.directions)

    @cached_property
    def squared_norms(self) -> npt.NDArray[np.float64]:
        """Squared lengths of the integer directions."""
        return squared_norms(self.directions)

    @cached_property
    def factors(self) -> npt.NDArray[np.float64]:
        """A feature is the sum over its one or two directions q of ``factor * (q·x)**2``; a factor per direction."""
        table = _normal_table().astype(np.float64)
        unit = 1.0 / float((table * table).mean())  # makes the entries of q standard
        if self.variant == "hadamard":
            return np.ones(self.size)
        if self.variant in ("sphere", "orthogonal"):
            return 1.0 / self.squared_norms
        if self.variant == "gaussian":
            return np.full(self.size, unit)
        half = np.full(2 * self.size, 0.5 * unit)
        if self.variant == "difference":
            half[self.size :] *= -1.0
        return half

    @cached_property
    def _bounds(self) -> npt.NDArray[np.float64]:
        """What the squared projections of one unit of the grid are divided by, per direction."""
        if self.variant == "hadamard":
            return np.ones(self.size)
        if not self.paired:
            return self.squared_norms
        largest = np.maximum(self.squared_norms[: self.size], self.squared_norms[self.size :])
        return np.concatenate([largest, largest])

    # -- features ----------------------------------------------------------------------------

    def __call__(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Features of a few rows, (n, size), in float64 and not rounded to the grid; clipped if there is a radius.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> sl.QuadraticFeatures.draw(dim=2)([[2.0, 3.0]])
        array([[4., 6., 9.]])
        """
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"expected rows with {self.dim} columns, got an array of shape {rows.shape}")
        rows = rows - self._centre
        if self.radius is not None:
            length = np.sqrt((rows * rows).sum(1))
            rows = rows * (self.radius / np.maximum(length, self.radius))[:, None]
        return self._of_centred(rows)

    def _of_centred(self, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if self.is_exact:
            i, j = np.triu_indices(self.dim)
            return rows[:, i] * rows[:, j]
        if self.variant == "hadamard":
            return np.asarray(self.direction_operator().astype(np.float64).forward(rows) ** 2)
        squares = project(self.directions, np.ascontiguousarray(rows.T)).T ** 2 * self.factors
        return squares[:, : self.size] + squares[:, self.size :] if self.paired else squares

    @cached_property
    def _centre(self) -> npt.NDArray[np.float64]:
        return np.zeros(self.dim) if self.center is None else self.center

    # -- sums --------------------------------------------------------------------------------

    @property
    def row_cost(self) -> float:
        if self.variant == "hadamard":
            return self.size * (3.0 * math.log2(structured.padded(self.dim)) + 10.0)
        return 0.5 * self.dim * (self.dim + 10.0) if self.is_exact else super().row_cost * (1 + self.paired)

    @property
    def fewest_rows(self) -> int:
        # adding up pairs of all products costs as much as a hundred rows
        return max(960, 4 * self.dim, min(8160, 2**21 // self.dim)) if self.is_exact else 960

    def plan(self) -> Plan:
        """Products of columns, or squares along directions, about the centre; on the grid if there is a radius."""
        arrays: dict[str, npt.NDArray[Any]] = {"center": self._centre}
        numbers: dict[str, int | float | str | bool] = {} if self.radius is None else {"radius": self.radius}
        if self.variant == "hadamard":
            blocks = self._blocks
            arrays |= {name: getattr(blocks, name) for name in ("signs", "normals", "permutation")}
            arrays["factors"] = (blocks.radius.astype(np.float64) * math.pi).astype(np.float32)
            numbers["p"] = blocks.p
            return Plan("structured squares", self.dim, self.sums_shape, self.sums_dtype, arrays, numbers)
        if not self.is_exact:
            arrays |= {"directions": self.directions, "bounds": self._bounds}
            numbers["second"] = {"complex": 1, "difference": -1}.get(self.variant, 0)
        kind = "products" if self.is_exact else "squares"
        return Plan(kind, self.dim, self.sums_shape, self.sums_dtype, arrays, numbers)

    def describe(self) -> str:
        bound = "" if self.radius is None else f", rows clipped to radius {self.radius:.6g}"
        return f"quadratic, {self.variant}{bound}, seed {self.seed}"

    def __repr__(self) -> str:
        extra = "" if self.radius is None else f", radius={self.radius:.6g}"
        extra += "" if self.center is None else ", center=..."
        return f"QuadraticFeatures(dim={self.dim}, size={self.size}, variant={self.variant}, seed={self.seed}{extra})"
