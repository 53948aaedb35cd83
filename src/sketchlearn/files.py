"""Files that are either complete or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import BinaryIO


def write(path: str | PathLike[str], data: bytes) -> None:
    """Write bytes to a file so that it is either complete or not there."""
    with whole(path) as out:
        out.write(data)


@contextmanager
def whole(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """An open file that takes its name when all is written; if that fails, it never does."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # noqa: PTH101
        os.replace(temporary, target)  # noqa: PTH105
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
