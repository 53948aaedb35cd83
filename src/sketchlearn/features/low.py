"""Frequencies below those of a radial law, for rows that lie far from all others.

A few far rows hardly move an average at the usual frequencies: their share of it is lost in the sampling noise of the
other rows.  At a frequency so low that the phases of the other rows are all alike there is no such noise, and far rows
still turn by a radian.  In each octave below the law there is one frequency along each column, because single columns
mostly have far values, and one random orthogonal basis.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.features import portable
from sketchlearn.features.radial import RadialLaw

MOST_OCTAVES = 60  # of float32, with as many left for the scale of the data
_DIRECTIONS, _RADII = 18, 19  # streams of random bits
_LN2 = 0.6931471805599453


def count(dim: int, octaves: int) -> int:
    """Number of low frequencies: twice as many as columns for each octave."""
    return 2 * dim * octaves


def check(octaves: int, ordinary: int, possible: bool) -> None:
    """ValueError where a map can't have low frequencies, or not so many."""
    if octaves and not (possible and ordinary > 0 and 0 <= octaves <= MOST_OCTAVES):
        raise ValueError(
            f"octaves={octaves}: low frequencies are for dense, plain features of a law of many scales, at most "
            f"{MOST_OCTAVES} octaves, and 2 features per column and octave"
        )


def directions(dim: int, octaves: int, seed: int) -> Iterator[Array]:
    """Unit vectors of the low frequencies, for each octave (2 dim, dim): the columns, then a random basis."""
    bits = portable.Bits(seed, _DIRECTIONS)
    for _ in range(octaves):
        yield np.concatenate([np.eye(dim), portable.orthonormalize(bits.normals(dim * dim).reshape(dim, dim))])


def with_radii(radius: Array, law: RadialLaw, dim: int, octaves: int, seed: int) -> Array:
    """Radii of the ordinary frequencies, then those of the low ones: log-uniform within each octave below the law."""
    if not octaves:
        return radius
    lowest = float(law.quantile(np.zeros(1), dim)[0])
    depth = np.repeat(np.arange(octaves, dtype=np.float64), 2 * dim)
    depth = depth + portable.Bits(seed, _RADII).uniforms(len(depth))
    return np.concatenate([radius, lowest * portable.exp(-_LN2 * depth)])
