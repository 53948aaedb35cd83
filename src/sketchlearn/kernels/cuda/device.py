"""Graphics processors as this library uses them: compiled kernels, lanes of work, and errors in words.

All that is CUDA's is reached through CuPy, in this file alone.  A *lane* is a stream with buffers of its own, on both
sides of the bus; threads that sum at the same time use different lanes, so that one lane's copies run while another
computes.
"""

from __future__ import annotations

import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.exceptions import MissingPackageError
from sketchlearn.kernels.cuda.source import Shape, options, source

_log = logging.getLogger("sketchlearn")
INSTALL = "pip install 'sketchlearn[gpu]' (for NVIDIA drivers from 580), or 'sketchlearn[gpu-cuda12]' (from 525)"
# of pinned memory; smaller ones would make threads wait for each other's turn at the interpreter
PIECE_BYTES, PIECES = 2**24, 2


class GpuUnavailable(MissingPackageError):
    """No graphics processor can be used here; the message says why and what to do."""


class OutOfDeviceMemory(MemoryError):
    """An allocation on the device failed."""


class Lane(ABC):
    """One stream of copies and kernels, in order, with buffers that grow and are used again."""

    _turn = 0

    @abstractmethod
    def buffer(self, name: str, size: int) -> int:
        """Address of at least `size` bytes of device memory; what an earlier call with this name gave may be gone."""

    @abstractmethod
    def pinned(self, name: str, size: int) -> npt.NDArray[np.uint8]:
        """Host memory that the device copies from and to by itself."""

    @abstractmethod
    def upload(self, name: str, target: int, host: npt.NDArray[np.uint8]) -> None:
        """Copy pinned host memory to the device; returns at once."""

    @abstractmethod
    def download(self, host: npt.NDArray[np.uint8], address: int) -> None:
        """Copy device memory to pinned host memory; returns at once."""

    @abstractmethod
    def zero(self, address: int, size: int) -> None:
        """Fill with zeros."""

    @abstractmethod
    def launch(self, kernel: Any, grid: tuple[int, int], threads: int, arguments: Sequence[Any]) -> None:
        """Start a kernel; returns at once."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until all is done."""

    @abstractmethod
    def settle(self, name: str) -> None:
        """Wait until the last upload of this name has left the host."""

    def is_pinned(self, array: npt.NDArray[Any]) -> bool:
        """Whether the device can copy from this memory of the host by itself."""
        return False

    def send(self, name: str, array: npt.NDArray[Any]) -> int:
        """Address of a copy of an array of the host (any strides).

        The copy goes through pieces of pinned memory that take turns: the device reads one while another is written.
        """
        address = self.buffer(name, array.nbytes)
        if array.flags.c_contiguous and self.is_pinned(array):
            self.upload(name, address, array.reshape(-1).view(np.uint8))
            return address
        row = array.nbytes // max(1, len(array))
        step = max(1, PIECE_BYTES // max(1, row))
        for i in range(0, len(array), step):
            part = array[i : i + step]
            piece = f"piece {self._turn}"
            self._turn = (self._turn + 1) % PIECES
            self.settle(piece)
            host = self.pinned(piece, part.nbytes)[: part.nbytes]
            np.copyto(host.view(array.dtype).reshape(part.shape), part)
            self.upload(piece, address + i * row, host)
        return address


class Device(ABC):
    """One graphics processor."""

    name: str
    number: int
    multiprocessors: int

    def __init__(self) -> None:
        self._idle: queue.SimpleQueue[Lane] = queue.SimpleQueue()
        self._compiled: dict[tuple[Shape, str], Any] = {}
        self._lock = threading.Lock()

    @contextmanager
    def lane(self) -> Iterator[Lane]:
        """A lane for this thread alone, as long as it needs it."""
        with self._active():
            try:
                lane = self._idle.get_nowait()
            except queue.Empty:
                lane = self._new_lane()
            try:
                yield lane
            except BaseException:
                lane.finish()  # nothing may still write into the buffers of the next user
                raise
            finally:
                self._idle.put(lane)

    def kernel(self, shape: Shape, entry: str) -> Any:
        """A compiled kernel."""
        with self._lock:
            if (shape, entry) not in self._compiled:
                self._compiled[shape, entry] = self._compile(shape, entry)
            return self._compiled[shape, entry]

    def release(self) -> None:
        """Give back the buffers of lanes that nobody uses."""
        while True:
            try:
                self._idle.get_nowait()
            except queue.Empty:
                break

    @contextmanager
    def _active(self) -> Iterator[None]:
        yield

    @abstractmethod
    def _new_lane(self) -> Lane: ...

    @abstractmethod
    def _compile(self, shape: Shape, entry: str) -> Any: ...

    @abstractmethod
    def constant(self, array: npt.NDArray[Any]) -> tuple[int, Any]:
        """Address of a copy of an array, and what keeps it there."""

    @abstractmethod
    def resident(self, kernel: Any, threads: int) -> int:
        """Blocks of a kernel that run at the same time."""

    @abstractmethod
    def arrays(self, lane: Lane) -> AbstractContextManager[Any]:
        """What is to arrays on this device, in the order of a lane, what NumPy is to those of the host."""

    def held(self, array: Any) -> Any:
        """An array that was made by :meth:`arrays`, as rows of a device want it."""
        return array

    @abstractmethod
    def view(self, address: int, like: npt.NDArray[Any]) -> Any:
        """Memory of the device as an array with the shape and type of one of the host, without strides."""


# -- CUDA through CuPy -----------------------------------------------------------------------


class CudaLane(Lane):
    """A lane on a CUDA device."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._buffers: dict[str, Any] = {}
        self._pinned: dict[str, npt.NDArray[np.uint8]] = {}
        self._uploads: dict[str, Any] = {}

    def buffer(self, name: str, size: int) -> int:
        held = self._buffers.get(name)
        if held is None or held.mem.size < size:
            self._buffers.pop(name, None)
            held = None
            try:
                held = self._cupy.cuda.alloc(_rounded(size))
            except self._cupy.cuda.memory.OutOfMemoryError as error:
                raise OutOfDeviceMemory(str(error)) from None
            self._buffers[name] = held
        return int(held.ptr)

    def pinned(self, name: str, size: int) -> npt.NDArray[np.uint8]:
        held = self._pinned.get(name)
        if held is None or len(held) < size:
            self._pinned.pop(name, None)
            memory = self._cupy.cuda.alloc_pinned_memory(_rounded(size))
            held = self._pinned[name] = np.frombuffer(memory, np.uint8, _rounded(size))
        return held

    def upload(self, name: str, target: int, host: npt.NDArray[np.uint8]) -> None:
        self._cupy.cuda.runtime.memcpyAsync(target, host.ctypes.data, host.nbytes, 1, self.stream.ptr)
        event = self._uploads.setdefault(name, self._cupy.cuda.Event(disable_timing=True))
        event.record(self.stream)

    def settle(self, name: str) -> None:
        if name in self._uploads:
            self._uploads[name].synchronize()

    def is_pinned(self, array: npt.NDArray[Any]) -> bool:
        try:
            return bool(self._cupy.cuda.runtime.pointerGetAttributes(array.ctypes.data).type == 1)
        except self._cupy.cuda.runtime.CUDARuntimeError:
            return False

    def download(self, host: npt.NDArray[np.uint8], address: int) -> None:
        self._cupy.cuda.runtime.memcpyAsync(host.ctypes.data, address, host.nbytes, 2, self.stream.ptr)

    def zero(self, address: int, size: int) -> None:
        self._cupy.cuda.runtime.memsetAsync(address, 0, size, self.stream.ptr)

    def launch(self, kernel: Any, grid: tuple[int, int], threads: int, arguments: Sequence[Any]) -> None:
        kernel(grid, (threads,), tuple(arguments), stream=self.stream)

    def finish(self) -> None:
        self.stream.synchronize()

    def follow_default_stream(self) -> None:
        """Let the lane wait for what was started on the default stream, where rows on the device come from."""
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(self._cupy.cuda.Stream.null)
        self.stream.wait_event(event)


class CudaDevice(Device):
    """A CUDA device, through CuPy."""

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self._cupy = cupy = import_cupy()
        self.number = number
        properties = cupy.cuda.runtime.getDeviceProperties(number)
        self.name = properties["name"].decode()
        self.multiprocessors = int(properties["multiProcessorCount"])

    @contextmanager
    def _active(self) -> Iterator[None]:
        with self._cupy.cuda.Device(self.number):
            yield

    def _new_lane(self) -> CudaLane:
        return CudaLane(self._cupy)

    def _compile(self, shape: Shape, entry: str) -> Any:
        # CuPy keeps what NVRTC made on disk (CUPY_CACHE_DIR) and loads it the next time
        with self._active():
            try:
                module = self._cupy.RawModule(code=source(shape, entry), options=options(), backend="nvrtc")
                return module.get_function(entry)
            except self._cupy.cuda.compiler.CompileException as error:
                raise GpuUnavailable(f"the kernels can't be compiled for {self.name}: {error}") from error

    def constant(self, array: npt.NDArray[Any]) -> tuple[int, Any]:
        with self._active():
            try:
                copy = self._cupy.asarray(array)
            except self._cupy.cuda.memory.OutOfMemoryError as error:
                raise OutOfDeviceMemory(str(error)) from None
            self._cupy.cuda.Stream.null.synchronize()  # lanes don't wait for the stream of this copy
            return int(copy.data.ptr), copy

    def resident(self, kernel: Any, threads: int) -> int:
        with self._active():
            each = self._cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel.kernel.ptr, threads, 0)
        return max(1, int(each)) * self.multiprocessors

    @contextmanager
    def arrays(self, lane: Lane) -> Iterator[Any]:
        assert isinstance(lane, CudaLane)
        lane.follow_default_stream()
        with lane.stream:
            try:
                yield self._cupy
            except self._cupy.cuda.memory.OutOfMemoryError as error:
                raise OutOfDeviceMemory(str(error)) from None

    def view(self, address: int, like: npt.NDArray[Any]) -> Any:
        memory = self._cupy.cuda.UnownedMemory(address, like.nbytes, self)
        return self._cupy.ndarray(like.shape, like.dtype, self._cupy.cuda.MemoryPointer(memory, 0))

    def release(self) -> None:
        super().release()
        with self._active():
            self._cupy.get_default_memory_pool().free_all_blocks()
            self._cupy.get_default_pinned_memory_pool().free_all_blocks()


@cache
def import_cupy() -> Any:
    """CuPy, if it is there and finds a device; :class:`GpuUnavailable` says what is missing."""
    try:
        import cupy
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
            raise GpuUnavailable(f"engine='gpu' needs CuPy, which is not installed: {INSTALL}") from None
        raise GpuUnavailable(f"CuPy is installed but can't be loaded ({error}): {INSTALL}") from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise GpuUnavailable(_why_not(cupy, error)) from error
    if count == 0:
        raise GpuUnavailable("no CUDA device is visible here; use engine='threads', which gives the same bytes")
    return cupy


def _why_not(cupy: Any, error: Exception) -> str:
    text = str(error)
    built = cupy.cuda.runtime.runtimeGetVersion()
    if "InsufficientDriver" in text or "insufficient" in text:
        return (
            f"the NVIDIA driver of this machine is too old for this CuPy, which was made for CUDA {built // 1000}: "
            "update the driver, or take the CuPy of an older CUDA (pip install 'sketchlearn[gpu-cuda12]'); "
            "engine='threads' gives the same bytes"
        )
    if "NoDevice" in text or "no CUDA-capable device" in text:
        return (
            "no CUDA device is visible here (is CUDA_VISIBLE_DEVICES empty, or the driver not loaded?); "
            "use engine='threads', which gives the same bytes"
        )
    return f"CUDA can't be used here: {text}; engine='threads' gives the same bytes"


_devices: dict[int, Device] = {}
_devices_lock = threading.Lock()


def devices() -> list[Device]:
    """All devices that this process may use; :class:`GpuUnavailable` if there is none."""
    cupy = import_cupy()
    with _devices_lock:
        for number in range(cupy.cuda.runtime.getDeviceCount()):
            if number not in _devices:
                _devices[number] = CudaDevice(number)
        return [_devices[number] for number in sorted(_devices)]


def visible() -> bool:
    """Whether a device can be used, without an error and without a word."""
    try:
        return bool(devices())
    except GpuUnavailable as error:
        _log.debug("no GPU: %s", error)
        return False


def _rounded(size: int) -> int:
    """Sizes of buffers in steps, so that slightly larger rows don't need another."""
    step = max(512, 1 << max(0, int(size - 1).bit_length() - 3))
    return -(-max(size, 1) // step) * step
