"""Sums of rounded Fourier features over rows: one pass, three tiers with the same bits."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels import tiers
from sketchlearn.kernels._numpy import squared_phases
from sketchlearn.kernels.plan import Plan, Rows, Summer, Weights, register_summer
from sketchlearn.kernels.sums import RowSums

_NO_WEIGHTS = np.empty(0, np.int64)


@register_summer("fourier")
class FourierSummer(Summer):
    """Cosines and sines in units of 2**-22.

    The plan's arrays are `half_turns` (m, d) float32, `center` (d,) and `rms` (d,), the root mean square of the
    frequencies of each column in radians: it decides which rows need float64, and which have no meaningful phase.
    """

    def __init__(self, plan: Plan, module: ModuleType | None = None) -> None:
        super().__init__(plan)
        self._module = tiers.module() if module is None else module
        half_turns = plan.arrays["half_turns"]
        self._size = len(half_turns)
        self._padded = -(-self._size // self._module.LANES) * self._module.LANES
        self._panels = self._module.pack(half_turns)
        self._place = np.stack([plan.arrays["center"], plan.arrays["rms"]]).astype(np.float64)
        self._block = max(8, min(K.BLOCK_ROWS, K.BLOCK_BYTES // (4 * plan.dim)))

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        return self._pass(X, np.array([0, len(X)]), weights, skip_invalid)[0]

    def sum_runs(
        self, X: Rows, starts: npt.NDArray[np.int64], weights: Weights | None = None, skip_invalid: bool = False
    ) -> list[RowSums]:
        return self._pass(X, np.asarray(starts, np.int64), weights, skip_invalid)

    def row_units(self, X: Rows) -> npt.NDArray[np.int64]:
        """Every row is a run of its own: the loops are those of the sums, and so are the bits."""
        return self._totals(X, np.arange(len(X) + 1), None, True)[0][:, :, : self._size]

    def _pass(
        self, X: Rows, starts: npt.NDArray[np.int64], weights: Weights | None, skip_invalid: bool
    ) -> list[RowSums]:
        sums, box, info = self._totals(X, starts, weights, skip_invalid)
        return [
            RowSums(
                sums=sums[g, :, : self._size],
                rows=int(info[g, 0]),
                weight=int(info[g, 3]),
                lower=box[g, 0],
                upper=box[g, 1],
                skipped=int(info[g, 2]),
                first_invalid=None if info[g, 1] < 0 else int(info[g, 1]),
            )
            for g in range(len(starts) - 1)
        ]

    def _totals(
        self, X: Rows, starts: npt.NDArray[np.int64], weights: Weights | None, skip_invalid: bool
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Sums (runs, 2, padded size), box (runs, 2, d) and counts (runs, 5) of each run."""
        tier, runs, d = self._module, len(starts) - 1, self.plan.dim
        sums = np.zeros((runs, 2, self._padded), np.int64)
        box = np.empty((runs, 2, d))
        box[:, 0], box[:, 1] = np.inf, -np.inf
        info = np.zeros((runs, 5), np.int64)
        info[:, 1] = -1
        block = min(self._block, max(1, int(starts[-1] - starts[0])))
        near, far = np.empty((block, d), np.float32), np.empty((block, d))
        kept = np.empty((2, block), np.int64)
        scratch = np.empty((2, d)), tier.scratch(False)
        w = _NO_WEIGHTS if weights is None else np.asarray(weights)
        real = np.float32 if X.dtype == np.float32 else np.float64
        for i in range(int(starts[0]), int(starts[-1]), block):
            end = min(i + block, int(starts[-1]))
            first, last = 0, runs
            if runs > 1:
                first = int(np.searchsorted(starts, i, side="right")) - 1
                last = int(np.searchsorted(starts, end, side="left"))
            counts = np.empty((2, last - first + 1), np.int64)
            np.clip(starts[first : last + 1], i, end, out=counts[1])
            counts[1] -= i
            here = slice(first, last)
            tier.stage(
                _frozen(X[i:end], real), _frozen(w[i:end], np.int64), self._place, near, far, *kept, counts,
                box[here], info[here], scratch[0],
            )  # fmt: skip
            if runs == 1 and info[0, 1] >= 0 and not skip_invalid:
                break
            if counts[0, -1]:
                tier.add_near(near, kept[0], counts[0], self._panels, sums[here], scratch[1])
            if counts[1, -1]:
                tier.add_far(far, kept[1], counts[1], self._panels, sums[here], tier.scratch(True))
        return sums, box, info

    def valid(self, X: Rows) -> npt.NDArray[np.bool_]:
        return np.asarray(squared_phases(np.asarray(X, np.float64), self._place)[1] <= K.MAX_PHASE**2)


def try_tier(module: ModuleType) -> None:
    """Run a tier on one row; raises whatever goes wrong."""
    one = np.ones((1, 1), np.float32)
    arrays: dict[str, npt.NDArray[Any]] = {"half_turns": one, "center": np.zeros(1), "rms": np.ones(1)}
    FourierSummer(Plan("fourier", 1, (2, 1), np.dtype(np.int64), arrays), module).sum_rows(np.zeros((1, 1)))


def _frozen(block: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A contiguous read-only view of a block, or a copy: two compiled signatures serve rows of any kind."""
    rows = np.ascontiguousarray(block, dtype).view(np.ndarray)
    if not rows.flags.aligned:
        rows = rows.copy()
    rows.flags.writeable = False
    return rows
