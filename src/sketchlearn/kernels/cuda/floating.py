"""Quadratic sums without a radius on a device: no grid, so the promise is one of precision, not of bits.

As on the CPU, sums are made about a provisional centre and put about the map's in pairs of float64 numbers.  All is
done in float64, projections too, so the sums are at least as close as the CPU's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.arrays import AnyArray, Array, Flags
from sketchlearn.kernels import _float_pass
from sketchlearn.kernels.cuda.device import Device, Lane, OutOfDeviceMemory
from sketchlearn.kernels.cuda.placement import Placement, too_little
from sketchlearn.kernels.cuda.rows import DeviceRows, HostRows, rows_of
from sketchlearn.kernels.pairs import add
from sketchlearn.kernels.plan import Plan, Rows, Summer, Weights, prepare
from sketchlearn.kernels.sums import RowSums

_BLOCK_BYTES = 2**26  # of rows, or of their projections, in float64
_FEWEST_BYTES = 2**20
_SURE = 1e130  # rows whose entries are smaller are valid, whatever their number


@dataclass
class _Collected:
    offset: Array
    linear: Array
    weight: float
    lower: AnyArray
    upper: AnyArray


class FloatSummer(Summer):
    """Sums of squares or products of columns in float64, on one or several devices.

    `plan`: of the kind "squares" or "products", without a radius. `on`: devices to use.
    """

    def __init__(self, plan: Plan, on: Sequence[Device]) -> None:
        super().__init__(plan)
        self._placement = Placement(on)
        self._center = np.array(plan.arrays["center"], np.float64)
        self._directions = plan.arrays.get("directions")
        self._host = prepare(plan)
        self._fold = (
            _float_pass.fold_products if self._directions is None else _float_pass.fold_squares(self._directions)
        )

    def valid(self, X: Rows) -> Flags:
        return self._host.valid(rows_of(X).to_host())

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        rows, block = rows_of(X), _BLOCK_BYTES
        while True:
            try:
                with self._placement.device_for(rows) as device, device.lane() as lane:
                    return self._sum(device, lane, rows, weights, skip_invalid, block)
            except OutOfDeviceMemory as error:
                device.release()
                if block <= _FEWEST_BYTES:
                    raise MemoryError(too_little(error)) from None
                block //= 4

    def _sum(
        self, device: Device, lane: Lane, rows: HostRows | DeviceRows, weights: Weights | None, skip: bool, block: int
    ) -> RowSums:
        with device.arrays(lane) as xp:
            if isinstance(rows, DeviceRows):
                there = rows.array
            else:
                there = device.view(lane.send("floats", rows.array), rows.array)
            index = np.arange(len(rows))
            if weights is not None:
                index = np.flatnonzero(weights)
                weights = np.asarray(weights, np.int64)[index]
                there = there if len(index) == len(rows) else there[xp.asarray(index)]
            skipped = 0
            peak = float(xp.abs(there).max()) if len(index) else 0.0
            if not peak < _SURE:  # NaN, infinity, or rows that may be too long: the processor decides
                good = self._host.valid(rows.to_host()[index])
                if not good.all():
                    if not skip:
                        return RowSums.stopped(index[int(np.argmin(good))])
                    skipped = int((~good).sum())
                    index, there = index[good], there[xp.asarray(np.flatnonzero(good))]
                    weights = None if weights is None else weights[good]
            return self._moments(xp, there, weights, skipped, block)

    def _moments(self, xp: Any, there: Any, weights: Weights | None, skipped: int, block: int) -> RowSums:
        n, d = there.shape
        width = d if self._directions is None else max(d, len(self._directions))
        step = max(1, block // (8 * width))
        shift = self._center.copy()
        lower, upper = np.full(d, np.inf), np.full(d, -np.inf)
        if n:
            shift = _host(there[:4096].astype(np.float64).mean(0))
            lower, upper = _host(there.min(0)).astype(np.float64), _host(there.max(0)).astype(np.float64)
        # a power of two, or squares of tiny rows would vanish and those of large ones overflow
        peak = float(np.maximum(upper - shift, shift - lower).max(initial=0.0)) if n else 0.0
        scale = 2.0 ** -math.floor(math.log2(peak)) if peak > 1e-140 else 1.0
        about = xp.asarray(shift)
        directions = None if self._directions is None else xp.asarray(self._directions.T.astype(np.float64))
        sums: Any = xp.zeros((d, d) if directions is None else directions.shape[1])
        linear = xp.zeros(d)
        for i in range(0, n, step):
            u = (there[i : i + step].astype(np.float64) - about) * scale
            if weights is not None:
                w = xp.asarray(weights[i : i + step].astype(np.float64))
                linear += w @ u
                u *= xp.sqrt(w)[:, None]
            else:
                linear += u.sum(0)
            if directions is None:
                sums += u.T @ u
            else:
                t = u @ directions
                t *= t
                sums += t.sum(0)
        weight = n if weights is None else int(weights.sum())
        made = _host(sums)
        if directions is None:
            made = made[np.triu_indices(d)]
        chunk = _Collected(shift - self._center, _host(linear) / scale, float(weight), lower, upper)
        part = _float_pass.put_back(chunk, made / scale**2, 0.0, self._fold, n, weight, skipped)
        second = int(self.plan.numbers.get("second", 0))
        if not second:
            return part
        half = len(made) // 2
        squares = add(part.sums[:, :half], second * part.sums[:, half : 2 * half])
        return part.with_sums(np.concatenate([squares, part.sums[:, 2 * half :]], axis=1))


def _host(array: Any) -> AnyArray:
    return np.asarray(array.get() if hasattr(array, "get") else array)
