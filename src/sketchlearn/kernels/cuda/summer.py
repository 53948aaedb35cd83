"""Sums on graphics processors: what :func:`sketchlearn.kernels.prepare` is for the CPU.

A call takes rows of the host (copied by way of pinned memory) or of the device (read where they are), cuts them into
tiles, and starts three kernels for each chunk of tiles: staging, sums, and sums of far rows.  Nothing comes back but
the sums, so a call that is given many rows does not wait for the device until the end.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels.cuda import source, structured
from sketchlearn.kernels.cuda.device import Device, Lane, OutOfDeviceMemory, devices
from sketchlearn.kernels.cuda.placement import Placement, too_little
from sketchlearn.kernels.cuda.recipes import ZERO_BITS, Recipe, recipe_of
from sketchlearn.kernels.cuda.rows import DeviceRows, HostRows, rows_of
from sketchlearn.kernels.cuda.source import TILE, Shape
from sketchlearn.kernels.plan import Plan, Rows, Summer, Weights, prepare
from sketchlearn.kernels.sums import RowSums

_STAGED_BYTES = 2**29  # of a chunk of rows that are on the device
_COPIED_BYTES = 2**27  # of a chunk of rows that come from the host
_FEWEST_TILES = 8
_USED, _SKIPPED, _NEAR, _FIRST_INVALID, _WEIGHT, _NEAR_WEIGHT, _COUNTS = range(7)

_View = tuple[int, np.int64, np.int64]
_TileTable = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]


class _Tables:
    """Arrays of a plan on one device, and its kernels."""

    def __init__(self, device: Device, recipe: Recipe) -> None:
        self.device, shape = device, recipe.shape
        self._kept: list[Any] = []
        self.center = self.origin = self._put(np.ascontiguousarray(recipe.center, np.float64))
        self.factors = self._put(recipe.factors)
        self.whitening = 0
        if recipe.whitening is not None:
            self.whitening = self._put(np.ascontiguousarray(recipe.whitening.T))
            self.origin = self._put(np.zeros(shape.dim))
        # what the kernels for near and for far rows know of the frequencies
        self.near: tuple[int, int] = 0, 0
        self.far: tuple[int, int] = 0, 0
        if recipe.structured is not None:
            self.near = self._blocks(recipe, source.EACH_LOG)
            if not shape.clipped:
                self.far = self._blocks(recipe, source.FAR_EACH_LOG)
        elif recipe.frequencies is not None:
            scales = 0
            if recipe.scales is not None:
                padded = np.ones(-(-recipe.size // shape.columns) * shape.columns, np.float32)
                padded[: recipe.size] = recipe.scales
                scales = self._put(padded)
            # shapes for rows with and without weights differ in nothing that is seen here
            self.near = self._put(shape.arrange(recipe.frequencies)), scales
            if not shape.clipped:
                self.far = self._put(np.ascontiguousarray(recipe.frequencies.T)), scales

    def _blocks(self, recipe: Recipe, each_log: int) -> tuple[int, int]:
        blocks = recipe.structured
        assert blocks is not None
        log = recipe.shape.columns.bit_length() - 1
        planes = structured.arrange(
            log, each_log, blocks.stretch, blocks.diagonals, blocks.radius, recipe.scales
        )  # fmt: skip
        permutation = structured.arrange_permutation(log, each_log, blocks.permutation)
        return self._put(planes), self._put(permutation) if permutation.size else 0

    def _put(self, array: npt.NDArray[Any] | None) -> int:
        if array is None:
            return 0
        address, keep = self.device.constant(array)
        self._kept.append(keep)
        return address

    def grid(self, kernel: Any, threads: int, blocks: int, tiles: int) -> tuple[int, int]:
        """Blocks along the frequencies, and as many along the rows as fill the device evenly."""
        resident = self.device.resident(kernel, threads)
        best, share = 1, 0.0
        for waves in range(1, 9):
            rows = waves * resident // blocks
            if rows >= 1:
                filled = blocks * rows / (waves * resident)
                if filled > share + 0.02:
                    best, share = rows, filled
        return blocks, max(1, min(best, tiles, 65535))


class CudaSummer(Summer):
    """Sums features of rows on one or several devices; the bytes are those of the CPU.

    Any number of threads may call it at once: each call has a lane of its own, on the device that has least to do (or
    where its rows are).

    `on`: devices to use; all that are visible by default.
    """

    def __init__(self, plan: Plan, on: Sequence[Device] | None = None) -> None:
        super().__init__(plan)
        self._recipe = recipe_of(plan)
        self._placement = Placement(devices() if on is None else on)
        self._tables: dict[int, _Tables] = {}
        self._lock = threading.Lock()

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        return self._pass(X, np.array([0, len(X)], np.int64), weights)[0]

    def sum_runs(
        self, X: Rows, starts: npt.NDArray[np.int64], weights: Weights | None = None, skip_invalid: bool = False
    ) -> list[RowSums]:
        return self._pass(X, np.asarray(starts, np.int64), weights) if len(starts) > 1 else []

    def valid(self, X: Rows) -> npt.NDArray[np.bool_]:
        return prepare(self.plan).valid(rows_of(X).to_host())

    # -- one call ----------------------------------------------------------------------------

    def _pass(self, X: Rows, starts: npt.NDArray[np.int64], weights: Weights | None) -> list[RowSums]:
        rows = rows_of(X)
        with self._placement.device_for(rows) as device:
            limit = None
            while True:
                try:
                    return self._attempt(device, rows, starts, weights, limit)
                except OutOfDeviceMemory as error:
                    # smaller chunks first; what the attempt has summed is thrown away
                    tiles = _STAGED_BYTES // self._tile_bytes() if limit is None else limit
                    device.release()
                    if tiles <= _FEWEST_TILES:
                        raise MemoryError(too_little(error)) from None
                    limit = max(_FEWEST_TILES, min(tiles, -(-len(rows) // TILE)) // 4)

    def _tables_on(self, device: Device) -> _Tables:
        with self._lock:
            if device.number not in self._tables:
                self._tables[device.number] = _Tables(device, self._recipe)
            return self._tables[device.number]

    def _tile_bytes(self) -> int:
        shape = self._recipe.shape
        return TILE * (4 * shape.padded + 28 + (0 if self._recipe.whitening is None else 8 * shape.dim + 1))

    def _attempt(
        self,
        device: Device,
        rows: HostRows | DeviceRows,
        starts: npt.NDArray[np.int64],
        weights: Weights | None,
        limit: int | None,
    ) -> list[RowSums]:
        tables, recipe, shape = self._tables_on(device), self._recipe, self._recipe.shape
        runs, d = len(starts) - 1, shape.dim
        first, count, owner = _tiles(starts)
        sizes = {
            "counts": runs * _COUNTS,
            "lower": runs * d,
            "upper": runs * d,
            "linear": runs * d if shape.clipped else 0,
            "sums": runs * recipe.parts * recipe.size,
        }
        with device.lane() as lane:
            result = lane.buffer("result", 8 * sum(sizes.values()))
            lane.zero(result, 8 * sum(sizes.values()))
            at = dict(zip(sizes, result + 8 * np.cumsum([0, *sizes.values()])[:-1], strict=True))
            budget = _STAGED_BYTES // self._tile_bytes()
            if isinstance(rows, HostRows):
                budget = min(budget, _COPIED_BYTES // (TILE * d * rows.dtype.itemsize))
            step = max(_FEWEST_TILES, min(budget, limit or budget))
            for number_of_chunk, begin in enumerate(range(0, len(first), step)):
                part = slice(begin, begin + step)
                tiles = first[part], count[part], owner[part]
                self._chunk(lane, number_of_chunk % 2, tables, rows, weights, tiles, at, runs)
            host = lane.pinned("result", 8 * sum(sizes.values()))[: 8 * sum(sizes.values())]
            lane.download(host, result)
            lane.finish()
            values = np.split(host.view(np.uint64).copy(), np.cumsum([*sizes.values()])[:-1])
        processed = np.bincount(owner, shape.processed(count), runs).astype(np.int64)
        return self._collected(dict(zip(sizes, values, strict=True)), processed, starts, weights is not None)

    def _chunk(
        self, lane: Lane, slot: int, tables: _Tables, rows: HostRows | DeviceRows, weights: Weights | None,
        table_of_tiles: _TileTable, at: dict[str, Any], runs: int,
    ) -> None:  # fmt: skip
        """Start the copies and kernels of some tiles; slots take turns: one is filled while the other is read."""
        inputs, view, lists, real = self._staged(lane, slot, tables, rows, weights, table_of_tiles, at, runs)
        recipe, shape, device, tiles = self._recipe, self._recipe.shape, tables.device, len(table_of_tiles[0])
        cut = shape if weights is None else shape.weighted
        kernel = device.kernel(cut, "sum_plain" if weights is None else "sum_weighted")
        grid = tables.grid(kernel, cut.threads, self._blocks(cut), tiles)
        tail = np.int32(recipe.size), int(at["sums"])
        if shape.kernel == "products":
            lane.launch(kernel, grid, cut.threads, (*inputs, int(at["sums"])))
        else:
            lane.launch(kernel, grid, cut.threads, (*inputs, *tables.near, *tail))
        if not shape.clipped:
            kernel = device.kernel(shape, f"far_{real}")
            blocks = -(-recipe.size // shape.far_columns)
            lane.launch(
                kernel,
                tables.grid(kernel, shape.far_threads, blocks, tiles * TILE),
                shape.far_threads,
                (*view, *lists, tables.center, *tables.far, *tail),
            )

    def _blocks(self, cut: Shape) -> int:
        """Blocks of a summing kernel beside each other."""
        if cut.kernel == "products":
            side = -(-cut.dim // source.PRODUCT_SIDE)
            return side * (side + 1) // 2
        return -(-self._recipe.size // cut.columns)

    def _staged(
        self, lane: Lane, slot: int, tables: _Tables, rows: HostRows | DeviceRows, weights: Weights | None,
        table_of_tiles: _TileTable, at: dict[str, Any], runs: int,
    ) -> tuple[tuple[Any, ...], _View, tuple[int, ...], str]:  # fmt: skip
        """Start the copies and the staging: arguments of the sums, rows as they are, list of far ones, their type."""
        first, count, owner = table_of_tiles
        recipe, shape, device = self._recipe, self._recipe.shape, tables.device
        tiles = len(first)
        low, high = int(first[0]), int(first[-1] + count[-1])
        data, row_stride, column_stride, base = rows.on(lane, slot, low, high)
        real = "float" if rows.dtype == np.float32 else "double"
        table: tuple[int, int, int] = 0, 0, 0
        if runs > 1:
            joined = np.empty(2 * tiles, np.int64)
            joined[:tiles] = first - base
            joined[tiles:].view(np.int32)[:tiles] = count
            joined[tiles:].view(np.int32)[tiles:] = owner
            address = lane.send(f"tiles {slot}", joined)
            table = address, address + 8 * tiles, address + 12 * tiles
        weight = 0
        if weights is not None:  # numbered as the rows at the address are
            weight = lane.send(f"weights {slot}", np.asarray(weights[low:high], np.int64)) - 8 * (low - base)
        staged = lane.buffer("staged", 4 * tiles * TILE * shape.padded)
        staged_weights = lane.buffer("staged weights", 8 * tiles * TILE) if weights is not None else 0
        far = 0 if shape.clipped else lane.buffer("far", 20 * tiles * TILE + 16)
        lists = (far, far + 16, far + 16 + 16 * tiles * TILE, far + 16 + 8 * tiles * TILE) if far else (0, 0, 0, 0)
        if far:
            lane.zero(far, 16)
        where = (*table, np.int64(low - base), np.int64(high - base), np.int32(tiles))
        view = data, np.int64(row_stride), np.int64(column_stride)
        lower, upper, linear, counts = (int(at[name]) for name in ("lower", "upper", "linear", "counts"))
        fates = 0
        if recipe.whitening is not None:
            # the box is that of the rows as they are, everything else that of whitened ones
            fates = lane.buffer("fates", tiles * TILE)
            view, real = self._whitened(lane, tables, view, real, low - base, high - base), "double"
        kernel = device.kernel(shape, f"stage_{real}")
        lane.launch(
            kernel,
            (min(tiles, 2 * device.resident(kernel, TILE)), 1),
            TILE,
            (
                *view, *where, np.int64(base), weight, tables.origin, tables.factors, np.float64(recipe.inverse),
                np.float64(recipe.step), np.int32(recipe.rounded), staged, staged_weights,
                *lists, *((0, 0) if fates else (lower, upper)), linear, counts, fates,
            ),
        )  # fmt: skip
        if fates:
            raw = data, np.int64(row_stride), np.int64(column_stride)
            kernel = device.kernel(shape, f"box_{'float' if rows.dtype == np.float32 else 'double'}")
            grid = min(tiles, 2 * device.resident(kernel, TILE)), 1
            lane.launch(kernel, grid, TILE, (*raw, *where, fates, lower, upper))
        return (staged, staged_weights, *where), view, lists, real

    def _whitened(self, lane: Lane, tables: _Tables, view: _View, real: str, begin: int, end: int) -> _View:
        """Rows begin..end about the centre times the matrix, in float64, numbered as the rows are."""
        d = self._recipe.shape.dim
        white = lane.buffer("white", 8 * (end - begin) * d) - 8 * begin * d
        kernel = tables.device.kernel(self._recipe.shape, f"whiten_{real}")
        blocks = min(-(-(end - begin) // source.WHITEN_ROWS), 8 * tables.device.resident(kernel, TILE))
        numbers = np.int64(begin), np.int64(end), tables.center, tables.whitening, white
        lane.launch(kernel, (blocks, 1), TILE, (*view, *numbers))
        return white, np.int64(d), np.int64(1)

    def _collected(
        self,
        values: dict[str, npt.NDArray[np.uint64]],
        processed: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        weighted: bool,
    ) -> list[RowSums]:
        """Take off what zeros and the bits of the rounding constants added, and word the rest."""
        recipe, shape = self._recipe, self._recipe.shape
        runs = len(starts) - 1
        counts = values["counts"].reshape(runs, _COUNTS)
        sums = values["sums"].reshape(runs, recipe.parts, recipe.size)
        if shape.kernel != "products":
            if weighted:
                sums -= (counts[:, _NEAR_WEIGHT] * np.uint64(ZERO_BITS[shape.terms]))[:, None, None]
            elif recipe.zero_row is not None:
                zeros = processed.astype(np.uint64) - counts[:, _NEAR]
                sums -= zeros[:, None, None] * recipe.zero_row.astype(np.uint64)
        lower = _numbers(~values["lower"]).reshape(runs, shape.dim)
        upper = _numbers(values["upper"]).reshape(runs, shape.dim)
        invalid = ~counts[:, _FIRST_INVALID]
        out = []
        for g in range(runs):
            empty = counts[g, _USED] == 0
            found = None if counts[g, _SKIPPED] == 0 else int(invalid[g]) - int(starts[g])
            out.append(
                RowSums(
                    sums=self._arranged(sums[g].view(np.int64), values, g),
                    rows=int(counts[g, _USED]),
                    weight=int(counts[g, _WEIGHT]),
                    lower=np.full(shape.dim, np.inf) if empty else lower[g],
                    upper=np.full(shape.dim, -np.inf) if empty else upper[g],
                    skipped=int(counts[g, _SKIPPED]),
                    first_invalid=found,
                )
            )
        return out

    def _arranged(
        self, sums: npt.NDArray[np.int64], values: dict[str, npt.NDArray[np.uint64]], run: int
    ) -> npt.NDArray[np.int64]:
        """The sums of one run in the shape of the plan."""
        if not self._recipe.shape.clipped:
            return sums
        d = self._recipe.shape.dim
        linear = values["linear"].view(np.int64)[run * d : (run + 1) * d]
        flat = sums.reshape(-1)
        if self._recipe.second:
            half = len(flat) // 2
            flat = flat[:half] + self._recipe.second * flat[half:]
        return np.concatenate([flat, linear])


def _tiles(starts: npt.NDArray[np.int64]) -> _TileTable:
    """First row, number of rows and run of each tile: a run begins a new one."""
    lengths = np.diff(starts)
    per_run = -(-lengths // TILE)
    owner = np.repeat(np.arange(len(lengths)), per_run)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(per_run) - per_run, per_run)
    first = starts[owner] + number * TILE
    return first, np.minimum(TILE, starts[owner + 1] - first), owner


def _numbers(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Inverse of the order keys of the kernels."""
    top = np.uint64(1 << 63)
    return np.where(keys >= top, keys ^ top, ~keys).view(np.float64)
