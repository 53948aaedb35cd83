"""Text of others for terminals: what would move the cursor, or the line, is shown and not obeyed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape


def printable(text: str, keep: str = "\n\t") -> str:
    """Text whose control characters are shown, not obeyed: names of columns and groups are somebody else's."""
    return "".join(c if c in keep or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(value: object) -> str:
    r"""A text on one line, for a name that goes into a table.

    Examples
    --------
    >>> from sketchlearn.words import one_line
    >>> print(one_line("a\nb"))
    a\nb
    """
    return printable(str(value), "")


def counted(number: int | float, thing: str) -> str:
    """A number of things, in the singular for one.

    Examples
    --------
    >>> from sketchlearn.words import counted
    >>> counted(1, "cluster"), counted(12_000, "row")
    ('1 cluster', '12,000 rows')
    """
    return f"{number:,} {thing}{'s' * (number != 1)}"


def html_table(caption: str, rows: Iterable[Iterable[object]], head: Iterable[object] = (), note: str = "") -> str:
    """A small table for notebooks; without a `head` the first cell of each row is its label.

    Examples
    --------
    >>> from sketchlearn.words import html_table
    >>> html_table("Sketch", [("rows", "<3>")])
    "<table><caption>Sketch</caption><tbody><tr><th scope='row'>rows</th><td>&lt;3&gt;</td></tr></tbody></table>"
    """
    titles = "".join(f"<th scope='col'>{escape(str(cell))}</th>" for cell in head)
    body = []
    for row in rows:
        label, *cells = (escape(str(cell)) for cell in row)
        first = f"<td>{label}</td>" if titles else f"<th scope='row'>{label}</th>"
        body.append(f"<tr>{first}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    top = f"<thead><tr>{titles}</tr></thead>" if titles else ""
    below = f"<p>{escape(note)}</p>" if note else ""
    return f"<table><caption>{escape(caption)}</caption>{top}<tbody>{''.join(body)}</tbody></table>{below}"


def listed(names: Iterable[str]) -> str:
    """Names as the command line takes them: with commas between, and quoted where they need it.

    Examples
    --------
    >>> from sketchlearn.words import listed
    >>> listed(["age", "income, net"])
    'age,"income, net"'
    """
    return ",".join(name if re.fullmatch(r'[^,\s"]+', name) else '"' + name.replace('"', '""') + '"' for name in names)
