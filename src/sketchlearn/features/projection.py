"""Random projections: many columns become few before a feature map sees them, as part of its recipe.

Sums of standardised columns with random signs keep distances between rows to a few percent if there are some tens of
them (Johnson and Lindenstrauss 1984; with signs: Achlioptas 2003), and a sketch for k clusters needs ten features for
each centre and column.  The signs follow from a seed; each row is projected on its own, so that a sketch is the same
bytes for any batches, and sketches of other projections don't add.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array
from sketchlearn.exceptions import SketchFileError
from sketchlearn.features import portable
from sketchlearn.features.recipe_arrays import decode_array, encode_array
from sketchlearn.kernels.plan import Plan
from sketchlearn.kernels.projection import project
from sketchlearn.limits import check

VERSION = 1
_STREAM = 9
_LARGEST = 2**31


@dataclass(frozen=True, eq=False, repr=False)
class Projection:
    """A random projection of rows; make one with :meth:`sketchlearn.Projection.draw`.

    A row x becomes ``signs' ((x - center) / spread) / sqrt(size)``: squared distances, columns in units of their
    spread, stay what they are on average, with a relative standard error of about ``sqrt(2 / size)``.

    Attributes
    ----------
    dim, size : int
        Columns before and after.
    seed : int
        Seed of the signs.
    center, spread : ndarray (dim,) or None
        What is subtracted from the columns, and their units; None for 0 and 1.
    columns : tuple of str or None
        Names of the columns that are projected, if they have any.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 300)) + 2 * rng.integers(2, size=(1000, 1))
    >>> phi = sl.design(X, n_components=2, projection=20)
    >>> phi.dim, phi.projection
    (20, Projection(dim=300, size=20, seed=0, center=...))
    >>> s = sl.sketch(X, phi)
    >>> s == sl.sketch(X[:400], phi) + sl.sketch(X[400:], phi)
    True
    """

    dim: int
    size: int
    seed: int = 0
    center: Array | None = None
    spread: Array | None = None
    columns: tuple[str, ...] | None = None
    _expected: str | None = None

    @classmethod
    def draw(
        cls,
        dim: int,
        size: int,
        seed: int = 0,
        *,
        center: npt.ArrayLike | None = None,
        spread: npt.ArrayLike | None = None,
        columns: Any = None,
    ) -> Projection:
        """A projection with explicit parameters.

        Parameters
        ----------
        dim, size : int
            Columns before and after; fewer after than before.
        seed : int
            The same seed gives the same signs on any machine.
        center, spread : array (dim,), optional
            Offset and unit of each column.
        columns : sequence of str, optional
            Names of the columns: tables are then read by name.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> P = sl.Projection.draw(dim=4, size=2, seed=1, center=[1.0, 0.0, 0.0, 0.0])
        >>> P([[1.0, 0.0, 0.0, 0.0]])
        array([[0., 0.]])
        """
        middle, unit = (None if given is None else np.array(given, np.float64) for given in (center, spread))
        made = cls(dim, size, seed, middle, unit, None if columns is None else tuple(columns))
        made._validate()
        return made

    def _validate(self) -> None:
        for name, most in (("dim", _LARGEST), ("size", _LARGEST), ("seed", 2**64)):
            value = getattr(self, name)
            least = 0 if name == "seed" else 1
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value < most:
                raise ValueError(f"{name} of a projection must be an integer from {least} on, got {value!r}")
            object.__setattr__(self, name, int(value))
        if self.size >= self.dim:
            raise ValueError(f"a projection makes fewer columns, got {self.size} of {self.dim}: leave it out")
        for name in ("center", "spread"):
            array = getattr(self, name)
            if array is None:
                continue
            if array.shape != (self.dim,) or not np.isfinite(array).all():
                raise ValueError(f"{name} of a projection must be {self.dim} finite numbers, got shape {array.shape}")
            array.flags.writeable = False
        if self.spread is not None and not (self.spread > 0).all():
            k = int(np.argmin(self.spread))
            raise ValueError(f"the spread of column {k} is {self.spread[k]}: a constant column can't be standardised")
        if self.columns is not None and (
            not all(isinstance(name, str) for name in self.columns)
            or len(set(self.columns)) != len(self.columns)
            or len(self.columns) != self.dim
        ):
            raise ValueError(f"a projection of {self.dim} columns needs as many different names")

    # -- recipe ------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns after the projection."""
        return tuple(f"projection {i}" for i in range(self.size))

    def with_columns(self, names: Any) -> Projection:
        """An equal projection of columns with these names."""
        if isinstance(names, str):
            raise ValueError(f"columns must be a list of names, got the text {names!r}")
        made = replace(self, columns=None if names is None else tuple(names))
        made._validate()
        return made

    def to_json(self) -> dict[str, Any]:
        """The projection as JSON-able values: the seed of the signs, and their fingerprint."""
        named = {} if self.columns is None else {"columns": list(self.columns)}
        return {
            "version": VERSION,
            "dim": self.dim,
            "size": self.size,
            "seed": self.seed,
            "center": encode_array(self.center),
            "spread": encode_array(self.spread),
            "fingerprint": self.fingerprint,
            **named,
        }

    @classmethod
    def from_json(cls, value: Any) -> Projection:
        """Inverse of :meth:`to_json`; ValueError if it is none."""
        fields = {"version", "dim", "size", "seed", "center", "spread", "fingerprint"}
        if not isinstance(value, dict) or set(value) - {"columns"} != fields:
            raise ValueError(f"the projection of a recipe should have the fields {', '.join(sorted(fields))}")
        if value["version"] != VERSION or isinstance(value["version"], bool):
            raise ValueError(f"projection version {value['version']!r} is not known to this version of the library")
        names = value.get("columns")
        if not isinstance(value["fingerprint"], str) or not (names is None or isinstance(names, list)):
            raise ValueError("the projection of a recipe has a fingerprint, and a list of columns if any")
        arrays = {name: decode_array(value[name], None, name) for name in ("center", "spread")}
        made = cls.draw(value["dim"], value["size"], value["seed"], columns=names, **arrays)
        return replace(made, _expected=value["fingerprint"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Projection) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.dim, self.size, self.seed))

    # -- numbers -----------------------------------------------------------------------------

    @cached_property
    def signs(self) -> Array:
        """The signs, (dim, size): 1 or -1."""
        check(9 * self.dim * self.size, f"a projection of {self.dim:,} columns on {self.size:,}")
        words = portable.Bits(self.seed, _STREAM).words(-(-self.dim * self.size // 64)).astype("<u8", copy=False)
        bits = np.unpackbits(words.view(np.uint8), count=self.dim * self.size, bitorder="little")
        drawn = _digest(bits, self.dim, self.size)
        if self._expected not in (None, drawn):
            raise SketchFileError(
                f"the signs of the projection have fingerprint {drawn}, the sketch was made with {self._expected}: "
                "this machine draws other numbers"
            )
        signs = np.asarray(1.0 - 2.0 * bits.reshape(self.dim, self.size), np.float64)
        signs.flags.writeable = False
        return signs

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the signs."""
        bits = np.asarray(self.signs < 0, np.uint8).reshape(-1) if self._expected is None else None
        return self._expected or _digest(np.asarray(bits), self.dim, self.size)

    @cached_property
    def _units(self) -> tuple[Array, Array]:
        zero, one = np.zeros(self.dim), np.ones(self.dim)
        return (
            zero if self.center is None else np.ascontiguousarray(self.center),
            one if self.spread is None else np.ascontiguousarray(self.spread),
        )

    def __call__(self, X: npt.ArrayLike) -> Array:
        """Projected rows, (n, size).

        Parameters
        ----------
        X : array (n, dim)
            Rows; one that holds NaN or infinity has no finite projection.

        Returns
        -------
        ndarray (n, size)
        """
        rows = np.asarray(X)
        rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"the projection is for rows with {self.dim} columns, got an array of shape {rows.shape}")
        return project(rows, *self._units, self.signs, self._factor)

    @property
    def _factor(self) -> float:
        return float(1.0 / np.sqrt(np.float64(self.size)))

    def plan(self, inner: Plan) -> Plan:
        """Sums of projected rows, as data: the plan for them, and how to project."""
        center, spread = self._units
        arrays = {
            **inner.arrays,
            "projected center": center,
            "projected spread": spread,
            "signs of columns": self.signs,
        }
        numbers = {**inner.numbers, "projected kind": inner.kind, "projected factor": self._factor}
        shape, dtype = inner.sums_shape, inner.sums_dtype
        return Plan("projected", self.dim, shape, dtype, arrays, numbers, inner.features)

    def describe(self) -> str:
        """A few words for people."""
        units = " in units of their spread" if self.spread is not None else ""
        return f"{self.size} random projections of {self.dim} columns{units}"

    def __repr__(self) -> str:
        extra = "".join(f", {name}=..." for name in ("center", "spread", "columns") if getattr(self, name) is not None)
        return f"Projection(dim={self.dim}, size={self.size}, seed={self.seed}{extra})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Projection.from_json, (self.to_json(),)


def _digest(bits: npt.NDArray[np.uint8], dim: int, size: int) -> str:
    h = hashlib.blake2b(digest_size=16)
    h.update(repr((dim, size)).encode())
    h.update(np.packbits(bits, bitorder="little").tobytes())
    return h.hexdigest()
