"""What models of two groups of columns share: which columns are predicted from which."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from sketchlearn.limits import LimitError, check
from sketchlearn.models.base import Model
from sketchlearn.models.file import Reader
from sketchlearn.words import counted


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class JointModel(Model):
    """A model that takes some columns of its sketch and says something about others."""

    groups: ClassVar[tuple[str, str]] = ("predictors", "targets")
    """The fields with the names of both groups."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that are given."""
        return tuple(getattr(self, self.groups[0]))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The columns that are predicted."""
        return tuple(getattr(self, self.groups[1]))

    @property
    def headline(self) -> str:
        """What it is, in a few words."""
        return f"{', '.join(self.outputs)} from {counted(len(self.inputs), 'column')}, {self.row_count} rows"

    def renamed(self, names: Any) -> Self:
        """Names of the columns that are given; the others are targets."""
        given = tuple(str(name) for name in names)
        if self.named or len(given) != len(self.inputs):
            return self
        count = len(self.outputs)
        targets = ("target",) if count == 1 else tuple(f"target {i}" for i in range(count))
        new = dict(zip((*self.inputs, *self.outputs), (*given, *targets), strict=True))
        columns = tuple(new.get(name, name) for name in self.columns)
        named: dict[str, Any] = dict(zip(self.groups, (given, targets), strict=True))
        return replace(self, columns=columns, named=True, **named)

    @classmethod
    def width(cls, reader: Reader) -> int:
        """Columns of the sketch: at least those of both groups."""
        least = reader.lengths["p"] + reader.lengths.get("q", 1)
        columns = reader.facts.get("n_columns", least)
        if isinstance(columns, bool) or not isinstance(columns, int) or columns < least:
            raise reader.fail(f"the field 'n_columns' is {columns!r}, with {least} columns in two groups")
        try:
            check(4096 * columns, f"the names of {columns:,} columns")
        except LimitError as error:
            raise reader.fail(str(error)) from None
        return columns
