"""The Accumulator: sums that grow batch by batch, as a value that can be kept, sent and resumed."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import MISSING, InvalidRowError, RowError, as_rows, as_weights, nowhere
from sketchlearn.exceptions import IncompatibleSketchError, SketchFileError
from sketchlearn.features.base import FeatureMap, agreed, checked_map
from sketchlearn.kernels import RowSums, Summer
from sketchlearn.sketches import file
from sketchlearn.sketches.origin import Origin
from sketchlearn.sketches.value import Sketch, check_range
from sketchlearn.sketches.weights import SQUARED_BITS, WEIGHT_BITS, on_grid, squared

_MAGIC = b"\x89SKACCUM"
_STATE = struct.Struct("<8sIBQ")  # magic, version, skips invalid rows, length of the first sketch
_VERSION = 1
_CHOICES = ("raise", "skip")


class Summed(NamedTuple):
    """Sums of some rows, and what is to be known about their weights.

    `part`: the sums. `whole`: weights are in units of 1, else of 2**-16. `squared`: the sum of their squares. `origin`:
    the largest of them, and whether some are not whole numbers.
    """

    part: RowSums
    whole: bool
    squared: int
    origin: Origin = Origin()


def summed(
    summer: Summer,
    rows: npt.NDArray[np.floating],
    weights: npt.NDArray[np.float64] | None,
    skip_invalid: bool,
    column: Callable[[int, int], str] | None = None,
) -> Summed:
    """Sums of some rows; :class:`~sketchlearn.arrays.RowError` for the first that has none, if it isn't skipped."""
    units, whole = on_grid(weights)
    part = summer.sum_rows(rows, units, skip_invalid)
    if part.first_invalid is not None and not skip_invalid:
        raise invalid(rows[part.first_invalid], part.first_invalid, column)
    counted = units if units is None or not part.skipped else units[summer.valid(rows)]
    origin = Origin() if counted is None else weighted(int(counted.max(initial=0)), _bits(counted), whole)
    return Summed(part, whole, squares(summer, rows, units, whole, part), origin)


def _bits(units: npt.NDArray[np.int64]) -> int:
    """Which bits some weight has."""
    return int(np.bitwise_or.reduce(units, initial=0))


def weighted(largest: int, bits: int, whole: bool) -> Origin:
    """The origin of rows with these weights: the largest, and the bits of all, in units of 1 or of 2**-16."""
    fractional = not whole and bool(bits & ((1 << WEIGHT_BITS) - 1))
    return Origin(largest << WEIGHT_BITS if whole else largest, fractional, by_content=True)


def squares(
    summer: Summer,
    rows: npt.NDArray[np.floating],
    units: npt.NDArray[np.int64] | None,
    whole: bool,
    part: RowSums,
) -> int:
    """The sum of squared weights of the rows that count."""
    if units is None or whole:
        return part.weight << SQUARED_BITS
    return squared(units if not part.skipped else units[summer.valid(rows)])


def invalid(
    row: npt.NDArray[np.floating], number: int, column: Callable[[int, int], str] | None = None
) -> InvalidRowError:
    """What is wrong with a row that has no features, in words; `column` names a column by its number."""
    finite = np.isfinite(row)
    k = int(np.argmin(finite) if not finite.all() else np.argmax(np.abs(row)))
    where = f"column {k}" if column is None else column(k, len(row))
    if finite.all():
        return InvalidRowError(f"lies too far out (the largest value is {row[k]:.6g} in {where})", number)
    if np.isnan(row[k]):
        return InvalidRowError(f"{MISSING} in {where}", number)
    large = " (or a number too large for float32)" if row.dtype == np.float32 else ""
    return InvalidRowError(f"holds {'' if row[k] > 0 else 'minus '}infinity{large} in {where}", number)


class _Sums:
    """Sums with weights of one unit, added to in place."""

    __slots__ = ("bits", "features", "lower", "origin", "skipped", "squared", "sums", "upper", "weight")

    def __init__(self, features: FeatureMap, bits: int) -> None:
        self.features, self.bits = features, bits
        self.sums: npt.NDArray[Any] | None = None
        self.lower = self.upper = np.empty(0)
        self.weight = self.skipped = self.squared = 0
        self.origin = Origin()

    def add(self, part: RowSums | _Sums, squared: int, origin: Origin) -> None:
        if part.sums is None:
            return
        check_range(self.features, self.weight + part.weight)
        # which of 0.0 and -0.0 is the smaller depends on the order of the rows: the box knows one of them only
        lower, upper = part.lower + 0.0, part.upper + 0.0
        if self.sums is None:
            self.sums, self.lower, self.upper = part.sums.copy(), lower, upper
        else:
            self.sums = self.features.add_sums(self.sums, part.sums, self.sums)
            np.minimum(self.lower, lower, out=self.lower)
            np.maximum(self.upper, upper, out=self.upper)
        if part.weight or part.skipped:  # rows of weight 0 are as if they weren't there
            first = not (self.weight or self.skipped)
            self.origin = origin if first else Origin.together([self.origin, origin])
        self.weight += part.weight
        self.skipped += part.skipped
        self.squared += squared

    def exact(self) -> Sketch:
        """The sums as they are, with all their weight bits."""
        if self.sums is None:
            return Sketch.empty(self.features)
        arrays = [array.copy() for array in (self.sums, self.lower, self.upper)]
        for array in arrays:
            array.flags.writeable = False  # or the sketch would copy them once more
        sums, lower, upper = arrays
        return Sketch(
            self.features, sums, self.weight, self.bits, lower, upper, self.skipped, self.squared, origin=self.origin
        )

    @classmethod
    def of(cls, sketch: Sketch, bits: int) -> _Sums:
        made = cls(sketch.features, bits)
        if not sketch.is_empty:
            shift = bits - sketch.weight_bits
            made.sums = np.array(sketch.features.shift_sums(sketch.sums, shift))
            made.weight, made.skipped, made.squared = sketch.weight << shift, sketch.skipped, sketch.squared_weights
            made.lower, made.upper = sketch.lower + 0.0, sketch.upper + 0.0
            made.origin = sketch.origin
        return made


class Accumulator:
    """A sketch in the making: what a stream processor, a worker or a server holds.

    The sketch of what was added is the same, bit for bit, whatever the batches, their order and the accumulators they
    went through (for features with integer sums, see :class:`~sketchlearn.Sketch`).  An accumulator pickles, and
    its bytes restore it exactly.

    Parameters
    ----------
    features : FeatureMap
        The map whose features are summed.
    on_invalid : {"raise", "skip"}
        What to do with rows that hold NaN or infinity; see :func:`sketchlearn.sketch`.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=2, size=20, scale=1.0, seed=0)
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> here, there = sl.Accumulator(phi), sl.Accumulator(phi)
    >>> for row in X[:30]:
    ...     here.update(row[None])
    >>> there.update(X[30:])
    >>> here.merge(sl.Accumulator.from_bytes(there.to_bytes()))
    >>> here.count, here.sketch() == sl.sketch(X, phi)
    (100, True)
    """

    __slots__ = ("_fractional", "_whole", "features", "on_invalid")

    def __init__(self, features: FeatureMap, on_invalid: str = "raise") -> None:
        checked_map(features)
        if on_invalid not in _CHOICES:
            raise ValueError(f"on_invalid={on_invalid!r}: choose 'raise' or 'skip'")
        self.features, self.on_invalid = features, on_invalid
        # weights of both kinds are common in one stream; whole ones have the larger range
        self._whole: _Sums | None = None
        self._fractional: _Sums | None = None

    # -- adding ------------------------------------------------------------------------------

    def update(self, rows: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> None:
        """Add some rows; an error leaves the accumulator as it was.

        Parameters
        ----------
        rows : array (n, dim)
            Any number of rows, including none.
        sample_weight : array (n,) or number, optional
            Weights; see :func:`sketchlearn.sketch`.
        """
        block = as_rows(rows, "rows")
        if block.shape[1] != self.features.inputs:
            raise ValueError(
                f"the rows have {block.shape[1]} columns, the feature map was drawn for {self.features.inputs}"
            )
        weights = as_weights(sample_weight, len(block))
        if not len(block):
            return
        names = self.features.input_columns
        column = None if names is None else lambda k, _: f"column {names[k]!r}"
        try:
            self.add(summed(self.features.summer, block, weights, self.on_invalid == "skip", column))
        except RowError as error:
            raise error.placed(nowhere) from None

    def add(self, sums: Summed) -> None:
        """Add what a kernel left for some rows."""
        self._of(sums.whole).add(sums.part, sums.squared, sums.origin)

    def merge(self, other: Accumulator) -> None:
        """Add everything that another accumulator holds."""
        if not isinstance(other, Accumulator):
            raise TypeError(f"merge takes an accumulator, got {type(other).__name__}")
        if other.features is not self.features and other.features != self.features:
            raise IncompatibleSketchError(
                f"the accumulators have different feature maps: {self.features.difference(other.features)}"
            )
        for mine, theirs in ((True, other._whole), (False, other._fractional)):
            if theirs is not None:  # first look, then add: half of a merge would be worse than none
                check_range(self.features, (self._of(mine).weight if self._has(mine) else 0) + theirs.weight)
        self._share(agreed([self.features, other.features]))
        chosen = other.on_invalid == "skip"  # what is in its rows has decided how many there are
        for mine, theirs in ((True, other._whole), (False, other._fractional)):
            if theirs is not None:
                origin = replace(theirs.origin, by_content=theirs.origin.by_content or chosen)
                self._of(mine).add(theirs, theirs.squared, origin)

    def _share(self, features: FeatureMap) -> None:
        """Take an equal map, with its words and embedded frequencies."""
        self.features = features
        for part in (self._whole, self._fractional):
            if part is not None:
                part.features = features

    def _has(self, whole: bool) -> bool:
        return (self._whole if whole else self._fractional) is not None

    def _of(self, whole: bool) -> _Sums:
        if whole:
            self._whole = self._whole or _Sums(self.features, 0)
            return self._whole
        self._fractional = self._fractional or _Sums(self.features, WEIGHT_BITS)
        return self._fractional

    # -- reading -----------------------------------------------------------------------------

    def sketch(self) -> Sketch:
        """The sketch of all that was added so far."""
        parts = [part.exact().reduced() for part in (self._whole, self._fractional) if part is not None]
        total = parts[0] if len(parts) == 1 else parts[0] + parts[1] if parts else Sketch.empty(self.features)
        if self.on_invalid == "skip":  # what is in the rows decides how many count
            total = replace(total, origin=replace(total.origin, by_content=True))
        return total

    @property
    def count(self) -> int | float:
        """Number of rows so far (total weight, if weights were given); an int whenever it is whole."""
        weight = 0 if self._whole is None else self._whole.weight << WEIGHT_BITS
        weight += 0 if self._fractional is None else self._fractional.weight
        whole, rest = divmod(weight, 1 << WEIGHT_BITS)
        return whole if rest == 0 else weight / (1 << WEIGHT_BITS)

    @property
    def skipped(self) -> int:
        """Invalid rows that were left out."""
        return sum(part.skipped for part in (self._whole, self._fractional) if part is not None)

    def __repr__(self) -> str:
        return f"Accumulator({self.count:,} rows, {self.features.size} features)"

    # -- travelling --------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The whole state as bytes: a few kilobytes more than the sums."""
        both = [(part or _Sums(self.features, 0)).exact().to_bytes() for part in (self._whole, self._fractional)]
        skips = _CHOICES.index(self.on_invalid)
        data = _STATE.pack(_MAGIC, _VERSION, skips, len(both[0])) + b"".join(both)
        return data + hashlib.sha256(data).digest()

    @staticmethod
    def from_bytes(data: bytes | bytearray | memoryview) -> Accumulator:
        """Inverse of :meth:`to_bytes`; :class:`~sketchlearn.SketchFileError` for anything else."""
        data = bytes(data)
        body = data[:-32]
        if len(body) < _STATE.size or hashlib.sha256(body).digest() != data[-32:] or not data.startswith(_MAGIC):
            raise SketchFileError("these bytes are not an accumulator, or it is damaged")
        _, version, skips, length = _STATE.unpack(body[: _STATE.size])
        if version != _VERSION or skips >= len(_CHOICES):
            raise SketchFileError(f"accumulator version {version} is not known to this version of the library")
        whole = file.decode(body[_STATE.size : _STATE.size + length])
        fractional = file.decode(body[_STATE.size + length :])
        if whole.weight_bits or fractional.weight_bits > WEIGHT_BITS or whole.features != fractional.features:
            raise SketchFileError("these bytes are not an accumulator: its two sketches don't fit")
        if any(part.privacy is not None or part.noise for part in (whole, fractional)):
            raise SketchFileError("these bytes are not an accumulator: sums of rows have no noise")
        made = Accumulator(whole.features, _CHOICES[skips])
        made._whole = None if whole.is_empty else _Sums.of(whole, 0)
        made._fractional = None if fractional.is_empty else _Sums.of(fractional, WEIGHT_BITS)
        return made

    @classmethod
    def of(cls, sketch: Sketch, on_invalid: str = "raise") -> Accumulator:
        """An accumulator that goes on from a sketch."""
        made = cls(sketch.features, on_invalid)
        if sketch.privacy is not None:
            raise ValueError("rows can't be added to a released sketch: its noise is part of the guarantee")
        if sketch.noise:
            raise ValueError("rows can't be added to a sketch with known noise: sketch them alone, then add sketches")
        if sketch.weight_bits > WEIGHT_BITS:
            raise ValueError(f"weights of the sketch are finer than 2**-{WEIGHT_BITS}")
        if not sketch.is_empty:
            whole = sketch.weight_bits == 0
            part = _Sums.of(sketch, 0 if whole else WEIGHT_BITS)
            made._whole, made._fractional = (part, None) if whole else (None, part)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.features, self.to_bytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Accumulator) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # it changes


def _restored(features: FeatureMap, data: bytes) -> Accumulator:
    made = Accumulator.from_bytes(data)
    made._share(features)
    return made
