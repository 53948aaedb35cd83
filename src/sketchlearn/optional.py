"""Packages that are needed for some formats only: imported at first use, with an error that says what to install."""

from __future__ import annotations

import importlib
from typing import Any

from sketchlearn.exceptions import MissingPackageError


def optional(module: str, extra: str, purpose: str) -> Any:
    """The module, or :class:`MissingPackageError` with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingPackageError(
            f"{purpose} needs the package {package}: pip install 'sketchlearn[{extra}]' ({error})"
        ) from None


def arrow_reader(pa: Any, data: bytes) -> Any:
    """Bytes as a file of Arrow, in memory of Arrow: its threads may hold it beyond the end of Python."""
    buffer = pa.allocate_buffer(len(data))
    pa.FixedSizeBufferWriter(buffer).write(data)
    return pa.BufferReader(buffer)
