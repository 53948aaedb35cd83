"""Sample weights as integers: on a grid, and the sum of their squares without rounding."""

from __future__ import annotations

import numpy as np

from sketchlearn.arrays import Array, Ints, WeightError

WEIGHT_BITS = 16
"""Sample weights are rounded to multiples of 2**-16."""

SQUARED_BITS = 2 * WEIGHT_BITS
"""Sums of squared weights are in units of 2**-32."""

_LIMB = 19  # bits; weights have 56, and products of limbs of many rows fit int64
_ROWS = 2**22


def on_grid(weights: Array | None) -> tuple[Ints | None, bool]:
    """Weights as integers, and whether they are in units of 1 (else of 2**-WEIGHT_BITS)."""
    if weights is None:
        return None, True
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        i = int(np.argmax(bad))
        raise WeightError(f"{weights[i]}\0: weights must be finite and not negative", i)
    if weights.max(initial=0.0) >= 2.0**40:
        raise OverflowError(
            f"the weight {weights.max():.3g} is too large for exact sums (limit 2**40): scale the weights"
        )
    units = np.rint(weights)
    if np.array_equal(units, weights):
        return units.astype(np.int64), True
    units = np.rint(weights * 2.0**WEIGHT_BITS)
    lost = (units == 0) & (weights > 0)
    if lost.any():
        i = int(np.argmax(lost))
        raise WeightError(f"{weights[i]:.3g}\0, below the grid of 2**-{WEIGHT_BITS}: scale all weights up", i)
    return units.astype(np.int64), False


def squared(units: Ints) -> int:
    """What rows with weights on the fine grid add to the sum of squares, in units of 2**-SQUARED_BITS.

    A whole weight w stands for w rows and adds w; any other adds its square.
    """
    blocks = (units[i : i + _ROWS] for i in range(0, len(units), _ROWS))
    return sum(squared_runs(block, np.zeros(1, np.int64))[0] for block in blocks)


def squared_runs(units: Ints, starts: Ints) -> list[int]:
    """Exact sums of squares for each run of rows from ``starts[g]``; no run is empty, and rows are at most 2**24."""
    whole = units & ((1 << WEIGHT_BITS) - 1) == 0
    rows = np.add.reduceat(np.where(whole, units >> WEIGHT_BITS, 0), starts)
    totals = [int(v) << SQUARED_BITS for v in rows]
    rest = np.where(whole, 0, units)
    limbs = [(rest >> (_LIMB * k)) & ((1 << _LIMB) - 1) for k in range(3)]
    for j, a in enumerate(limbs):
        for k in range(j + 1):
            if a.any() and limbs[k].any():
                shift = _LIMB * (j + k) + (j != k)  # products of two different limbs come twice
                for g, v in enumerate(np.add.reduceat(a * limbs[k], starts).tolist()):
                    totals[g] += v << shift
    return totals


def repeated(weight: int, bits: int) -> int:
    """The sum of squares where all weights are whole: their sum, from units of 2**-bits."""
    return weight << SQUARED_BITS - bits if bits <= SQUARED_BITS else weight >> bits - SQUARED_BITS


def possible_squares(squared: int, weight: int, bits: int) -> bool:
    """Whether weights of this total can have this sum of squares (of whole weights: the sum itself)."""
    if weight == 0:
        return squared == 0
    return 0 < squared << 2 * bits <= weight**2 << SQUARED_BITS
