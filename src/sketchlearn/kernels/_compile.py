"""How loops are compiled: options, cache, one notice, and the two intrinsics that all of them share.

Compiling is what a first call waits for, so compiled functions here allocate nothing, assign no slices and call no
other compiled function (each of these is compiled, or compiled again, with every caller); buffers come from outside.

A loop that adds up floating-point numbers in any order (``reassoc``) stores nothing.  Where a loop stores, the compiler
adds a check whether arrays lie close together, and a version for when they do, which is not vectorised.  That version
adds up in another order: the last bits of the sum would depend on where the arrays happen to lie in memory.
"""

# mypy: ignore-errors
import logging
import math
import os

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils, event
from numba.extending import intrinsic
from numba.np import arrayobj

_log = logging.getLogger("sketchlearn")


class _Notice(event.Listener):
    """Says once that a loop of the library is being compiled (and not when the cache has it)."""

    said = False

    def on_start(self, event) -> None:
        name = event.data["dispatcher"].py_func.__module__
        if not self.said and name.startswith("sketchlearn.kernels"):
            self.said = True
            _log.warning("compiling loops for this processor (once, a few seconds)")

    def on_end(self, event) -> None:
        pass


event.register("numba:compile", _Notice())


def _cache_is_usable() -> bool:
    """True if compiled code can be kept on disk (numba raises at decoration time where it can't).

    Numba keeps it beside the source, or, where that is read-only, in the user's cache folder.
    """
    if os.environ.get("SKETCHLEARN_NO_CACHE"):
        return False
    return cache_folder() is not None


def cache_folder() -> str | None:
    """Folder where compiled code is kept, or None where it can't be."""
    try:
        return str(njit(cache=True)(_cache_is_usable).stats.cache_path)
    except (RuntimeError, OSError):
        return None


CACHE = _cache_is_usable()


def compiled(function=None, **options):
    """The decorator of all compiled loops."""

    def decorate(f):
        return njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False, no_cfunc_wrapper=True, **options)(
            f
        )

    return decorate if function is None else decorate(function)


def aligned(shape, dtype):
    """An uninitialised array that begins with a cache line: vectors of it never lie across two."""
    kind = np.dtype(dtype)
    size = kind.itemsize * math.prod(shape)
    memory = np.empty(size + 63, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(kind).reshape(shape)


def aligned_copy(table):
    """A copy of a table that begins with a cache line."""
    out = aligned(table.shape, table.dtype)
    out[...] = table
    return out


@intrinsic
def fma(typingctx, x, y, z):
    """Fused multiply-add of scalars."""

    def codegen(context, b, sig, args):
        real = args[0].type
        bits = 32 if isinstance(real, ir.FloatType) else 64
        fn = cgutils.get_or_insert_function(b.module, ir.FunctionType(real, [real] * 3), f"llvm.fma.f{bits}")
        return b.call(fn, args)

    return (x(x, x, x), codegen) if x == y == z and isinstance(x, types.Float) else None


@intrinsic
def pointer(typingctx, array, offset):
    """Pointer to a flat offset of a C-contiguous array."""

    def codegen(context, b, sig, args):
        data = arrayobj.make_array(sig.args[0])(context, b, args[0]).data
        return b.gep(data, [args[1]])

    return types.CPointer(array.dtype)(array, offset), codegen
