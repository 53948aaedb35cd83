"""Parameters of estimators, each declared once: its type, its default and what it accepts.

The decorator :func:`estimator` makes the constructor of a class from its fields, adds what all estimators share to its
docstring, and takes parameters by the names that they had before.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import Any, ClassVar, Literal, Self, TypeVar, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator

from sketchlearn.accepts import FLAG, NOTHING, PROGRESS, RANDOM, Accepts, choice, kind, whole
from sketchlearn.exceptions import warn
from sketchlearn.features.base import FeatureMap

_E = TypeVar("_E", bound="DeclaredParameters")

_STARTS = "solution_", "mixture", "cluster_centers_", "centers", "means_", "means"
COVARIANCES = choice("full", "tied", "diag", "spherical")
START = Accepts(
    lambda v: v is None or isinstance(v, np.ndarray | list | tuple) or any(hasattr(v, name) for name in _STARTS),
    ("centres", "a model with some", "None"),
)
MISSING = choice("em", "pairs") | NOTHING
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

_PARAMETERS = """
features : FeatureMap, optional
    The map to sketch with; by default one is designed from up to 2000 of the rows.
decoder : str
    Name of a decoder of this task, see :func:`sketchlearn.decode`.
missing : {"em", "pairs"}, optional
    Rows may miss entries (NaN). ``"em"`` learns what an EM algorithm on the rows would, see
    :class:`sketchlearn.CompletedFeatures`. ``"pairs"`` uses the pairs of columns that are there, see
    :class:`sketchlearn.PairwiseFeatures`.
on_invalid : {"raise", "skip"}
    What to do with rows that hold NaN or infinity: an error, or leave them out and count them.
n_jobs : int, optional
    Threads of the pass; all cores by default and for -1.
progress : bool or callable, optional
    Of the pass, as for :func:`sketchlearn.sketch`.
random_state : int, Generator, RandomState or None
    Seed of the feature map and of the decoder, for repeatable results.
"""
_ATTRIBUTES = """
sketch_ : Sketch
    The sketch that was learned from.
solution_ : {model}
    The decoded model, with its certificate and a verdict in words.
reliable_, verdict_ : bool, str
    The certificate: whether the sketch supports the model, as a yes or no and in words.
n_components_ : int
    Number of components.
n_features_in_, feature_names_in_
    Number of columns, and their names if they have any.
"""
_ALWAYS = ("sketch_", "solution_", "reliable_", "n_features_in_")


def parameter(*, default: Any, accepts: Accepts | None = None, kw_only: bool = True, **passed: str) -> Any:
    """A parameter of an estimator; what it accepts may be left out if it is one of :data:`SHARED`.

    `passed`: names under which it goes on to the ``design``, the ``decode`` and the ``sweep``, unless it is None.
    """
    return field(default=default, kw_only=kw_only, metadata={"accepts": accepts, "passed": passed})


def learned(*, init: Literal[False] = False) -> Any:
    """An attribute that learning sets."""
    return field(init=init)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter, learned))
def estimator(cls: type[_E]) -> type[_E]:
    """Make the constructor of an estimator from its fields, and its docstring complete."""
    made = dataclass(eq=False, repr=False, kw_only=True)(cls)
    made.__init__ = _taking_old_names(made.__init__, made.renamed)  # type: ignore[method-assign]
    if made.__doc__ and "Attributes\n" in made.__doc__:
        given = inspect.signature(made).parameters
        model = getattr(made, "model", None)
        shown = _ATTRIBUTES.format(model="Solution" if model is None else model.__name__)
        doc = _with_entries(inspect.cleandoc(made.__doc__), "Parameters", _PARAMETERS, given)
        shows = {*_ALWAYS, *getattr(model, "attributes", {})}
        made.__doc__ = _with_entries(doc, "Attributes", shown, shows)
    return made


def _with_entries(doc: str, section: str, entries: str, only: Container[str] | None = None) -> str:
    """A docstring with those entries at the end of a section that it lacks, `only` some of them."""
    found = re.search(rf"^{section}\n-+\n(.*?)(?=\n\n\w[\w ]*\n-+\n|\Z)", doc, re.S | re.M)
    if found is None:
        return doc
    known = {name for heads in re.findall(r"^\w.*$", found[1], re.M) for name in re.split(r", ", heads.split(" : ")[0])}
    more = ""
    for entry in re.split(r"\n(?=\w)", entries.strip()):
        names = re.split(r", ", entry.splitlines()[0].split(" : ")[0])
        if names[0] not in known and (only is None or names[0] in only):
            more += f"\n{entry}"
    return doc[: found.end()] + more + doc[found.end() :]


class DeclaredParameters(BaseEstimator):  # type: ignore[misc]
    """An estimator that declares its parameters, and the names that they had before.

    Old names are still taken, with a FutureWarning, for one version.
    """

    renamed: ClassVar[Mapping[str, str]] = {"workers": "n_jobs"}
    """Old names of parameters, and the new ones."""

    def check_parameters(self) -> None:
        """Refuse parameters that make no sense, before any row is read."""
        own = {each.name: each.metadata.get("accepts") for each in fields(self)}
        for name, value in self.get_params(deep=False).items():
            accepts = own.get(name) or SHARED.get(name)
            if accepts is not None:
                accepts.check(name, value)

    def _passed(self, stage: str) -> dict[str, Any]:
        """Parameters that go on to a stage: ``"design"``, ``"decode"`` or ``"sweep"``."""
        names = {each.name: each.metadata.get("passed", {}).get(stage) for each in fields(self)}
        given = {name: getattr(self, own) for own, name in names.items() if name is not None}
        return {name: value for name, value in given.items() if value is not None}

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
        warn(
            f"{owner.__name__}: the parameter {old} is called {new} now; the old name will be removed in version 0.2",
            FutureWarning,
        )
        params[new] = params.pop(old)
    return params
