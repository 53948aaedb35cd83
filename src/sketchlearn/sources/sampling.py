"""A random part of the rows: each is in or out by a coin of its own, from the operating system's generator.

A release of such a sample promises more than one of all rows, because nobody knows who is in it (Balle, Barthe and
Gaboardi 2018).  That takes coins that are independent and secret.  A hash of the row, with a key or without, gives
equal rows the same coin: together they would be in or out, and one of them could be told from the others.  So the coins
have no seed, and a pass that is made again draws another sample.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sketchlearn.accepts import real
from sketchlearn.sources.base import Batch, Source


def checked_share(share: Any) -> float:
    """A share of the rows, between 0 and 1."""
    real(0.0, 1.0).check("sample", share)
    return float(share)


def sampled(source: Source, share: float) -> Source:
    """The source with each row in it with a probability of at most `share` (to 64 bits)."""
    below = int(share * 2.0**64)
    parts = tuple(p._replace(batches=_Drawn(p.batches, below), rows=None, identity=None) for p in source.parts)
    return replace(source, batches=_Drawn(source.batches, below), parts=parts, length=None, in_memory=False)


@dataclass(frozen=True)
class _Drawn:
    """Batches of the rows whose coins fell right."""

    batches: Callable[[int], Iterator[Batch]]
    below: int

    def __call__(self, size: int) -> Iterator[Batch]:
        for batch in self.batches(size):
            coins = np.frombuffer(os.urandom(8 * len(batch.rows)), "<u8")
            keep = coins < np.uint64(self.below)
            weights = None if batch.weights is None else batch.weights[keep]
            groups = None if batch.groups is None else batch.groups[keep]
            yield batch._replace(rows=batch.rows[keep], weights=weights, groups=groups)
