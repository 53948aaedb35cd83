"""Last tier: NumPy alone, for platforms without numba.  Slow, and bit for bit the same.

NumPy has no fused multiply-add, so it is emulated exactly: the product is formed without error,
the sum is rounded *to odd* (never losing the information that something was cut off), and the
final rounding is then the correct one (Boldo and Melquiond, "Emulation of FMA and correctly rounded
sums: proved algorithms using rounding to odd", IEEE Trans. Computers 57(4), 2008).
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import _constants as K

_F32: TypeAlias = npt.NDArray[np.float32]
_F64: TypeAlias = npt.NDArray[np.float64]
_SPLIT = 2.0**27 + 1.0
_TILE = 512

LANES = 1


def _two_sum(a: _F64, b: _F64) -> tuple[_F64, _F64]:
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)


def _add_to_odd(a: _F64, b: _F64) -> _F64:
    """a + b rounded to the neighbour with an odd last bit, unless exact."""
    s, e = _two_sum(a, b)
    even = (s.view(np.int64) & 1) == 0
    return np.where((e != 0) & even, np.nextafter(s, np.where(e > 0, np.inf, -np.inf)), s)


def _fma32(a: _F32, b: _F32, c: _F32) -> _F32:
    product = a.astype(np.float64) * b.astype(np.float64)  # exact: 48 bits
    return _add_to_odd(product, np.broadcast_to(c, product.shape).astype(np.float64)).astype(np.float32)


def _fma64(a: _F64, b: _F64, c: _F64) -> _F64:
    p = a * b
    ta, tb = a * _SPLIT, b * _SPLIT  # Dekker's exact product
    ah, bh = ta - (ta - a), tb - (tb - b)
    al, bl = a - ah, b - bh
    low = ((ah * bh - p) + ah * bl + al * bh) + al * bl
    th, tl = _two_sum(np.broadcast_to(c, p.shape), low)
    vh, vl = _two_sum(p, th)
    return vh + _add_to_odd(tl, vl)


def _phases(x: npt.NDArray[np.floating], half_turns: npt.NDArray[np.floating], far: bool) -> npt.NDArray[Any]:
    """Phases in half-turns, (rows, frequencies), in float64 if far."""
    real = np.float64 if far else np.float32
    fma = _fma64 if far else _fma32
    x, w = x.astype(real), half_turns.astype(real)
    t = np.zeros((len(x), len(w)), real)
    for k in range(x.shape[1]):
        t = fma(x[:, k, None], w[None, :, k], t)  # type: ignore[arg-type]  # either precision
    return t


def rounded(t: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Grid units of cosine and sine of phases (half-turns, float32 or float64), stacked."""
    far = t.dtype == np.float64
    real = np.float64 if far else np.float32
    integer = np.int64 if far else np.int32
    fma = _fma64 if far else _fma32
    cos_poly, sin_poly = (K.COS64, K.SIN64) if far else (K.COS32, K.SIN32)
    parity, rounder = (K.PARITY64, K.ROUND64) if far else (K.PARITY32, K.ROUND32)
    negative = ((t + real(parity)).view(integer).astype(np.int64) & 1).astype(bool)
    r = t - np.rint(t)
    u = r * r
    out = np.empty((2, *t.shape), np.int64)
    for row, poly in ((0, cos_poly), (1, sin_poly)):
        v = np.full(t.shape, poly[-1], real)
        for coefficient in poly[-2::-1]:
            v = fma(v, u, np.full((1, 1), coefficient, real))  # type: ignore[arg-type]  # either precision
        if row == 1:
            v = v * r
        v = np.where(negative, -v, v) + real(rounder)
        out[row] = v.view(integer).astype(np.int64) - int(np.asarray(real(rounder)).view(integer))
    return out


def sum_rows(
    X: npt.NDArray[np.floating],
    weights: npt.NDArray[np.int64],
    center: _F64,
    rms: _F64,
    packed: _F32,
    skip: bool,
    block: int,
    sums: npt.NDArray[np.int64],
    lower: _F64,
    upper: _F64,
    info: npt.NDArray[np.int64],
) -> None:
    """The whole pass over the rows of X; see :func:`sketchlearn.kernels.fourier.sum_rows`."""
    for i0 in range(0, len(X), block):
        raw = np.asarray(X[i0 : i0 + block], np.float64)
        w = weights[i0 : i0 + block] if len(weights) else np.ones(len(raw), np.int64)
        alive = w != 0
        with np.errstate(all="ignore"):
            x = raw - center
            partial = np.zeros((4, len(x)))  # coordinates modulo 4, as the compiled tiers do
            for k in range(x.shape[1]):
                p = rms[k] * x[:, k]
                partial[k % 4] += p * p
            phase2 = (partial[0] + partial[1]) + (partial[2] + partial[3])
            valid = phase2 <= K.MAX_PHASE**2
        bad = np.flatnonzero(alive & ~valid)
        if len(bad):
            if info[1] < 0:
                info[1] = i0 + bad[0]
            if not skip:
                return
            info[2] += len(bad)
        use = alive & valid
        if not use.any():
            continue
        info[0] += int(use.sum())
        info[3] += int(w[use].sum())
        np.minimum(lower, raw[use].min(0), out=lower)
        np.maximum(upper, raw[use].max(0), out=upper)
        for chosen, far in ((use & (phase2 <= K.FAR_PHASE**2), False), (use & (phase2 > K.FAR_PHASE**2), True)):
            if chosen.any():
                for j0 in range(0, len(packed), _TILE):
                    units = rounded(_phases(x[chosen], packed[j0 : j0 + _TILE], far))
                    sums[:, j0 : j0 + _TILE] += (units * w[chosen][None, :, None]).sum(1)


def pack(half_turns: _F32) -> _F32:
    """Frequencies as they are."""
    return half_turns
