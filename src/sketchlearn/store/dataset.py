"""What a dataset of a store is."""

from __future__ import annotations

from dataclasses import dataclass

from sketchlearn.exceptions import IncompatibleSketchError
from sketchlearn.features.base import FeatureMap
from sketchlearn.store.keys import Keys
from sketchlearn.store.periods import Period


@dataclass(frozen=True)
class Dataset:
    """What a dataset of a store is.

    Attributes
    ----------
    id : int
        Its number in the store.
    name : str
        Its name.
    features : FeatureMap
        The map of all its cells.
    time : str or None
        Column with the time of the rows.
    every : Period or None
        Length of the time buckets that rows are put into.
    groups : tuple of str
        Group columns.
    """

    id: int
    name: str
    features: FeatureMap
    time: str | None
    every: Period | None
    groups: tuple[str, ...]

    @property
    def keys(self) -> Keys:
        """The column of cell labels."""
        return Keys(self.time, self.every, self.groups)


@dataclass(frozen=True)
class Ingested:
    """What became of an ingest.

    Attributes
    ----------
    added, known : tuple of str
        Names of the sources that were added, and of those that were there before.
    rows : int or float
        Rows that were added.
    cells : int
        Cells that were added.
    """

    added: tuple[str, ...]
    known: tuple[str, ...]
    rows: int | float
    cells: int


def check_agrees(
    found: Dataset, features: FeatureMap | None, time_: str | None, every: Period | None, groups: tuple[str, ...]
) -> None:
    if features is not None and (features != found.features or features.fingerprint != found.features.fingerprint):
        raise IncompatibleSketchError(
            f"the dataset {found.name!r} has another feature map: {found.features.difference(features)}"
        )
    for what, theirs, ours in (
        ("time", time_, found.time),
        ("every", every and every.text, found.every and found.every.text),
        ("group_by", groups, found.groups),
    ):
        if theirs != ours:
            raise ValueError(f"the dataset {found.name!r} has {what}={ours!r}, not {theirs!r}")
