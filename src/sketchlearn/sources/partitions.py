"""Pieces of a collection that lives on a cluster: frames and arrays that are opened where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sketchlearn.sources.base import Batch, open_source
from sketchlearn.sources.selection import Selection

Batches = Callable[[int], Iterator[Batch]]


@dataclass(frozen=True)
class Partition:
    """Batches of one piece.

    Attributes
    ----------
    selection : Selection
        What to read.
    values : tuple
        The piece (a frame, a table, an array), the weights and the groups of its rows, or what stands for them on the
        cluster.
    fetch : callable, optional
        From `values` to what they stand for, brought here; None if they are here.
    """

    selection: Selection
    values: tuple[Any, Any, Any]
    fetch: Callable[[tuple[Any, Any, Any]], tuple[Any, Any, Any]] | None = None

    def __call__(self, size: int) -> Iterator[Batch]:
        rows, weights, groups = self.values if self.fetch is None else self.fetch(self.values)
        chosen = self.selection
        if weights is not None:
            chosen = replace(chosen, sample_weight=weights)
        if groups is not None:
            chosen = replace(chosen, group_by=groups)
        return open_source(rows, chosen).batches(size)


def partition_of(batches: Batches) -> Partition | None:
    """The partition behind batches that may go through functions; None if they are no partition's."""
    while not isinstance(batches, Partition):
        if not hasattr(batches, "batches"):
            return None
        batches = batches.batches
    return batches


def over(batches: Batches, partition: Partition) -> Batches:
    """The same batches of another partition."""
    if isinstance(batches, Partition):
        return partition
    return replace(batches, batches=over(batches.batches, partition))  # type: ignore[type-var, attr-defined]
