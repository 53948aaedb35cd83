"""Choosing with privacy: quantiles of a column, and values that enough rows have.

A quantile is chosen among public bins by the exponential mechanism (Smith 2011, "Privacy-preserving statistical
estimation with optimal convergence rates"): the score of a bin is how many rows its values are away from the wanted
rank.  Scores are whole numbers, made from exact numbers of rows, and OpenDP's noisy maximum chooses the bin: permute
and flip for pure epsilon (McKenna and Sheldon 2020), Gumbel noise for zero-concentrated privacy (epsilon**2 / 8: Cesar
and Rogers 2021).  OpenDP says what a choice costs.

Bins are cells of a grid that is the same for all data: 256 to each octave of numbers between 2**-64 and 2**64 of both
signs, one for zero, and in a second round 4096 equal ones between two values that the first has found.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sketchlearn.arrays import Array, Ints
from sketchlearn.privacy import noise
from sketchlearn.privacy.noise import Integers

OF = 1000
"""Ranks are whole multiples of 1 / 1000 of the rows."""
_OCTAVES, _BITS = 64, 8  # of the grid of all numbers: to each side of 1, and bins to each octave as a power of two
_HALF = 2 * _OCTAVES << _BITS
ALL_BINS = 2 * _HALF + 1
"""Bins of the grid of all numbers."""
LINEAR_BINS = 4096
"""Bins of a grid between two values."""
_FIRST = (1023 - _OCTAVES) << _BITS  # the leading bits of 2**-64 as float64
_SURE = 6.0  # of a wrong choice: less than exp(-6)

Floats = Array


def bins_of(values: Floats) -> Ints:
    """The bin of each finite value in the grid of all numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.privacy.selection import bins_of, edges_of
    >>> low, high = edges_of(bins_of(np.array([2024.5]))[0])
    >>> low, high
    (2024.0, 2028.0)
    """
    bits = (np.abs(values).view(np.int64) >> (52 - _BITS)) - _FIRST
    size = np.clip(bits + 1, 0, _HALF)
    return _HALF + np.where(values < 0, -size, size)


def edges_of(bin_: int) -> tuple[float, float]:
    """Smallest and largest values of a bin of the grid of all numbers; of the outermost bins, the finite end twice."""
    size = abs(int(bin_) - _HALF)
    if not size:
        return -(2.0**-_OCTAVES), 2.0**-_OCTAVES
    low, high = (
        float((np.int64(min(n, _HALF - 1) + _FIRST) << np.int64(52 - _BITS)).view(np.float64)) for n in (size - 1, size)
    )
    return (low, high) if bin_ > _HALF else (-high, -low)


def sensitivity(rank: int, relation: str, records_per_user: int) -> int:
    """By how much the scores of a rank move with the rows of one person."""
    return records_per_user * (OF if relation == "replace-one" else max(rank, OF - rank))


def scores(counts: Integers, below: int, rank: int) -> Integers:
    """Scores of bins for the value of a rank (of 1000): how many rows each is away from it, times -1000.

    `counts`: rows in each bin. `below`: rows whose values are below all bins; those above follow from the total.
    `rank`: the wanted rank, in thousandths.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.privacy.selection import scores
    >>> scores(np.array([5, 90, 5]), 0, 500)
    array([-45000,      0, -45000])
    """
    upto = below + np.cumsum(counts)
    wanted = rank * int(upto[-1])
    return np.minimum(0, -np.maximum(OF * (upto - counts) - wanted, wanted - OF * upto))


def noisy_max(values: Integers, reach: int, epsilon: float, concentrated: bool) -> int:
    """The place of the largest score, chosen with privacy: pure `epsilon`, or ``epsilon**2 / 8`` zero-concentrated.

    `reach` is by how much one person moves a score.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.privacy.selection import noisy_max
    >>> noisy_max(np.array([-1000, 0, -1000]), 1, 1.0, concentrated=False)
    1
    """
    scale = 2.0 * reach / epsilon * (1.0 + 1e-12)
    seeded = noise.seeded()
    if seeded is not None:
        return int(np.argmax(values + scale * seeded.gumbel(size=len(values))))
    with noise.constructors() as dp:
        space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.linf_distance(T=dp.i64)
        measure = dp.zero_concentrated_divergence() if concentrated else dp.max_divergence()
        choose = dp.m.make_noisy_max(*space, measure, scale=scale)
    cost = epsilon**2 / 8.0 if concentrated else epsilon
    if not choose.map(reach) <= cost * (1.0 + 1e-9):
        raise RuntimeError("OpenDP's noisy maximum costs more than was charged for it")
    return int(choose(values.tolist()))


def rows_needed(bins: int, epsilon: float, reach: int) -> float:
    """How many rows a rank must be away from both ends to be found: with fewer an empty bin may be chosen."""
    return 2.0 * reach / OF / epsilon * (math.log(bins) + _SURE)


def frequent(
    counts: dict[Any, int], epsilon: float, delta: float, relation: str, records_per_user: int
) -> tuple[dict[Any, int], int]:
    """Values whose noisy number of rows is large enough to be shown, with these numbers, and how large that is.

    A row has one value, so Laplace noise on all numbers is one release; a value that one person alone has is shown with
    a probability of at most `delta` (Korolova et al. 2009).

    Examples
    --------
    >>> from sketchlearn.privacy.selection import frequent
    >>> shown, least = frequent({"a": 100_000, "b": 1}, 1.0, 1e-6, "add-remove", 1)
    >>> list(shown), least
    (['a'], 16)
    """
    scale = records_per_user * (2 if relation == "replace-one" else 1) / epsilon * (1.0 + 1e-12)
    least = threshold(scale, records_per_user, delta)
    labels = sorted(counts)
    noisy = noise.add_laplace(np.array([counts[label] for label in labels], np.int64), scale).tolist()
    return {label: n for label, n in zip(labels, noisy, strict=True) if n >= least}, least


def threshold(scale: float, records_per_user: int, delta: float) -> int:
    """The number of rows with discrete Laplace noise from which something is shown that one person may have alone."""
    return math.ceil(records_per_user + scale * -math.log(delta / records_per_user) * (1.0 + 1e-9)) + 1
