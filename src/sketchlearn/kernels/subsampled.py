"""Sums where each row contributes one group of the features; which one, follows from its content.

Rows are sorted by their group, and each group is an ordinary pass over its rows: cost falls by the number of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from sketchlearn.arrays import AnyArray, Flags, Ints
from sketchlearn.kernels import tiers
from sketchlearn.kernels.plan import Plan, Rows, Summer, Weights, prepare, register_summer
from sketchlearn.kernels.sums import RowSums

_NO_WEIGHTS = np.empty(0, np.int64)
_FEATURES, _BLOCKS = ("half_turns", "radius", "dither"), ("signs", "normals", "permutation")


@register_summer("subsampled")
class SubsampledSummer(Summer):
    """Sums of the plan `base` (a kind), by groups: cosines, sines, then the weight of the rows in each group.

    The plan's numbers are `base`, `per_row` (features of a group), `seed` and those of the base; its arrays are
    those of the base, for all features.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._starts, plans = part_plans(plan)
        self._parts = [prepare(part) for part in plans]

    def groups(self, X: Rows) -> Ints:
        """The group of each row."""
        return self._picked(_rows(X))

    def _picked(self, rows: Rows) -> Ints:
        out = np.empty(len(rows), np.int64)
        seed = np.uint64(int(self.plan.numbers["seed"]))
        tiers.loops("hash").pick(rows, seed, np.uint64(len(self._parts)), out)
        return out

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        parts = ((g, self._parts[g].sum_rows(chosen, w, True)) for g, chosen, w in self._sorted(_rows(X), weights))
        return joined(self.plan, self._starts, parts, skip_invalid, lambda: first_invalid(self, X, weights))

    def _sorted(self, X: Rows, weights: Weights | None) -> Iterator[tuple[int, Rows, Weights | None]]:
        """Rows and weights by group, as many groups as there are rows of."""
        group, ends = self._picked(X), np.zeros(len(self._parts), np.int64)
        w = _NO_WEIGHTS if weights is None else np.ascontiguousarray(weights, np.int64)
        rows, kept = np.empty(X.shape, X.dtype), np.empty(len(w), np.int64)
        tiers.loops("hash").gather(X, w, group, ends, rows, kept)
        for g, (a, b) in enumerate(pairwise([0, *ends.tolist()])):
            if a < b:
                yield g, rows[a:b], None if weights is None else kept[a:b]

    def valid(self, X: Rows) -> Flags:
        return self._parts[0].valid(X)


def _rows(X: Rows) -> Rows:
    """Contiguous rows of a type that loops are compiled for, read-only."""
    rows = np.ascontiguousarray(X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)).view(np.ndarray)
    rows.flags.writeable = False
    return rows


def part_plans(plan: Plan) -> tuple[list[int], list[Plan]]:
    """Where the groups of features begin (and end), and the plan of each."""
    first = next(plan.arrays[name] for name in _FEATURES if name in plan.arrays)
    size, step = len(first), int(plan.numbers["per_row"])
    starts, p = [*range(0, size, step), size], int(plan.numbers.get("p", 1))
    kind = str(plan.numbers["base"])
    return starts, [
        Plan(kind, plan.dim, (2, b - a), plan.sums_dtype, _part(plan.arrays, a, b, p), plan.numbers)
        for a, b in pairwise(starts)
    ]


def joined(
    plan: Plan,
    starts: Sequence[int],
    parts: Iterable[tuple[int, RowSums]],
    skip_invalid: bool,
    stopped_at: Callable[[], int],
) -> RowSums:
    """The sums of all groups from those of some; `stopped_at` is asked for the first invalid row if there is one."""
    size = starts[-1]
    sums = np.zeros(plan.sums_shape, np.int64)
    lower, upper = np.full(plan.dim, np.inf), np.full(plan.dim, -np.inf)
    rows = weight = skipped = 0
    for g, found in parts:
        if found.skipped and not skip_invalid:
            return RowSums.stopped(stopped_at())
        a, b = starts[g], starts[g + 1]
        sums[a:b] += found.sums[0]
        sums[size + a : size + b] += found.sums[1]
        sums[2 * size + g] += found.weight
        np.minimum(lower, found.lower, out=lower)
        np.maximum(upper, found.upper, out=upper)
        rows, weight, skipped = rows + found.rows, weight + found.weight, skipped + found.skipped
    return RowSums(sums, rows, weight, lower, upper, skipped, None)


def first_invalid(summer: Summer, X: Rows, weights: Weights | None) -> int:
    """The first row with a weight that has no features."""
    present = np.ones(len(X), bool) if weights is None else np.asarray(weights) != 0
    return int(np.argmax(present & ~summer.valid(X)))


def _part(arrays: Mapping[str, AnyArray], a: int, b: int, p: int) -> dict[str, AnyArray]:
    """The arrays of features a to b."""
    out = dict(arrays)
    for name in _FEATURES:
        if name in out:
            out[name] = out[name][a:b]
    for name in _BLOCKS:
        if name in out and out[name].size:
            out[name] = out[name][a // p : -(-b // p)]
    return out
