"""A device that is not there: the CUDA source compiled for the host and run block by block.

What it can't show is speed, races between blocks, and what a real compiler makes of the source; the arithmetic, the
indexing and the host side are the real ones.
"""

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from sketchlearn.kernels.cuda.device import Device, Lane, OutOfDeviceMemory
from sketchlearn.kernels.cuda.source import source

COMPILER = shutil.which("g++")
HEADER = Path(__file__).with_name("emulated_gpu.h")
_folder = tempfile.TemporaryDirectory(prefix="emulated-gpu-")
_running = threading.Lock()  # the emulator has one block at a time


# no contraction: a product and a sum are rounded twice, as in the source
_COMMAND = [COMPILER, "-std=c++17", "-O1", "-march=native", "-ffp-contract=off", "-w", "-fPIC"]


@cache
def _header():
    """The header, compiled once: it takes longer than any kernel."""
    copy = Path(_folder.name) / HEADER.name
    shutil.copy(HEADER, copy)
    _run([*_COMMAND, "-x", "c++-header", copy, "-o", f"{copy}.gch"])
    return copy


def _run(command):
    subprocess.run(command, check=True, capture_output=True, text=True)


def compiled(shape, entry):
    """A kernel in a shared library."""
    text = source(shape, entry)
    text += (
        '\nextern "C" void launch(unsigned x, unsigned y, unsigned threads, void** arguments) '
        f"{{ host::launch({entry}, x, y, threads, arguments); }}"
    )
    path = Path(_folder.name) / (hashlib.sha256(text.encode()).hexdigest()[:16] + ".so")
    if not path.exists():
        code = path.with_suffix(".cpp")
        code.write_text(text)
        _run([*_COMMAND, "-shared", "-include", _header(), "-o", path, code])
    return ctypes.CDLL(str(path)).launch


class HostLane(Lane):
    """Everything happens at once, in memory of the host that is filled with rubbish first."""

    def __init__(self, device):
        self.device, self._buffers = device, {}

    def buffer(self, name, size):
        if size > self.device.memory:
            raise OutOfDeviceMemory(f"{size} bytes")
        held = self._buffers[name] = np.full(size + 64, 0xA5, np.uint8)
        return -(-held.ctypes.data // 64) * 64

    def pinned(self, name, size):
        return np.full(size, 0x5A, np.uint8)

    def upload(self, name, target, host):
        self.device.uploaded += host.nbytes
        ctypes.memmove(target, host.ctypes.data, host.nbytes)

    def settle(self, name):
        pass

    def download(self, host, address):
        ctypes.memmove(host.ctypes.data, address, host.nbytes)

    def zero(self, address, size):
        ctypes.memset(address, 0, size)

    def launch(self, kernel, grid, threads, arguments):
        boxes = [
            ctypes.c_int32(a) if isinstance(a, np.int32) else ctypes.c_double(a) if isinstance(a, np.float64)
            else ctypes.c_int64(int(a)) for a in arguments
        ]  # fmt: skip
        pointers = (ctypes.c_void_p * len(boxes))(*(ctypes.addressof(box) for box in boxes))
        self.device.launches += 1
        with _running:
            kernel(grid[0], grid[1], threads, pointers)

    def finish(self):
        pass


class Resident:
    """Looks like an array on a device, in as far as rows are read from it; the emulated device sees the host."""

    def __init__(self, array, number=0):
        self._array, self.dtype, self.shape, self.strides = array, array.dtype, array.shape, array.strides
        self.data = type("Memory", (), {"ptr": array.ctypes.data})
        self.device = type("Place", (), {"id": number})

    def __getitem__(self, at):
        return Resident(self._array[at], self.device.id)

    def astype(self, dtype):
        return Resident(self._array.astype(dtype), self.device.id)

    def copy(self):
        return Resident(self._array.copy(), self.device.id)

    def get(self):
        return self._array

    def __len__(self):
        return len(self._array)


class EmulatedDevice(Device):
    """A device with as much memory as a test wants it to have."""

    def __init__(self, number=0, memory=2**40):
        super().__init__()
        self.number, self.memory, self.name, self.multiprocessors = number, memory, "emulated", 2
        self.launches = self.uploaded = 0

    def _new_lane(self):
        return HostLane(self)

    def _compile(self, shape, entry):
        return compiled(shape, entry)

    def constant(self, array):
        return array.ctypes.data, array

    def resident(self, kernel, threads):
        return 3

    @contextmanager
    def arrays(self, lane):
        yield np

    def view(self, address, like):
        return np.frombuffer((ctypes.c_char * like.nbytes).from_address(address), like.dtype).reshape(like.shape)

    def held(self, array):
        return array if isinstance(array, Resident) else Resident(array, self.number)
