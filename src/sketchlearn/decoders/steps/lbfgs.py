"""Projected L-BFGS for bounds, whose iterations cost little besides their objective.

Variables at a bound that the gradient pushes further out stay there for this step; the others go along the direction
of limited memory, cut off at their bounds, until the value has fallen enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import Bounds, minimize

from sketchlearn.arrays import Array
from sketchlearn.decoders.budget import over
from sketchlearn.kernels import tiers

Objective = Callable[[Array], tuple[float, Array]]


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

    `objective` gives value and gradient, both of order 1 near the minimum (it may write every gradient to the same
    place); the search ends when an iteration gains less than `tolerance` relative to the value (or to 1, if that is
    more).
    """
    loops = tiers.loops("lbfgs")
    x = np.clip(start, lower, upper)
    value, slopes = objective(x)
    gradient, direction, trial = slopes.copy(), np.empty_like(x), np.empty_like(x)
    ring, changes = np.empty((memory, len(x))), np.empty((memory, len(x)))
    bends, factors = np.ones(memory), np.empty(memory)
    count, last, scale, done = 0, 0, 1.0, 0
    while done < steps and not (done and over("the last steps of a descent")):
        slope = loops.descend(x, gradient, lower, upper, ring, changes, bends, factors, count, last, scale, direction)
        if not slope < 0:
            count, scale = 0, 1.0
            slope = loops.descend(
                x, gradient, lower, upper, ring, changes, bends, factors, count, last, scale, direction
            )
            if not slope < 0:
                break
        length = 1.0 if count else min(1.0, 1.0 / np.sqrt(-slope))
        for _ in range(12):
            promised = loops.advance(x, direction, length, lower, upper, gradient, trial)
            new, slopes = objective(trial)
            if np.isfinite(new) and new <= value + 1e-4 * promised:
                break
            # the minimum of the parabola through value, slope and new value, within reason
            bend = new - value - length * slope
            guess = -0.5 * length * length * slope / bend if np.isfinite(new) and bend > 0 else 0.1 * length
            length = min(max(guess, 0.1 * length), 0.5 * length)
        else:
            if not count:
                break
            count, scale = 0, 1.0
            continue
        place = (last + 1) % memory
        bend, square = loops.remember(x, trial, gradient, slopes, ring[place], changes[place])
        if bend > 1e-10 * square:
            bends[place], scale = bend, bend / square
            last, count = place, min(count + 1, memory)
        else:  # the gradient does not bend along the step, which has taken the place of the oldest
            count = min(count, memory - 1)
        gained = value - new
        x, trial = trial, x
        value = new
        gradient[:] = slopes
        done += 1
        if gained <= tolerance * max(abs(value), 1.0):
            break
    return x, value, done


def wolfe(
    objective: Objective,
    start: Array,
    lower: Array,
    upper: Array,
    steps: int,
    memory: int = 20,
    tolerance: float = 1e-10,
) -> tuple[Array, float, int]:
    """SciPy's L-BFGS-B, with the arguments of :func:`lbfgs`.

    Its line search fulfils the strong Wolfe conditions and so leaves saddle points, where published algorithms start.
    """
    options = {"maxiter": steps, "maxcor": memory, "ftol": tolerance, "gtol": tolerance}
    x0 = np.clip(start, lower, upper)
    found = minimize(objective, x0, jac=True, method="L-BFGS-B", bounds=Bounds(lower, upper), options=options)  # type: ignore[call-overload]
    if not np.isfinite(found.fun):
        return x0, float(objective(x0)[0]), 0
    return np.asarray(found.x), float(found.fun), int(found.nit)
