"""Pieces of a collection that lives on a cluster: frames and arrays that are opened where they are."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sketchlearn.sources.base import Batch, Mapped, Part, open_source
from sketchlearn.sources.selection import Selection

Batches = Callable[[int], Iterator[Batch]]


@dataclass(frozen=True)
class Partition:
    """Batches of one piece.

    `selection`: what to read. `values`: the piece (a frame, a table, an array), the weights and the groups of its rows,
    or what stands for them on the cluster. `fetch`: from `values` to what they stand for, brought here; None if they
    are here.
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


class Pieces(ABC):
    """Batches of a collection whose pieces are made one after the other, so that nobody knows them beforehand."""

    @abstractmethod
    def parts(self) -> Iterator[Part]:
        """Every piece as a part; its rows stay where they are."""

    def __call__(self, size: int) -> Iterator[Batch]:
        for part in self.parts():
            yield from part.batches(size)


def pieces_of(batches: Batches) -> Iterator[Part] | None:
    """The pieces behind batches that may go through functions; None if they don't come in pieces."""
    if isinstance(batches, Pieces):
        return batches.parts()
    if not isinstance(batches, Mapped):
        return None
    inner = pieces_of(batches.batches)
    return None if inner is None else (p._replace(batches=replace(batches, batches=p.batches)) for p in inner)


def partition_of(batches: Batches) -> Partition | None:
    """The partition behind batches that may go through functions; None if they are no partition's."""
    while isinstance(batches, Mapped):
        batches = batches.batches
    return batches if isinstance(batches, Partition) else None


def over(batches: Batches, partition: Partition) -> Batches:
    """The batches of another partition."""
    return replace(batches, batches=over(batches.batches, partition)) if isinstance(batches, Mapped) else partition


def shell_of(part: Part) -> bytes:
    """A part of a partition without its values, for the place where they are."""
    partition = partition_of(part.batches)
    assert partition is not None
    hollow = replace(partition, values=(None, None, None), fetch=None)
    return pickle.dumps(part._replace(batches=over(part.batches, hollow)))


def filled(shell: bytes, *values: Any) -> Part:
    """Inverse of :func:`shell_of`, with the values that have come."""
    part: Part = pickle.loads(shell)
    hollow = partition_of(part.batches)
    assert hollow is not None
    rows, weights, groups = values
    return part._replace(batches=over(part.batches, replace(hollow, values=(rows, weights, groups))))
