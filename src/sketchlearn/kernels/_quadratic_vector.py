"""First tier of the quadratic pass: projections in registers, squared and summed without leaving them.

The same register tile as for Fourier features (see ``_tile``).  A tile's squares are added in float32 (a handful of
terms) and then to float64 sums, or each is rounded to the grid and added to int64 sums.
"""

# mypy: ignore-errors
from llvmlite import ir
from numba import types

from sketchlearn.kernels._columns import scan_rows as scan_rows
from sketchlearn.kernels._columns import stage_rows as stage_rows
from sketchlearn.kernels._compile import compiled, pointer
from sketchlearn.kernels._tile import I64, LANES, PANEL, PANEL_VECTORS, TILE_ROWS, tile
from sketchlearn.kernels._vector import pack as pack

_TWO = 0x40000000  # bits of 2.0f: from there to 4 the spacing of float32 is 2**-22


def _squares(vectors, v, projections, scales, sums):
    b, wide = vectors.b, ir.VectorType(ir.DoubleType(), LANES)
    total = b.fmul(projections[0], projections[0])
    for t in projections[1:]:
        total = vectors.call("fma", t, t, total)
    place = vectors.place(sums, v, ir.DoubleType())
    b.store(b.fadd(b.load(place, align=8), b.fpext(total, wide)), place, align=8)


def _rounded_squares(vectors, v, projections, scales, sums):
    b = vectors.b
    scale = b.load(vectors.place(scales, v, ir.FloatType()), align=4)
    one, total = vectors.constant(1.0), vectors.whole(0)
    for t in projections:
        s = b.fmul(b.fmul(t, t), scale)
        s = b.select(b.fcmp_ordered("<", s, one), s, one)
        units = b.sub(b.bitcast(b.fadd(s, vectors.constant(2.0)), vectors.ivec), vectors.whole(_TWO))
        total = b.add(total, units)
    place = vectors.place(sums, v, I64)
    b.store(b.add(b.load(place, align=8), b.sext(total, ir.VectorType(I64, LANES))), place, align=8)


def _kernel(mr, nv, epilogue):
    return tile(32, mr, nv, {types.float64 if epilogue is _squares else types.int64: epilogue})


_float_panel, _float_vector = _kernel(TILE_ROWS, PANEL_VECTORS, _squares), _kernel(TILE_ROWS, 1, _squares)
_grid_panel, _grid_vector = _kernel(TILE_ROWS, PANEL_VECTORS, _rounded_squares), _kernel(TILE_ROWS, 1, _rounded_squares)
_row_panel, _row_vector = _kernel(1, PANEL_VECTORS, _rounded_squares), _kernel(1, 1, _rounded_squares)
_LANES, _PANEL, _ROWS = LANES, PANEL, TILE_ROWS


@compiled
def add_squares(rows, n, panels, scales, sums):
    """Add the squared projections of the first n staged rows to float64 ``sums``; rows are padded with zeros."""
    d, size = rows.shape[1], sums.shape[0]
    full = size - size % _PANEL
    for j in range(0, full, _PANEL):
        for i in range(0, n, _ROWS):
            _float_panel(
                pointer(rows, i * d), d, pointer(panels, j * d), _PANEL, d, pointer(scales, j), pointer(sums, j)
            )
    for j in range(full, size, _LANES):
        for i in range(0, n, _ROWS):
            _float_vector(
                pointer(rows, i * d), d, pointer(panels, j * d), _LANES, d, pointer(scales, j), pointer(sums, j)
            )


@compiled
def add_rounded_squares(rows, n, panels, scales, sums):
    """Add squares, rounded to the grid of 2**-22, to int64 ``sums``."""
    d, size = rows.shape[1], sums.shape[0]
    full = size - size % _PANEL
    for j in range(0, full, _PANEL):
        for i in range(0, n, _ROWS):
            _grid_panel(
                pointer(rows, i * d), d, pointer(panels, j * d), _PANEL, d, pointer(scales, j), pointer(sums, j)
            )
    for j in range(full, size, _LANES):
        for i in range(0, n, _ROWS):
            _grid_vector(
                pointer(rows, i * d), d, pointer(panels, j * d), _LANES, d, pointer(scales, j), pointer(sums, j)
            )


@compiled
def add_weighted_squares(rows, n, weights, panels, scales, sums, one):
    """Add rounded squares of rows times their weights; ``one`` is scratch of the size of the sums."""
    d, size = rows.shape[1], sums.shape[0]
    for i in range(n):
        row = pointer(rows, i * d)
        for j in range(size):
            one[j] = 0
        j = 0
        while j < size:
            if j + _PANEL <= size:
                _row_panel(row, d, pointer(panels, j * d), _PANEL, d, pointer(scales, j), pointer(one, j))
                j += _PANEL
            else:
                _row_vector(row, d, pointer(panels, j * d), _LANES, d, pointer(scales, j), pointer(one, j))
                j += _LANES
        w = weights[i]
        for j in range(size):
            sums[j] += w * one[j]
