"""Dask: a future for every part of the source, or for every partition of a collection."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection
from typing import Any

from sketchlearn.engines.base import Engine, Job, register_engine
from sketchlearn.engines.cluster import Cluster, ClusterPass
from sketchlearn.engines.partial import sum_piece
from sketchlearn.optional import optional
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources.base import Part, library_of
from sketchlearn.sources.partitions import partition_of, shell_of

_FRESH = 2.0  # seconds for which the number of threads is believed
_RETRIES = 2  # of errors that are not about the data: connections, memory


def _recognised(engine: Any) -> Engine | None:
    return DaskEngine(engine) if library_of(engine) == "distributed" and hasattr(engine, "submit") else None


@register_engine("dask", _recognised)
class DaskEngine(Engine):
    """Workers of a Dask cluster.

    `client`: by default the one that was made last.
    """

    def __init__(self, client: Any = None) -> None:
        self._client = client

    def run(self, job: Job) -> Sketch | SketchTable | None:
        """Sum parts on the workers."""
        distributed = optional("distributed", "dask", "a pass on a Dask cluster")
        client = self._client
        if client is None:
            try:
                client = distributed.default_client()
            except ValueError:
                raise ValueError("engine='dask': there is no client; make one with distributed.Client(...)") from None
        return ClusterPass(job, _Dask(client, job.source.parts)).run()


class _Dask(Cluster):
    def __init__(self, client: Any, parts: Collection[Part]) -> None:
        self._client, self._parts = client, list(parts)
        self._partitions: list[Any] | None = None
        self._name = uuid.uuid4().hex[:12]
        self._submitted = 0
        self._width = -_FRESH, 1

    def width(self) -> int:
        if time.monotonic() > self._width[0] + _FRESH:  # workers come and go
            self._width = time.monotonic(), max(1, sum(self._client.nthreads().values()))
        return self._width[1]

    def submit(self, function: Callable[..., Any], *values: Any) -> Any:
        self._submitted += 1
        key = f"sketch-{function.__name__}-{self._name}-{self._submitted}"
        return self._client.submit(function, *values, key=key, pure=False, retries=_RETRIES)

    def finished(self, handles: Collection[Any]) -> list[Any]:
        from distributed import wait

        return list(wait(list(handles), return_when="FIRST_COMPLETED").done)

    def fetch(self, handles: Collection[Any]) -> list[Any]:
        found: list[Any] = self._client.gather(list(handles))
        return found

    def cancel(self, handles: Collection[Any]) -> None:
        self._client.cancel([*handles, *(f for f in self._partitions or () if f is not None)])

    def start(self, task: bytes, number: int, part: Part) -> Any:
        if partition_of(part.batches) is None:
            return super().start(task, number, part)
        if self._partitions is None:
            # all in one graph: partitions share what comes before them, and Dask lets go of rows that were summed
            self._partitions = self._client.compute([_delayed(task, i, p) for i, p in enumerate(self._parts)])
        future, self._partitions[number] = self._partitions[number], None
        return future


def _delayed(task: bytes, number: int, part: Part) -> Any:
    from dask import delayed

    partition = partition_of(part.batches)
    assert partition is not None
    return delayed(sum_piece, pure=False)(task, number, shell_of(part), *partition.values)
