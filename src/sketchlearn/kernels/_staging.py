"""What happens to a row before its phases are computed: checks, box, centring, choice of precision.

Everything here is a function of the row alone and is done in float64 in the order of the
coordinates, so that the choice between the float32 and the float64 path never depends on the
batch, the neighbours, the thread or the processor.
"""

# mypy: ignore-errors
import os
from pathlib import Path

import numpy as np
from numba import njit, types

from sketchlearn.kernels import _constants as K


def _cache_is_usable() -> bool:
    """True if compiled code can be kept on disk (numba raises at decoration time where it can't)."""
    if os.environ.get("SKETCHLEARN_NO_CACHE"):
        return False
    try:

        @njit(cache=True)
        def probe():  # pragma: no cover
            return 0

        return Path(probe.stats.cache_path).is_dir() or True
    except (RuntimeError, OSError):
        return False


CACHE = _cache_is_usable()


def _signatures(packed):
    """Read-only rows of either precision, contiguous or of any strides."""

    def frozen(dtype, ndim, layout="C"):
        return types.Array(dtype, ndim, layout, readonly=True)

    return [
        types.void(
            frozen(real, 2, layout), frozen(types.int64, 1), frozen(types.float64, 1), frozen(types.float64, 1),
            frozen(types.float32, packed), types.boolean, types.intp,
            types.int64[:, ::1], types.float64[::1], types.float64[::1], types.int64[::1],
        )
        for real in (types.float32, types.float64)
        for layout in ("C", "A")
    ]  # fmt: skip


SIGNATURES, PLAIN_SIGNATURES = _signatures(1), _signatures(2)
_FAR2 = K.FAR_PHASE**2
_MAX2 = K.MAX_PHASE**2


@njit(nogil=True, cache=CACHE, error_model="numpy", boundscheck=False)
def stage_block(X, i0, i1, weights, center, rms, skip, near, near_weight, far, far_weight, lower, upper, counts, info):
    """Copy the centred rows i0..i1 into ``near`` (float32) or ``far`` (float64).

    ``info`` = rows used, first invalid row (-1 if none), rows skipped, total weight.
    """
    d = X.shape[1]
    weighted = weights.shape[0] > 0
    near_count = far_count = 0
    raw, x = np.empty(d, np.float64), np.empty(d, np.float64)
    whole = d - d % 4
    for i in range(i0, i1):
        w = weights[i] if weighted else np.int64(1)
        if w == 0:
            continue
        for k in range(d):
            v = np.float64(X[i, k])
            raw[k] = v
            x[k] = v - center[k]
        # four partial sums (coordinates modulo 4), added in a fixed order
        s0 = s1 = s2 = s3 = 0.0
        for k in range(0, whole, 4):
            p0, p1 = rms[k] * x[k], rms[k + 1] * x[k + 1]
            p2, p3 = rms[k + 2] * x[k + 2], rms[k + 3] * x[k + 3]
            s0 += p0 * p0
            s1 += p1 * p1
            s2 += p2 * p2
            s3 += p3 * p3
        for k in range(whole, d):
            p0 = rms[k] * x[k]
            if k == whole:
                s0 += p0 * p0
            elif k == whole + 1:
                s1 += p0 * p0
            else:
                s2 += p0 * p0
        phase2 = (s0 + s1) + (s2 + s3)
        if not phase2 <= _MAX2:  # NaN, infinite, or too far for any phase to be meaningful
            if info[1] < 0:
                info[1] = i
            if not skip:
                return
            info[2] += 1
            continue
        info[0] += 1
        info[3] += w
        for k in range(d):
            lower[k] = raw[k] if raw[k] < lower[k] else lower[k]
            upper[k] = raw[k] if raw[k] > upper[k] else upper[k]
        if phase2 <= _FAR2:
            for k in range(d):
                near[near_count, k] = np.float32(x[k])
            near_weight[near_count] = w
            near_count += 1
        else:
            for k in range(d):
                far[far_count, k] = x[k]
            far_weight[far_count] = w
            far_count += 1
    counts[0] = near_count
    counts[1] = far_count
