"""Projected L-BFGS for bounds, in a few products of small matrices an iteration.

The direction is that of the compact form of limited memory: with the last steps S and changes of the gradient Y, R the
upper triangle of SY' and D its diagonal,

    H g = c g + S'[R^-T (D + c YY') R^-1 S g - c R^-T Y g] - c Y' R^-1 S g.

Variables at a bound that the gradient pushes further out stay there for this step; the others go along the direction,
cut off at their bounds, until the value has fallen enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dtrtrs

Array = npt.NDArray[np.float64]
Objective = Callable[[Array], tuple[float, Array]]

_ENOUGH = 1e-4  # of the fall that the slope promises
_TRIALS = 12


def lbfgs(
    objective: Objective,
    start: Array,
    lower: Array,
    upper: Array,
    steps: int,
    memory: int = 10,
    tolerance: float = 1e-7,
) -> tuple[Array, float, int]:
    """Minimise within bounds; returns the point, its value and the number of iterations.

    `objective` gives value and gradient, both of order 1 near the minimum; the search ends when an iteration gains
    less than `tolerance` relative to the value (or to 1, if that is more).
    """
    x = np.clip(start, lower, upper)
    value, gradient = objective(x)
    history = _History(len(x), memory)
    done = 0
    while done < steps:
        blocked = ((x <= lower) & (gradient > 0)) | ((x >= upper) & (gradient < 0))
        free = np.where(blocked, 0.0, gradient)
        direction = -history.times(free)
        direction[blocked] = 0.0
        slope = float(direction @ free)
        if not slope < 0:
            direction, slope = -free, -float(free @ free)
            history.clear()
            if not slope < 0:
                break
        length = 1.0 if history.count else min(1.0, 1.0 / np.sqrt(-slope))
        for _ in range(_TRIALS):
            trial = np.clip(x + length * direction, lower, upper)
            promised = float((trial - x) @ gradient)
            new, new_gradient = objective(trial)
            if np.isfinite(new) and new <= value + _ENOUGH * promised:
                break
            # the minimum of the parabola through value, slope and new value, within reason
            bend = new - value - length * slope
            guess = -0.5 * length * length * slope / bend if np.isfinite(new) and bend > 0 else 0.1 * length
            length = min(max(guess, 0.1 * length), 0.5 * length)
        else:
            if not history.count:
                break
            history.clear()
            continue
        history.add(trial - x, new_gradient - gradient)
        gained = value - new
        x, value, gradient = trial, new, new_gradient
        done += 1
        if gained <= tolerance * max(abs(value), 1.0):
            break
    return x, value, done


class _History:
    """The last steps and changes of the gradient, oldest first, and their products."""

    def __init__(self, size: int, memory: int) -> None:
        self.count, self._memory = 0, memory
        self._s, self._y = np.empty((memory, size)), np.empty((memory, size))
        self._sy, self._yy = np.zeros((memory, memory)), np.zeros((memory, memory))

    def clear(self) -> None:
        self.count = 0

    def add(self, s: Array, y: Array) -> None:
        """Remember a step, unless the gradient does not bend along it."""
        bend, square = float(s @ y), float(y @ y)
        if not bend > 1e-10 * square:
            return
        if self.count == self._memory:
            for kept in (self._s, self._y):
                kept[:-1] = kept[1:]
            for products in (self._sy, self._yy):
                products[:-1, :-1] = products[1:, 1:]
            self.count -= 1
        i = self.count
        self._s[i], self._y[i] = s, y
        self.count = n = i + 1
        self._sy[:n, i] = self._s[:n] @ y
        self._yy[:n, i] = self._yy[i, :n] = self._y[:n] @ y

    def times(self, g: Array) -> Array:
        """The approximate inverse of the second derivatives, times a gradient."""
        n = self.count
        if n == 0:
            return g.copy()
        s, y, sy, yy = self._s[:n], self._y[:n], self._sy[:n, :n], self._yy[:n, :n]
        c = sy[-1, -1] / yy[-1, -1]
        a = dtrtrs(sy, s @ g)[0]
        b = dtrtrs(sy, sy.diagonal() * a + c * (yy @ a - y @ g), trans=1)[0]
        out = b @ s
        a *= c
        out -= a @ y
        out += c * g
        return np.asarray(out)
