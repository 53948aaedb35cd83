"""Sums where each row contributes one group of the features, on devices: rows are hashed, sorted and summed there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels.cuda import source
from sketchlearn.kernels.cuda.device import Device, Lane, OutOfDeviceMemory
from sketchlearn.kernels.cuda.placement import Placement, too_little
from sketchlearn.kernels.cuda.rows import DeviceRows, HostRows, rows_of
from sketchlearn.kernels.cuda.source import TILE
from sketchlearn.kernels.cuda.summer import CudaSummer
from sketchlearn.kernels.plan import Plan, Rows, Summer, Weights
from sketchlearn.kernels.subsampled import first_invalid, joined, part_plans
from sketchlearn.kernels.sums import RowSums

_PIECE_BYTES = 2**29  # of rows that are sorted at a time
_FEWEST_ROWS = 1024


class SubsampledDeviceSummer(Summer):
    """The sums of :class:`sketchlearn.kernels.subsampled.SubsampledSummer` on one or several devices, bit for bit.

    `plan`: of the kind "subsampled". `on`: devices to use.
    """

    def __init__(self, plan: Plan, on: Sequence[Device]) -> None:
        super().__init__(plan)
        self._starts, plans = part_plans(plan)
        self._placement = Placement(on)
        self._parts = [CudaSummer(part, on) for part in plans]

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        rows = rows_of(X)
        with self._placement.device_for(rows) as device:
            step = max(_FEWEST_ROWS, _PIECE_BYTES // (rows.dtype.itemsize * self.plan.dim))
            while True:
                try:
                    found = list(self._pieces(device, rows, weights, step))
                    break
                except OutOfDeviceMemory as error:
                    device.release()
                    step = min(step, len(rows))
                    if step <= _FEWEST_ROWS:
                        raise MemoryError(too_little(error)) from None
                    step = max(_FEWEST_ROWS, step // 4)
        return joined(
            self.plan, self._starts, found, skip_invalid, lambda: first_invalid(self, rows.to_host(), weights)
        )

    def valid(self, X: Rows) -> npt.NDArray[np.bool_]:
        return self._parts[0].valid(X)

    def _pieces(
        self, device: Device, rows: HostRows | DeviceRows, weights: Weights | None, step: int
    ) -> Iterator[tuple[int, RowSums]]:
        for begin in range(0, len(rows), step):
            piece = rows.array[begin : begin + step]
            w = None if weights is None else np.asarray(weights, np.int64)[begin : begin + step]
            # what the parts read stays in the lane's hands as long as they read it
            with device.lane() as lane:
                yield from self._sums(device, lane, rows, piece, w)

    def _sums(
        self, device: Device, lane: Lane, rows: HostRows | DeviceRows, piece: npt.NDArray[np.floating],
        weights: Weights | None,
    ) -> Iterator[tuple[int, RowSums]]:  # fmt: skip
        n = len(piece)
        with device.arrays(lane) as xp:
            there = piece if isinstance(rows, DeviceRows) else device.view(lane.send("rows to sort", piece), piece)
            view = DeviceRows(device.held(there))
            address, row_stride, column_stride, _ = view.on(lane, 0, 0, n)
            numbers = lane.buffer("picked", 4 * n)
            picked = device.view(numbers, np.empty(n, np.int32))
            real = "float" if rows.dtype == np.float32 else "double"
            kernel = device.kernel(source.rows(self.plan.dim), f"pick_{real}")
            groups = len(self._parts)
            seed = np.uint64(int(self.plan.numbers["seed"])).view(np.int64)
            lane.launch(
                kernel,
                (min(-(-n // TILE), 8 * device.resident(kernel, TILE)), 1),
                TILE,
                (
                    address, np.int64(row_stride), np.int64(column_stride), np.int64(n), seed, np.int64(groups),
                    numbers,
                ),
            )  # fmt: skip
            order = xp.argsort(picked)
            counts = _host(xp.bincount(picked, minlength=groups))
            ordered = there[order]
            places = None if weights is None else _host(order)
        lane.finish()  # the parts have lanes of their own
        ends = np.cumsum(counts)
        for g, part in enumerate(self._parts):
            begin, end = int(ends[g] - counts[g]), int(ends[g])
            if begin < end:
                w = None if weights is None or places is None else weights[places[begin:end]]
                yield g, part.sum_rows(DeviceRows(device.held(ordered[begin:end])), w, True)  # type: ignore[arg-type]


def _host(array: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    return np.asarray(array.get() if hasattr(array, "get") else array)
