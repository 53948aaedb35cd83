"""The .sketch file: see docs/file-format.md for the layout, byte by byte.

Reading never executes anything, checks the length and the checksum before anything else, and
allocates nothing that the length of the input doesn't justify: frequencies are redrawn from their
recipe at first use, not at loading.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.exceptions import SketchFileError
from sketchlearn.features.base import FeatureMap, digest
from sketchlearn.sketches.value import Sketch, check_range

MAGIC = b"\x89SKETCH\n"
VERSION = 1
_PREAMBLE = struct.Struct("<8sIIQ")  # magic, version, header length, total length
_DIGEST = 32
_FIELDS = {"features", "fingerprint", "weight", "weight_bits", "skipped", "arrays"}
_DTYPES = {"<i8", "<f8", "<f4", "|i1"}


def encode(sketch: Sketch, *, embed_frequencies: bool = False) -> bytes:
    """Bytes of a sketch."""
    features = sketch.features
    arrays: dict[str, npt.NDArray[Any]] = {
        "sums": sketch.sums.astype(features.sums_dtype.newbyteorder("<"), copy=False),
        "lower": sketch.lower.astype("<f8", copy=False),
        "upper": sketch.upper.astype("<f8", copy=False),
    }
    if embed_frequencies:
        drawn = features.random_array()
        arrays["frequencies"] = drawn.astype(drawn.dtype.newbyteorder("<"), copy=False)
    header = {
        "features": features.recipe(),
        "fingerprint": features.fingerprint,
        "weight": sketch.weight,
        "weight_bits": sketch.weight_bits,
        "skipped": sketch.skipped,
        "arrays": [[name, a.dtype.str, list(a.shape)] for name, a in arrays.items()],
    }
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-(_PREAMBLE.size + len(text)) % 8)
    body = b"".join(a.tobytes() for a in arrays.values())
    length = _PREAMBLE.size + len(text) + len(body) + _DIGEST
    data = _PREAMBLE.pack(MAGIC, VERSION, len(text), length) + text + body
    return data + hashlib.sha256(data).digest()


def decode(data: bytes | bytearray | memoryview, source: str = "these bytes") -> Sketch:
    """The sketch that some bytes hold."""
    view = memoryview(data).cast("B")
    if len(view) < len(MAGIC) or view[: len(MAGIC)] != MAGIC:
        raise SketchFileError(f"{source}: not a sketch (it doesn't start with the magic bytes)")
    if len(view) < _PREAMBLE.size + _DIGEST:
        raise SketchFileError(f"{source}: truncated after {len(view)} bytes")
    _, version, header_length, length = _PREAMBLE.unpack(view[: _PREAMBLE.size])
    if version != VERSION:
        raise SketchFileError(f"{source}: format version {version}; this library reads version {VERSION}")
    if length != len(view):
        raise SketchFileError(
            f"{source}: {len(view)} bytes long, but its preamble says {length}: truncated or extended"
        )
    if hashlib.sha256(view[:-_DIGEST]).digest() != view[-_DIGEST:]:
        raise SketchFileError(f"{source}: damaged (the checksum doesn't match)")
    if _PREAMBLE.size + header_length + _DIGEST > length:
        raise SketchFileError(f"{source}: the header is longer than the file")
    try:
        return _parse(view, header_length)
    except SketchFileError as error:
        raise SketchFileError(f"{source}: {error}") from None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, AttributeError) as error:
        raise SketchFileError(f"{source}: invalid content: {error}") from error


def _parse(view: memoryview, header_length: int) -> Sketch:
    end_of_header = _PREAMBLE.size + header_length
    header = json.loads(bytes(view[_PREAMBLE.size : end_of_header]))
    if not isinstance(header, dict) or set(header) != _FIELDS:
        raise SketchFileError("the header doesn't have the fields of a sketch")
    arrays = _arrays(view[end_of_header:-_DIGEST], header["arrays"])
    numbers = [header[k] for k in ("weight", "weight_bits", "skipped")]
    if any(isinstance(v, bool) or not isinstance(v, int) or v < 0 for v in numbers):
        raise SketchFileError(f"weight, weight_bits and skipped must be whole numbers, got {numbers}")
    weight, weight_bits, skipped = numbers
    if weight_bits > 62:
        raise SketchFileError(f"weight_bits={weight_bits} is out of range")
    if not isinstance(header["fingerprint"], str) or not re.fullmatch("[0-9a-f]{32}", header["fingerprint"]):
        raise SketchFileError("the fingerprint is not one")
    features = FeatureMap.from_recipe(header["features"]).expecting(header["fingerprint"])
    if set(arrays) - {"frequencies"} != {"sums", "lower", "upper"}:
        raise SketchFileError(f"arrays of a sketch are sums, lower and upper, got {sorted(arrays)}")
    sums, lower, upper = arrays["sums"], arrays["lower"], arrays["upper"]
    if sums.shape != features.sums_shape or sums.dtype != features.sums_dtype:
        raise SketchFileError(
            f"sums are {sums.dtype} of shape {sums.shape}, the feature map needs {features.sums_dtype} of shape "
            f"{features.sums_shape}"
        )
    if lower.shape != (features.dim,) or upper.shape != (features.dim,):
        raise SketchFileError(
            f"the box has {lower.shape} and {upper.shape} numbers, the map has {features.dim} columns"
        )
    check_range(features, weight)
    _check_box(lower, upper, weight)
    problem = features.impossible(sums, weight)
    if problem:
        raise SketchFileError(f"no rows can have these sums: {problem}")
    if "frequencies" in arrays:
        frequencies = arrays["frequencies"]
        if digest(frequencies) != header["fingerprint"]:
            raise SketchFileError("the embedded frequencies don't have the fingerprint of the header")
        features = features.with_random_array(frequencies)
    return Sketch(features, sums, weight, weight_bits, lower, upper, skipped)


def _arrays(body: memoryview, specification: Any) -> dict[str, npt.NDArray[Any]]:
    if not isinstance(specification, list):
        raise SketchFileError("the list of arrays is missing")
    out: dict[str, npt.NDArray[Any]] = {}
    offset = 0
    for name, dtype, shape in specification:
        if not isinstance(name, str) or name in out or dtype not in _DTYPES:
            raise SketchFileError(f"invalid array {name!r} of type {dtype!r}")
        if not isinstance(shape, list) or len(shape) > 4 or not all(type(v) is int and v >= 0 for v in shape):
            raise SketchFileError(f"array {name!r} has no valid shape")
        items = 1
        for v in shape:
            items *= v
        size = items * int(dtype[2])
        if offset + size > len(body):
            raise SketchFileError(f"array {name!r} is longer than the file")
        raw = np.frombuffer(body[offset : offset + size], dtype)
        out[name] = raw.astype(raw.dtype.newbyteorder("=")).reshape(shape)
        offset += size
    if offset != len(body):
        raise SketchFileError(f"{len(body) - offset} bytes after the last array")
    return out


def _check_box(lower: npt.NDArray[np.float64], upper: npt.NDArray[np.float64], weight: int) -> None:
    empty = np.isposinf(lower).all() and np.isneginf(upper).all()
    full = np.isfinite(lower).all() and np.isfinite(upper).all() and (lower <= upper).all()
    if not (full or (empty and weight == 0)):
        raise SketchFileError("the box is not a box")


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


def load(path: str | PathLike[str]) -> Sketch:
    """Read a sketch from a file.

    Raises
    ------
    SketchFileError
        If the file is damaged, truncated, of an unknown version, or no sketch at all.

    Examples
    --------
    >>> import sketchlearn as sl, tempfile, pathlib
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "day.sketch"
    ...     sl.sketch([[1.0], [2.0]], phi).save(file)
    ...     sl.load(file).count
    2
    """
    with open(path, "rb") as file:  # noqa: PTH123
        start = file.read(_PREAMBLE.size)
        if start[: len(MAGIC)] != MAGIC:
            raise SketchFileError(f"{path}: not a sketch (it doesn't start with the magic bytes)")
        size = os.fstat(file.fileno()).st_size
        if len(start) < _PREAMBLE.size or _PREAMBLE.unpack(start)[3] != size:
            raise SketchFileError(f"{path}: truncated or extended, it is {size} bytes long")
        return decode(start + file.read(size - len(start)), str(path))
