"""What happens to a row before its phases are computed: checks, box, centring, choice of precision.

Everything here is a function of the row alone and is done in float64 in the order of the
coordinates, so that the choice between the float32 and the float64 path never depends on the
batch, the neighbours, the thread or the processor.
"""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels import _constants as K
from sketchlearn.kernels._compile import compiled

_FAR2 = K.FAR_PHASE**2
_MAX2 = K.MAX_PHASE**2


@compiled
def stage(X, weights, place, near, far, near_weight, far_weight, counts, box, info):
    """Put the centred rows of X into ``near`` (float32) or ``far`` (float64).

    `X`, `weights`: A block of rows; weights may be empty. `place`: centre, and rms frequency per column, (2, d).
    `counts`: on return the first row of each run among the near ones, then among the far ones, (2, runs + 1). On entry
    the second row holds where the runs begin in X. `box`, `info`: kept per run, (runs, 2, d), (runs, 5): smallest and
    largest value; rows used, first invalid row (-1 if none), rows skipped, total weight, and rows seen so far.
    """
    d = X.shape[1]
    weighted = weights.shape[0] > 0
    whole = d - d % 4
    near_count = far_count = 0
    for g in range(counts.shape[1] - 1):
        first, last = counts[1, g], counts[1, g + 1]
        counts[0, g] = near_count
        counts[1, g] = far_count
        waiting = i0 = i1 = i2 = 0
        for i in range(first, last):
            w = weights[i] if weighted else np.int64(1)
            if w == 0:
                continue
            # four partial sums (coordinates modulo 4), added in a fixed order; most rows are near and put there at once
            s0 = s1 = s2 = s3 = 0.0
            for k in range(0, whole, 4):
                x0, x1 = np.float64(X[i, k]) - place[0, k], np.float64(X[i, k + 1]) - place[0, k + 1]
                x2, x3 = np.float64(X[i, k + 2]) - place[0, k + 2], np.float64(X[i, k + 3]) - place[0, k + 3]
                p0, p1, p2, p3 = place[1, k] * x0, place[1, k + 1] * x1, place[1, k + 2] * x2, place[1, k + 3] * x3
                near[near_count, k] = np.float32(x0)
                near[near_count, k + 1] = np.float32(x1)
                near[near_count, k + 2] = np.float32(x2)
                near[near_count, k + 3] = np.float32(x3)
                s0 += p0 * p0
                s1 += p1 * p1
                s2 += p2 * p2
                s3 += p3 * p3
            for k in range(whole, d):
                x0 = np.float64(X[i, k]) - place[0, k]
                near[near_count, k] = np.float32(x0)
                p0 = place[1, k] * x0
                if k == whole:
                    s0 += p0 * p0
                elif k == whole + 1:
                    s1 += p0 * p0
                else:
                    s2 += p0 * p0
            phase2 = (s0 + s1) + (s2 + s3)
            if not phase2 <= _MAX2:  # NaN, infinite, or too far for any phase to be meaningful
                if info[g, 1] < 0:
                    info[g, 1] = info[g, 4] + i - first
                info[g, 2] += 1
                continue
            info[g, 0] += 1
            info[g, 3] += w
            # rows wait for the box until there are four: it is loaded and stored once for all of them
            if waiting == 0:
                i0 = i
            elif waiting == 1:
                i1 = i
            elif waiting == 2:
                i2 = i
            waiting += 1
            if waiting == 4:
                waiting = 0
                for k in range(d):
                    a, b, e, f = X[i0, k], X[i1, k], X[i2, k], X[i, k]
                    a, b = (a, b) if a < b else (b, a)
                    e, f = (e, f) if e < f else (f, e)
                    v, u = np.float64(a if a < e else e), np.float64(b if b > f else f)
                    # loaded first, so that the stores are unconditional and the loop is vectorised
                    low, high = box[g, 0, k], box[g, 1, k]
                    low = v if v < low else low
                    high = u if u > high else high
                    box[g, 0, k] = low
                    box[g, 1, k] = high
            if phase2 <= _FAR2:
                near_weight[near_count] = w
                near_count += 1
            else:
                for k in range(d):
                    far[far_count, k] = np.float64(X[i, k]) - place[0, k]
                far_weight[far_count] = w
                far_count += 1
        for j in range(waiting):
            i = i0 if j == 0 else (i1 if j == 1 else i2)
            for k in range(d):
                v = np.float64(X[i, k])
                low, high = box[g, 0, k], box[g, 1, k]
                low = v if v < low else low
                high = v if v > high else high
                box[g, 0, k] = low
                box[g, 1, k] = high
        info[g, 4] += last - first
    counts[0, counts.shape[1] - 1] = near_count
    counts[1, counts.shape[1] - 1] = far_count
