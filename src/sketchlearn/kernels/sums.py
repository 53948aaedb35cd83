"""What a pass over some rows leaves, whoever made it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sketchlearn.arrays import AnyArray, Array


class RowSums(NamedTuple):
    """Sums of the features of some rows, with the rows' number, weight and box, and the invalid ones among them.

    If the pass stopped at an invalid row, `first_invalid` is its place and all the rest is meaningless.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=2, size=8, scale=1.0, seed=3)
    >>> part = phi.sum_rows(np.zeros((5, 2)))
    >>> part.rows, part.weight, part.sums.shape
    (5, 5, (2, 8))
    """

    sums: AnyArray
    rows: int
    weight: int
    lower: Array
    upper: Array
    skipped: int
    first_invalid: int | None

    @classmethod
    def stopped(cls, row: int) -> RowSums:
        """What is left of a pass that met an invalid row."""
        nothing = np.empty(0)
        return cls(nothing, 0, 0, nothing, nothing, 0, int(row))

    def with_sums(self, sums: AnyArray) -> RowSums:
        """A copy with other sums."""
        return self._replace(sums=sums)
