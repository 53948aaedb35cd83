"""Classifiers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.classifier.rules import DiscriminantRule, LinearRule, MixtureRule, Rule, embedded
from sketchlearn.decoders.mixture import Mixture
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.models.base import Model, register_model
from sketchlearn.learn.models.file import Reader
from sketchlearn.learn.models.table import Column, Table

Array = npt.NDArray[np.float64]

_LABELS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": lambda text: text == "True",
}


@register_model
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ClassifierModel(Model):
    """A rule that gives rows a class.

    Attributes
    ----------
    classes : tuple of str
        Labels of the classes, as text.
    label_type : {"str", "int", "float", "bool"}
        What they are.
    counts : ndarray (c,)
        Rows of each class.
    typical : ndarray (c, c)
        What the rows of a class get on average, a column a class: scores of a linear rule, else shares.
    log_priors, mixtures : ndarray (c,), tuple of Mixture, or None
        Class densities, of a rule that has them: of the columns, or of all scores of a linear rule but the last.
    recipe, coefficients, intercepts, softness : dict, ndarray (f, c), ndarray (c,), float, or None
        The feature map and what its features are multiplied by, of a linear rule.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.learn.models import ClassifierModel
    >>> parts = tuple(sl.Mixture(np.ones(1), np.array([[m]]), np.ones(1)) for m in (0.0, 4.0))
    >>> model = ClassifierModel(rows=10, columns=("x",), classes=("low", "high"), counts=np.array([5.0, 5.0]),
    ...                         typical=np.eye(2), log_priors=np.log([0.5, 0.5]), mixtures=parts)
    >>> model, model.predict([[3.0]])
    (Model(classifier: 2 classes of 10 rows, 1 column), array(['high'], dtype='<U4'))
    """

    task: ClassVar[str] = "classifier"
    layout: ClassVar[Mapping[str, Any]] = {
        "classes": list,
        "label_type": str,
        "counts": ("c",),
        "typical": ("c", "c"),
        "log_priors": ("c",),
        "mixtures": None,  # one a class
        "recipe": None,  # of a feature map
        "coefficients": ("f", "c"),
        "intercepts": ("c",),
        "softness": (),
    }
    title: ClassVar[str] = "Classifier"
    thing: ClassVar[str] = "class"
    numbered: ClassVar[bool] = False
    praise: ClassVar[str] = "The sketches are good enough for this"

    classes: tuple[str, ...]
    counts: Array
    typical: Array
    label_type: str = "str"
    log_priors: Array | None = None
    mixtures: tuple[Mixture, ...] | None = None
    recipe: Mapping[str, Any] | None = None
    coefficients: Array | None = None
    intercepts: Array | None = None
    softness: float | None = None

    @staticmethod
    def rule_fields(rule: Rule) -> dict[str, Any]:
        """The fields that hold a rule."""
        if isinstance(rule, MixtureRule):
            return {"log_priors": rule.log_priors, "mixtures": rule.mixtures}
        if isinstance(rule, DiscriminantRule):
            return ClassifierModel.rule_fields(rule.linear) | ClassifierModel.rule_fields(rule.classes)
        return {
            "recipe": rule.features.recipe(),
            "coefficients": rule.coefficients,
            "intercepts": rule.intercepts,
            "softness": rule.softness,
        }

    @property
    def rule(self) -> Rule:
        """The rule behind :meth:`predict`."""
        densities = None
        if self.mixtures is not None and self.log_priors is not None:
            densities = MixtureRule(self.log_priors, self.mixtures)
        if self.recipe is None:
            assert densities is not None
            return densities
        assert self.coefficients is not None
        assert self.intercepts is not None
        linear = LinearRule(
            FeatureMap.from_recipe(dict(self.recipe)), self.coefficients, self.intercepts, self.softness or 0.0
        )
        return linear if densities is None else DiscriminantRule(linear, densities)

    @property
    def labels(self) -> npt.NDArray[Any]:
        """The classes as they were given."""
        return np.array([_LABELS[self.label_type](text) for text in self.classes])

    @property
    def headline(self) -> str:
        """What it is, in a few words."""
        columns = f"{len(self.columns)} column" + "s" * (len(self.columns) != 1)
        return f"{self.size} class{'es' * (self.size != 1)} of {self.row_count} rows, {columns}"

    def numbers(self) -> list[tuple[str, str]]:
        """The plural of class is classes."""
        return [(value, "classes" if what == "classs" else what) for value, what in super().numbers()]

    def own_numbers(self) -> list[tuple[str, str]]:
        """How often a class gets its own label, if its density is true."""
        if self.recipe is not None:
            return []
        right = float(self.counts @ np.diag(self.typical) / self.counts.sum())
        return [(f"{right:.1%}", "told right, if the densities are true")]

    def table(self) -> Table:
        """Rows, share and what the rows of a class typically get."""
        linear = self.recipe is not None
        share = self.counts / self.counts.sum()
        columns = [
            Column("class", self.classes, "text"),
            Column("rows", self.counts, "count"),
            Column("share", share, "share"),
        ]
        unit = max(float(np.abs(self.typical).max()), 1e-300)
        for j, name in enumerate(self.classes):
            values = self.typical[:, j]
            columns.append(Column(f"→ {name}", values, "number" if linear else "share", 3, values / unit))
        note = (
            "Mean score that each class (a column) gets from the rows of a class (a line)."
            if linear
            else "Share of the rows of a class (a line) that would be given to each class (a column), if the densities "
            "of the model were true."
        )
        return Table("classes", "How the classes are told apart", tuple(columns), note)

    def parts(self) -> Mixture:
        """All components of all classes, weighted by the classes' shares."""
        if self.mixtures is None or self.log_priors is None or self.recipe is not None:
            return super().parts()
        priors = np.exp(self.log_priors)
        weights = np.concatenate([p * m.weights for p, m in zip(priors, self.mixtures, strict=True)])
        means = np.concatenate([m.means for m in self.mixtures])
        return Mixture(weights / weights.sum(), means, np.concatenate([m.full_covariances() for m in self.mixtures]))

    def predict_rows(self, rows: Array) -> npt.NDArray[Any]:
        """The class of each row."""
        return np.asarray(self.labels[self.rule.scores(rows).argmax(1)])

    def summary(self) -> dict[str, Any]:
        """What was learned, and the share of each class."""
        return {k: v for k, v in super().summary().items() if k != "softness"} | {"n_classes": self.size}

    @classmethod
    def read(cls, reader: Reader) -> dict[str, Any]:
        """Either densities or a feature map with coefficients."""
        own = {k: v for k, v in cls.layout.items() if v is not None}
        found = {k: reader.value(k, what) for k, what in own.items() if k in ("classes", "typical") or reader.has(k)}
        found.setdefault("counts", np.ones(len(found["classes"])))
        if found.setdefault("label_type", "str") not in _LABELS:
            raise reader.fail(f"labels of the type {found['label_type']!r}")
        if reader.lengths["c"] != len(found["classes"]) or not len(found["classes"]):
            raise reader.fail("as many classes as counts")
        try:
            for text in found["classes"]:
                _LABELS[found["label_type"]](text)
        except ValueError:
            raise reader.fail(f"a class that is no {found['label_type']}: {text!r}") from None
        if (found["counts"] < 0).any() or (found["counts"] > 2.0**63).any() or not found["counts"].any():
            raise reader.fail("the counts must be numbers of rows, not negative nor all zero")
        if "log_priors" in found and (found["log_priors"] > 1e-9).any():
            raise reader.fail("the priors should be logarithms of shares")
        if reader.has("mixtures"):
            # of the columns, or of all scores of coefficients but the last
            scored = reader.has("recipe")
            found["mixtures"] = _mixtures(reader, len(found["classes"]) - 1 if scored else None)
            if len(found["mixtures"]) != len(found["classes"]) or "log_priors" not in found:
                raise reader.fail("a density and a prior for each class")
        if reader.has("recipe") or not reader.has("mixtures"):
            found["recipe"] = _recipe(reader, found)
        return found


def _mixtures(reader: Reader, dim: int | None) -> tuple[Mixture, ...]:
    """A density a class, of so many columns; None: of the columns of the model."""
    given = reader.facts["mixtures"]
    if not isinstance(given, list):
        raise reader.fail("the field 'mixtures' should be a list")
    out = []
    for item in given:
        part = Reader({"class": item}, reader.name)
        out.append(part.mixture("class"))
        wanted = reader.lengths.setdefault("d", out[-1].dim) if dim is None else dim
        if out[-1].dim != wanted:
            raise reader.fail("densities of different numbers of columns")
    return tuple(out)


def _recipe(reader: Reader, found: Mapping[str, Any]) -> dict[str, Any]:
    given = reader.facts.get("recipe")
    if "coefficients" not in found or "intercepts" not in found:
        raise reader.fail("neither densities nor coefficients")
    try:
        phi = FeatureMap.from_recipe(given)  # type: ignore[arg-type]
        width = embedded(phi, np.zeros((1, phi.dim))).shape[1]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise reader.fail(f"the recipe of its features: {error}") from None
    if width != reader.lengths["f"]:
        raise reader.fail(f"{reader.lengths['f']} coefficients a class for {width} features")
    if not math.isfinite(float(found.get("softness", 0.0))) or float(found.get("softness", 0.0)) < 0:
        raise reader.fail("a negative softness")
    reader.lengths["d"] = phi.dim
    assert isinstance(given, dict)
    return given
