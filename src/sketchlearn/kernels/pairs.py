"""Sums kept as unevaluated pairs (high, low) of float64: about 32 significant digits.

Arrays of pairs have the two parts along their first axis.  Knuth's two-sum and Dekker's product (Numerische
Mathematik 18, 1971) use nothing but IEEE additions and multiplications.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.kernels import tiers

Pairs = Array
_SPLIT = 2.0**27 + 1.0
_COMPILED_FROM = 4096
_AT_A_TIME = 2**18


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """``a + b`` and its rounding error."""
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """``a * b`` and its rounding error."""
    p = a * b
    ta, tb = a * _SPLIT, b * _SPLIT
    ah, bh = ta - (ta - a), tb - (tb - b)
    al, bl = a - ah, b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def pair(high: Any, low: Any) -> Pairs:
    """Two parts, normalised and stacked."""
    return np.stack(two_sum(high, low))


def add(a: Pairs, b: Pairs) -> Pairs:
    """Sum of pairs (the accurate variant: no cancellation between the parts spoils it)."""
    s, e = two_sum(a[0], b[0])
    t, f = two_sum(a[1], b[1])
    s, e = two_sum(s, e + t)
    return pair(s, e + f)


def add_large(a: Pairs, b: Pairs, out: Pairs | None = None) -> Pairs:
    """Sums of pairs, compiled where there are many; ``out`` may be one of them."""
    if out is None:
        out = np.empty(a.shape)
    if a.size < _COMPILED_FROM:
        out[:] = add(a, b)
    else:
        tiers.loops("quadratic").add_pairs(_frozen(a), _frozen(b), out)
    return out


def _frozen(a: Pairs) -> Pairs:
    """A read-only view: one compiled signature serves all."""
    view = np.ascontiguousarray(a)[:]
    view.flags.writeable = False
    return view


def times(a: Pairs, b: Array | float) -> Pairs:
    """Pairs times plain numbers."""
    p, e = two_product(a[0], b)
    return pair(p, e + a[1] * b)


def product(a: Pairs, b: Pairs) -> Pairs:
    """Product of pairs."""
    p, e = two_product(a[0], b[0])
    return pair(p, e + (a[0] * b[1] + a[1] * b[0]))


def quotient(a: Pairs, b: float) -> Pairs:
    """Pairs over a plain number, some at a time: there may be millions, and every step makes another array."""
    out = np.empty(a.shape)
    for i in range(0, a.shape[-1], _AT_A_TIME):
        at = (..., slice(i, i + _AT_A_TIME))
        high, low = a[at]
        q = high / b
        p, e = two_product(q, b)
        out[at] = pair(q, ((high - p) - e + low) / b)
    return out
