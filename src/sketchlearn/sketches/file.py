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
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.exceptions import SketchFileError
from sketchlearn.features.base import WORDS, FeatureMap
from sketchlearn.features.fingerprint import digest
from sketchlearn.files import write
from sketchlearn.limits import check, check_json
from sketchlearn.sketches.checks import implausible
from sketchlearn.sketches.origin import Origin
from sketchlearn.sketches.parts import Parts
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sketches.value import Sketch, check_range
from sketchlearn.sketches.weights import possible_squares, repeated

__all__ = ["MAGIC", "decode", "encode", "load", "write"]

MAGIC = b"\x89SKETCH\n"
_PREAMBLE = struct.Struct("<8sIIQ")  # magic, version, header length, total length
_DIGEST = 32
_FIELDS = {"features", "fingerprint", "weight", "weight_bits", "skipped", "arrays"}
_NEW_FIELDS = {"squared_weights", "privacy", "optional"}
_PARTS = "parts"  # the optional field with the record of what went in and out
_NOISE = "noise"  # the optional field with the variance of known noise
_ORIGIN = "origin"  # the optional field with how rows were chosen, if not all with weight 1
_MAP = "map"  # the optional field with the words that say where the map comes from
_DTYPES = {"<i8", "<f8", "<f4", "|i1"}


def encode(sketch: Sketch, *, embed_frequencies: bool = False) -> bytes:
    """Bytes of a sketch: of version 1 if that has a place for everything, so that older readers can read it."""
    features = sketch.features
    version = 1 if _is_plain(sketch) else 2
    arrays: dict[str, AnyArray] = {
        "sums": sketch.sums.astype(features.sums_dtype.newbyteorder("<"), copy=False),
        "lower": sketch.lower.astype("<f8", copy=False),
        "upper": sketch.upper.astype("<f8", copy=False),
    }
    if embed_frequencies:
        drawn = features.random_array()
        arrays["frequencies"] = drawn.astype(drawn.dtype.newbyteorder("<"), copy=False)
    header: dict[str, Any] = {
        "features": features.recipe(),
        "fingerprint": features.fingerprint,
        "weight": sketch.weight,
        "weight_bits": sketch.weight_bits,
        "skipped": sketch.skipped,
        "arrays": [[name, a.dtype.str, list(a.shape)] for name, a in arrays.items()],
    }
    if version == 2:
        header["squared_weights"] = str(sketch.squared_weights)
        header["privacy"] = None if sketch.privacy is None else sketch.privacy.to_json()
        record = {} if sketch.parts is None else {_PARTS: sketch.parts.to_json(sketch)}
        known = {_NOISE: sketch.noise} if sketch.noise else {}
        chosen = {} if sketch.origin == Origin() else {_ORIGIN: sketch.origin.to_json()}
        words = {_MAP: told} if (told := _words(sketch)) else {}
        header["optional"] = {**sketch.extra, **record, **known, **chosen, **words}
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-(_PREAMBLE.size + len(text)) % 8)
    body = b"".join(a.tobytes() for a in arrays.values())
    length = _PREAMBLE.size + len(text) + len(body) + _DIGEST
    data = _PREAMBLE.pack(MAGIC, version, len(text), length) + text + body
    return data + hashlib.sha256(data).digest()


def _is_plain(sketch: Sketch) -> bool:
    repetition = sketch.squared_weights == repeated(sketch.weight, sketch.weight_bits)
    boxed = sketch.has_box or sketch.weight == 0
    alone = not sketch.extra and sketch.parts is None and not sketch.noise and sketch.origin == Origin()
    return repetition and boxed and sketch.privacy is None and alone and not _words(sketch)


def _words(sketch: Sketch) -> dict[str, str]:
    """What is known about where the map comes from; not of a release: it would tell of pilot rows, without noise."""
    return {} if sketch.privacy is not None else sketch.features.words


def decode(data: bytes | bytearray | memoryview, source: str = "these bytes", like: FeatureMap | None = None) -> Sketch:
    """The sketch that some bytes hold; a map that is the same as `like` is shared with it."""
    view = memoryview(data).cast("B")
    if len(view) < len(MAGIC) or view[: len(MAGIC)] != MAGIC:
        raise SketchFileError(f"{source}: not a sketch, nor another file of this library (rows are read with 'sketch')")
    if len(view) < _PREAMBLE.size + _DIGEST:
        raise SketchFileError(f"{source}: truncated after {len(view)} bytes")
    _, version, header_length, length = _PREAMBLE.unpack(view[: _PREAMBLE.size])
    if version not in _VERSIONS:
        known = " and ".join(map(str, _VERSIONS))
        raise SketchFileError(f"{source}: format version {version}; this library reads version {known}")
    if length != len(view):
        raise SketchFileError(
            f"{source}: {len(view)} bytes long, but its preamble says {length}: truncated or extended"
        )
    if hashlib.sha256(view[:-_DIGEST]).digest() != view[-_DIGEST:]:
        raise SketchFileError(f"{source}: damaged (the checksum doesn't match)")
    if _PREAMBLE.size + header_length + _DIGEST > length:
        raise SketchFileError(f"{source}: the header is longer than the file")
    check_json(header_length, f"{source}: its header")
    try:
        return _parse(view, header_length, _VERSIONS[version], like)
    except SketchFileError as error:
        raise SketchFileError(f"{source}: {error}") from None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, AttributeError) as error:
        raise SketchFileError(f"{source}: invalid content: {error}") from error


_Later = dict[str, Any]
"""What a version has besides the fields of version 1, as arguments of a sketch."""


def _version1(header: dict[str, Any]) -> _Later:
    if set(header) != _FIELDS:
        raise SketchFileError("the header doesn't have the fields of a sketch")
    return {}


def _version2(header: dict[str, Any]) -> _Later:
    if set(header) != _FIELDS | _NEW_FIELDS:
        raise SketchFileError("the header doesn't have the fields of a sketch")
    squared, privacy, optional = (header[name] for name in ("squared_weights", "privacy", "optional"))
    if not isinstance(squared, str) or not re.fullmatch("0|[1-9][0-9]{0,59}", squared):
        raise SketchFileError("squared_weights must be the digits of a whole number")
    if not isinstance(optional, dict):
        raise SketchFileError("the optional fields are not an object")
    record = None if privacy is None else PrivacyRecord.from_json(privacy)
    return {"squared_weights": int(squared), "privacy": record, "extra": optional}


_VERSIONS: dict[int, Callable[[dict[str, Any]], _Later]] = {1: _version1, 2: _version2}
"""Every version that can be read."""


def _refuse_constant(name: str) -> Any:
    raise SketchFileError(f"the header holds {name}, which is no number of JSON")


def _parse(
    view: memoryview, header_length: int, version: Callable[[dict[str, Any]], _Later], like: FeatureMap | None
) -> Sketch:
    end_of_header = _PREAMBLE.size + header_length
    header = json.loads(bytes(view[_PREAMBLE.size : end_of_header]), parse_constant=_refuse_constant)
    if not isinstance(header, dict):
        raise SketchFileError("the header doesn't have the fields of a sketch")
    later = version(header)
    arrays = _arrays(view[end_of_header:-_DIGEST], header["arrays"])
    numbers = [header[k] for k in ("weight", "weight_bits", "skipped")]
    if any(isinstance(v, bool) or not isinstance(v, int) or v < 0 for v in numbers):
        raise SketchFileError(f"weight, weight_bits and skipped must be whole numbers, got {numbers}")
    weight, weight_bits, skipped = numbers
    if weight_bits > 62:
        raise SketchFileError(f"weight_bits={weight_bits} is out of range")
    if not isinstance(header["fingerprint"], str) or not re.fullmatch("[0-9a-f]{32}", header["fingerprint"]):
        raise SketchFileError("the fingerprint is not one")
    if like is not None and header["features"] == like.recipe() and header["fingerprint"] == like.fingerprint:
        features = like
    else:
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
    private = later.get("privacy") is not None
    # rows that came encoded, or under noise, have no box
    encoded = bool(getattr(features, "quantized", False))
    _check_box(lower, upper, weight, private or encoded, features.takes_missing)
    if "squared_weights" in later and not possible_squares(later["squared_weights"], weight, weight_bits):
        raise SketchFileError("no weights of this total can have these squares")
    extra = dict(later.pop("extra", {}))
    record, noise = extra.pop(_PARTS, None), extra.pop(_NOISE, 0.0)
    if isinstance(noise, bool) or not isinstance(noise, int | float) or not 0 <= noise < np.inf:
        raise SketchFileError(f"noise must be a number that is not negative, got {noise!r}")
    later["noise"] = float(noise)
    problem = implausible(features, sums, weight, weight_bits, float(noise), later.get("privacy"))
    if problem:
        raise SketchFileError(f"no rows can have these sums: {problem}")
    if "frequencies" in arrays:
        frequencies = arrays["frequencies"]
        if digest(frequencies) != header["fingerprint"]:
            raise SketchFileError("the embedded frequencies don't have the fingerprint of the header")
        features = features.with_random_array(frequencies)
    features = _with_words(features, extra.pop(_MAP, {}))
    if _ORIGIN in extra:
        later["origin"] = Origin.from_json(extra.pop(_ORIGIN))
    made = Sketch(features, sums, weight, weight_bits, lower, upper, skipped, extra=extra, **later)
    return made if record is None else replace(made, parts=Parts.from_json(record, made))


def _with_words(features: FeatureMap, words: Any) -> FeatureMap:
    right = isinstance(words, dict) and all(name in WORDS and isinstance(text, str) for name, text in words.items())
    if not right:
        raise SketchFileError("not a record of where the map comes from")
    return features if features.words == words else features.with_words(words)


def _arrays(body: memoryview, specification: Any) -> dict[str, AnyArray]:
    if not isinstance(specification, list):
        raise SketchFileError("the list of arrays is missing")
    out: dict[str, AnyArray] = {}
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


def _check_box(lower: Array, upper: Array, weight: int, boxless: bool, missing: bool) -> None:
    empty = np.isposinf(lower).all() and np.isneginf(upper).all()
    known = np.isfinite(lower) & np.isfinite(upper) & (lower <= upper)
    full = (known | (np.isposinf(lower) & np.isneginf(upper) & missing)).all()
    unknown = np.isneginf(lower).all() and np.isposinf(upper).all()
    if not (full or (empty and weight == 0) or (unknown and boxless)):
        raise SketchFileError("the box is not a box")


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
            raise SketchFileError(
                f"{path}: not a sketch, nor another file of this library (rows are read with 'sketch')"
            )
        size = os.fstat(file.fileno()).st_size
        if len(start) < _PREAMBLE.size or _PREAMBLE.unpack(start)[3] != size:
            raise SketchFileError(f"{path}: truncated or extended, it is {size} bytes long")
        check(2 * size, str(path))
        return decode(start + file.read(size - len(start)), str(path))
