"""Fingerprints of drawn numbers: a redraw that differs is an error."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.exceptions import SketchFileError


def digest(array: npt.NDArray[Any]) -> str:
    """Fingerprint of an array: 128 bits of BLAKE2b over its shape and little-endian bytes."""
    h = hashlib.blake2b(digest_size=16)
    h.update(repr(array.shape).encode())
    plain = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    h.update(plain.reshape(-1).view(np.uint8).data)  # without a copy: arrays may be large
    return h.hexdigest()


def check_fingerprint(expected: str | None, actual: str) -> None:
    """Refuse random numbers that are not the ones a sketch was made with."""
    if expected is not None and expected != actual:
        raise SketchFileError(
            f"the frequencies redrawn from the recipe have fingerprint {actual}, the sketch was made with "
            f"{expected}: this machine draws different numbers; use a file that embeds the frequencies"
        )
