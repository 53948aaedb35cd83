"""Features of single rows as bytes: two bits each, for devices that send contributions and not sums.

See docs/encoded-rows.md for the layout, byte by byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sketchlearn.exceptions import SketchFileError

if TYPE_CHECKING:
    from sketchlearn.features.phases import PhaseMap

MAGIC = b"\x89SKBITS\n"
HEADER = struct.Struct("<8sIIQ16s")  # magic, version, features, rows, fingerprint of the map
VERSION = 1
_BITS = 2**24  # looked at together


def encode(features: PhaseMap, X: npt.ArrayLike) -> bytes:
    """A message with the one-bit features of some rows; see :meth:`sketchlearn.FourierFeatures.encode`."""
    if features.dither is None or features.kept != features.size:
        raise ValueError("only rows of features that are quantised and not subsampled can be encoded: quantized=True")
    rows = np.asarray(X)
    rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    if rows.ndim != 2 or rows.shape[1] != features.inputs:
        raise ValueError(f"expected rows with {features.inputs} columns, got an array of shape {rows.shape}")
    valid = features.summer.valid(rows)
    if not valid.all():
        raise ValueError(f"row {int(np.argmin(valid))} holds NaN, infinity, or a value too far from the others")
    fingerprint = bytes.fromhex(features.fingerprint)
    parts = [HEADER.pack(MAGIC, VERSION, features.size, len(rows), fingerprint)]
    for first, last in _blocks(len(rows), features.size):
        # a sum over one row is its bits: nothing else could agree with the pass bit for bit
        sums = features.sum_runs(rows[first:last], np.arange(last - first + 1))
        bits = np.array([one.sums for one in sums], np.uint8)
        parts.append(np.packbits(bits.reshape(-1), bitorder="little").tobytes())
    return b"".join(parts)


def counts(features: PhaseMap, message: bytes | bytearray | memoryview) -> tuple[npt.NDArray[np.int64], int]:
    """Sums (2, size) of a message of :func:`encode`, and its number of rows; SketchFileError if it is none."""
    view = memoryview(message).cast("B")
    if len(view) < HEADER.size:
        raise SketchFileError(f"encoded rows: truncated after {len(view)} bytes")
    magic, version, size, rows, fingerprint = HEADER.unpack(view[: HEADER.size])
    if magic != MAGIC:
        raise SketchFileError("encoded rows: not a message of encoded rows (it doesn't start with the magic bytes)")
    if version != VERSION:
        raise SketchFileError(f"encoded rows: version {version}; this library reads version {VERSION}")
    if features.dither is None or features.kept != features.size:
        raise SketchFileError("encoded rows belong to quantised features that are not subsampled")
    if size != features.size or fingerprint.hex() != features.fingerprint:
        raise SketchFileError(
            f"encoded rows: made with another map ({size} features, fingerprint {fingerprint.hex()}; "
            f"this one has {features.size}, {features.fingerprint})"
        )
    if len(view) != HEADER.size + -(-rows * 2 * size // 8):
        raise SketchFileError(f"encoded rows: {len(view)} bytes long, not what {rows} rows of {size} features take")
    body = np.frombuffer(view[HEADER.size :], np.uint8)
    sums = np.zeros(2 * size, np.int64)
    for first, last in _blocks(rows, size):
        part = body[first * 2 * size // 8 : -(-last * 2 * size // 8)]
        bits = np.unpackbits(part, count=(last - first) * 2 * size, bitorder="little")
        sums += bits.reshape(last - first, 2 * size).sum(0, dtype=np.int64)
    return sums.reshape(2, size), rows


def _blocks(rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Runs of rows whose bits fill whole bytes (the last one but for its end)."""
    step = max(1, _BITS // (2 * size * 8)) * 8
    for first in range(0, rows, step):
        yield first, min(first + step, rows)
