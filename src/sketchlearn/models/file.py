"""Reads a model file and checks every field."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.exceptions import ModelFileError
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.encoder import Encoder
from sketchlearn.features.projection import Projection
from sketchlearn.files import check_seal
from sketchlearn.limits import LimitError, check_json
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.profile import Profile
from sketchlearn.models.solution import Code
from sketchlearn.sketches.record import PrivacyRecord

FORMAT, VERSION = "sketchlearn.model", 1
_LARGEST = 1e120
_SKETCH: dict[str, Any] = {
    "features": int,
    "kind": str,
    "description": str,
    "fingerprint": str,
    "bytes": int,
    "skipped": int,
    "lower": list,
    "upper": list,
    "noise_level": (int, float),
    "encoder": Encoder,
    "projection": Projection,
    "privacy": PrivacyRecord,
}


class Reader:
    """The facts of a model file, and its name for error messages.

    Fields are read by what they should be: a tuple of letters is the shape of an array of finite numbers (a letter
    stands for one length in the whole file), ``str`` is text, ``bool`` true or false, ``list`` some names,
    ``Mixture`` weighted components.
    """

    def __init__(self, facts: dict[str, Any], name: str) -> None:
        self.facts, self.name = facts, name
        self.lengths: dict[str, int] = {}

    @classmethod
    def of_text(cls, text: str | bytes, name: str) -> Reader:
        """The facts in some JSON text, if it is a model of a version that can be read."""
        try:
            check_json(len(text), name)
            facts = json.loads(text)
        except LimitError as error:
            raise ModelFileError(str(error)) from None
        except (ValueError, RecursionError) as error:
            raise ModelFileError(f"{name}: not a model: it is not JSON ({error})") from None
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise ModelFileError(f"{name}: not a model: write one with 'sketchlearn learn' or Model.save")
        version = facts.get("version")
        if isinstance(version, bool) or version != VERSION:
            raise ModelFileError(
                f"{name}: a model of version {version!r}, this library reads version {VERSION}: "
                "install a newer sketchlearn, or learn it again from its sketch"
            )
        return cls(facts, name)

    def check_seal(self) -> None:
        """Refuse values that were changed; asked last, since what is wrong with a field says more."""
        try:
            check_seal(self.facts)
        except (ValueError, RecursionError) as error:
            raise ModelFileError(f"{self.name}: a damaged model: {error}") from None

    def fail(self, text: str) -> ModelFileError:
        """The error to raise."""
        return ModelFileError(f"{self.name}: a damaged model: {text}")

    def has(self, key: str) -> bool:
        """Whether a field is there and not null."""
        return self.facts.get(key) is not None

    # -- fields --------------------------------------------------------------------------------

    def value(self, key: str, kind: Any) -> Any:
        """A field that must be there."""
        if kind is Mixture:
            return self.mixture(key)
        if isinstance(kind, tuple):
            found = self.array(self.facts, key, tuple(self.lengths.get(letter) for letter in kind))
            self.lengths.update(zip(kind, found.shape, strict=True))
            return found if kind else float(found)
        value = self.facts.get(key)
        if kind is bool:
            if not isinstance(value, bool):
                raise self.fail(f"the field {key!r} should be true or false, it is {value!r}")
        elif kind is list:
            if not isinstance(value, list) or not all(map(is_text, value)):
                raise self.fail(f"the field {key!r} should be some names")
            return tuple(value)
        elif not is_text(value):
            raise self.fail(f"the field {key!r} should be text, it is {value!r}")
        return value

    def array(self, facts: Any, key: str, shape: tuple[int | None, ...]) -> Array:
        """Finite numbers of a shape; None in it stands for any length."""
        try:
            value = np.asarray(facts[key], np.float64)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self.fail(f"the field {key!r} is missing or not an array of numbers") from None
        fits = value.ndim == len(shape) and all(b in (None, a) for a, b in zip(value.shape, shape, strict=True))
        if not fits or not np.isfinite(value).all():
            wanted = " x ".join("n" if s is None else str(s) for s in shape)
            raise self.fail(f"the field {key!r} should have {wanted} finite numbers, it has shape {value.shape}")
        if np.abs(value).max(initial=0.0) > _LARGEST:
            raise self.fail(f"the field {key!r} has numbers beyond {_LARGEST:g}, whose squares are none")
        return value

    def check_covariances(self, key: str, value: Array, matrices: bool) -> None:
        """Refuse negative variances."""
        least = np.linalg.eigvalsh(value) if matrices else value
        if value.size and least.min() < -1e-6 * np.abs(value).max():
            raise self.fail(f"the field {key!r} has negative variances")

    def check_weights(self, weights: Array) -> None:
        """Refuse what can't be shares."""
        if not len(weights) or (weights < 0).any() or weights.sum() <= 0:
            raise self.fail("the weights must not be negative, nor all zero")
        if not 0.99 < weights.sum() < 1.01:
            raise self.fail(f"the weights are shares and add up to 1, not to {weights.sum():.6g}")

    def mixture(self, key: str) -> Mixture:
        """Components with variances, diagonals or matrices."""
        given = self.facts[key]
        means = self.array(given, "means", (None, self.lengths.get("d")))
        k, d = means.shape
        try:
            depth = np.ndim(given["covariances"])
        except (KeyError, ValueError):
            depth = 1
        shape: tuple[int, ...] = {1: (k,), 2: (k, d), 3: (k, d, d)}.get(depth, (k,))
        weights = self.array(given, "weights", (k,))
        self.check_weights(weights)
        covariances = self.array(given, "covariances", shape)
        self.check_covariances("covariances", covariances, depth == 3)
        return Mixture(weights, means, covariances)

    # -- what all models have ------------------------------------------------------------------

    def rows(self) -> int | float:
        """Number of rows."""
        rows = self.facts.get("rows")
        if isinstance(rows, bool) or not isinstance(rows, int | float) or not (0 < rows < 2**63):
            raise self.fail(f"the number of rows is {rows!r}")
        return rows

    def columns(self, d: int) -> tuple[str, ...] | None:
        """Names of the columns, if they have any."""
        columns = self.facts.get("columns")
        if columns is None:
            return None
        if not isinstance(columns, list) or len(columns) != d or not all(map(is_text, columns)):
            raise self.fail(f"the field 'columns' should be {d} names")
        return tuple(columns)

    def sketch(self, d: int) -> dict[str, Any]:
        """Facts about the sketch; what is missing is left out."""
        given = self.facts.get("sketch", {})
        if not isinstance(given, dict):
            raise self.fail("the field 'sketch' should be an object")
        out: dict[str, Any] = {}
        for key, kind in _SKETCH.items():
            value = given.get(key)
            if value is None:
                continue
            if kind in (Encoder, Projection, PrivacyRecord):
                try:
                    out[key] = kind.from_json(value).to_json()
                except ValueError as error:
                    raise self.fail(str(error)) from None
                continue
            if kind is list:
                value = self.array(given, key, (d,)).tolist()
            elif isinstance(value, bool) or not isinstance(value, kind) or not (is_text(value) or 0 <= value < 2**63):
                raise self.fail(f"the field {key!r} of the sketch is {value!r}")
            out[key] = value
        return out

    def certificate(self) -> dict[str, Any]:
        """What the decoder said; older files say whether it was reliable, but no code."""
        kinds: dict[str, Any] = {"verdict": str, "decoder": str, "code": str, "ratio": (), "reliable": bool}
        said = {key: self.value(key, what) for key, what in kinds.items() if self.has(key)}
        reliable = said.pop("reliable", None)
        try:
            code = Code(said["code"]) if "code" in said else None
        except ValueError:
            raise self.fail(f"the field 'code' is {said['code']!r}, none of {', '.join(Code)}") from None
        if code is None and reliable is not None:
            code = Code.RELIABLE if reliable else Code.UNCERTIFIED
        return {"verdict": None, "ratio": None, **said, "code": code, "trace": self.trace()}

    def trace(self) -> tuple[dict[str, str], ...]:
        """Decisions of the decoder, if they were kept."""
        given = self.facts.get("trace")
        if given is None:
            return ()
        texts = isinstance(given, list) and all(
            isinstance(record, dict) and is_text(record.get("stage")) and all(map(is_text, record.values()))
            for record in given
        )
        if not texts:
            raise self.fail("the field 'trace' should be a list of stages in words")
        return tuple(given)

    def recipe(self) -> FeatureMap:
        """The feature map that the field ``recipe`` describes; its columns are those of the model."""
        try:
            phi = FeatureMap.from_recipe(self.facts.get("recipe"))  # type: ignore[arg-type]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise self.fail(f"the recipe of its features: {error}") from None
        self.lengths["d"] = phi.dim
        return phi

    def check_features(self, phi: FeatureMap, embedded: Callable[..., Array]) -> None:
        """Refuse a map whose features are not as many as what they are multiplied by."""
        try:
            width = embedded(phi, np.zeros((1, phi.dim))).shape[1]
        except (ValueError, TypeError) as error:
            raise self.fail(f"the recipe of its features: {error}") from None
        if width != self.lengths["f"]:
            raise self.fail(f"{self.lengths['f']} numbers for {width} features")

    def profile(self) -> Profile | None:
        """Misfit by radius, if it is there."""
        given = self.facts.get("profile")
        if given is None:
            return None
        size = len(self.array(given, "radius", (None,)))
        return Profile(*(self.array(given, field.name, (size,)) for field in fields(Profile)))


def plain(value: Any) -> Any:
    """Arrays as lists, numbers of NumPy as numbers, what is not a number as null."""
    if isinstance(value, Mixture):
        value = {"weights": value.weights, "means": value.means, "covariances": value.covariances}
    if isinstance(value, Profile):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def is_known(value: Any) -> bool:
    """Whether there is something to write: neither None, empty text, nor numbers that are not finite."""
    if value is None or (isinstance(value, str) and not value):
        return False
    numbers = isinstance(value, float | np.floating) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")
    return not numbers or bool(np.isfinite(value).all())


def is_text(value: Any) -> bool:
    """Text that can be written to a file: JSON can hold halves of surrogate pairs."""
    return isinstance(value, str) and not any(0xD800 <= ord(c) < 0xE000 for c in value)
