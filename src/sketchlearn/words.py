"""Text of others for terminals: what would move the cursor, or the line, is shown and not obeyed."""

from __future__ import annotations


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
