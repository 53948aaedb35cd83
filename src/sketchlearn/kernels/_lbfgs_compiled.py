"""Compiled loops of limited memory: what an iteration does besides its objective, without the interpreter."""

# mypy: ignore-errors
from sketchlearn.kernels._compile import compiled

_SUMS = {"contract", "nsz", "reassoc"}


@compiled(fastmath=_SUMS)
def descend(x, gradient, lower, upper, steps, changes, bends, factors, count, last, scale, out):
    """Direction of descent, and the slope along it.

    `x`, `gradient`, `lower`, `upper`: where, and the bounds, (n,): variables at a bound that the gradient pushes
    further out stay there. `steps`, `changes`: the last steps and changes of the gradient, in a ring, (memory, n).
    `bends`, `factors`: their products, and a buffer, (memory,). `count`, `last`: how many rows of the ring are in use,
    and the newest. `scale`: times the identity: the inverse of the second derivatives before anything is remembered.
    `out`: the direction, (n,).
    """
    n, memory = len(x), len(bends)
    for i in range(n):
        g = gradient[i]
        blocked = (x[i] <= lower[i] and g > 0.0) or (x[i] >= upper[i] and g < 0.0)
        out[i] = 0.0 if blocked else g
    for t in range(count):
        row = (last - t) % memory
        total = 0.0
        for i in range(n):
            total += steps[row, i] * out[i]
        total /= bends[row]
        factors[row] = total
        for i in range(n):
            out[i] -= total * changes[row, i]
    for i in range(n):
        out[i] *= scale
    for t in range(count - 1, -1, -1):
        row = (last - t) % memory
        total = 0.0
        for i in range(n):
            total += changes[row, i] * out[i]
        total = factors[row] - total / bends[row]
        for i in range(n):
            out[i] += total * steps[row, i]
    for i in range(n):
        g = gradient[i]
        blocked = (x[i] <= lower[i] and g > 0.0) or (x[i] >= upper[i] and g < 0.0)
        out[i] = 0.0 if blocked else -out[i]
    slope = 0.0
    for i in range(n):
        slope += out[i] * gradient[i]
    return slope


@compiled(fastmath=_SUMS)
def advance(x, direction, length, lower, upper, gradient, trial):
    """The point `length` along a direction, cut off at the bounds, to `trial`; what the gradient promises of it."""
    for i in range(len(x)):
        v = x[i] + length * direction[i]
        v = v if v > lower[i] else lower[i]
        trial[i] = v if v < upper[i] else upper[i]
    promised = 0.0
    for i in range(len(x)):
        promised += (trial[i] - x[i]) * gradient[i]
    return promised


@compiled(fastmath=_SUMS)
def remember(x, trial, gradient, new, step, change):
    """Differences of points and gradients to `step` and `change`; their product, and the square of the latter."""
    for i in range(len(x)):
        step[i] = trial[i] - x[i]
        change[i] = new[i] - gradient[i]
    bend, square = 0.0, 0.0
    for i in range(len(x)):
        bend += step[i] * change[i]
        square += change[i] * change[i]
    return bend, square
