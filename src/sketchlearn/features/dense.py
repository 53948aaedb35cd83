"""Directions drawn one by one: independent, or in orthogonal blocks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sketchlearn.features import portable

_ORTHOGONAL_ROWS = 64  # rows per orthogonal block in high dimension; exact blocks up to this dimension
_TOGETHER = 2**18  # numbers that are drawn and orthonormalised together: 2 MB
_WHOLE, _PART = 128, 64  # columns up to which a basis is orthonormalised at once; of the parts of larger ones


def unit_directions(kind: str, dim: int, size: int, seed: int) -> Iterator[npt.NDArray[np.float64]]:
    """Unit vectors of `dim` numbers, ``"iid"`` or ``"orthogonal"``, `size` in all; the same for a seed on any machine.

    They come some rows at a time, so that drawing needs little more memory than what is kept of them.
    """
    rows = 1 if kind == "iid" else min(dim, _ORTHOGONAL_ROWS)
    bits = portable.Bits(seed, 3)
    step = max(1, _TOGETHER // (rows * dim))  # blocks whose numbers stay in the cache
    for start in range(0, size, step * rows):
        blocks = min(step, -(-(size - start) // rows))
        stack = bits.normals(blocks * rows * dim).reshape(blocks, rows, dim)
        yield portable.orthonormalize(stack).reshape(-1, dim)[: size - start]


def integer_bases(dim: int, size: int, seed: int, steps: float) -> npt.NDArray[np.int8]:
    """The first `size` rows of a stack of random orthonormal bases, in whole steps of ``1 / (steps sqrt(dim))``.

    Up to 128 columns a basis is uniform among all.  Beyond, it is a product of layers of smaller ones, between which
    the columns are shuffled: every entry depends on every column, and the work grows like the square of dim.  Rounding
    makes them orthogonal up to about ``0.6 / steps``.
    """
    bits, order = portable.Bits(seed, 9), portable.Bits(seed, 10)
    out: npt.NDArray[np.int8] = np.empty((size, dim), np.int8)
    together = max(1, 2**18 // (dim * dim)) if dim <= _WHOLE else 1
    for start in range(0, size, together * dim):
        part = out[start : start + together * dim]
        if dim <= _WHOLE:
            blocks = -(-len(part) // dim)
            rows = portable.orthonormalize(bits.normals(blocks * dim * dim).reshape(blocks, dim, dim)).reshape(-1, dim)
        else:
            rows = _mixed_basis(dim, bits, order)
        part[:] = np.clip(np.rint(rows[: len(part)] * (math.sqrt(dim) * steps)), -127, 127)
    return out


def _mixed_basis(dim: int, bits: portable.Bits, order: portable.Bits) -> npt.NDArray[np.float64]:
    edges = [dim * i // (dim // _PART) for i in range(dim // _PART + 1)]
    basis = np.eye(dim)
    for _ in range(1 + math.ceil(math.log(dim) / math.log(_PART))):
        basis = basis[:, order.permutation(dim)]
        for a, b in itertools.pairwise(edges):
            small = portable.orthonormalize(bits.normals((b - a) ** 2).reshape(b - a, b - a))
            basis[:, a:b] = product(basis[:, a:b], small)
    return basis


def product(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """a @ b, summed in the order of the inner index."""
    out = np.zeros((a.shape[0], b.shape[1]))
    for k in range(b.shape[0]):
        out = out + a[:, k, None] * b[k]
    return out


def in_range(numbers: npt.NDArray[np.floating]) -> bool:
    """Whether float32 holds these frequencies: all finite, and some not too small."""
    return bool(np.isfinite(numbers).all() and np.abs(numbers).max() >= np.finfo(np.float32).tiny)


def finite(value: npt.ArrayLike, shapes: tuple[tuple[int, ...], ...], name: str) -> npt.NDArray[np.float64]:
    """Numbers of one of these shapes; ValueError for any other, and for NaN and infinity."""
    array = np.array(value, np.float64)
    if array.shape not in shapes:
        raise ValueError(f"{name} has shape {array.shape}, expected {shapes[0]}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity")
    return array


def check_units(spread: npt.NDArray[np.float64]) -> None:
    """ValueError for units of columns that are not positive."""
    if not (spread > 0).all():
        k = int(np.argmax(~(spread > 0)))
        raise ValueError(f"the spread of column {k} is {spread[k]}: a constant column can't be standardised")


def whole(value: object, name: str) -> int:
    """An integer; ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    return int(value)


def positive(value: object, name: str) -> float:
    """A positive, finite number; ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ValueError(f"{name} must be a number, got {value!r}")
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be positive and finite, got {number!r}")
    return number


def one_scale(
    scale: float | npt.ArrayLike, dim: int, whitening: npt.ArrayLike | None
) -> tuple[float, npt.ArrayLike | None]:
    """One scale and a whitening, for a scale or one for each column."""
    if not np.ndim(scale):
        return scale, whitening  # type: ignore[return-value]  # checked with the map
    if whitening is not None:
        raise ValueError("scale: one number with a whitening, or one per column without")
    each = finite(scale, ((dim,),), "scale")
    if not (each > 0).all():
        raise ValueError(f"scale: every column needs a positive one, got {each.min():.6g}")
    return 1.0, np.diag(1.0 / each)
