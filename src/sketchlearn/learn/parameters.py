"""Parameters of estimators, declared: what each accepts, checked in one place, and names that have changed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from sketchlearn.accepts import FLAG, NOTHING, PROGRESS, RANDOM, Accepts, choice, kind, whole
from sketchlearn.features.base import FeatureMap

_STARTS = "solution_", "mixture", "cluster_centers_", "centers", "means_", "means"
COVARIANCES = choice("full", "tied", "diag", "spherical")
START = Accepts(
    lambda v: v is None or isinstance(v, np.ndarray | list | tuple) or any(hasattr(v, name) for name in _STARTS),
    ("centres", "a model with some", "None"),
)
PAIRS = choice("pairs") | NOTHING
SHARED: dict[str, Accepts] = {
    "features": kind(FeatureMap, "a FeatureMap") | NOTHING,
    "sketch_size": whole() | NOTHING,
    "projection": whole() | NOTHING,
    "decoder": kind(str, "the name of a decoder"),
    "standardize": FLAG,
    "on_invalid": choice("raise", "skip"),
    "n_jobs": whole() | Accepts(lambda v: type(v) is int and v == -1, ("-1",)) | NOTHING,
    "progress": PROGRESS,
    "random_state": RANDOM,
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
            f"{owner.__name__}: the parameter {old} is called {new} now; the old name will be removed in version 0.2",
            FutureWarning,
            stacklevel=4,
        )
        params[new] = params.pop(old)
    return params
