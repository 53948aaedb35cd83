"""A column of groups that is made of other columns while a table is read."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from sketchlearn.arrays import Ints


class Derived(str):
    """The name of a column that no table has: its groups are made of `columns` of each batch.

    Readers treat it as the name that it is; only :class:`~sketchlearn.sources.columns.Layout` looks behind it.
    Subclasses pickle, so that the parts of a source can be read in other processes.
    """

    columns: tuple[str, ...]
    """Columns of the table that are read for it."""

    @abstractmethod
    def check(self, schema: Any, place: str) -> None:
        """Refuse columns of a type that no groups can be made of, before any row is read."""

    @abstractmethod
    def codes(self, table: Any) -> tuple[Ints, tuple[Any, ...]]:
        """For each row of an Arrow table the place of its group among the labels, and the labels."""
