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
