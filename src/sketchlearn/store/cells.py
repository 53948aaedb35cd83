"""Cells as columns of numbers, and sketches made of them: thousands are added up in a few operations on arrays."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sketchlearn.arrays import Array, Flags, Ints
from sketchlearn.exceptions import SketchFileError
from sketchlearn.features.base import FeatureMap
from sketchlearn.sketches import Sketch
from sketchlearn.sketches.checks import check_range
from sketchlearn.sketches.origin import ONE, PLAIN, Origin
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sketches.value import merge
from sketchlearn.sketches.weights import SQUARED_BITS, repeated
from sketchlearn.store.packing import Packed, add_into, pack_each, unpack

MISSING = np.iinfo(np.int64).min
"""The start and the stop of a cell without a time."""


@dataclass(frozen=True)
class Cells:
    """Some cells of one dataset, column by column.

    `start`, `stop`: the bucket in microseconds UTC; the smallest int64 for cells without a time. `label`, `source`:
    numbers of the groups' labels and of the source. `weight`, `weight_bits`, `skipped`: as of a
    :class:`~sketchlearn.Sketch`. `squared`: sums of squared weights where they don't follow from the weight; with the
    largest weight of a row, and whether some were fractions, where rows have weights: ``"squares:largest:fractional"``;
    and after that, where the pass bounded the rows of each user, their largest number and the column: ``":rows:user"``.
    ``"own "`` comes first if the map was designed on these rows. `noise`: known noise of the averages. `privacy`:
    records of releases as JSON. `box`: smallest and largest values, (cells, 2, dim). `sums`: the sums.
    """

    start: Ints
    stop: Ints
    label: Ints
    source: Ints
    weight: Ints
    weight_bits: Ints
    squared: list[str | None]
    skipped: Ints
    noise: Array
    privacy: list[str | None]
    box: Array
    sums: Packed

    def __len__(self) -> int:
        return len(self.start)

    @property
    def timed(self) -> bool:
        """Whether the cells have times."""
        return bool(len(self) and self.start[0] != MISSING)

    def placed(self, **columns: Any) -> Cells:
        """These cells with other keys."""
        return replace(self, **columns)


def times(values: Iterable[int | None]) -> Ints:
    """A column of moments, some of which may be missing."""
    return np.array([MISSING if v is None else v for v in values], np.int64)


def moments(column: Ints) -> list[int | None]:
    """Inverse of :func:`times`."""
    return [None if v == MISSING else v for v in column.tolist()]


def cells_of(
    sketches: Sequence[Sketch], start: Sequence[int | None], stop: Sequence[int | None], label: Sequence[int],
    source: int | Sequence[int],
) -> Cells:  # fmt: skip
    """Sketches of one map as cells."""
    n = len(sketches)
    weights = [s.weight for s in sketches]
    if max(weights) >= 2**63:
        raise OverflowError(f"a total weight of {max(weights)} units is more than a cell can hold")
    return Cells(
        start=times(start),
        stop=times(stop),
        label=np.asarray(label, np.int64),
        source=np.broadcast_to(np.asarray(source, np.int64), (n,)),
        weight=np.array(weights, np.int64),
        weight_bits=np.array([s.weight_bits for s in sketches], np.int64),
        squared=[_squared_text(s) for s in sketches],
        skipped=np.array([s.skipped for s in sketches], np.int64),
        noise=np.array([s.noise for s in sketches], np.float64),
        privacy=[None if s.privacy is None else json.dumps(s.privacy.to_json()) for s in sketches],
        box=np.stack([np.array([s.lower for s in sketches]), np.array([s.upper for s in sketches])], axis=1),
        sums=pack_each([s.sums for s in sketches]),
    )


def sketches_of(cells: Cells, features: FeatureMap) -> list[Sketch]:
    """Each cell as a sketch of its own."""
    entries = int(np.prod(features.sums_shape))
    sums = unpack(cells.sums, entries, features.sums_dtype.kind).reshape(-1, *features.sums_shape)
    out = []
    for i in range(len(cells)):
        squared, privacy = _squares(cells.squared[i]), cells.privacy[i]
        record = None if privacy is None else PrivacyRecord.from_json(json.loads(privacy))
        out.append(
            Sketch(
                features, sums[i], int(cells.weight[i]), int(cells.weight_bits[i]), cells.box[i, 0], cells.box[i, 1],
                skipped=int(cells.skipped[i]), squared_weights=squared, privacy=record,
                noise=float(cells.noise[i]), origin=_origin(cells.squared[i], int(cells.skipped[i])),
            )
        )  # fmt: skip
    return out


class Totals:
    """Sums of cells by key: batches of cells go in, a sketch for each key comes out.

    `features`: the map of all cells. `keys`: how many sketches are made.

    Notes
    -----
    Total weights are checked before sums are added (as :func:`sketchlearn.merge` does): a sum of features can't
    leave int64 unless the weight is too large for it.
    """

    def __init__(self, features: FeatureMap, keys: int) -> None:
        self.features, self.keys = features, keys
        self._entries = int(np.prod(features.sums_shape))
        self._sums: dict[int, Ints] = {}
        self._weight: dict[int, list[int]] = {}
        self._squared = [0] * keys
        self._skipped = np.zeros(keys, np.int64)
        self._largest = np.zeros(keys, np.int64)
        self._weighted, self._fractional = np.zeros(keys, bool), np.zeros(keys, bool)
        self._own_map = np.zeros(keys, bool)
        self._box = np.stack([np.full((keys, features.dim), np.inf), np.full((keys, features.dim), -np.inf)], axis=1)
        self._single: dict[int, list[Sketch]] = {}
        self._unbounded = np.zeros(keys, bool)
        self._users: dict[int, tuple[set[str | None], dict[int, int]]] = {}

    def add(self, cells: Cells, codes: Ints, factors: Ints | None = None, factor_bits: int = 0) -> None:
        """Add cells to the keys `codes`; `factors` are weights of the cells in units of ``2**-factor_bits``.

        Cells of negative keys are left out.
        """
        if (codes < 0).any():
            chosen = np.flatnonzero(codes >= 0)
            cells, codes = _subset(cells, chosen), codes[chosen]
            factors = None if factors is None else factors[chosen]
        if not len(cells):
            return
        one_by_one = any(p is not None for p in cells.privacy) or self.features.sums_dtype.kind != "i"
        if one_by_one or cells.noise.any():
            if factors is not None:
                raise ValueError("cells that were released, or whose sums are not whole numbers, can't be weighted")
            for code, s in zip(codes.tolist(), sketches_of(cells, self.features), strict=True):
                self._single.setdefault(code, []).append(s)
            return
        for bits in np.unique(cells.weight_bits).tolist():
            chosen = np.flatnonzero(cells.weight_bits == bits)
            self._add(cells if len(chosen) == len(cells) else _subset(cells, chosen), codes[chosen],
                      None if factors is None else factors[chosen], bits, factor_bits)  # fmt: skip
        self._add_origins(cells, codes, factors, factor_bits)
        self._add_users(cells, codes)
        np.add.at(self._skipped, codes, cells.skipped)
        np.minimum.at(self._box[:, 0], codes, cells.box[:, 0])
        np.maximum.at(self._box[:, 1], codes, cells.box[:, 1])

    def _add_origins(self, cells: Cells, codes: Ints, factors: Ints | None, factor_bits: int) -> None:
        """Remember the largest weight of a row behind each key, and whether some were fractions."""
        origins = [_origin(text, 0) for text in cells.squared]
        np.logical_or.at(self._own_map, codes, [origin.own_map for origin in origins])
        largest = np.array([origin.largest for origin in origins], np.int64)
        weighted = np.array([origin.by_content for origin in origins], bool)
        fractional = np.array([origin.fractional for origin in origins], bool)
        if factors is not None:
            one = 1 << factor_bits
            largest = np.array(
                [(w * f) >> factor_bits for w, f in zip(largest.tolist(), factors.tolist(), strict=True)]
            )
            weighted, fractional = weighted | (factors != one), fractional | (factors % one != 0)
        np.maximum.at(self._largest, codes, largest)
        np.logical_or.at(self._weighted, codes, weighted)
        np.logical_or.at(self._fractional, codes, fractional)

    def _add_users(self, cells: Cells, codes: Ints) -> None:
        """Remember how many rows of one user each source has let in.

        All cells of a source are of one pass, which bounds them together; what was rolled up from several is of many.
        """
        bounded = np.array([text is not None and text.count(":") > 2 for text in cells.squared], bool)
        self._unbounded[codes[~bounded]] = True
        for i in np.flatnonzero(bounded).tolist():
            origin, source = _origin(cells.squared[i], 0), int(cells.source[i])
            names, most = self._users.setdefault(int(codes[i]), (set(), {}))
            names.add(origin.user)
            before, here = most.get(source, 0), origin.rows_per_user or 0
            most[source] = max(before, here) if source else before + here

    def _bound(self, key: int) -> dict[str, Any]:
        """The user column and the most rows of one user behind a key, if all its cells know them."""
        names, most = self._users.get(key, (set(), {}))
        if self._unbounded[key] or len(names) != 1:
            return {}
        return {"user": next(iter(names)), "rows_per_user": sum(most.values())}

    def _add(self, cells: Cells, codes: Ints, factors: Ints | None, bits: int, factor_bits: int) -> None:
        total_bits = bits + factor_bits
        plain = np.array([text is None for text in cells.squared])
        for i in np.flatnonzero(~plain).tolist():
            self._squared[codes[i]] += _weighted(_squares(cells.squared[i]), factors, i, factor_bits)
        weights = _by_key(cells.weight, codes, self.keys, plain)
        if factors is None:
            for key, weight in weights.items():
                self._squared[key] += repeated(weight, bits)
            totals = _by_key(cells.weight, codes, self.keys)
        else:
            totals = dict.fromkeys(np.unique(codes).tolist(), 0)
            for factor in np.unique(factors).tolist():
                alike = factors == factor
                for key, weight in _by_key(cells.weight, codes, self.keys, plain & alike).items():
                    self._squared[key] += _square(repeated(weight, bits), factor, factor_bits)
                for key, weight in _by_key(cells.weight, codes, self.keys, alike).items():
                    totals[key] += weight * factor
        known = self._weight.setdefault(total_bits, [0] * self.keys)
        for key, weight in totals.items():
            known[key] += weight
            check_range(self.features, known[key])
        sums = self._sums.get(total_bits)
        if sums is None:
            sums = self._sums[total_bits] = np.zeros((self.keys, self._entries), np.int64)
        try:
            add_into(sums, cells.sums, codes, factors)
        except ValueError as error:
            raise SketchFileError(f"a cell of the store: {error}") from None

    def sketches(self) -> list[Sketch]:
        """A sketch for each key; the empty one for keys without cells."""
        out = []
        for key in range(self.keys):
            parts = [self._at_bits(key, bits) for bits in sorted(self._sums) if self._weight[bits][key]]
            made = merge(parts) if parts else Sketch.empty(self.features)
            if parts or self._skipped[key]:
                made = replace(
                    made, skipped=int(self._skipped[key]), squared_weights=self._squared[key] if parts else -1,
                    lower=self._box[key, 0] + 0.0, upper=self._box[key, 1] + 0.0,
                    origin=Origin(
                        int(self._largest[key]), bool(self._fractional[key]),
                        bool(self._weighted[key] or self._skipped[key]), own_map=bool(self._own_map[key]),
                        **self._bound(key),
                    ) if parts else PLAIN,
                ).reduced()  # fmt: skip
            problem = self.features.impossible(made.sums, made.weight)
            if problem and not self._single:
                raise SketchFileError(f"the store is damaged: {problem}")
            others = self._single.get(key, [])
            out.append(merge([*([] if made.is_empty else [made]), *others]) if others else made)
        return out

    def singles(self) -> list[Sketch]:
        """Sketches that can't be added without saying more about them (releases), with what was added."""
        rest = [s for s in self.sketches() if not s.is_empty] if not self._single else []
        return [*rest, *(s for part in self._single.values() for s in part)]

    def _at_bits(self, key: int, bits: int) -> Sketch:
        empty = Sketch.empty(self.features)
        sums = self._sums[bits][key].reshape(self.features.sums_shape)
        return replace(empty, sums=sums, weight=self._weight[bits][key], weight_bits=bits, squared_weights=-1)


_OWN = "own "


def _squared_text(s: Sketch) -> str | None:
    """Squares of weights, and how rows were weighted, where either does not follow from the total weight."""
    origin, follows = s.origin, s.squared_weights == repeated(s.weight, s.weight_bits)
    if origin.largest == ONE and not (origin.fractional or origin.own_map) and origin.rows_per_user is None:
        return None if follows else str(s.squared_weights)
    text = f"{_OWN * origin.own_map}{s.squared_weights}:{origin.largest}:{int(origin.fractional)}"
    return text if origin.rows_per_user is None else f"{text}:{origin.rows_per_user}:{origin.user or ''}"


def _squares(text: str | None) -> int:
    """The sum of squared weights; -1 where it follows from the weight."""
    return -1 if text is None else int(text.removeprefix(_OWN).partition(":")[0])


def _origin(text: str | None, skipped: int) -> Origin:
    """How the rows of a cell were weighted; which cells are asked for is up to the query."""
    own = text is not None and text.startswith(_OWN)
    parts = [] if text is None else text.removeprefix(_OWN).split(":", 4)
    if len(parts) < 3:
        return Origin(by_content=bool(parts) or skipped > 0)
    users = {} if len(parts) < 5 else {"rows_per_user": int(parts[3]), "user": parts[4] or None}
    largest, fractional = int(parts[1]), parts[2] == "1"
    plain = own and not (users or fractional or skipped) and largest == ONE
    return Origin(largest, fractional, by_content=not plain, own_map=own, **users)  # type: ignore[arg-type]


def _by_key(weights: Ints, codes: Ints, keys: int, chosen: Flags | None = None) -> dict[int, int]:
    """Sums of weights by key, for the keys that occur; in halves of 32 bits, which can't overflow."""
    if chosen is not None:
        weights, codes = weights[chosen], codes[chosen]
    if not len(weights):
        return {}
    low, high = np.zeros(keys, np.int64), np.zeros(keys, np.int64)
    np.add.at(low, codes, weights & 0xFFFFFFFF)
    np.add.at(high, codes, weights >> 32)
    return {key: (int(high[key]) << 32) + int(low[key]) for key in np.unique(codes).tolist()}


def _square(squared: int, factor: int, factor_bits: int) -> int:
    """Sum of squared weights of rows whose weights were multiplied; those of weight 1 count as rows."""
    return squared if factor == 1 << factor_bits else (squared * factor * factor) >> (2 * factor_bits)


def _weighted(squared: int, factors: Ints | None, i: int, factor_bits: int) -> int:
    return squared if factors is None else _square(squared, int(factors[i]), factor_bits)


def _subset(cells: Cells, chosen: Ints) -> Cells:
    lists = chosen.tolist()
    strings = cells.sums.strings()
    return Cells(
        cells.start[chosen], cells.stop[chosen], cells.label[chosen], cells.source[chosen], cells.weight[chosen],
        cells.weight_bits[chosen], [cells.squared[i] for i in lists], cells.skipped[chosen], cells.noise[chosen],
        [cells.privacy[i] for i in lists], cells.box[chosen], Packed.of([strings[i] for i in lists]),
    )  # fmt: skip


def weights_of_ages(ages: Array, rows: float, features: FeatureMap) -> tuple[Ints, int]:
    """Weights ``2**-age`` on a grid, and the bits of the grid: as fine as exact sums of so many rows allow."""
    bound = features.entry_bound
    if bound is None:
        raise ValueError("forgetting needs sums of whole numbers: quadratic features need a radius")
    for bits in range(SQUARED_BITS // 2, 3, -1):
        if rows * 2.0**bits * bound < 2.0**62:
            return np.rint(2.0 ** (bits - ages)).astype(np.int64), bits
    raise OverflowError(f"{rows:,.0f} rows are too many for exact weighted sums: select fewer")
