"""Reference of the Fourier pass in NumPy alone: slow, and bit for bit the same.

NumPy has no fused multiply-add, so it is emulated exactly: the product is formed without error,
the sum is rounded *to odd* (never losing the information that something was cut off), and the
final rounding is then the correct one (Boldo and Melquiond, "Emulation of FMA and correctly rounded
sums: proved algorithms using rounding to odd", IEEE Trans. Computers 57(4), 2008).
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels.fourier import odd, signs, squared_phases

_F32: TypeAlias = npt.NDArray[np.float32]
_F64: TypeAlias = npt.NDArray[np.float64]
_I64: TypeAlias = npt.NDArray[np.int64]
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


def fma32(a: _F32, b: _F32, c: _F32) -> _F32:
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


def _phases(x: npt.NDArray[np.floating], half_turns: npt.NDArray[np.floating]) -> npt.NDArray[Any]:
    """Phases in half-turns, (rows, frequencies), in the precision of the rows."""
    fma = _fma64 if x.dtype == np.float64 else fma32
    w = half_turns.astype(x.dtype)
    t = np.zeros((len(x), len(w)), x.dtype)
    for k in range(x.shape[1]):
        t = fma(x[:, k, None], w[None, :, k], t)  # type: ignore[arg-type]  # either precision
    return t


def waves(t: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Grid units of cosine and sine of phases (half-turns, float32 or float64), stacked."""
    far = t.dtype == np.float64
    real = np.float64 if far else np.float32
    integer = np.int64 if far else np.int32
    fma = _fma64 if far else fma32
    cos_poly, sin_poly = (K.COS64, K.SIN64) if far else (K.COS32, K.SIN32)
    rounder = K.ROUND64 if far else K.ROUND32
    negative = odd(t).astype(bool)
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


def stage(
    X: npt.NDArray[np.floating], weights: _I64, place: _F64, near: _F32, far: _F64, near_weight: _I64,
    far_weight: _I64, counts: _I64, box: _F64, info: _I64,
) -> None:  # fmt: skip
    """See the compiled staging."""
    raw = np.asarray(X, np.float64)
    w = weights if len(weights) else np.ones(len(raw), np.int64)
    centred, phase2 = squared_phases(raw, place)
    valid = phase2 <= K.MAX_PHASE**2
    use = valid & (w != 0)
    starts = counts[1].copy()
    for g in range(len(starts) - 1):
        run = slice(starts[g], starts[g + 1])
        bad = np.flatnonzero(~valid[run] & (w[run] != 0))
        if len(bad) and info[g, 1] < 0:
            info[g, 1] = info[g, 4] + bad[0]
        info[g] += 0, 0, len(bad), w[run][use[run]].sum(), starts[g + 1] - starts[g]
        info[g, 0] += use[run].sum()
        if use[run].any():
            np.minimum(box[g, 0], raw[run][use[run]].min(0), out=box[g, 0])
            np.maximum(box[g, 1], raw[run][use[run]].max(0), out=box[g, 1])
    for part, chosen in enumerate((use & (phase2 <= K.FAR_PHASE**2), use & (phase2 > K.FAR_PHASE**2))):
        rows, kept = ((near, near_weight), (far, far_weight))[part]
        counts[part] = np.concatenate([[0], np.cumsum(chosen)])[starts]
        rows[: chosen.sum(), : raw.shape[1]] = centred[chosen]
        kept[: chosen.sum()] = w[chosen]


Units = Callable[[npt.NDArray[Any]], _I64]


def _adder(units: Units) -> Callable[..., None]:
    """Adds what `units` makes of the phases of the rows of each run to its sums (runs, 2, size)."""

    def add(rows: npt.NDArray[np.floating], weights: _I64, runs: _I64, panels: _F32, sums: _I64, scratch: None) -> None:
        for g in range(len(runs) - 1):
            for i in range(runs[g], runs[g + 1], K.FLUSH_ROWS):
                block = slice(i, min(runs[g + 1], i + K.FLUSH_ROWS))
                for j in range(0, len(panels), _TILE):
                    part = units(_phases(rows[block], panels[j : j + _TILE]))
                    sums[g, :, j : j + _TILE] += (part * weights[block][None, :, None]).sum(1)

    return add


add_near = add_far = _adder(waves)
count_near = count_far = _adder(signs)


def scratch(far: bool, signs_only: bool = False) -> None:
    """Nothing is needed beside the sums."""


def pack(rows: _F32) -> _F32:
    """Frequencies as they are."""
    return rows
