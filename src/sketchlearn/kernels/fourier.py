"""Sums of rounded Fourier features over rows: one pass, three tiers with the same bits."""

from __future__ import annotations

import threading
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels import tiers
from sketchlearn.kernels.plan import Plan, Rows, Summer, Weights, register_summer
from sketchlearn.kernels.sums import RowSums

_NO_WEIGHTS = np.empty(0, np.int64)
_NO_WEIGHTS.flags.writeable = False
_STREAM = 8  # rows: streams of so few take a shorter way


class PhaseSummer(Summer):
    """A pass that stages rows and adds something made of their phases; what, is up to the subclass.

    The plan's arrays have `center` (d,) and `rms` (d,), the root mean square of the frequencies of each column in
    radians: it decides which rows need float64, and which have no meaningful phase.

    `_staging`, `_loops`: where ``stage`` is, and ``add_near``, ``add_far`` and ``scratch`` (``count_...`` for signs).
    `_tables`: what the loops know of the frequencies. `_size`, `_padded`: features, and what the loops round that up
    to. `_width`: columns of a staged row. `_signs`: whether the signs of cosines and sines are counted, and not they
    themselves.
    """

    _staging: ModuleType
    _loops: ModuleType
    _tables: Any
    _size: int
    _padded: int
    _width: int
    _signs: bool
    _fill = 0.0

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._kept = threading.local()
        self._place = np.stack([plan.arrays["center"], plan.arrays["rms"]]).astype(np.float64)
        # box and counts of a run before its first row
        box = np.array([[[np.inf], [-np.inf]]]).repeat(plan.dim, axis=2)
        self._nothing = box, np.array([[0, -1, 0, 0, 0]], np.int64)

    @cached_property
    def _block(self) -> int:
        return max(8, min(K.BLOCK_ROWS, K.BLOCK_BYTES // (4 * self._width)))

    def _workspace(self, block: int) -> tuple[Any, ...]:
        """Buffers of a pass over blocks of so many rows; each thread keeps those of whole blocks and of a few rows."""
        kept: dict[Any, tuple[Any, ...]] = self._kept.__dict__
        if block in kept:
            return kept[block]
        near, far = np.zeros((block, self._width), np.float32), np.zeros((block, self._width))
        near[:, self.plan.dim :] = far[:, self.plan.dim :] = self._fill
        weights, ends = (np.empty(block, np.int64), np.empty(block, np.int64)), np.zeros((2, 2), np.int64)
        buffers = near, far, weights, ends, self._scratch(False), self._nothing[1].copy()
        if block <= _STREAM or block == self._block:
            kept[block] = buffers
        return buffers

    def _add(
        self, near: Rows, far: Rows, kept: tuple[Weights, Weights], counts: Weights, sums: Weights, scratch: Any
    ) -> None:
        """Add staged rows to the sums of their runs."""
        loops = self._loops
        if counts[0, -1]:
            add = loops.count_near if self._signs else loops.add_near
            add(near, kept[0], counts[0], self._tables, sums, scratch)
        if counts[1, -1]:
            add = loops.count_far if self._signs else loops.add_far
            add(far, kept[1], counts[1], self._tables, sums, self._scratch(True))

    def _scratch(self, far: bool) -> Any:
        return self._loops.scratch(far, self._signs)

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        if weights is None and 0 < len(X) <= _STREAM and type(X) is np.ndarray:
            return self._few(X, skip_invalid)
        return self._pass(X, (0, len(X)), weights, skip_invalid)[0]

    def _few(self, X: npt.NDArray[Any], skip_invalid: bool) -> RowSums:
        """A pass over a few rows: the same with as little around it as can be."""
        near, far, kept, counts, scratch, info = self._workspace(len(X))
        empty, start = self._nothing
        sums, box = np.zeros((1, 2, self._padded), np.int64), empty.copy()
        info[0], counts[1, 1] = start[0], len(X)
        rows = _frozen(X, np.float32 if X.dtype == np.float32 else np.float64)
        self._staging.stage(rows, _NO_WEIGHTS, self._place, near, far, *kept, counts, box, info)
        used, first, skipped, weight, _ = info[0].tolist()
        if first < 0 or skip_invalid:
            self._add(near, far, kept, counts, sums, scratch)
        found, sides = sums[0], box[0]
        found = found if self._size == self._padded else found[:, : self._size]
        return RowSums(found, used, weight, sides[0], sides[1], skipped, None if first < 0 else first)

    def sum_runs(
        self, X: Rows, starts: npt.NDArray[np.int64], weights: Weights | None = None, skip_invalid: bool = False
    ) -> list[RowSums]:
        return self._pass(X, np.asarray(starts, np.int64), weights, skip_invalid)

    def row_units(self, X: Rows) -> npt.NDArray[np.int64]:
        """Every row is a run of its own: the loops are those of the sums, and so are the bits."""
        return self._totals(X, np.arange(len(X) + 1), None, True)[0][:, :, : self._size]

    def _pass(
        self, X: Rows, starts: npt.NDArray[np.int64] | tuple[int, int], weights: Weights | None, skip_invalid: bool
    ) -> list[RowSums]:
        sums, box, info = self._totals(X, starts, weights, skip_invalid)
        size = self._size
        return [
            RowSums(sums[g, :, :size], rows, weight, box[g, 0], box[g, 1], skipped, None if first < 0 else first)
            for g, (rows, first, skipped, weight, _) in enumerate(info.tolist())
        ]

    def _totals(
        self, X: Rows, starts: npt.NDArray[np.int64] | tuple[int, int], weights: Weights | None, skip_invalid: bool
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Sums (runs, 2, padded size), box (runs, 2, d) and counts (runs, 5) of each run."""
        runs = len(starts) - 1
        sums = np.zeros((runs, 2, self._padded), np.int64)
        box, info = self._nothing
        box, info = (box.copy(), info.copy()) if runs == 1 else (box.repeat(runs, 0), info.repeat(runs, 0))
        begin, stop = int(starts[0]), int(starts[-1])
        block = min(self._block, max(1, stop - begin))
        near, far, kept, counts, scratch, _ = self._workspace(block)
        w = None if weights is None else np.asarray(weights)
        real = np.float32 if X.dtype == np.float32 else np.float64
        for i in range(begin, stop, block):
            end = min(i + block, stop)
            first, last = 0, runs
            if runs > 1:
                first = int(np.searchsorted(starts, i, side="right")) - 1
                last = int(np.searchsorted(starts, end, side="left"))
                counts = np.empty((2, last - first + 1), np.int64)
                np.clip(starts[first : last + 1], i, end, out=counts[1])
                counts[1] -= i
            else:
                counts[1, 1] = end - i  # staging leaves zeros in front
            here = slice(first, last)
            self._staging.stage(
                _frozen(X[i:end], real), _NO_WEIGHTS if w is None else _frozen(w[i:end], np.int64), self._place, near,
                far, *kept, counts, box[here], info[here],
            )  # fmt: skip
            if runs == 1 and info[0, 1] >= 0 and not skip_invalid:
                break
            self._add(near, far, kept, counts, sums[here], scratch)
        return sums, box, info

    def valid(self, X: Rows) -> npt.NDArray[np.bool_]:
        return np.asarray(squared_phases(np.asarray(X, np.float64), self._place)[1] <= K.MAX_PHASE**2)


@register_summer("fourier")
class FourierSummer(PhaseSummer):
    """Cosines and sines in units of 2**-22; the frequencies are `half_turns` (m, d) float32."""

    def __init__(self, plan: Plan, module: ModuleType | None = None) -> None:
        super().__init__(plan)
        self._staging = self._loops = tiers.module() if module is None else module
        half_turns = self._rows()
        self._size, self._width = half_turns.shape
        self._padded = -(-self._size // self._loops.LANES) * self._loops.LANES
        self._tables = self._loops.pack(half_turns)
        self._signs = False

    def _rows(self) -> npt.NDArray[np.float32]:
        return self.plan.arrays["half_turns"]


@register_summer("signs")
class SignSummer(FourierSummer):
    """How many cosines and sines of phases are negative; `dither` (m,) float32 is added to the phases.

    The dither is the frequency of one more column, which is 1 in every row.
    """

    _fill = 1.0

    def __init__(self, plan: Plan, module: ModuleType | None = None) -> None:
        super().__init__(plan, module)
        self._signs = True

    def _rows(self) -> npt.NDArray[np.float32]:
        return np.column_stack([self.plan.arrays["half_turns"], self.plan.arrays["dither"]])


def squared_phases(
    raw: npt.NDArray[np.float64], place: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Centred rows, and their squared rms phases in the order of the compiled staging."""
    with np.errstate(all="ignore"):
        x = raw - place[0]
        partial = np.zeros((4, len(x)))  # coordinates modulo 4, as the compiled tiers do
        for k in range(x.shape[1]):
            p = place[1, k] * x[:, k]
            partial[k % 4] += p * p
        return x, (partial[0] + partial[1]) + (partial[2] + partial[3])


def signs(t: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """One where cosine or sine of phases (half-turns) is negative, zero elsewhere, stacked."""
    return np.stack([odd(t), odd(t - t.dtype.type(0.5))])


def odd(t: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Parity of the nearest integer."""
    far = t.dtype == np.float64
    return (t + t.dtype.type(K.PARITY64 if far else K.PARITY32)).view(np.int64 if far else np.int32).astype(
        np.int64
    ) & 1


def try_tier(module: ModuleType) -> None:
    """Run a tier on one row; raises whatever goes wrong."""
    one = np.ones((1, 1), np.float32)
    arrays: dict[str, npt.NDArray[Any]] = {"half_turns": one, "center": np.zeros(1), "rms": np.ones(1)}
    FourierSummer(Plan("fourier", 1, (2, 1), np.dtype(np.int64), arrays), module).sum_rows(np.zeros((1, 1)))


def _frozen(block: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A contiguous read-only view of a block, or a copy: two compiled signatures serve rows of any kind."""
    rows = np.ascontiguousarray(block, dtype)
    rows = rows.view() if type(rows) is np.ndarray else rows.view(np.ndarray)
    flags = rows.flags
    if not flags.aligned:
        rows = rows.copy()
        flags = rows.flags
    flags.writeable = False
    return rows
