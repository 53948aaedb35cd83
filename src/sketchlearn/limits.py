"""How much memory a file may ask for: no more than its size justifies, nor than a limit that the user can raise."""

from __future__ import annotations

import os
import re
from os import PathLike
from pathlib import Path

VARIABLE = "SKETCHLEARN_MEMORY_LIMIT"
_DEFAULT = 2**32
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"\s*([0-9]+)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)
_JSON = 16  # bytes of memory that a byte of JSON may become, or a little more
_PACKED = 1000  # bytes that a byte of a compressed table may become: more than recipes that repeat
_SMALL = 2**26


class LimitError(ValueError):
    """Something asks for more memory than is allowed."""


def memory_limit() -> int:
    """Bytes that a file, or the random numbers of a feature map, may take: 4 GB, or what the environment says.

    Examples
    --------
    >>> import os
    >>> from sketchlearn.limits import memory_limit
    >>> os.environ["SKETCHLEARN_MEMORY_LIMIT"] = "16 GB"
    >>> memory_limit() == 16 * 2**30
    True
    >>> del os.environ["SKETCHLEARN_MEMORY_LIMIT"]
    >>> memory_limit() == 4 * 2**30
    True
    """
    given = os.environ.get(VARIABLE)
    if not given:
        return _DEFAULT
    found = _SIZE.fullmatch(given)
    if found is None:
        raise LimitError(f"{VARIABLE}={given!r} is not a valid size; write for example 8GB")
    return int(found[1]) * _UNITS[found[2].lower()]


def check(need: int, what: str) -> None:
    """Refuse what needs too many bytes."""
    limit = memory_limit()
    if need > limit:
        raise LimitError(
            f"{what} would take {_words(need)} of memory, but the limit is {_words(limit)}; to allow more, set the "
            f"environment variable {VARIABLE}"
        )


def check_json(length: int, what: str) -> None:
    """Refuse JSON text that would become too many values."""
    check(length * _JSON, what)


def unpacked(length: int) -> int:
    """Bytes that a compressed file of this length may become."""
    return min(memory_limit(), _SMALL + _PACKED * length)


def read_json(path: str | PathLike[str]) -> bytes:
    """The text of a small file."""
    check_json(Path(path).stat().st_size, os.fspath(path))
    return Path(path).read_bytes()


def _words(size: int) -> str:
    for unit, name in ((2**40, "TB"), (2**30, "GB"), (2**20, "MB")):
        if size >= unit:
            return f"{size / unit:,.3g} {name}"
    return f"{size:,} bytes"
