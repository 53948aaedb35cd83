"""Compiled loops give the same bits wherever their arrays lie in memory.

A loop that stores gets a second version from the compiler, for arrays that lie close together, which adds up in another
order.  Small arrays lie close together or not by chance: by what the process has allocated and freed before.
"""

import numpy as np
import pytest

from sketchlearn.kernels import tiers

SIZES = (5, 12, 21, 40, 70)


def loops():
    """Each loop that adds up, with arrays that it could be called with: (family, name, make arguments)."""

    def atoms(rng, m, k=3):
        def real(*shape):
            return rng.normal(size=shape).astype(np.float32)

        return {
            "correlate": (real(k, m), real(2, m), real(m), real(k)),
            "products": (real(k, m), real(k, m), real(2, m), real(k)),
            "shared": (real(k, m), *np.abs(real(2, m)), real(2, m), *np.abs(real(1, m)), real(k), real(k, m),
                       real(2, m), real(k)),
            "atoms": (real(k, m), -np.abs(real(k, m)), real(k), real(k, m), real(k, m), real(2, m)),
        }  # fmt: skip

    def lbfgs(rng, n):
        x, gradient, new, direction, trial, out = rng.normal(size=(6, n))
        ring, changes = rng.normal(size=(2, 4, n))
        bounds = np.full(n, -1.0), np.full(n, 1.0)
        return {
            "remember": (x, trial, gradient, new, out, direction),
            "advance": (x, direction, 0.3, *bounds, gradient, trial),
            "descend": (x, gradient, *bounds, ring, changes, rng.uniform(1, 2, 4), np.ones(4), 3, 1, 0.7, out),
        }

    def lloyd(rng, n, k=3, d=2):
        x, mass = rng.normal(size=(n, d)).astype(np.float32), np.zeros(k)
        products, lengths = rng.normal(size=(k, n)).astype(np.float32), rng.uniform(size=k).astype(np.float32)
        squares, distances = rng.uniform(size=(2, n)).astype(np.float32)
        labels, nearest = np.full(n, -1, np.int32), np.zeros(n, np.int32)
        return {
            "cells": (products, lengths, x, squares, rng.uniform(size=n), labels, nearest, distances, mass,
                      np.zeros((k, d))),
        }  # fmt: skip

    def factors(rng, m, k=2):
        projected, damping = (rng.normal(size=(rows, m)).astype(np.float32) for rows in (3 * k, k))
        return {"damp": (projected, damping), "scale": (projected, damping)}

    def amp(rng, m, k=3):
        one = np.abs(rng.normal(size=(4, k, m))).astype(np.float32)
        return {"interference": (*one, np.zeros((5, m), np.float32))}

    families = {"atoms": atoms, "lbfgs": lbfgs, "lloyd": lloyd, "factors": factors, "amp": amp}
    return [(family, name, make) for family, make in families.items() for name in make(np.random.default_rng(0), 5)]


def placed(arguments, order, gap):
    """The arrays among some arguments, copied into one piece of memory in some order with gaps between them."""
    arrays = [i for i, value in enumerate(arguments) if isinstance(value, np.ndarray)]
    memory = np.empty(sum(arguments[i].nbytes + gap + 64 for i in arrays) + 64, np.uint8)
    at, out = -memory.ctypes.data % 64, list(arguments)
    for i in (arrays[j] for j in order):
        value = arguments[i]
        out[i] = memory[at : at + value.nbytes].view(value.dtype).reshape(value.shape)
        out[i][...] = value
        at += -(-value.nbytes // 16) * 16 + gap
    return out


@pytest.mark.parametrize(("family", "name", "make"), loops(), ids=lambda x: x if isinstance(x, str) else "")
def test_bits_do_not_depend_on_the_place(family, name, make):
    function = getattr(tiers.loops(family), name)
    for size in SIZES:
        arguments = make(np.random.default_rng(size), size)[name]
        count = sum(isinstance(value, np.ndarray) for value in arguments)
        orders = [np.random.default_rng(seed).permutation(count) for seed in range(30)]
        found = set()
        for order, gap in [(order, gap) for order in orders for gap in (0, 16, 4096)]:
            given = placed(arguments, order, gap)
            result = function(*given)
            arrays = [value.tobytes() for value in given if isinstance(value, np.ndarray)]
            found.add((repr(result), *arrays))
        assert len(found) == 1, size
