"""First tier of the quartic pass: projections in registers, their powers rounded and summed without leaving them.

The same register tile as for squares (see ``_tile``).  The sums of a vector of directions lie together: those of the
second, then of the third, then of the fourth powers.
"""

# mypy: ignore-errors
from llvmlite import ir
from numba import types

from sketchlearn.kernels._compile import compiled, pointer
from sketchlearn.kernels._tile import I64, LANES, PANEL, PANEL_VECTORS, TILE_ROWS, tile
from sketchlearn.kernels._vector import pack as pack

_THREE = 0x40400000  # bits of 3.0f: from 2 to 4 the spacing of float32 is 2**-22


def _powers(vectors, v, projections, scales, sums):
    b = vectors.b
    scale = b.load(vectors.place(scales, v, ir.FloatType()), align=4)
    one, least, three = vectors.constant(1.0), vectors.constant(-1.0), vectors.constant(3.0)
    totals = [vectors.whole(0)] * 3
    for t in projections:
        s = b.fmul(t, scale)
        s = b.select(b.fcmp_ordered("<", s, one), s, one)
        s = b.select(b.fcmp_ordered(">", s, least), s, least)
        square = b.fmul(s, s)
        for i, power in enumerate((square, b.fmul(square, s), b.fmul(square, square))):
            units = b.sub(b.bitcast(b.fadd(power, three), vectors.ivec), vectors.whole(_THREE))
            totals[i] = b.add(totals[i], units)
    for i, total in enumerate(totals):
        place = vectors.place(sums, 3 * v + i, I64)
        b.store(b.add(b.load(place, align=8), b.sext(total, ir.VectorType(I64, LANES))), place, align=8)


def _kernel(mr, nv):
    return tile(32, mr, nv, {types.int64: _powers})


_panel, _vector = _kernel(TILE_ROWS, PANEL_VECTORS), _kernel(TILE_ROWS, 1)
_row_panel, _row_vector = _kernel(1, PANEL_VECTORS), _kernel(1, 1)
_LANES, _PANEL, _ROWS = LANES, PANEL, TILE_ROWS


@compiled
def add_powers(rows, n, panels, scales, sums):
    """Add the powers of the projections of the first n staged rows to ``sums``; rows are padded with zeros."""
    d, size = rows.shape[1], scales.shape[0]
    full = size - size % _PANEL
    for j in range(0, full, _PANEL):
        for i in range(0, n, _ROWS):
            _panel(pointer(rows, i * d), d, pointer(panels, j * d), _PANEL, d, pointer(scales, j), pointer(sums, 3 * j))
    for j in range(full, size, _LANES):
        for i in range(0, n, _ROWS):
            _vector(
                pointer(rows, i * d), d, pointer(panels, j * d), _LANES, d, pointer(scales, j), pointer(sums, 3 * j)
            )


@compiled
def add_weighted_powers(rows, n, weights, panels, scales, sums, one):
    """Add powers of rows times their weights; ``one`` is scratch of the size of the sums."""
    d, size = rows.shape[1], scales.shape[0]
    for i in range(n):
        row = pointer(rows, i * d)
        for j in range(3 * size):
            one[j] = 0
        j = 0
        while j < size:
            if j + _PANEL <= size:
                _row_panel(row, d, pointer(panels, j * d), _PANEL, d, pointer(scales, j), pointer(one, 3 * j))
                j += _PANEL
            else:
                _row_vector(row, d, pointer(panels, j * d), _LANES, d, pointer(scales, j), pointer(one, 3 * j))
                j += _LANES
        w = weights[i]
        for j in range(3 * size):
            sums[j] += w * one[j]
