"""What every feature map is: a small recipe, features of rows, and the loop that sums them.

A new kind of map is one file with one subclass of :class:`FeatureMap`, decorated with
:func:`register`.  Nothing else needs to know it: the engines call :meth:`FeatureMap.sum_rows`, the
sketch keeps the sums, and the file stores the recipe.
"""

from __future__ import annotations

import base64
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from sketchlearn.exceptions import SketchFileError
from sketchlearn.kernels.fourier import RowSums


class FeatureMap(ABC):
    """A fixed random map from rows of ``dim`` numbers to ``size`` features.

    Two maps are equal if their recipes are: the recipe determines the features, bit for bit, on any
    machine.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=3)
    >>> isinstance(phi, sl.FeatureMap), phi.dim, phi.size
    (True, 2, 8)
    """

    kind: ClassVar[str]
    recipe_version: ClassVar[int] = 1
    dim: int
    size: int
    _columns: tuple[str, ...] | None = None

    # -- recipe ------------------------------------------------------------------------------

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Everything that determines the map, as JSON-able values, in a fixed order."""

    @classmethod
    @abstractmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> FeatureMap:
        """Inverse of :meth:`parameters`; ValueError if they are not valid."""

    def recipe(self) -> dict[str, Any]:
        """The recipe: kind, version, dimension, size and parameters.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=3)
        >>> phi.recipe()["seed"], phi.recipe()["radial"]
        (3, {'law': 'adapted'})
        """
        named = {} if self._columns is None else {"columns": list(self._columns)}
        return {
            "kind": self.kind,
            "version": self.recipe_version,
            "dim": self.dim,
            "size": self.size,
            **self.parameters(),
            **named,
        }

    @staticmethod
    def from_recipe(recipe: dict[str, Any]) -> FeatureMap:
        """The map that a recipe describes; ``ValueError`` if it describes none.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=3)
        >>> sl.FeatureMap.from_recipe(phi.recipe()) == phi
        True
        """
        if not isinstance(recipe, dict):
            raise ValueError(f"a recipe is a JSON object, got {type(recipe).__name__}")
        cls = _KINDS.get(str(recipe.get("kind")))
        if cls is None:
            raise ValueError(f"unknown kind of feature map {recipe.get('kind')!r}; known: {', '.join(sorted(_KINDS))}")
        if recipe.get("version") != cls.recipe_version:
            raise ValueError(
                f"recipe version {recipe.get('version')!r} of {cls.kind!r} features is not known to this "
                f"version of the library (it knows {cls.recipe_version})"
            )
        for key in ("dim", "size"):
            value = recipe.get(key)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**40:
                raise ValueError(f"recipe field {key!r} must be a positive integer, got {value!r}")
        phi = cls.from_parameters({k: v for k, v in recipe.items() if k not in ("kind", "version", "columns")})
        return phi if recipe.get("columns") is None else phi.with_columns(recipe["columns"])

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns the map is for, if it knows them."""
        return self._columns

    def with_columns(self, names: Iterable[str] | None) -> FeatureMap:
        """The same features for columns with these names.

        The names are part of the recipe: tables are read by name, and sketches of other columns don't add.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=3).with_columns(["x", "y"])
        >>> phi.columns
        ('x', 'y')
        """
        if isinstance(names, str):
            raise ValueError(f"columns must be a list of names, got the text {names!r}")
        columns = None if names is None else tuple(names)
        if columns is not None:
            if not all(isinstance(name, str) for name in columns) or len(set(columns)) != len(columns):
                raise ValueError(f"columns must be different names, got {columns!r}")
            if len(columns) != self.dim:
                raise ValueError(f"{len(columns)} column names for a map of {self.dim} columns")
        named = object.__new__(type(self))
        named.__dict__.update(self.__dict__)  # what was drawn stays drawn: names change no number
        named.__dict__["_columns"] = columns
        return named

    def recipe_json(self) -> str:
        """The recipe as canonical JSON text: equal maps have equal text."""
        return json.dumps(self.recipe(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, FeatureMap) and self.recipe_json() == other.recipe_json()

    def __hash__(self) -> int:
        return hash(self.recipe_json())

    def difference(self, other: FeatureMap) -> str:
        """What distinguishes two maps, in words (empty if nothing does)."""
        mine, theirs = self.recipe(), other.recipe()
        parts = []
        for key in sorted(set(mine) | set(theirs)):
            a, b = mine.get(key), theirs.get(key)
            if a != b:
                long = any((isinstance(v, dict) and "f8" in v) or isinstance(v, list) for v in (a, b))
                parts.append(f"{key} differs" if long else f"{key} {_plain(a)} vs {_plain(b)}")
        return ", ".join(parts)

    # -- numbers -----------------------------------------------------------------------------

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of the random numbers themselves: a redraw that differs is an error, never a wrong model."""

    @abstractmethod
    def random_array(self) -> npt.NDArray[Any]:
        """The random numbers behind the map (what a file embeds on request)."""

    @abstractmethod
    def with_random_array(self, array: npt.NDArray[Any]) -> FeatureMap:
        """The same map, taking its random numbers from `array` instead of redrawing them."""

    @abstractmethod
    def expecting(self, fingerprint: str) -> FeatureMap:
        """The same map, which refuses to work if its random numbers don't have this fingerprint."""

    # -- features ----------------------------------------------------------------------------

    @abstractmethod
    def __call__(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Features of a few rows, (n, size)."""

    # -- sums --------------------------------------------------------------------------------

    @property
    @abstractmethod
    def sums_shape(self) -> tuple[int, ...]:
        """Shape of the sums that a sketch keeps."""

    @property
    def sums_dtype(self) -> np.dtype[Any]:
        """Type of the sums: int64 on a grid, float64 where the features have no bound."""
        return np.dtype(np.int64)

    @property
    @abstractmethod
    def entry_bound(self) -> int | None:
        """Largest absolute value that one row can add to one sum, in grid units; None for float64 sums."""

    @property
    def row_cost(self) -> float:
        """Multiply-adds per row, roughly: engines cut the rows into chunks by it."""
        return self.size * (self.dim + 10.0)

    @property
    def fewest_rows(self) -> int:
        """Rows below which a chunk is not worth its overhead."""
        return 240

    def add_sums(
        self, a: npt.NDArray[Any], b: npt.NDArray[Any], out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """Sums of two groups of rows put together, in a new array or in ``out`` (which may be one of them)."""
        return np.add(a, b, out=out)

    def negated(self, sums: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What takes these sums away when it is added."""
        return np.negative(sums)

    def shifted(self, sums: npt.NDArray[Any], bits: int) -> npt.NDArray[Any]:
        """Sums times ``2**bits``; to the right they must have that many bits in common."""
        if self.sums_dtype != np.int64:
            return np.asarray(sums * 2.0**bits)
        return sums << bits if bits >= 0 else sums >> -bits

    def common_bits(self, sums: npt.NDArray[Any]) -> int:
        """How many times two divides all sums; as many as one likes (62) where they can be shifted freely."""
        if self.sums_dtype != np.int64:
            return 62
        gcd = int(np.gcd.reduce(sums, axis=None)) if sums.size else 0
        return (gcd & -gcd).bit_length() - 1 if gcd else 62

    @abstractmethod
    def sum_rows(
        self, X: npt.NDArray[np.floating], weights: npt.NDArray[np.int64] | None = None, skip_invalid: bool = False
    ) -> RowSums:
        """Sums of the rounded features of the rows of X; releases the interpreter lock."""

    def sum_runs(
        self,
        X: npt.NDArray[np.floating],
        starts: npt.NDArray[np.int64],
        weights: npt.NDArray[np.int64] | None = None,
        skip_invalid: bool = False,
    ) -> list[RowSums]:
        """Sums of each run of rows ``starts[g]`` to ``starts[g + 1]``."""
        return [
            self.sum_rows(X[a:b], None if weights is None else weights[a:b], skip_invalid) for a, b in pairwise(starts)
        ]

    def valid(self, X: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
        """Which rows have features; the others are invalid."""
        found = np.ones(len(X), np.bool_)
        waiting = [(0, len(X))]
        while waiting:
            a, b = waiting.pop()
            skipped = self.sum_rows(X[a:b], None, True).skipped
            if skipped == b - a:
                found[a:b] = False
            elif skipped:
                waiting += [(a, (a + b) // 2), ((a + b) // 2, b)]
        return found

    @abstractmethod
    def mean_from_sums(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[Any]:
        """Average features from their sums and the total weight."""

    def feature_variances(self, sums: npt.NDArray[Any], weight: float) -> npt.NDArray[np.float64]:
        """Variances of the features over the rows; ``1 - |z|**2`` for features of modulus 1."""
        return np.maximum(1.0 - np.abs(self.mean_from_sums(sums, weight)) ** 2, 0.0)

    def release_variances(
        self, sums: npt.NDArray[Any], weight: float, sums_variance: float, weight_variance: float
    ) -> npt.NDArray[np.float64]:
        """Variance that noise of sums and weight adds to each entry of the mean (to both parts of complex ones)."""
        unit = np.abs(self.mean_from_sums(np.ones_like(sums), 1.0)) ** 2
        mean = np.abs(self.mean_from_sums(sums, weight)) ** 2
        return np.asarray((unit * sums_variance + mean * weight_variance) / weight**2)

    @abstractmethod
    def impossible(self, sums: npt.NDArray[Any], weight: int) -> str | None:
        """Why no rows of this total weight can have these sums, or None if they can."""

    @abstractmethod
    def describe(self) -> str:
        """One line for people."""


_Map = TypeVar("_Map", bound=type[FeatureMap])
_KINDS: dict[str, type[FeatureMap]] = {}


def register(cls: _Map) -> _Map:
    """Make a kind of feature map known to files and recipes."""
    _KINDS[cls.kind] = cls
    return cls


def digest(array: npt.NDArray[Any]) -> str:
    """Fingerprint of an array: 128 bits of BLAKE2b over its shape and little-endian bytes."""
    h = hashlib.blake2b(digest_size=16)
    h.update(repr(array.shape).encode())
    plain = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    h.update(plain.reshape(-1).view(np.uint8).data)  # without a copy: arrays may be large
    return h.hexdigest()


def encode_array(array: npt.NDArray[np.float64] | None) -> dict[str, Any] | None:
    """An array of a recipe as JSON."""
    if array is None:
        return None
    data = np.ascontiguousarray(array, "<f8").tobytes()
    return {"shape": list(array.shape), "f8": base64.b64encode(data).decode("ascii")}


def decode_array(value: Any, shapes: tuple[tuple[int, ...], ...], name: str) -> npt.NDArray[np.float64] | None:
    """Inverse of :func:`encode_array`, checked against the shapes that are allowed."""
    if value is None:
        return None
    try:
        shape = tuple(value["shape"])
        data = base64.b64decode(value["f8"], validate=True)
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"recipe field {name!r} is not an encoded array") from error
    if shape not in shapes or len(data) != 8 * int(np.prod(shape)):
        raise ValueError(f"recipe field {name!r} has shape {shape}, expected {' or '.join(map(str, shapes))}")
    array = np.frombuffer(data, "<f8").astype(np.float64).reshape(shape)
    if not np.isfinite(array).all():
        raise ValueError(f"recipe field {name!r} holds NaN or infinity")
    return array


def check_fingerprint(expected: str | None, actual: str) -> None:
    """Refuse random numbers that are not the ones a sketch was made with."""
    if expected is not None and expected != actual:
        raise SketchFileError(
            f"the frequencies redrawn from the recipe have fingerprint {actual}, the sketch was made with "
            f"{expected}: this machine draws other numbers; use a file that embeds the frequencies"
        )


def _plain(value: Any) -> Any:
    return value["law"] if isinstance(value, dict) and set(value) == {"law"} else value
