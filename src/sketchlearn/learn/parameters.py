"""Parameters of estimators, declared: what each accepts, checked in one place, and names that have changed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from sketchlearn.features.base import FeatureMap


@dataclass(frozen=True)
class Accepts:
    """A test of a value, and what it accepts in words; ``|`` joins two of them.

    Examples
    --------
    >>> from sketchlearn.learn.parameters import choice, whole
    >>> count = whole() | choice("auto")
    >>> count.test(3), count.test(True), count.words
    (True, False, ('a positive integer', "'auto'"))
    """

    test: Callable[[Any], bool]
    words: tuple[str, ...]

    def __or__(self, other: Accepts) -> Accepts:
        return Accepts(lambda value: self.test(value) or other.test(value), self.words + other.words)

    def check(self, name: str, value: Any) -> None:
        """ValueError that names the parameter, its value and what is accepted."""
        if not self.test(value):
            *most, last = self.words
            wanted = f"{', '.join(most)} or {last}" if most else last
            raise ValueError(f"{name} must be {wanted}, got {name}={value!r}")


def whole(least: int = 1) -> Accepts:
    """Integers from `least` on; a boolean is none."""
    words = {0: "an integer that is not negative", 1: "a positive integer"}.get(least, f"an integer above {least - 1}")
    return Accepts(
        lambda v: isinstance(v, int | np.integer) and not isinstance(v, bool | np.bool_) and bool(v >= least), (words,)
    )


def real(low: float = 0.0, high: float = math.inf, *, closed: bool = False) -> Accepts:
    """Finite numbers between two bounds, which belong to them if `closed`."""
    if high == math.inf:
        words = f"a number of at least {low:g}" if closed else f"a number above {low:g}"
    else:
        words = f"a number between {low:g} and {high:g}" if closed else f"a number above {low:g} and below {high:g}"

    def test(value: Any) -> bool:
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
            return False
        inside = low <= value <= high if closed else low < value < high
        return bool(inside) and math.isfinite(value)

    return Accepts(test, (words,))


def choice(*names: str) -> Accepts:
    """One of some names."""
    return Accepts(lambda v: isinstance(v, str) and v in names, tuple(repr(name) for name in names))


def kind(types: Any, words: str) -> Accepts:
    """Instances of a type."""
    return Accepts(lambda v: isinstance(v, types), (words,))


_STARTS = "solution_", "mixture", "cluster_centers_", "centers", "means_", "means"
NOTHING = Accepts(lambda v: v is None, ("None",))
FLAG = kind((bool, np.bool_), "True or False")
COVARIANCES = choice("full", "tied", "diag", "spherical")
START = Accepts(
    lambda v: v is None or isinstance(v, np.ndarray | list | tuple) or any(hasattr(v, name) for name in _STARTS),
    ("centres", "a model with some", "None"),
)
SHARED: dict[str, Accepts] = {
    "features": kind(FeatureMap, "a FeatureMap") | NOTHING,
    "sketch_size": whole() | NOTHING,
    "projection": whole() | NOTHING,
    "decoder": kind(str, "the name of a decoder"),
    "standardize": FLAG,
    "on_invalid": choice("raise", "skip"),
    "n_jobs": whole() | Accepts(lambda v: type(v) is int and v == -1, ("-1",)) | NOTHING,
    "progress": FLAG | Accepts(callable, ("a callable",)) | NOTHING,
    "random_state": whole(0) | kind((np.random.Generator, np.random.RandomState), "a generator") | NOTHING,
}
"""Parameters that mean one thing in all estimators."""


class DeclaredParameters(BaseEstimator):  # type: ignore[misc]
    """An estimator that declares its parameters, and the names that they had before.

    Old names are still taken, with a FutureWarning, for one version.
    """

    parameters: ClassVar[Mapping[str, Accepts]] = {}
    """What the parameters of this class accept; those of its bases and :data:`SHARED` are added."""
    renamed: ClassVar[Mapping[str, str]] = {"workers": "n_jobs"}
    """Old names of parameters, and the new ones."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in cls.__dict__:
            cls.__init__ = _taking_old_names(cls.__init__, cls.renamed)  # type: ignore[method-assign]

    def check_parameters(self) -> None:
        """Refuse parameters that make no sense, before any row is read."""
        declared: dict[str, Accepts] = dict(SHARED)
        for base in reversed(type(self).__mro__):
            declared |= base.__dict__.get("parameters", {})
        for name, value in self.get_params(deep=False).items():
            if name in declared:
                declared[name].check(name, value)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as in scikit-learn."""
        super().set_params(**_translated(params, self.renamed, type(self)))
        return self

    def _under_old_name(self, name: str) -> Any:
        [new] = _translated({name: None}, self.renamed, type(self))
        return getattr(self, new)


def _taking_old_names(init: Callable[..., None], renamed: Mapping[str, str]) -> Callable[..., None]:
    @wraps(init)  # whose signature is the one that scikit-learn sees
    def taking(self: Any, *args: Any, **params: Any) -> None:
        init(self, *args, **_translated(params, renamed, type(self)))

    return taking


def _translated(params: dict[str, Any], renamed: Mapping[str, str], owner: type) -> dict[str, Any]:
    for old in [name for name in params if name in renamed]:
        new = renamed[old]
        warnings.warn(
            f"{owner.__name__}: the parameter {old} is called {new} now; the old name goes with version 0.2",
            FutureWarning,
            stacklevel=4,
        )
        params[new] = params.pop(old)
    return params
