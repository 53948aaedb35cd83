"""Loops of limited memory in NumPy: directions from the last steps and changes of the gradient (two-loop recursion)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[np.float64]


def descend(
    x: _Array, gradient: _Array, lower: _Array, upper: _Array, steps: _Array, changes: _Array, bends: _Array,
    factors: _Array, count: int, last: int, scale: float, out: _Array,
) -> float:  # fmt: skip
    """See ``sketchlearn.kernels._lbfgs_compiled.descend``."""
    blocked = ((x <= lower) & (gradient > 0)) | ((x >= upper) & (gradient < 0))
    out[:] = np.where(blocked, 0.0, gradient)
    rows = [(last - t) % len(bends) for t in range(count)]
    for row in rows:
        factors[row] = (steps[row] @ out) / bends[row]
        out -= factors[row] * changes[row]
    out *= scale
    for row in reversed(rows):
        out += (factors[row] - (changes[row] @ out) / bends[row]) * steps[row]
    np.negative(out, out=out)
    out[blocked] = 0.0
    return float(out @ gradient)


def advance(
    x: _Array, direction: _Array, length: float, lower: _Array, upper: _Array, gradient: _Array, trial: _Array
) -> float:
    """The point `length` along a direction, cut off at the bounds, to `trial`; what the gradient promises of it."""
    trial[:] = np.clip(x + length * direction, lower, upper)
    return float((trial - x) @ gradient)


def remember(
    x: _Array, trial: _Array, gradient: _Array, new: _Array, step: _Array, change: _Array
) -> tuple[float, float]:
    """Differences of points and gradients to `step` and `change`; their product, and the square of the latter."""
    np.subtract(trial, x, out=step)
    np.subtract(new, gradient, out=change)
    return float(step @ change), float(change @ change)
