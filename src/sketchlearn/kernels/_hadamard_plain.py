"""Second tier of the structured pass: plain loops that the compiler vectorises; the bits of the first tier."""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels._compile import compiled
from sketchlearn.kernels._plain import signs_far, signs_near, waves_far, waves_near

SMALLEST = 1
_UNITS = np.float32(1 << K.GRID_BITS)


@compiled
def _transform(a, p, stage):
    """Walsh-Hadamard transform of the first row of a, in place; the order of levels is that of ``hadamard.levels``."""
    q = 0
    while 1 << q < p:
        q += 1
    for step in range(q):
        bit = q - 1 - step
        if stage == 1 and bit < 6:
            # bits 2, 1, 0 first, then 5, 4, 3
            low, behind = min(q, 3), step - (q - min(q, 6))
            bit = low - 1 - behind if behind < low else min(q, 6) - 1 - (behind - low)
        h = 1 << bit
        for i in range(0, p, 2 * h):
            for j in range(i, i + h):
                u, v = a[0, j], a[0, j + h]
                a[0, j] = u + v
                a[0, j + h] = u - v


@compiled
def _project(rows, i, diagonals, permutation, b, a):
    """One block applied to a row, in the first row of a."""
    p = rows.shape[1]
    for k in range(p):
        a[0, k] = rows[i, k]
    for stage in range(diagonals.shape[1]):
        if stage == 1 and permutation.shape[0] > 0:
            for k in range(p):
                a[1, k] = a[0, permutation[b, k]]
            for k in range(p):
                a[0, k] = a[1, k]
        for k in range(p):
            a[0, k] *= diagonals[b, stage, k]
        _transform(a, p, stage)


@compiled
def add_near(rows, weights, runs, tables, sums, scratch):
    """Add the float32 rows of each run to its sums (runs, 2, blocks * p); ``scratch`` is float32 (4, p)."""
    diagonals, permutation, radius, _ = tables
    p = rows.shape[1]
    for g in range(runs.shape[0] - 1):
        for b in range(diagonals.shape[0]):
            at = b * p
            for i in range(runs[g], runs[g + 1]):
                _project(rows, i, diagonals, permutation, b, scratch)
                for j in range(p):
                    scratch[0, j] *= radius[at + j]
                waves_near(scratch, p, weights[i], sums, g, at)


@compiled
def add_far(rows, weights, runs, tables, sums, scratch):
    """Add the float64 rows of each run to its sums; ``scratch`` is float64 (4, p)."""
    diagonals, permutation, radius, _ = tables
    p = rows.shape[1]
    for g in range(runs.shape[0] - 1):
        for b in range(diagonals.shape[0]):
            at = b * p
            for i in range(runs[g], runs[g + 1]):
                _project(rows, i, diagonals, permutation, b, scratch)
                for j in range(p):
                    t = scratch[0, j] * np.float64(radius[at + j])
                    waves_far(t, weights[i], scratch, sums, g, at + j)


@compiled
def count_near(rows, weights, runs, tables, sums, scratch):
    """Add one where a cosine or sine of a float32 row is negative."""
    diagonals, permutation, radius, dither = tables
    p = rows.shape[1]
    for g in range(runs.shape[0] - 1):
        for b in range(diagonals.shape[0]):
            at = b * p
            for i in range(runs[g], runs[g + 1]):
                _project(rows, i, diagonals, permutation, b, scratch)
                for j in range(p):
                    scratch[0, j] *= radius[at + j]
                    scratch[0, j] = scratch[0, j] + dither[at + j]
                signs_near(scratch, p, weights[i], sums, g, at)


@compiled
def count_far(rows, weights, runs, tables, sums, scratch):
    """Add one where a cosine or sine of a float64 row is negative."""
    diagonals, permutation, radius, dither = tables
    p = rows.shape[1]
    for g in range(runs.shape[0] - 1):
        for b in range(diagonals.shape[0]):
            at = b * p
            for i in range(runs[g], runs[g + 1]):
                _project(rows, i, diagonals, permutation, b, scratch)
                for j in range(p):
                    t = scratch[0, j] * np.float64(radius[at + j])
                    t = t + np.float64(dither[at + j])
                    signs_far(t, weights[i], scratch, sums, g, at + j)


def pack(diagonals, permutation):
    """Tables as they are."""
    return diagonals, permutation


def pack_sums(diagonals, permutation, radius, dither):
    """Tables as they are."""
    return diagonals, permutation, radius, dither


def scratch(far, signs_only, width):
    """Numbers that a pass needs beside its sums."""
    return np.empty((4, max(width, 1)), np.float64 if far else np.float32)


@compiled
def forward(points, tables, out, scratch):
    """Products of the blocks with points (k, p), times `radius`, into out (k, blocks * p)."""
    diagonals, permutation, radius = tables
    p = points.shape[1]
    for b in range(diagonals.shape[0]):
        for i in range(points.shape[0]):
            _project(points, i, diagonals, permutation, b, scratch)
            for j in range(p):
                out[i, b * p + j] = scratch[0, j] * radius[b * p + j]


@compiled
def adjoint(values, tables, out, scratch):
    """Adjoint of :func:`forward`: values (k, blocks * p) are added to out (k, p)."""
    diagonals, permutation, radius = tables
    p = out.shape[1]
    for b in range(diagonals.shape[0]):
        for i in range(values.shape[0]):
            for j in range(p):
                scratch[0, j] = values[i, b * p + j] * radius[b * p + j]
            _transform(scratch, p, 0)
            for stage in range(diagonals.shape[1] - 1, 0, -1):
                for k in range(p):
                    scratch[0, k] *= diagonals[b, stage, k]
                if permutation.shape[0] > 0:
                    for k in range(p):
                        scratch[1, permutation[b, k]] = scratch[0, k]
                    for k in range(p):
                        scratch[0, k] = scratch[1, k]
                _transform(scratch, p, stage)
            for k in range(p):
                out[i, k] += scratch[0, k] * diagonals[b, 0, k]


@compiled
def add_squares(rows, count, tables, sums, scratch):
    """Add the squares of the products of the blocks with some rows (n, p) to float64 sums (blocks * p,)."""
    diagonals, permutation, radius = tables
    p = rows.shape[1]
    for b in range(diagonals.shape[0]):
        for i in range(count):
            _project(rows, i, diagonals, permutation, b, scratch)
            for j in range(p):
                t = np.float64(scratch[0, j] * radius[b * p + j])
                sums[b * p + j] += t * t


@compiled
def add_rounded_squares(rows, count, weights, tables, sums, scratch):
    """Add squares in units of 2**-22, times weights, to int64 sums."""
    diagonals, permutation, radius = tables
    p = rows.shape[1]
    for b in range(diagonals.shape[0]):
        for i in range(count):
            w = weights[i]
            _project(rows, i, diagonals, permutation, b, scratch)
            for j in range(p):
                t = scratch[0, j] * radius[b * p + j]
                sums[b * p + j] += w * np.int64(np.rint(t * t * _UNITS))
