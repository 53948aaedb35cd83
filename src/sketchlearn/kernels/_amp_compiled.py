"""Compiled output step of message passing: the loop over the points of a grid is vectorised by the compiler."""

# mypy: ignore-errors

import numpy as np

from sketchlearn.kernels._atoms_compiled import _EXP2, _LOG2E, _as_float, turned
from sketchlearn.kernels._compile import compiled

_TINY = np.float32(-125.0)
_RESOLVED = np.float32(0.5)  # variance over the squared step from which the sum is exact to a thousandth
_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)


@compiled(fastmath=True)
def interference(cosine, sine, spread, amplitude, sums):
    """See :func:`sketchlearn.kernels.amp.interference`."""
    k, m = cosine.shape
    for j in range(m):
        for row in range(5):
            sums[row, j] = _ZERO
    for i in range(k):
        for j in range(m):
            c, s, e, b = cosine[i, j], sine[i, j], spread[i, j], amplitude[i, j]
            e2 = e * e
            w = _HALF * b * b * (_ONE - e2)
            sums[0, j] += b * e * c
            sums[1, j] += b * e * s
            sums[2, j] += w
            sums[3, j] += w * e2 * (c * c - s * s)
            sums[4, j] += w * e2 * (_ONE + _ONE) * c * s


@compiled(fastmath=True)
def moments(cosine, sine, spread, amplitude, sums, sketch, nugget, widths, reach, grid, logs, shift, left):
    """See :func:`sketchlearn.kernels.amp.moments`."""
    k, m = cosine.shape
    points = len(grid)
    step = grid[1] - grid[0]
    for i in range(k):
        for j in range(m):
            g = widths[i, j]
            if not g < reach:
                shift[i, j] = _ZERO
                left[i, j] = _ONE
                continue
            c, s, e, b = cosine[i, j], sine[i, j], spread[i, j], amplitude[i, j]
            e2 = e * e
            w = _HALF * b * b * (_ONE - e2)
            c2, s2 = c * c - s * s, (_ONE + _ONE) * c * s
            s0 = max(sums[2, j] - w, np.float32(1e-6) * sums[2, j]) + nugget[j]
            s1 = sums[3, j] - w * e2 * c2
            s2_ = sums[4, j] - w * e2 * s2
            det = max(s0 * s0 - s1 * s1 - s2_ * s2_, np.float32(1e-6) * s0 * s0)
            r0 = sketch[0, j] - (sums[0, j] - b * e * c)
            r1 = sketch[1, j] - (sums[1, j] - b * e * s)
            scale = b / det
            lc = scale * ((s0 + s1) * r0 + s2_ * r1)
            ls = scale * (s2_ * r0 + (s0 - s1) * r1)
            # (the mean phase taken out: theta = mean + g x)
            qc = -_HALF * b * scale * s1
            qs = -_HALF * b * scale * s2_
            along, across = lc * c + ls * s, ls * c - lc * s
            along2, across2 = qc * c2 + qs * s2, qs * c2 - qc * s2
            first, zoom, h = _ZERO, _ONE, step
            for attempt in range(2):
                for n in range(points):
                    x = first + zoom * grid[n]
                    ct, st, sign = turned(g * x)
                    double = (_ONE + _ONE) * st
                    value = (
                        sign * (along * ct + across * st)
                        + along2 * (_ONE - double * st)
                        + across2 * double * ct
                        - _HALF * x * x
                    )
                    logs[n] = value
                top = logs[0]
                for n in range(points):
                    top = max(top, logs[n])
                total, first_moment, second = _ZERO, _ZERO, _ZERO
                for n in range(points):
                    x = first + zoom * grid[n]
                    y = (logs[n] - top) * _LOG2E
                    y = y if y > _TINY else _TINY
                    whole = np.rint(y)
                    y = y - whole
                    p = _EXP2[0]
                    p = p * y + _EXP2[1]
                    p = p * y + _EXP2[2]
                    p = p * y + _EXP2[3]
                    p = p * y + _EXP2[4]
                    p = p * y + _EXP2[5]
                    p = p * y + _EXP2[6]
                    p = p * _as_float((np.int32(whole) + np.int32(127)) << np.int32(23))
                    total += p
                    first_moment += p * x
                    second += p * x * x
                mean = first_moment / total
                variance = second / total - mean * mean
                if attempt == 1 or variance > _RESOLVED * h * h:
                    break
                best = 0
                for n in range(points):
                    if logs[n] == top:
                        best = n
                # two steps to either side of the highest point
                first, zoom = grid[best], -np.float32(2.0) * step / grid[0]
                h = zoom * step
            shift[i, j] = mean
            left[i, j] = max(variance, h * h / np.float32(12.0))
