"""What was learned as a table: one value for terminal, page and CSV."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.words import html_table, one_line


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table.

    Attributes
    ----------
    name : str
        Its heading.
    values : sequence
        Numbers or text, one per row; None where there is nothing to say.
    kind : {"number", "share", "count", "text"}
        How values are written.
    decimals : int, optional
        Of numbers on a page; by default as many as they need.
    shades : array, optional
        From -1 (far below) over 0 to 1 (far above): how strongly a page colours each cell.
    notes : sequence of str, optional
        What a page says when a cell is pointed at.
    """

    name: str
    values: Sequence[Any] | AnyArray
    kind: str = "number"
    decimals: int | None = None
    shades: Array | None = None
    notes: Sequence[str] | None = None

    def text(self, row: int) -> str:
        """A value as a terminal shows it."""
        value = self.values[row]
        if value is None:
            return ""
        if self.kind == "share":
            return f"{value:.2%}"
        if self.kind == "count":
            return f"{value:,.0f}"
        return str(value) if self.kind == "text" else f"{value:.5g}"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows and columns with a title.

    Attributes
    ----------
    name : str
        Short, for the file of a download.
    title, note : str
        Heading and explanation.
    columns : tuple of Column
        All of one length.
    marked : bool
        Whether rows are the components that a picture shows, in its order.

    Examples
    --------
    >>> from sketchlearn.models import Column, Table
    >>> table = Table("parts", "Parts", (Column("part", ["a", "b"], "text"), Column("share", [0.25, 0.75], "share")))
    >>> print(table.text())
      part   share
         a  25.00%
         b  75.00%
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    note: str = ""
    marked: bool = False

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def text(self, rows: int = 30, columns: int = 14) -> str:
        """The first rows and columns, aligned."""
        some, count = self.columns[:columns], min(rows, len(self))
        shown = [[one_line(c.name) for c in some], *([one_line(c.text(i)) for c in some] for i in range(count))]
        widths = [max(len(line[j]) for line in shown) for j in range(len(some))]
        lines = ["  " + "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in shown]
        if len(self) > rows:
            lines.append(f"  ... and {len(self) - rows} more")
        if len(self.columns) > columns:
            lines.append(f"  ... and {len(self.columns) - columns} more columns")
        return "\n".join(lines)

    def _repr_html_(self, rows: int = 30, columns: int = 14) -> str:
        some, count = self.columns[:columns], min(rows, len(self))
        shown = ([column.text(i) for column in some] for i in range(count))
        left = [f"{len(self) - rows} more rows"] * (len(self) > rows)
        left += [f"{len(self.columns) - columns} more columns"] * (len(self.columns) > columns)
        more = f" And {' and '.join(left)}." if left else ""
        return html_table(self.title, shown, [column.name for column in some], self.note + more)


def number(value: float) -> str:
    """A number with as many digits as a person reads."""
    if value != 0 and (abs(value) >= 1e7 or abs(value) < 1e-3):
        return f"{value:.3e}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def decimals(spread: float) -> int:
    """Decimals that tell a hundredth of the spread of a column."""
    return int(np.clip(2 - math.floor(math.log10(spread)), 0, 12)) if spread > 1e-12 else 3


def loadings(names: Sequence[str], matrix: Array) -> list[Column]:
    """A column of the table for each name, shaded by its part in each line: matrix (columns, lines)."""
    unit = np.maximum(np.abs(matrix).max(0, initial=0.0), 1e-300)
    return [Column(name, row, "number", 3, row / unit) for name, row in zip(names, matrix, strict=True)]
