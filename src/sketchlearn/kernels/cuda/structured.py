"""Tables of structured frequencies in the order in which the threads of ``hadamard.cuh`` read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.kernels._hadamard_numpy import levels


def places(log: int, each_log: int, transform: int, number: int) -> npt.NDArray[np.int64]:
    """Places in a block of the numbers of all threads in a pass, (2**each_log, threads)."""
    each_log = min(log, each_log)
    bits = levels(log, transform)[number * each_log : (number + 1) * each_log] if log else []
    others = [bit for bit in range(log - 1, -1, -1) if bit not in bits]
    held = sorted([*bits, *others[: each_log - len(bits)]])
    rest = [bit for bit in range(log) if bit not in held]

    def deposited(count: int, at: list[int]) -> npt.NDArray[np.int64]:
        numbers = np.arange(count)
        return sum(((numbers >> i & 1) << bit for i, bit in enumerate(at)), np.zeros(count, np.int64))

    return deposited(1 << len(held), held)[:, None] + deposited(1 << len(rest), rest)


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
    return np.ascontiguousarray(where + (where >> 5), np.int32)
