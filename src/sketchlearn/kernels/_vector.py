"""First tier of the Fourier pass: a register tile written as explicit LLVM vectors (see ``_tile``).

The epilogue reduces the phases, evaluates both polynomials, rounds to the grid and adds the integers.
"""

# mypy: ignore-errors
from itertools import pairwise

import numpy as np
from numba import types

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels._compile import compiled, pointer
from sketchlearn.kernels._staging import stage as stage
from sketchlearn.kernels._tile import LANES, PANEL, PANEL_VECTORS, TILE_ROWS, tile

_ZERO32 = np.uint32(np.float32(K.ROUND32).view(np.uint32))
_ZERO64 = np.int64(np.float64(K.ROUND64).view(np.int64))


def waves(vectors, t):
    """Code for the grid units of cosine and sine of phases t (half-turns), each plus the bits of ROUND."""
    b, single = vectors.b, vectors.bits == 32
    to_real = (lambda x: float(np.float32(x))) if single else float
    parity, rounder = (K.PARITY32, K.ROUND32) if single else (K.PARITY64, K.ROUND64)
    sign = b.shl(b.bitcast(b.fadd(t, vectors.constant(parity)), vectors.ivec), vectors.whole(vectors.bits - 1))
    r = b.fsub(t, vectors.call("rint", t))
    u = b.fmul(r, r)
    units = []
    for polynomial in (K.COS32, K.SIN32) if single else (K.COS64, K.SIN64):
        value = vectors.constant(to_real(polynomial[-1]))
        for coefficient in polynomial[-2::-1]:
            value = vectors.call("fma", value, u, vectors.constant(to_real(coefficient)))
        if units:
            value = b.fmul(value, r)
        value = b.bitcast(b.xor(b.bitcast(value, vectors.ivec), sign), vectors.vec)
        units.append(b.bitcast(b.fadd(value, vectors.constant(rounder)), vectors.ivec))
    return units


def signs(vectors, t):
    """Code for ones where cosine and sine of phases t (half-turns) are negative, each plus the bits of ROUND."""
    b, single = vectors.b, vectors.bits == 32
    parity = vectors.constant(K.PARITY32 if single else K.PARITY64)
    zero = vectors.whole(int(_ZERO32) if single else int(_ZERO64))
    later = b.fsub(t, vectors.constant(0.5))
    odd = [b.and_(b.bitcast(b.fadd(v, parity), vectors.ivec), vectors.whole(1)) for v in (t, later)]
    return [b.add(v, zero) for v in odd]


def _sums_of(units):
    """An epilogue that adds up what `units` makes of each phase."""

    def epilogue(vectors, v, phases, cos_sums, sin_sums):
        b = vectors.b
        places = [vectors.place(p, v, vectors.integer) for p in (cos_sums, sin_sums)]
        totals = [b.load(p, align=vectors.bits // 8) for p in places]
        for t in phases:
            totals = [b.add(total, u) for total, u in zip(totals, units(vectors, t), strict=True)]
        for place, total in zip(places, totals, strict=True):
            b.store(total, place, align=vectors.bits // 8)

    return epilogue


def _kernel(bits, mr, nv):
    # integers for cosines and sines, unsigned ones for their signs: the type of the scratch chooses
    signed, unsigned = (types.int32, types.uint32) if bits == 32 else (types.int64, types.uint64)
    return tile(bits, mr, nv, {signed: _sums_of(waves), unsigned: _sums_of(signs)})


_tile_panel, _row_panel = _kernel(32, TILE_ROWS, PANEL_VECTORS), _kernel(32, 1, PANEL_VECTORS)
_tile_vector, _row_vector = _kernel(32, TILE_ROWS, 1), _kernel(32, 1, 1)
_far_vector = _kernel(64, 1, 1)
_LANES, _PANEL, _ROWS, _FLUSH = LANES, PANEL, TILE_ROWS, K.FLUSH_ROWS


@compiled
def add_near(rows, weights, runs, panels, sums, units):
    """Add the float32 rows of each run to its sums (runs, 2, padded size); ``units`` is int32 scratch (2, PANEL)."""
    d, size = rows.shape[1], sums.shape[2]
    c, s = pointer(units, 0), pointer(units, _PANEL)
    for g in range(runs.shape[0] - 1):
        first = runs[g]
        while first < runs[g + 1]:
            # rows of one weight are added up in int32, as many as that holds
            w, last = weights[first], first + 1
            while last < runs[g + 1] and last < first + _FLUSH and weights[last] == w:
                last += 1
            shift = np.uint32(np.uint32(last - first) * _ZERO32)
            j = 0
            while j < size:
                wide = j + _PANEL <= size
                width = _PANEL if wide else _LANES
                for q in range(width):
                    units[0, q] = 0
                    units[1, q] = 0
                i = first
                panel = pointer(panels, j * d)
                if wide:
                    while i + _ROWS <= last:
                        _tile_panel(pointer(rows, i * d), d, panel, _PANEL, d, c, s)
                        i += _ROWS
                    while i < last:
                        _row_panel(pointer(rows, i * d), d, panel, _PANEL, d, c, s)
                        i += 1
                else:
                    while i + _ROWS <= last:
                        _tile_vector(pointer(rows, i * d), d, panel, _LANES, d, c, s)
                        i += _ROWS
                    while i < last:
                        _row_vector(pointer(rows, i * d), d, panel, _LANES, d, c, s)
                        i += 1
                # the sums wrap modulo 2**32, the true ones stay below 2**30
                for q in range(width):
                    sums[g, 0, j + q] += w * np.int64(np.int32(np.uint32(units[0, q]) - shift))
                    sums[g, 1, j + q] += w * np.int64(np.int32(np.uint32(units[1, q]) - shift))
                j += width
            first = last


@compiled
def add_far(rows, weights, runs, panels, sums, units):
    """Add the float64 rows of each run to its sums; ``units`` is int64 scratch (2, LANES)."""
    d, size = rows.shape[1], sums.shape[2]
    c, s = pointer(units, 0), pointer(units, _LANES)
    whole = size - size % _PANEL
    for g in range(runs.shape[0] - 1):
        for i in range(runs[g], runs[g + 1]):
            w = weights[i]
            for j in range(0, size, _LANES):
                for q in range(_LANES):
                    units[0, q] = 0
                    units[1, q] = 0
                start = j - j % _PANEL
                if j < whole:
                    panel = pointer(panels, start * d + j - start)
                    _far_vector(pointer(rows, i * d), d, panel, _PANEL, d, c, s)
                else:
                    _far_vector(pointer(rows, i * d), d, pointer(panels, j * d), _LANES, d, c, s)
                for q in range(_LANES):
                    sums[g, 0, j + q] += w * (np.int64(units[0, q]) - _ZERO64)
                    sums[g, 1, j + q] += w * (np.int64(units[1, q]) - _ZERO64)


count_near, count_far = add_near, add_far
"""Signs instead of cosines and sines: what decides is the scratch."""


def scratch(far, signs_only=False):
    """Integers that a pass needs beside its sums."""
    if far:
        return np.empty((2, LANES), np.uint64 if signs_only else np.int64)
    return np.empty((2, PANEL), np.uint32 if signs_only else np.int32)


def pack(rows: np.ndarray) -> np.ndarray:
    """Frequencies in panels, coordinate by coordinate; what doesn't fill a panel goes into single vectors."""
    m, d = rows.shape
    padded = -(-m // LANES) * LANES
    full = padded - padded % PANEL
    out = np.zeros(padded * d, np.float32)
    edges = [*range(0, full, PANEL), *range(full, padded, LANES), padded]
    for j, end in pairwise(edges):
        block = rows[j:end]
        out[j * d : end * d].reshape(d, end - j)[:, : len(block)] = block.T
    return out
