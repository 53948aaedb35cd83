"""Tables of structured frequencies in the order in which the threads of ``hadamard.cuh`` read them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels.hadamard import levels


def places(log: int, each_log: int, transform: int, number: int) -> npt.NDArray[np.int64]:
    """Places in a block of the numbers of all threads in a pass, (2**each_log, threads)."""
    held = held_bits(log, each_log, transform, number)
    rest = [bit for bit in range(log) if bit not in held]

    def deposited(count: int, at: list[int]) -> npt.NDArray[np.int64]:
        numbers = np.arange(count)
        return sum(((numbers >> i & 1) << bit for i, bit in enumerate(at)), np.zeros(count, np.int64))

    return deposited(1 << len(held), held)[:, None] + deposited(1 << len(rest), rest)


def held_bits(log: int, each_log: int, transform: int, number: int) -> list[int]:
    """Bits of a place that a thread holds all values of in a pass: those of its levels, and the highest others."""
    each_log = min(log, each_log)
    bits = levels(log, transform)[number * each_log : (number + 1) * each_log] if log else []
    others = [bit for bit in range(log - 1, -1, -1) if bit not in bits]
    return sorted([*bits, *others[: each_log - len(bits)]])


@cache
def shared_memory(log: int, each_log: int) -> tuple[list[int], int]:
    """What each bit of a place adds to its address in shared memory, and the numbers between the rows of a block.

    The threads of a warp reach 32 banks at once if what their five bits add differs in its trailing zeros, one having
    none, one having one, and so on to four: then no two sums of them are equal modulo 32.  The bits of a warp are the
    lowest that its threads don't hold in the pass, and those of the row if a row needs fewer than 32 threads.
    """
    warps = []
    for transform in range(2):  # the third transform is like the first
        for number in range(pass_count(log, each_log)):
            rest = [bit for bit in range(log) if bit not in held_bits(log, each_log, transform, number)]
            warps.append(rest[:5])
    shared = 5 - min(5, max(map(len, warps)))  # bits of a warp that number rows
    zeros: list[int] = []

    def fits(bit: int, count: int) -> bool:
        return all(count not in [zeros[b] for b in warp if b < bit] for warp in warps if bit in warp)

    def chosen(bit: int) -> bool:
        if bit == log:
            return True
        if not any(bit in warp for warp in warps):
            zeros.append(0)
            return chosen(bit + 1)
        # rows of a warp take the most zeros
        for count in range(5 - shared):
            if fits(bit, count):
                zeros.append(count)
                if chosen(bit + 1):
                    return True
                zeros.pop()
        return False

    def next_with(least: int, count: int) -> int:
        step = 1 << count
        value = -(-least // step) * step
        return value if value // step % 2 else value + step

    if not chosen(0):  # blocks of more than 1024 numbers: one number more after each 32 is nearly as good
        return [(1 << bit) + (1 << bit >> 5) for bit in range(log)], (1 << log) + (1 << log >> 5)
    steps: list[int] = []
    for bit in range(log):
        least = sum(steps) + 1
        used = any(bit in warp for warp in warps)
        steps.append(next_with(least, zeros[bit]) if used else least)
    return steps, next_with(sum(steps) + 1, 5 - shared) if shared else sum(steps) + 1


def pass_count(log: int, each_log: int) -> int:
    """Passes of a transform."""
    return -(-log // each_log) if log > each_log else 1


def _in_fours(plane: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(blocks, numbers, threads) by four numbers of a thread."""
    blocks, each, threads = plane.shape
    fours = min(4, each)
    return plane.reshape(blocks, each // fours, fours, threads).transpose(0, 1, 3, 2).reshape(blocks, -1)


def arrange(
    log: int,
    each_log: int,
    stretch: npt.NDArray[np.float32],
    diagonals: npt.NDArray[np.float32],
    radius: npt.NDArray[np.float32],
    second: npt.NDArray[np.float32] | None,
) -> npt.NDArray[np.float32]:
    """Diagonals, last factors and what the terms want beside the phase, (blocks, transforms + 2, p).

    The stretch of the columns is part of the first diagonal, whose entries are signs: no rounding is added or lost.
    """
    blocks, transforms, p = diagonals.shape
    out = np.zeros((blocks, transforms + 2, p), np.float32)
    wide = np.zeros(p, np.float32)
    wide[: len(stretch)] = stretch
    planes = diagonals.copy()
    planes[:, 0] *= wide
    last = places(log, each_log, transforms - 1, pass_count(log, each_log) - 1)
    for stage in range(transforms):
        out[:, stage] = _in_fours(planes[:, stage][:, places(log, each_log, stage, 0)])
    for number, values in ((transforms, radius), (transforms + 1, second)):
        if values is not None:
            full = np.zeros(blocks * p, np.float32)
            full[: len(values)] = values
            out[:, number] = _in_fours(full.reshape(blocks, p)[:, last])
    return out


def arrange_permutation(log: int, each_log: int, permutation: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Where in shared memory the numbers of the second transform come from, (blocks, p); empty if there is none."""
    if not permutation.size:
        return np.empty((0, 0), np.int32)
    where = permutation[:, places(log, each_log, 1, 0)].reshape(len(permutation), -1)
    steps, _ = shared_memory(log, each_log)
    return np.ascontiguousarray(sum((where >> bit & 1) * step for bit, step in enumerate(steps)) + 0 * where, np.int32)
