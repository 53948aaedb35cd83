"""Fields of a recipe: arrays as JSON, and what distinguishes two recipes."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from sketchlearn.arrays import AnyArray, Array

_WORDS = 80  # letters of a field of a recipe that are worth showing


def encode_array(array: Array | None) -> dict[str, Any] | None:
    """An array of a recipe as JSON."""
    if array is None:
        return None
    data = np.ascontiguousarray(array, "<f8").tobytes()
    return {"shape": list(array.shape), "f8": base64.b64encode(data).decode("ascii")}


def decode_array(value: Any, shapes: tuple[tuple[int, ...], ...] | None, name: str) -> Array | None:
    """Inverse of :func:`encode_array`, checked against the shapes that are allowed (None: any)."""
    if value is None:
        return None
    try:
        shape = tuple(value["shape"])
        data = base64.b64decode(value["f8"], validate=True)
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"recipe field {name!r} is not an encoded array") from error
    if shapes is not None and shape not in shapes:
        raise ValueError(f"recipe field {name!r} has shape {shape}, expected {' or '.join(map(str, shapes))}")
    if len(data) != 8 * int(np.prod(shape)):
        raise ValueError(f"recipe field {name!r} has {len(data)} bytes for an array of shape {shape}")
    array = np.frombuffer(data, "<f8").astype(np.float64).reshape(shape)
    if not np.isfinite(array).all():
        raise ValueError(f"recipe field {name!r} holds NaN or infinity")
    return array


def differences(mine: dict[str, Any], theirs: dict[str, Any]) -> str:
    """What distinguishes two recipes, in words (empty if nothing does)."""
    parts, arrays = [], []
    for key in sorted(set(mine) | set(theirs)):
        a, b = mine.get(key), theirs.get(key)
        if a != b:
            long = any(
                len(json.dumps(v)) > _WORDS or isinstance(v, list) or (isinstance(v, dict) and "f8" in v)
                for v in (a, b)
            )  # lists and arrays say nothing to people
            if long:
                arrays.append(key)
            else:
                parts.append(f"{key} {_plain(a)} vs {_plain(b)}")
    if arrays:
        parts.append(f"other values of {', '.join(arrays)}")
    return ", ".join(parts)


def _plain(value: Any) -> Any:
    """A field of a recipe for people: of a law its name."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return value["law"] if isinstance(value, dict) and set(value) == {"law"} else value


def real_parts(values: AnyArray) -> Array:
    """Real and imaginary parts one after the other, for complex numbers."""
    return np.concatenate([values.real, values.imag], axis=1) if np.iscomplexobj(values) else values
