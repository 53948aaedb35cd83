"""Rows where they are: in the memory of the host, or on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels.cuda.device import CudaLane, Lane, import_cupy

_DLPACK_CUDA = (2, 13)  # plain and managed memory of a CUDA device


def on_device(data: Any) -> bool:
    """Whether an array lies on a CUDA device, whatever library made it."""
    if isinstance(data, np.ndarray):
        return False
    if hasattr(data, "__cuda_array_interface__"):
        return True
    where = getattr(data, "__dlpack_device__", None)
    try:
        return where is not None and int(where()[0]) in _DLPACK_CUDA
    except (TypeError, ValueError, RuntimeError, BufferError):
        return False


def as_device_array(data: Any) -> Any:
    """An array on a device as CuPy sees it, without a copy."""
    cupy = import_cupy()
    if isinstance(data, cupy.ndarray):
        return data
    if hasattr(data, "__cuda_array_interface__"):
        return cupy.asarray(data)
    return cupy.from_dlpack(data)


class HostRows:
    """Rows in memory of the host."""

    def __init__(self, array: npt.NDArray[np.floating]) -> None:
        self.array, self.dtype = array, array.dtype

    def __len__(self) -> int:
        return len(self.array)

    def on(self, lane: Lane, slot: int, low: int, high: int) -> tuple[int, int, int, int]:
        """Address, strides (in elements) and the row at the address, of rows low..high, copied to the device."""
        rows = self.array[low:high]
        return lane.send(f"rows {slot}", rows), rows.shape[1], 1, low

    def to_host(self) -> npt.NDArray[np.floating]:
        return self.array


class DeviceRows:
    """Rows that are on a device already."""

    def __init__(self, array: Any) -> None:
        size = array.dtype.itemsize
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
        elif array.data.ptr % size or any(stride % size or stride < 0 for stride in array.strides):
            array = array.copy()
        self.array, self.dtype, self.device = array, array.dtype, int(array.device.id)

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def on(self, lane: Lane, slot: int, low: int, high: int) -> tuple[int, int, int, int]:
        """Address, strides (in elements) and the row at the address: they are read where they lie."""
        if isinstance(lane, CudaLane) and low == 0:
            lane.follow_default_stream()
        row, column = (stride // self.dtype.itemsize for stride in self.array.strides)
        return int(self.array.data.ptr), row, column, 0

    def to_host(self) -> npt.NDArray[np.floating]:
        return np.asarray(self.array.get())


def rows_of(X: Any) -> HostRows | DeviceRows:
    """Rows of an array, wherever it is."""
    return DeviceRows(as_device_array(X)) if on_device(X) else HostRows(X)
