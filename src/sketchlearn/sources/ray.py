"""Datasets of Ray, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sketchlearn.sources.base import Part, Source, library_of, register
from sketchlearn.sources.columns import Layout
from sketchlearn.sources.partitions import Partition, Pieces
from sketchlearn.sources.selection import Selection


@register(rank=0)
def open_ray(data: Any, selection: Selection) -> Source | None:
    """A Ray dataset: summed where its blocks are."""
    if library_of(data) != "ray" or not hasattr(data, "iter_internal_ref_bundles"):
        return None
    selection.refuse("a Ray dataset", "query", "dataset", "format", "sample_weight", "user")
    if selection.group_by is not None and not isinstance(selection.group_by, str | int):
        selection.refuse("a Ray dataset; group by a column", "group_by")
    schema = data.schema()
    if schema is None:
        raise ValueError("there are no rows in the data: nothing to read")
    layout = Layout(list(schema.names), selection, "the dataset")
    chosen = replace(layout.selection, columns=layout.numbers, expected=None)
    chooses = sorted(layout.needed) != sorted(schema.names)
    blocks = Blocks(data.select_columns(layout.needed) if chooses else data, chosen)
    return Source(blocks, names=layout.numbers, grouped=layout.group is not None, home="ray")


class Blocks(Pieces):
    """The blocks of a dataset, as they are made: it is never in memory as a whole.

    `dataset`: what is to be computed. `selection`: what to read of its blocks.
    """

    def __init__(self, dataset: Any, selection: Selection) -> None:
        self.dataset, self.selection = dataset, selection

    def parts(self) -> Iterator[Part]:
        """Every block as a part; its rows stay where they are."""
        number = 0
        for bundle in self.dataset.iter_internal_ref_bundles():
            for block in bundle.block_refs:
                yield Part(f"block {number}", Partition(self.selection, (block, None, None), _fetch))
                number += 1


def _fetch(values: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    import ray

    return ray.get(values[0]), None, None
