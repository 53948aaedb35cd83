"""Maps that tell whether two groups of columns are independent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.designs.request import positive
from sketchlearn.designs.spread import column_units
from sketchlearn.features.embedded import EmbeddedFeatures
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.split import SplitFeatures

SIZE = 50
"""Frequencies of each group by default."""
_SCALE = 0.7  # of the kernel, in robust standard deviations of a row


def design_independence(sample: npt.ArrayLike, first: Any, *, size: int = SIZE, seed: int = 0) -> EmbeddedFeatures:
    """A map for :func:`sketchlearn.independence`: products of Fourier features of two groups of columns.

    Parameters
    ----------
    sample : array or frame (n, d)
        Pilot rows: they tell the units of the columns.
    first : sequence of int or of names
        Columns of the first group; all others are the second one.
    size : int
        Frequencies of each group.
    seed : int
        Seed of the frequencies.

    Returns
    -------
    EmbeddedFeatures

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> sl.design_independence(np.random.default_rng(0).normal(size=(100, 3)), first=[0, 1]).inner.groups
    ((0, 1), (2,))
    """
    names = getattr(sample, "columns", None)
    named = None if names is None or callable(names) else [str(name) for name in names]
    rows = np.asarray(sample, np.float64)
    if rows.ndim != 2 or rows.shape[1] < 2 or len(rows) < 1 or not np.isfinite(rows).all():
        raise ValueError(f"the pilot sample must be finite rows of at least two columns, got shape {rows.shape}")
    size = positive(size, "size")
    given = [first] if isinstance(first, str | int | np.integer) else list(first)
    mine = [_number(column, named, rows.shape[1]) for column in given]
    others = [i for i in range(rows.shape[1]) if i not in mine]
    if not mine or not others or len(set(mine)) != len(mine):
        raise ValueError(f"first should be some of the {rows.shape[1]} columns, each once, and not all: got {first!r}")
    offset, spread = column_units(rows, robust=True)  # a few far rows would be all that wide kernels see
    parts = []
    for i, columns in enumerate((mine, others)):
        scale = _SCALE * math.sqrt(len(columns))
        phi = FourierFeatures.draw(len(columns), size, scale, "gaussian", (seed + i) % 2**64)
        parts.append(phi.standardized(offset[columns], spread[columns]))
    whole = EmbeddedFeatures.of(SplitFeatures.of(parts[0], parts[1], mine))
    return whole if named is None else whole.with_columns(named)


def _number(column: Any, names: list[str] | None, dim: int) -> int:
    if isinstance(column, str):
        if names is None or column not in names:
            raise ValueError(f"first: there is no column {column!r}")
        return names.index(column)
    if isinstance(column, bool) or not isinstance(column, int | np.integer) or not -dim <= column < dim:
        raise ValueError(f"first: there is no column {column!r}")
    return int(column) % dim
