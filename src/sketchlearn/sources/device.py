"""Arrays that are already on a GPU: of CuPy, PyTorch, JAX, or whoever speaks the CUDA array interface or DLPack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sketchlearn.arrays import as_weights
from sketchlearn.kernels.cuda.rows import DeviceRows, as_device_array, on_device
from sketchlearn.sources.base import Batch, Source, register
from sketchlearn.sources.rows import Beside
from sketchlearn.sources.selection import Selection


@register(rank=0)
def open_device_array(data: Any, selection: Selection) -> Source | None:
    """A 2-D array on a GPU; its rows stay there."""
    if not on_device(data):
        return None
    selection.refuse("an array on a GPU", "query", "dataset", "format", "where", "weight_column", "dtype", "user")
    rows = _rows(data, selection)
    host = {name: _to_host(getattr(selection, name)) for name in ("sample_weight", "group_by")}
    batches = _DeviceBlocks(rows, Beside.of(replace(selection, **host), len(rows)))
    return Source(batches, len(rows), in_memory=True, grouped=selection.group_by is not None, on_device=True)


def device_batch(values: Any, weights: Any, selection: Selection, what: str) -> Batch:
    """A batch of rows on a GPU, out of a stream of batches."""
    selection.refuse("a batch on a GPU", "where", "weight_column", "group_by", "dtype", "user")
    rows = _rows(values, selection, what)
    return Batch(rows, as_weights(_to_host(weights), len(rows), f"weights of {what}"))  # type: ignore[arg-type]


def _rows(data: Any, selection: Selection, what: str = "data") -> DeviceRows:
    array = as_device_array(data)
    if array.ndim != 2:
        hint = "; for a single column use data.reshape(-1, 1)" if array.ndim == 1 else ""
        raise ValueError(f"{what} must have two dimensions (rows, columns), got shape {array.shape}{hint}")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{what} must hold real numbers, got dtype {array.dtype}")
    if selection.columns is not None:
        array = array[:, [int(name) for name in selection.columns]]
    return DeviceRows(array)


def _to_host(values: Any) -> Any:
    return as_device_array(values).get() if on_device(values) else values


@dataclass(frozen=True)
class _DeviceBlocks:
    """Batches of rows on a device."""

    rows: DeviceRows
    beside: Beside

    def __call__(self, size: int) -> Iterator[Batch]:
        for i in range(0, len(self.rows), size):
            # whoever sums them knows what they are; everything else is as for rows of the host
            yield self.beside.joined(Batch(self.rows[i : i + size]), i)  # type: ignore[arg-type]
