"""Files that are either complete or not there."""

from __future__ import annotations

import os
import tempfile
from os import PathLike
from pathlib import Path


def write(path: str | PathLike[str], data: bytes) -> None:
    """Write bytes to a file so that it is either complete or not there."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # noqa: PTH101
        os.replace(temporary, target)  # noqa: PTH105
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
