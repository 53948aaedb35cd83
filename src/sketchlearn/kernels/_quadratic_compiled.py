"""What happens to a row before its squares are summed: checks, box, centring, clipping, scaling."""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels._compile import compiled, fma
from sketchlearn.kernels._quadratic_rows import squared_lengths as squared_lengths

_UNITS = 2.0**K.GRID_BITS


@compiled
def stage(X, i0, i1, weights, shift, scale, out, lower, upper, linear):
    """Rows i0..i1 of X, shifted, scaled and multiplied by the root of their weight, into ``out``.

    The types of ``shift`` and ``scale`` are the precision of it all.  A row that is not finite shows in ``linear``.
    """
    d = X.shape[1]
    if weights.shape[0] > 0:
        for i in range(i0, i1):
            w = weights[i]
            root = np.sqrt(w)
            for k in range(d):
                v = X[i, k]
                u = (v - shift[k]) * scale
                lower[k] = v if v < lower[k] else lower[k]
                upper[k] = v if v > upper[k] else upper[k]
                linear[k] += w * u
                out[i - i0, k] = u * root
        return
    i = i0
    while i + 4 <= i1:  # four rows at a time: the bookkeeping of short rows costs as much as the rows
        r = i - i0
        for k in range(d):
            v0, v1, v2, v3 = X[i, k], X[i + 1, k], X[i + 2, k], X[i + 3, k]
            u0, u1 = (v0 - shift[k]) * scale, (v1 - shift[k]) * scale
            u2, u3 = (v2 - shift[k]) * scale, (v3 - shift[k]) * scale
            small, small2 = v0 if v0 < v1 else v1, v2 if v2 < v3 else v3
            small = small if small < small2 else small2
            large, large2 = v0 if v0 > v1 else v1, v2 if v2 > v3 else v3
            large = large if large > large2 else large2
            lower[k] = small if small < lower[k] else lower[k]
            upper[k] = large if large > upper[k] else upper[k]
            linear[k] += (u0 + u1) + (u2 + u3)
            out[r, k], out[r + 1, k], out[r + 2, k], out[r + 3, k] = u0, u1, u2, u3
        i += 4
    while i < i1:
        for k in range(d):
            v = X[i, k]
            u = (v - shift[k]) * scale
            lower[k] = v if v < lower[k] else lower[k]
            upper[k] = v if v > upper[k] else upper[k]
            linear[k] += u
            out[i - i0, k] = u
        i += 1


@compiled
def stage_clipped(X, i0, i1, weights, center, radius, bits, out, lower, upper, linear, x):
    """Rows i0..i1 over the radius, clipped to the unit ball, into ``out``; first moment in grid units.

    With ``bits`` >= 0 the rows are rounded to integers of that many bits.  Returns the first row that is not finite
    or absurdly far out, or -1.  Everything is a function of the row alone: the norm is summed in four partial sums
    (coordinates modulo 4) that are added in a fixed order.  ``x`` is scratch, (d,).
    """
    d = X.shape[1]
    weighted = weights.shape[0] > 0
    inverse = 1.0 / radius
    step = np.float64(1 << bits) if bits >= 0 else _UNITS
    whole = d - d % 4
    for i in range(i0, i1):
        for k in range(d):
            x[k] = (np.float64(X[i, k]) - center[k]) * inverse
        s0 = s1 = s2 = s3 = 0.0
        for k in range(0, whole, 4):
            s0 += x[k] * x[k]
            s1 += x[k + 1] * x[k + 1]
            s2 += x[k + 2] * x[k + 2]
            s3 += x[k + 3] * x[k + 3]
        if whole < d:
            s0 += x[whole] * x[whole]
        if whole + 1 < d:
            s1 += x[whole + 1] * x[whole + 1]
        if whole + 2 < d:
            s2 += x[whole + 2] * x[whole + 2]
        norm2 = (s0 + s1) + (s2 + s3)
        if not norm2 <= 1e280:
            return i
        factor = 1.0 if norm2 <= 1.0 else 1.0 / np.sqrt(norm2)
        w = weights[i] if weighted else np.int64(1)
        for k in range(d):
            v = np.float64(X[i, k])
            lower[k] = v if v < lower[k] else lower[k]
            upper[k] = v if v > upper[k] else upper[k]
        for k in range(d):
            u = min(max(x[k] * factor, -1.0), 1.0)
            q = np.rint(u * step)
            linear[k] += w * np.int64(q)
            out[i - i0, k] = q if bits >= 0 else u
    return -1


@compiled
def fold_products(triangle, p, s, weight, high_out, low_out):
    """triangle + s p' + p s' + weight p p' as pairs, upper triangle; see ``_pairs`` for the arithmetic."""
    d = p.shape[0]
    at = 0
    for i in range(d):
        pi, si = p[i], s[i]
        wp = pi * weight
        wp_low = fma(pi, weight, -wp)
        for j in range(i, d):
            a = pi * s[j]
            a_low = fma(pi, s[j], -a)
            b = si * p[j]
            b_low = fma(si, p[j], -b)
            c = wp * p[j]
            c_low = fma(wp, p[j], -c) + wp_low * p[j]
            x = a + b
            v = x - a
            e = (a - (x - v)) + (b - v)
            y = x + c
            v = y - x
            f = (x - (y - v)) + (c - v)
            t = triangle[at + j - i]
            z = y + t
            v = z - y
            g = (y - (z - v)) + (t - v)
            low = ((a_low + b_low) + (c_low + e)) + (f + g)
            high = z + low
            high_out[at + j - i] = high
            low_out[at + j - i] = (z - high) + low
        at += d - i


@compiled
def add_pairs(a, b, out):
    """Sums of pairs."""
    for j in range(a.shape[1]):
        x, y = a[0, j], b[0, j]
        s = x + y
        v = s - x
        e = (x - (s - v)) + (y - v)
        x, y = a[1, j], b[1, j]
        t = x + y
        v = t - x
        f = (x - (t - v)) + (y - v)
        e += t
        high = s + e
        low = ((s - high) + e) + f
        total = high + low
        out[0, j] = total
        out[1, j] = (high - total) + low


@compiled
def add_triangle(square, triangle):
    """Add the upper triangle of a matrix, row by row, to a vector."""
    d = square.shape[0]
    at = 0
    for i in range(d):
        for j in range(i, d):
            triangle[at] += square[i, j]
            at += 1
