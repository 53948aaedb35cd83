"""Fingerprints of drawn numbers: a redraw that differs is an error."""

from __future__ import annotations

import hashlib

import numpy as np

from sketchlearn.arrays import AnyArray
from sketchlearn.exceptions import SketchFileError


def digest(array: AnyArray) -> str:
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
