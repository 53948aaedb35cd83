"""What every feature map is: a small recipe, features of rows, and the plan that says how to sum them.

A new kind of map is one file with one frozen dataclass, a subclass of :class:`FeatureMap` decorated with
:func:`register`.  It needs :meth:`FeatureMap.draw_array` (its random numbers) and features: either
``__call__`` alone, or :meth:`FeatureMap.grid_features` in integers, or a :class:`~sketchlearn.kernels.Plan` that
compiled loops know.  Nothing else needs to know it: engines call :meth:`FeatureMap.sum_rows`, the sketch keeps the
sums and adds them by the map's own algebra, and the file stores the recipe.
"""

from __future__ import annotations

import dataclasses
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from sketchlearn.exceptions import InputError, Option
from sketchlearn.features.encoder import Encoder
from sketchlearn.features.fingerprint import check_fingerprint, digest
from sketchlearn.features.projection import Projection
from sketchlearn.features.recipe_arrays import decode_array, differences, encode_array, real_parts
from sketchlearn.features.sum_algebra import SumAlgebra
from sketchlearn.kernels import GRID_BITS, Plan, RowSums, Summer, prepare
from sketchlearn.limits import check
from sketchlearn.words import counted

if TYPE_CHECKING:
    from sketchlearn.features.characteristic import CharacteristicMap
    from sketchlearn.features.embedded import EmbeddedFeatures
    from sketchlearn.features.quartic import QuarticFeatures
    from sketchlearn.features.second_moment import SecondMomentMap

Recipe = dict[str, Any]
_M = TypeVar("_M", bound="FeatureMap")
WORDS = ("purpose", "reason", "provenance")
"""Fields in words that say where a map comes from: no part of the recipe."""
OWN_ROWS = "these rows"
"""What a map was chosen from that was designed from the rows of its own pass."""
_WORDS_ALONE = {"columns", *WORDS, "_expected", "_embedded"}  # fields without constants of rows


def unchanged(parameters: Recipe) -> Recipe:
    """Reader of recipes of the version that is written today."""
    return parameters


@dataclass(frozen=True, eq=False, repr=False)
class FeatureMap(SumAlgebra, ABC):
    """A fixed random map from rows of ``dim`` numbers to ``size`` features.

    Two maps are equal if their recipes are: the recipe determines the features, bit for bit, on any
    machine.

    Attributes
    ----------
    dim, size : int
        Columns of the rows and number of features.
    columns : tuple of str or None
        Names of the columns the map is for, if it knows them.
    encoder, projection : Encoder, Projection, or None
        Applied to rows before the features: first the encoder, then the projection.
    reason : str
        Why this kind, size and scale were chosen, in words, if :func:`sketchlearn.design` chose them. It is not part of
        the recipe: maps that differ only in it are equal. Files of maps and of exact sketches keep it.
    purpose : str
        What was asked of the design: task, number of components, pilot rows, and the options that were given; kept as
        `reason`.
    provenance : str
        What it was chosen from, if known: ``"public bounds"``, ``"other data: ..."``, ``"a sample"``; kept as `reason`.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=3)
    >>> isinstance(phi, sl.FeatureMap), phi.dim, phi.size
    (True, 2, 8)
    """

    kind: ClassVar[str]
    takes_missing: ClassVar[bool] = False
    """Whether rows may hold NaN, for entries that are missing; columns that held nothing then have no box."""
    array_axes: ClassVar[Mapping[str, int]] = {}
    """How many axes arrays of the recipe have, each as long as there are columns."""
    recipe_version: ClassVar[int] = 1
    recipe_versions: ClassVar[Mapping[int, Callable[[Recipe], Recipe]]] = {1: unchanged}
    """Versions of the recipe that can be read: each with a function that turns its fields into those of today."""

    dim: int
    size: int
    columns: tuple[str, ...] | None = field(default=None, kw_only=True)
    encoder: Encoder | None = field(default=None, kw_only=True)
    projection: Projection | None = field(default=None, kw_only=True)
    reason: str = field(default="", kw_only=True)
    purpose: str = field(default="", kw_only=True)
    provenance: str = field(default="", kw_only=True)
    _expected: str | None = field(default=None, kw_only=True)
    _embedded: npt.NDArray[Any] | None = field(default=None, kw_only=True)

    # -- recipe ------------------------------------------------------------------------------

    def parameters(self) -> Recipe:
        """Everything that determines the map, as JSON-able values: its fields, arrays encoded, maps as recipes."""
        own = {name: getattr(self, name) for name in self._parameter_names()}
        arrays = {k: encode_array(v) for k, v in own.items() if isinstance(v, np.ndarray)}
        return own | arrays | {k: v.recipe() for k, v in own.items() if isinstance(v, FeatureMap)}

    @classmethod
    def from_parameters(cls: type[_M], parameters: Recipe) -> _M:
        """Inverse of :meth:`parameters`; ValueError if they are not valid."""
        cls._check_names(parameters)
        encoded = {k: v for k, v in parameters.items() if k in cls.array_axes or (isinstance(v, dict) and "f8" in v)}
        shapes = {name: ((parameters["dim"],) * axes,) for name, axes in cls.array_axes.items()}
        arrays = {name: decode_array(value, shapes.get(name), name) for name, value in encoded.items()}
        return cls(**{**parameters, **arrays})._validated()

    @classmethod
    def _check_names(cls, parameters: Recipe, expected: Collection[str] | None = None) -> None:
        """Refuse a recipe with other fields than these; by default than those of the class."""
        names = cls._parameter_names() if expected is None else expected
        if set(parameters) != set(names):
            raise ValueError(f"fields of a {cls.kind} recipe: {sorted(names)}, got {sorted(parameters)}")

    def _validated(self) -> Self:
        """The map, once its parameters make sense together; ValueError if they don't."""
        return self

    @classmethod
    def _parameter_names(cls) -> list[str]:
        common = {f.name for f in dataclasses.fields(FeatureMap)} - {"dim", "size"}
        return [f.name for f in dataclasses.fields(cls) if f.name not in common]

    def recipe(self) -> Recipe:
        """The recipe: kind, version, dimension, size and parameters.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=3)
        >>> phi.recipe()["seed"], phi.recipe()["radial"]
        (3, {'law': 'adapted'})
        """
        named: Recipe = {} if self.columns is None else {"columns": list(self.columns)}
        for name in ("encoder", "projection"):
            if getattr(self, name) is not None:
                named[name] = getattr(self, name).to_json()
        return {
            "kind": self.kind,
            "version": self.recipe_version,
            "dim": self.dim,
            "size": self.size,
            **self.parameters(),
            **named,
        }

    @staticmethod
    def from_recipe(recipe: Recipe) -> FeatureMap:
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
        version = recipe.get("version")
        if isinstance(version, bool) or not isinstance(version, int) or version not in cls.recipe_versions:
            raise ValueError(
                f"recipe version {version!r} of {cls.kind!r} features is not known to this "
                f"version of the library (it knows {', '.join(map(str, sorted(cls.recipe_versions)))})"
            )
        for key in ("dim", "size"):
            value = recipe.get(key)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**40:
                raise ValueError(f"recipe field {key!r} must be a positive integer, got {value!r}")
        before = ("columns", "encoder", "projection")
        own = {k: v for k, v in recipe.items() if k not in ("kind", "version", *before)}
        phi = cls.from_parameters(cls.recipe_versions[version](own))
        columns, encoder, projection = (recipe.get(name) for name in before)
        if columns is not None:
            phi = phi.with_columns(columns)
        if projection is not None:
            phi = phi.with_projection(Projection.from_json(projection))
        return phi if encoder is None else phi.with_encoder(Encoder.from_json(encoder))

    def with_columns(self: _M, names: Iterable[str] | None) -> _M:
        """A map of equal features for columns with these names.

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
        if self.projection is not None:  # the names are those of the columns before it
            return self._with(projection=self.projection.with_columns(names))
        columns = None if names is None else tuple(names)
        if columns is not None:
            if not all(isinstance(name, str) for name in columns) or len(set(columns)) != len(columns):
                raise ValueError(f"columns must be different names, got {columns!r}")
            if len(columns) != self.dim:
                raise ValueError(
                    f"the map has {counted(self.dim, 'column')}, but the names given are {len(columns)}: give "
                    "one name for each column (and, if the map comes from bounds, bounds for each column)"
                )
        return self._with(columns=columns)

    def _with(self: _M, **changes: Any) -> _M:
        """A copy with some attributes changed that no drawn number depends on: what was drawn stays drawn."""
        made = object.__new__(type(self))
        kept = {} if set(changes) <= _WORDS_ALONE else {"provenance": ""}  # constants may come from anywhere
        made.__dict__.update(self.__dict__ | kept | changes)
        return made

    def explained(self: _M, reason: str) -> _M:
        """The map with the words that say why it was chosen.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=3)
        >>> phi.explained("a guess").reason, phi.explained("a guess") == phi
        ('a guess', True)
        """
        return self._with(reason=str(reason))

    def chosen_from(self: _M, provenance: str) -> _M:
        """The map with a record of what it was chosen from.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> sl.FourierFeatures.draw(dim=2, size=8).chosen_from("other data: census of 2011").provenance
        'other data: census of 2011'
        """
        return self._with(provenance=str(provenance))

    def designed_for(self: _M, purpose: str) -> _M:
        """The map with a record of what was asked of its design.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> sl.design(dim=2, scale=1.0, n_components=3).purpose
        'kmeans with n_components=3, no row looked at; dim=2, scale=1'
        """
        return self._with(purpose=str(purpose))

    @property
    def words(self) -> dict[str, str]:
        """What files keep about where the map comes from, as texts by name.

        The rows of a pass that chose their own map are a sample for every other pass.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> sl.FourierFeatures.draw(dim=2, size=8).explained("a guess").words
        {'reason': 'a guess'}
        """
        known = {name: text for name in WORDS if (text := getattr(self, name))}
        return known | {"provenance": "a sample"} if self.provenance == OWN_ROWS else known

    def with_words(self: _M, words: Mapping[str, str]) -> _M:
        """The map with other words about where it comes from, see :attr:`words`.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> told = sl.design(dim=2, scale=1.0, n_components=3)
        >>> told.with_words({}).words, told.with_words({}) == told
        ({}, True)
        """
        return self._with(**{name: str(words.get(name, "")) for name in WORDS})

    def with_encoder(self: _M, encoder: Encoder | None) -> _M:
        """A map of equal features of encoded rows; the rules of the encoder become part of the recipe.

        Examples
        --------
        >>> import sketchlearn as sl
        >>> from sketchlearn.features import Category, Number
        >>> encoder = sl.Encoder((Number("age", fill=30.0), Category("plan", ("free", "paid"))))
        >>> phi = sl.FourierFeatures.draw(dim=4, size=8, scale=1.0, seed=3).with_encoder(encoder)
        >>> phi.columns, phi.encoder.columns
        (('age', 'plan=free', 'plan=paid', 'plan=other'), ('age', 'plan'))
        """
        if encoder is not None and encoder.dim != self.inputs:
            raise ValueError(f"the encoder makes {encoder.dim} columns, the map is for {self.inputs}")
        return (self if encoder is None else self.with_columns(encoder.names))._with(encoder=encoder)

    def with_projection(self: _M, projection: Projection | None) -> _M:
        """A map of equal features of projected rows; the projection becomes part of the recipe.

        Examples
        --------
        >>> import numpy as np, sketchlearn as sl
        >>> phi = sl.FourierFeatures.draw(dim=10, size=50, scale=1.0, seed=3)
        >>> phi = phi.with_projection(sl.Projection.draw(dim=400, size=10))
        >>> phi.inputs, phi.dim, sl.sketch(np.zeros((5, 400)), phi).count
        (400, 10, 5)
        """
        if projection is not None and projection.size != self.dim:
            raise ValueError(f"the projection makes {projection.size} columns, the map is for {self.dim}")
        made = self._with(projection=projection, columns=None if projection is None else projection.names)
        made.__dict__.pop("summer", None)
        return made

    @property
    def inputs(self) -> int:
        """Columns of the rows that are sketched: `dim`, unless a projection makes these of more."""
        return self.dim if self.projection is None else self.projection.dim

    @property
    def input_columns(self) -> tuple[str, ...] | None:
        """Names of these columns, if they are known."""
        return self.columns if self.projection is None else self.projection.columns

    def replace(self: _M, **changes: Any) -> _M:
        """A copy with some fields changed; nothing that was drawn is kept."""
        state = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        kept = {} if set(changes) <= _WORDS_ALONE else {"provenance": "", "purpose": ""}
        return type(self)(**{**state, **kept, **changes})

    # -- other maps ----------------------------------------------------------------------------

    def standardized(self: _M, offset: npt.ArrayLike, spread: npt.ArrayLike) -> _M:
        """The map that does for raw rows what this one does for standardised rows; ValueError for kinds that can't."""
        raise InputError(Option("standardize", True), f" needs Fourier features, {self.kind} features keep their units")

    def redrawn(self: _M, structure: str = "dense", quantized: bool = False, features_per_row: int | None = None) -> _M:
        """A map with the same law, scale and seed and another structure; ValueError for kinds without structures."""
        if quantized or features_per_row is not None:
            raise ValueError(f"{self.kind} features are neither quantised nor subsampled")
        if structure != "dense":
            raise ValueError(f"{self.kind} features have no structure")
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # pickles hold the recipe, not the drawn numbers; the class goes along so that its kind is known there
        words = {name: getattr(self, name) for name in WORDS}
        return _rebuild, (type(self), self.recipe(), self._expected, self._embedded, words)

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
        if self.kind != other.kind:
            return f"one has {self.kind} features, the other {other.kind} ones"
        return differences(self.recipe(), other.recipe())

    def describe(self) -> str:
        """A description in one line."""
        return self.kind

    def __repr__(self) -> str:
        own = ", ".join(f"{k}={v!r}" for k, v in self.parameters().items() if not isinstance(v, dict | list))
        return f"{type(self).__name__}({own})"

    # -- what its averages are: decoders ask these, and never for a class -------------------------

    @property
    def as_characteristic(self) -> CharacteristicMap | None:
        """The map, if its averages are values of the characteristic function."""
        return None

    @property
    def as_second_moment(self) -> SecondMomentMap | None:
        """The map, if its averages are linear in the second moment of the rows."""
        return None

    @property
    def as_embedded(self) -> EmbeddedFeatures | None:
        """The map, if its averages are the second moment of embedded rows."""
        return None

    @property
    def as_quartic(self) -> QuarticFeatures | None:
        """The map, if its averages are powers of projections up to the fourth."""
        return None

    # -- numbers -----------------------------------------------------------------------------

    @abstractmethod
    def draw_array(self) -> npt.NDArray[Any]:
        """Draw the random numbers behind the map: the same for the same recipe, on any machine."""

    @cached_property
    def _random_array(self) -> npt.NDArray[Any]:
        if self._embedded is None:
            check(self.working_bytes, f"drawing a map of {self.size:,} features for {self.dim:,} columns")
        drawn = self.draw_array() if self._embedded is None else self._embedded
        check_fingerprint(self._expected, digest(drawn))
        drawn.flags.writeable = False
        return drawn

    def random_array(self) -> npt.NDArray[Any]:
        """The random numbers behind the map (what a file embeds on request), drawn once."""
        return self._random_array

    @property
    def random_shape(self) -> tuple[int, ...]:
        """Shape of the random numbers."""
        return self.size, self.dim

    @property
    def random_dtype(self) -> np.dtype[Any]:
        """Type of the random numbers."""
        return np.dtype(np.float32)

    @property
    def working_bytes(self) -> int:
        """Memory that drawing and using the map takes, roughly: a recipe is small whatever it asks for."""
        entries = math.prod(self.random_shape) * (8 if self.random_dtype.kind == "f" else 2)
        return entries + 8 * (self.dim + math.prod(self.sums_shape))

    def with_random_array(self: _M, array: npt.NDArray[Any]) -> _M:
        """An equal map that takes its random numbers from `array` instead of redrawing them."""
        if array.shape != self.random_shape or array.dtype != self.random_dtype:
            raise ValueError(
                f"embedded random numbers are {array.dtype} {array.shape}, "
                f"expected {self.random_dtype} {self.random_shape}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError("embedded random numbers hold NaN or infinity")
        return self.replace(_embedded=np.array(array))

    def expecting(self: _M, fingerprint: str) -> _M:
        """An equal map that refuses to work if its random numbers don't have this fingerprint."""
        return self.replace(_expected=fingerprint)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the random numbers, carried by every sketch: a redraw that differs is an error."""
        return self._expected or digest(self.random_array())

    # -- features ----------------------------------------------------------------------------

    @abstractmethod
    def __call__(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Features of a few rows, (n, size), in float64."""

    def grid_features(self, X: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Features of rows (n, dim) as they are summed: int64 (n, ...), a function of each row alone.

        By default the features in units of 2**-22, one row at a time, so that the shape of a batch changes no bit.
        Maps whose sums must agree between machines compute these integers in a fixed order of operations.
        """
        units = [np.rint(real_parts(self(row[None]))[0] * 2.0**GRID_BITS) for row in X]
        return np.array(units).reshape(len(units), *self.sums_shape).astype(np.int64)

    # -- sums --------------------------------------------------------------------------------

    @property
    def sums_shape(self) -> tuple[int, ...]:
        """Shape of the sums that a sketch keeps."""
        return (self.size,)

    @property
    def row_cost(self) -> float:
        """Multiply-adds per row, roughly: engines cut the rows into chunks by it."""
        return self.size * (self.dim + 10.0)

    @property
    def fewest_rows(self) -> int:
        """Rows below which a chunk is not worth its overhead."""
        return 240

    def plan(self) -> Plan:
        """What to compute, as data that any engine can run."""
        return Plan("rows", self.dim, self.sums_shape, self.sums_dtype, features=self.grid_features)

    def row_plan(self) -> Plan:
        """The plan for rows as they come: projected first, if the map has a projection."""
        own = self.plan()
        return own if self.projection is None else self.projection.plan(own)

    @cached_property
    def own_summer(self) -> Summer:
        """The plan, ready to run on this processor: for rows of `dim` columns."""
        check(self.working_bytes, f"a map of {self.size:,} features for {self.dim:,} columns")
        return prepare(self.plan())

    @cached_property
    def summer(self) -> Summer:
        """The plan for rows before any projection, ready to run on this processor."""
        if self.projection is None:
            return self.own_summer
        check(9 * self.projection.dim * self.projection.size, f"a projection of {self.projection.dim:,} columns")
        return prepare(self.row_plan())

    def sum_rows(
        self, X: npt.NDArray[np.floating], weights: npt.NDArray[np.int64] | None = None, skip_invalid: bool = False
    ) -> RowSums:
        """Sums of the rounded features of the rows of X; compiled loops release the interpreter lock."""
        return self.summer.sum_rows(X, weights, skip_invalid)

    def sum_runs(
        self,
        X: npt.NDArray[np.floating],
        starts: npt.NDArray[np.int64],
        weights: npt.NDArray[np.int64] | None = None,
        skip_invalid: bool = False,
    ) -> list[RowSums]:
        """Sums of each run of rows ``starts[g]`` to ``starts[g + 1]``."""
        return self.summer.sum_runs(X, starts, weights, skip_invalid)


_Map = TypeVar("_Map", bound=type[FeatureMap])
_KINDS: dict[str, type[FeatureMap]] = {}


def register(cls: _Map) -> _Map:
    """Make a kind of feature map known to files and recipes."""
    _KINDS[cls.kind] = cls
    return cls


def checked_map(features: Any) -> FeatureMap:
    """The feature map that was given; TypeError for anything else."""
    if not isinstance(features, FeatureMap):
        raise TypeError(f"features must be a feature map, got {type(features).__name__}; make one with sl.design(...)")
    return features


def agreed(maps: Iterable[FeatureMap]) -> FeatureMap:
    """The first of some equal maps, without words about where it comes from unless all say the same.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.features.base import agreed
    >>> phi = sl.FourierFeatures.draw(dim=2, size=8)
    >>> agreed([phi.explained("a"), phi.explained("a")]).reason, agreed([phi.explained("a"), phi]).reason
    ('a', '')
    """
    first, *others = maps
    return first if all(phi is first or phi.words == first.words for phi in others) else first.with_words({})


def _rebuild(
    cls: type[FeatureMap], recipe: Recipe, expected: str | None, embedded: npt.NDArray[Any] | None, words: Recipe
) -> FeatureMap:
    phi = FeatureMap.from_recipe(recipe)
    phi = phi if embedded is None else phi.with_random_array(embedded)
    return (phi if expected is None else phi.expecting(expected)).with_words(words)
