"""Compile everything now, so that no first call waits: for the build of a container, or of an image."""

from __future__ import annotations


def warmup() -> None:
    pass
