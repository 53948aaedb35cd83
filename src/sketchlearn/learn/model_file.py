"""Takes a model file apart and distrusts all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.profile import Profile
from sketchlearn.exceptions import ModelFileError
from sketchlearn.learn.model import PROFILE, TASKS, Model, as_mixture

Array = npt.NDArray[np.float64]

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
}


class Reader:
    """The facts of a model file, and its name for error messages."""

    def __init__(self, facts: dict[str, Any], name: str) -> None:
        self.facts, self.name = facts, name

    def fail(self, text: str) -> ModelFileError:
        return ModelFileError(f"{self.name}: a damaged model: {text}")

    def array(self, facts: Any, key: str, shape: tuple[int | None, ...]) -> Array:
        try:
            value = np.asarray(facts[key], np.float64)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self.fail(f"the field {key!r} is missing or not an array of numbers") from None
        fits = value.ndim == len(shape) and all(b in (None, a) for a, b in zip(value.shape, shape, strict=True))
        if not fits or not np.isfinite(value).all():
            wanted = " x ".join("n" if s is None else str(s) for s in shape)
            raise self.fail(f"the field {key!r} should have {wanted} finite numbers, it has shape {value.shape}")
        return value

    def model(self) -> Model:
        facts = self.facts
        task = facts.get("task")
        if not isinstance(task, str) or task not in TASKS:
            raise self.fail(f"the task {task!r} is none of {', '.join(TASKS)}")
        rows = facts.get("rows")
        if isinstance(rows, bool) or not isinstance(rows, int | float) or not (0 < rows < 2**63):
            raise self.fail(f"the number of rows is {rows!r}")
        learned, d = getattr(self, f"_{task}")()
        columns = facts.get("columns")
        if columns is not None and (
            not isinstance(columns, list) or len(columns) != d or not all(map(_is_text, columns))
        ):
            raise self.fail(f"the field 'columns' should be {d} names")
        for key in ("verdict", "decoder", "criterion", "covariance_type"):
            if facts.get(key) is not None:
                if not _is_text(facts[key]):
                    raise self.fail(f"the field {key!r} should be text, it is {facts[key]!r}")
                learned[key] = facts[key]
        for key in ("ratio", "inertia"):
            if facts.get(key) is not None:
                learned[key] = float(self.array(facts, key, ()))
        if facts.get("reliable") is not None:
            if not isinstance(facts["reliable"], bool):
                raise self.fail(f"the field 'reliable' should be true or false, it is {facts['reliable']!r}")
            learned["reliable"] = facts["reliable"]
        return Model(
            task,
            rows,
            tuple(columns) if columns else tuple(f"column {i}" for i in range(d)),
            learned,
            self.mixture(task, learned, d),
            self.profile(),
            self.sketch(d),
            str(facts.get("library", "")),
            bool(columns),
        )

    def _kmeans(self) -> tuple[dict[str, Any], int]:
        centers = self.array(self.facts, "centers", (None, None))
        learned = {"centers": centers, "weights": self.weights(self.facts, len(centers))}
        if "spread" in self.facts:
            learned["spread"] = self.array(self.facts, "spread", (centers.shape[1],))
            if not (learned["spread"] > 0).all():
                raise self.fail("the spread of columns must be positive")
        return learned, centers.shape[1]

    def _gmm(self) -> tuple[dict[str, Any], int]:
        means = self.array(self.facts, "means", (None, None))
        k, d = means.shape
        kind = self.facts.get("covariance_type")
        shapes = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}
        if not isinstance(kind, str) or kind not in shapes:
            raise self.fail(f"the covariance type {kind!r} is none of {', '.join(shapes)}")
        covariances = self.covariances(self.facts, "covariances", shapes[kind])
        return {"weights": self.weights(self.facts, k), "means": means, "covariances": covariances}, d

    def _stable(self) -> tuple[dict[str, Any], int]:
        places = self.array(self.facts, "locations", (None, None))
        k, d = places.shape
        return {
            "weights": self.weights(self.facts, k),
            "locations": places,
            "scatters": self.covariances(self.facts, "scatters", (k, d, d)),
            "alphas": self.array(self.facts, "alphas", (k,)),
        }, d

    def _pca(self) -> tuple[dict[str, Any], int]:
        components = self.array(self.facts, "components", (None, None))
        k, d = components.shape
        return {
            "components": components,
            "explained_variance": self.array(self.facts, "explained_variance", (k,)),
            "explained_variance_ratio": self.array(self.facts, "explained_variance_ratio", (k,)),
            "mean": self.array(self.facts, "mean", (d,)),
            **self.number("noise_variance"),
        }, d

    def _regression(self) -> tuple[dict[str, Any], int]:
        coefficients = self.array(self.facts, "coefficients", (None,))
        p = len(coefficients)
        predictors, target = self.facts.get("predictors"), self.facts.get("target")
        if not isinstance(predictors, list) or len(predictors) != p or not all(map(_is_text, [*predictors, target])):
            raise self.fail("a regression has as many predictors as coefficients, and a target")
        out: dict[str, Any] = {
            "coefficients": coefficients,
            "intercept": float(self.array(self.facts, "intercept", ())),
            "predictors": predictors,
            "target": target,
            **self.number("r2"),
        }
        for key in ("standard_errors", "predictor_spread"):
            if self.facts.get(key) is not None:
                out[key] = self.array(self.facts, key, (p,))
        columns = self.facts.get("n_columns", p + 1)
        if isinstance(columns, bool) or not isinstance(columns, int) or columns <= p:
            raise self.fail(f"the field 'n_columns' is {columns!r}, with {p} predictors")
        return out, columns

    def number(self, key: str) -> dict[str, float]:
        """A number that may be missing."""
        return {} if self.facts.get(key) is None else {key: float(self.array(self.facts, key, ()))}

    def covariances(self, facts: Any, key: str, shape: tuple[int, ...]) -> Array:
        """Variances or covariance matrices."""
        value = self.array(facts, key, shape)
        matrices = value.ndim == 3 or (value.ndim == 2 and self.facts.get("covariance_type") == "tied")
        least = np.linalg.eigvalsh(value) if matrices else value
        if value.size and least.min() < -1e-6 * np.abs(value).max():
            raise self.fail(f"the field {key!r} has negative variances")
        return value

    def weights(self, facts: Any, k: int) -> Array:
        weights = self.array(facts, "weights", (k,))
        if k == 0 or (weights < 0).any() or weights.sum() <= 0:
            raise self.fail("the weights must not be negative, nor all zero")
        return weights

    def mixture(self, task: str, learned: Mapping[str, Any], d: int) -> Mixture | None:
        if task == "gmm":
            return as_mixture(learned)
        given = self.facts.get("mixture")
        if given is None:
            return None
        means = self.array(given, "means", (None, d))
        k = len(means)
        try:
            depth = np.ndim(given["covariances"])
        except (KeyError, ValueError):
            depth = 1
        shape = {1: (k,), 2: (k, d), 3: (k, d, d)}.get(depth, (k,))
        return Mixture(self.weights(given, k), means, self.covariances(given, "covariances", shape))

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
            if kind is list:
                value = self.array(given, key, (d,)).tolist()
            elif isinstance(value, bool) or not isinstance(value, kind) or not (_is_text(value) or 0 <= value < 2**63):
                raise self.fail(f"the field {key!r} of the sketch is {value!r}")
            out[key] = value
        return out

    def profile(self) -> Profile | None:
        given = self.facts.get("profile")
        if given is None:
            return None
        size = len(self.array(given, "radius", (None,)))
        return Profile(*(self.array(given, name, (size,)) for name in PROFILE))


def _is_text(value: Any) -> bool:
    """Text that can be written to a file: JSON can hold halves of surrogate pairs."""
    return isinstance(value, str) and not any(0xD800 <= ord(c) < 0xE000 for c in value)
