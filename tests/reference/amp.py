"""Output step of message passing in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_F32 = npt.NDArray[np.float32]


def interference(cosine: _F32, sine: _F32, spread: _F32, amplitude: _F32, sums: _F32) -> None:
    """See :func:`sketchlearn.kernels.amp.interference`."""
    for row, part in enumerate(_parts(cosine, sine, spread, amplitude)):
        sums[row] = part.sum(0)


def _parts(cosine: _F32, sine: _F32, spread: _F32, amplitude: _F32) -> tuple[_F32, _F32, _F32, _F32, _F32]:
    """What each component adds to the five sums."""
    square = spread * spread
    w = np.float32(0.5) * amplitude * amplitude * (1 - square)
    mean, double = amplitude * spread, w * square
    return (
        mean * cosine,
        mean * sine,
        w,
        double * (cosine * cosine - sine * sine),
        double * np.float32(2.0) * cosine * sine,
    )


def moments(
    cosine: _F32,
    sine: _F32,
    spread: _F32,
    amplitude: _F32,
    sums: _F32,
    sketch: _F32,
    nugget: _F32,
    widths: _F32,
    reach: np.float32,
    grid: _F32,
    logs: _F32,
    shift: _F32,
    left: _F32,
) -> None:
    """See :func:`sketchlearn.kernels.amp.moments`."""
    shift[:], left[:] = 0, 1
    step = grid[1] - grid[0]
    for i in range(len(cosine)):
        at = np.flatnonzero(widths[i] < reach)
        c, s, b, g = cosine[i, at], sine[i, at], amplitude[i, at], widths[i, at]
        own = _parts(c, s, spread[i, at], b)
        trace = np.maximum(sums[2, at] - own[2], np.float32(1e-6) * sums[2, at]) + nugget[at]
        one, two = sums[3, at] - own[3], sums[4, at] - own[4]
        determinant = np.maximum(trace**2 - one**2 - two**2, np.float32(1e-6) * trace**2)
        r0, r1 = sketch[0, at] - (sums[0, at] - own[0]), sketch[1, at] - (sums[1, at] - own[1])
        scale = b / determinant
        lc, ls = scale * ((trace + one) * r0 + two * r1), scale * (two * r0 + (trace - one) * r1)
        qc, qs = -0.5 * b * scale * one, -0.5 * b * scale * two
        c2, s2 = c * c - s * s, 2 * c * s
        terms = (lc * c + ls * s, ls * c - lc * s, qc * c2 + qs * s2, qs * c2 - qc * s2)
        x = np.broadcast_to(grid, (len(at), len(grid)))
        mean, variance, peak = _sums(g, terms, x)
        narrow = np.flatnonzero(~(variance > np.float32(0.5) * step * step))
        least = np.full(len(at), step * step / np.float32(12.0))
        if len(narrow):
            zoom = np.float32(-2.0) * step / grid[0]
            x = grid[peak[narrow]][:, None] + zoom * grid
            mean[narrow], variance[narrow], _ = _sums(g[narrow], tuple(t[narrow] for t in terms), x)
            least[narrow] *= zoom * zoom
        shift[i, at], left[i, at] = mean, np.maximum(variance, least)


def _sums(g: _F32, terms: tuple[_F32, ...], x: _F32) -> tuple[_F32, _F32, npt.NDArray[np.intp]]:
    """Mean and variance on the points x (frequencies, points), and which of them is highest."""
    along, across, along2, across2 = (t[:, None] for t in terms)
    angle = g[:, None] * x
    c, s = np.cos(angle), np.sin(angle)
    logs = along * c + across * s + along2 * (1 - 2 * s * s) + across2 * 2 * s * c - np.float32(0.5) * x * x
    peak = logs.argmax(1)
    p = np.exp(logs - logs.max(1, keepdims=True))
    total = p.sum(1)
    mean = (p * x).sum(1) / total
    return mean, (p * x * x).sum(1) / total - mean * mean, peak
