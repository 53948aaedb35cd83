"""The engine of graphics processors: the pass of the threads, with sums that a GPU makes.

Threads read and hand over chunks of rows; each has a stream of its own on the device, so the copies of one chunk run
while another is summed.  The bytes are those of any other engine, so part of the data may be sketched here and part
elsewhere.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

from sketchlearn.arrays import AnyArray, Flags, Index, Ints
from sketchlearn.engines.base import Engine, Job, register_engine
from sketchlearn.engines.threads import ChunkSummer, Pass
from sketchlearn.features.base import FeatureMap
from sketchlearn.kernels import Plan, RowSums, Summer, prepare
from sketchlearn.kernels.cuda.device import Device, devices, visible
from sketchlearn.kernels.cuda.kinds import device_summer, runs_on_device
from sketchlearn.kernels.cuda.rows import DeviceRows, rows_of
from sketchlearn.kernels.plan import Rows, Weights
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources.base import Source
from sketchlearn.threads import available_cores

_log = logging.getLogger("sketchlearn")
_MOST_WORKERS = 12  # threads that copy into pinned memory: more don't copy faster
_COPIED_BYTES = 2**26  # of a chunk from the host: tens of milliseconds of copying
_READ_BYTES, _READ_WORKERS = 2**24, 4  # if the rows have to be read first, which takes longer
_DEVICE_BYTES = 2**29  # of a chunk that is on the device
_WORTH = 5e12  # multiply-adds from which a GPU is worth its start: seconds on a processor
_WORTH_SIZE = 128  # features from which rows are worth their transfer


@register_engine("gpu")
class GpuEngine(Engine):
    """CUDA devices of this machine.

    `on`: devices to use; all that are visible by default.
    """

    def __init__(self, on: Sequence[Device] | None = None) -> None:
        self._devices = on

    def run(self, job: Job) -> Sketch | SketchTable | None:
        """Sum chunks on the devices, in order."""
        on = devices() if self._devices is None else self._devices
        each = 3 if job.source.on_device else _MOST_WORKERS if job.source.in_memory else _READ_WORKERS
        most = each * len(on) if job.source.on_device else min(available_cores(), each * len(on))
        return GpuPass(job, job.workers or max(2, most), on).run()


class GpuPass(Pass):
    """A pass whose chunks are large enough for a device."""

    def __init__(self, job: Job, workers: int, on: Sequence[Device]) -> None:
        super().__init__(job, workers, lambda plan: _summer(job.features, plan, on))

    def executor(self) -> Executor:
        self._sum = self._device_sum = _GpuChunkSummer(self.features, self.job.skip_invalid, self.source, self._prepare)
        return ThreadPoolExecutor(self.workers, thread_name_prefix="sketchlearn-gpu")

    def chunk_rows(self) -> int:
        if not self._device_sum.on_device:
            return super().chunk_rows()
        size = _DEVICE_BYTES if self.source.on_device else _COPIED_BYTES if self.source.in_memory else _READ_BYTES
        return max(self.features.fewest_rows, size // (4 * self.features.inputs))


class _GpuChunkSummer(ChunkSummer):
    """Rows that are on a device stay there, and are sorted by group there."""

    @property
    def on_device(self) -> bool:
        """Whether a device makes the sums, and not the processor."""
        return not isinstance(self._summer, _OnHost)

    def _at_hand(self, rows: Any) -> AnyArray:
        return rows

    def _gathered(self, rows: AnyArray, order: Index) -> AnyArray:
        if isinstance(rows, DeviceRows):
            return rows.take(order)  # type: ignore[return-value]  # the summer knows it
        return super()._gathered(rows, order)


def _summer(features: FeatureMap, plan: Plan, on: Sequence[Device]) -> Summer:
    if runs_on_device(plan):
        kept, key = _kept.setdefault(features, {}), tuple(on)
        if key not in kept:
            kept[key] = device_summer(plan, on)
        return kept[key]
    _log.info("sums of the kind %r have no kernels for a GPU: the processor makes them", plan.kind)
    return _OnHost(plan)


# what a map has on its devices, for the next pass; kept as long as the map
_kept: WeakKeyDictionary[FeatureMap, dict[tuple[Device, ...], Summer]] = WeakKeyDictionary()


class _OnHost(Summer):
    """The processor's sums, of rows wherever they are."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._summer = prepare(plan)

    def sum_rows(self, X: Rows, weights: Weights | None = None, skip_invalid: bool = False) -> RowSums:
        return self._summer.sum_rows(rows_of(X).to_host(), weights, skip_invalid)

    def sum_runs(
        self, X: Rows, starts: Ints, weights: Weights | None = None, skip_invalid: bool = False
    ) -> list[RowSums]:
        return self._summer.sum_runs(rows_of(X).to_host(), starts, weights, skip_invalid)

    def valid(self, X: Rows) -> Flags:
        return self._summer.valid(rows_of(X).to_host())


def worth_it(source: Source, features: FeatureMap) -> bool:
    """Whether a pass should run on a GPU if nobody says where: the rows are there, or the sums would take seconds."""
    if source.on_device:
        return True
    if source.length is None or features.size < _WORTH_SIZE or source.length * features.row_cost < _WORTH:
        return False
    # looking for the package costs nothing, loading it a second
    return importlib.util.find_spec("cupy") is not None and visible() and runs_on_device(features.row_plan())
