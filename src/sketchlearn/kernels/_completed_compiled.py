"""The compiled loops that fill the gaps of rows: every operation in a fixed order, so that all machines agree."""

# mypy: ignore-errors
import numpy as np

from sketchlearn.kernels._compile import compiled


@compiled
def invert(matrix, factor, out):
    """Inverse of a positive definite matrix (d, d) in `out`; False if it has none.  `factor`: a buffer (d, d)."""
    d = matrix.shape[0]
    for i in range(d):
        for j in range(i + 1):
            s = matrix[i, j]
            for k in range(j):
                s -= factor[i, k] * factor[j, k]
            if i > j:
                factor[i, j] = s / factor[j, j]
            elif s > 0.0:
                factor[i, i] = np.sqrt(s)
            else:
                return False
    for j in range(d):  # the inverse of the factor, in its own place
        factor[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, d):
            s = 0.0
            for k in range(j, i):
                s -= factor[i, k] * factor[k, j]
            factor[i, j] = s / factor[i, i]
    for i in range(d):
        for j in range(i + 1):
            s = 0.0
            for k in range(i, d):
                s += factor[k, i] * factor[k, j]
            out[i, j] = s
            out[j, i] = s
    return True


@compiled
def fill(rows, mean, precision, units, weights, filled, spread, factor, inverse, right, gone, held):
    """Expected rows about the mean, and the sum of the covariances of what is missing of them.

    `rows`: with NaN for what is missing, (n, d). `units`: of the covariances, (d,): entry (i, j) counts in whole
    multiples of ``1 / (units[i] * units[j])``. `weights`: of the rows, or empty. `filled`, `spread`: what is found:
    rows (n, d), and the upper triangle, to which is added. The others are buffers, (d, d) or (d,).
    """
    n, d = rows.shape
    for t in range(n):
        few, many = 0, 0
        for j in range(d):
            if np.isnan(rows[t, j]):
                gone[few] = j
                few += 1
            else:
                held[many] = j
                many += 1
                filled[t, j] = rows[t, j] - mean[j]
        if few == 0:
            continue
        for a in range(few):
            i = gone[a]
            s = 0.0
            for b in range(many):
                s += precision[i, held[b]] * filled[t, held[b]]
            right[a] = -s
            for b in range(a + 1):
                s = precision[i, gone[b]]
                for k in range(b):
                    s -= factor[a, k] * factor[b, k]
                factor[a, b] = np.sqrt(s) if a == b else s / factor[b, b]
        for b in range(few):
            inverse[b, b] = 1.0 / factor[b, b]
            for a in range(b + 1, few):
                s = 0.0
                for k in range(b, a):
                    s -= factor[a, k] * inverse[k, b]
                inverse[a, b] = s / factor[a, a]
        w = np.int64(1) if len(weights) == 0 else weights[t]
        for a in range(few):
            i = gone[a]
            expected = 0.0
            for b in range(few):
                low, high = min(a, b), max(a, b)
                s = 0.0
                for k in range(high, few):
                    s += inverse[k, low] * inverse[k, high]
                expected += s * right[b]
                if b >= a:
                    j = gone[b]
                    place = i * d - i * (i - 1) // 2 + j - i
                    spread[place] += w * np.int64(np.rint(s * (units[i] * units[j])))
            filled[t, i] = expected
