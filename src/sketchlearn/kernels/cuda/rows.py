"""Rows where they are: in the memory of the host, or on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels.cuda.device import CudaLane, Lane, import_cupy

_DLPACK_CUDA = (2, 13)  # plain and managed memory of a CUDA device


def on_device(data: Any) -> bool:
    """Whether an array lies on a CUDA device, whatever library made it."""
    if isinstance(data, np.ndarray | str | bytes | list | tuple | dict):
        return False
    try:
        if getattr(type(data), "__cuda_array_interface__", None) is not None:
            return getattr(data, "__cuda_array_interface__", None) is not None
        where = getattr(data, "__dlpack_device__", None)
        return where is not None and int(where()[0]) in _DLPACK_CUDA
    except Exception:  # what foreign libraries throw at tensors that are not to be shared: their own words come later
        return False


def as_device_array(data: Any) -> Any:
    """An array on a device as CuPy sees it, without a copy."""
    cupy = import_cupy()
    if isinstance(data, cupy.ndarray):
        return data
    if getattr(type(data), "__cuda_array_interface__", None) is not None:
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
    """Rows that are on a device already, as float32 or float64, with strides that count whole numbers forwards.

    Stretches of rows, and several of them put together, stay there; single rows and choices of rows come to the host.
    """

    def __init__(self, array: Any) -> None:
        size = array.dtype.itemsize
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
        elif array.data.ptr % size or any(stride % size or stride < 0 for stride in array.strides):
            array = array.copy()
        self.array, self.dtype, self.shape = array, array.dtype, array.shape
        self.device = int(array.device.id)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return DeviceRows(self.array[at])
        return np.asarray(self.array[at].get())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self.array.get(), dtype)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        if function is np.concatenate and all(isinstance(part, DeviceRows) for part in arguments[0]):
            return DeviceRows(import_cupy().concatenate([part.array for part in arguments[0]]))
        return NotImplemented

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (self.to_host(),)  # another process gets rows of the host

    def take(self, order: npt.NDArray[np.intp]) -> DeviceRows:
        """Rows in another order, on the device."""
        return DeviceRows(self.array.take(import_cupy().asarray(order), axis=0))

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
    if isinstance(X, DeviceRows):
        return X
    return DeviceRows(as_device_array(X)) if on_device(X) else HostRows(X)
