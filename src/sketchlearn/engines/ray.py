"""Ray: a task for every part of the source, or for every block of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any

from sketchlearn.engines.base import Engine, Job, register_engine
from sketchlearn.engines.cluster import Cluster, ClusterPass
from sketchlearn.engines.partial import sum_piece
from sketchlearn.optional import optional
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources.base import Part
from sketchlearn.sources.partitions import partition_of, shell_of

_RETRIES = 4  # of workers that die


def _recognised(engine: Any) -> Engine | None:
    return RayEngine() if isinstance(engine, ModuleType) and engine.__name__ == "ray" else None


@register_engine("ray", _recognised)
class RayEngine(Engine):
    """Workers of the Ray cluster that this process is connected to (``ray.init``)."""

    def run(self, job: Job) -> Sketch | SketchTable | None:
        """Sum parts on the workers."""
        ray = optional("ray", "ray", "a pass on a Ray cluster")
        if not ray.is_initialized():
            raise ValueError("engine='ray': there is no cluster; call ray.init() first")
        return ClusterPass(job, _Ray(ray)).run()


class _Ray(Cluster):
    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._functions: dict[Callable[..., Any], Any] = {}

    def width(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, function: Callable[..., Any], *values: Any) -> Any:
        if function not in self._functions:
            self._functions[function] = self._ray.remote(max_retries=_RETRIES)(function)
        return self._functions[function].remote(*values)

    def finished(self, handles: Collection[Any]) -> list[Any]:
        waiting = list(handles)
        ready = self._ray.wait(waiting, num_returns=1)[0]
        more: list[Any] = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)[0]
        return more or ready

    def fetch(self, handles: Collection[Any]) -> list[Any]:
        from ray.exceptions import RayTaskError

        try:
            found: list[Any] = self._ray.get(list(handles))
        except RayTaskError as error:
            raise (error.cause if isinstance(error.cause, Exception) else error) from None
        return found

    def cancel(self, handles: Collection[Any]) -> None:
        for handle in handles:
            self._ray.cancel(handle, force=False)

    def start(self, task: bytes, number: int, part: Part) -> Any:
        partition = partition_of(part.batches)
        if partition is None:
            return super().start(task, number, part)
        return self.submit(sum_piece, task, number, shell_of(part), *partition.values)
