"""Classifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.models.base import Model, register_model, shown
from sketchlearn.models.discriminant import discriminants
from sketchlearn.models.file import Reader
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.rules import DiscriminantRule, LinearRule, MixtureRule, Rule, embedded
from sketchlearn.models.table import Column, Table
from sketchlearn.words import counted

_TYPES = {"bool": bool, "int": int, "float": float}
_LABELS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": lambda text: text == "True",
}


@register_model
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
        What the rows of a class get on average, a column per class: scores of a linear rule, else shares.
    rule : LinearRule, MixtureRule or DiscriminantRule
        Scores of rows, a column per class.  A file holds its parts: priors and densities of the classes, or the recipe
        of a feature map with coefficients, intercepts and softness.
    facts : dict
        What was chosen on the way: the penalty, the band of frequencies, generalised cross-validation.  A file leaves
        them out.
    directions : int or None
        How many discriminants :meth:`transform` uses, of the rule of LDA; None: all of them.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.models import ClassifierModel
    >>> from sketchlearn.models.rules import MixtureRule
    >>> parts = tuple(sl.Mixture(np.ones(1), np.array([[m]]), np.ones(1)) for m in (0.0, 4.0))
    >>> model = ClassifierModel(rows=10, columns=("x",), classes=("low", "high"), counts=np.array([5.0, 5.0]),
    ...                         typical=np.eye(2), rule=MixtureRule(np.log([0.5, 0.5]), parts))
    >>> model, model.predict([[3.0]])
    (Model(classifier: 2 classes of 10 rows, 1 column), array(['high'], dtype='<U4'))
    """

    task: str = "classifier"
    layout: ClassVar[Mapping[str, Any]] = {
        "classes": list,
        "label_type": str,
        "counts": ("c",),
        "typical": ("c", "c"),
        "log_priors": ("c",),
        "mixtures": None,  # one per class
        "recipe": None,  # of a feature map
        "coefficients": ("f", "c"),
        "intercepts": ("c",),
        "softness": (),
    }
    title: ClassVar[str] = "Classifier"
    thing: ClassVar[str] = "class"
    praise: ClassVar[str] = "The sketches are good enough for this"

    attributes: ClassVar[Mapping[str, str]] = shown("facts", classes="labels", class_counts="counts")

    counts: Array
    typical: Array
    rule: Rule
    classes: tuple[str, ...] = ()
    label_type: str = "str"
    facts: Mapping[str, Any] = field(default_factory=dict)
    directions: int | None = None

    def labelled(self, labels: Sequence[Any]) -> Self:
        """The model with other labels of its classes, in their order."""
        given = [label.item() if isinstance(label, np.generic) else label for label in labels]
        kind = next((name for name, of in _TYPES.items() if type(given[0]) is of), "str")
        return replace(self, classes=tuple(str(label) for label in given), label_type=kind)

    @property
    def linear(self) -> LinearRule | None:
        """What is linear in features, of a rule that is."""
        return (
            self.rule.linear
            if isinstance(self.rule, DiscriminantRule)
            else (self.rule if isinstance(self.rule, LinearRule) else None)
        )

    @property
    def densities(self) -> MixtureRule | None:
        """Priors and densities of the classes, of a rule that has them."""
        return (
            self.rule.classes
            if isinstance(self.rule, DiscriminantRule)
            else (self.rule if isinstance(self.rule, MixtureRule) else None)
        )

    # the parts of the rule, as a file holds them
    log_priors = property(lambda self: getattr(self.densities, "log_priors", None), doc="Of the classes, (c,).")
    mixtures = property(lambda self: getattr(self.densities, "mixtures", None), doc="The density of each class.")
    coefficients = property(lambda self: getattr(self.linear, "coefficients", None), doc="Of features, (f, c).")
    intercepts = property(lambda self: getattr(self.linear, "intercepts", None), doc="Constants, (c,).")
    softness = property(lambda self: getattr(self.linear, "softness", None), doc="Of a linear rule.")

    @property
    def recipe(self) -> Mapping[str, Any] | None:
        """Of the feature map of a linear rule."""
        return None if self.linear is None else self.linear.features.recipe()

    @cached_property
    def discriminants(self) -> tuple[Array, Array, Array]:
        """Centre, directions and shares of the variance between classes, of the rule of LDA."""
        assert isinstance(self.rule, MixtureRule)
        center, directions, shares = discriminants(self.rule)
        return center, directions[:, : self.directions], shares[: self.directions]

    @property
    def discriminant_center(self) -> Array:
        """Mean of the rows, by the classes' priors, (d,)."""
        return self.discriminants[0]

    @property
    def discriminant_directions(self) -> Array:
        """Directions that tell the classes apart, (d, r)."""
        return self.discriminants[1]

    @property
    def discriminant_shares(self) -> Array:
        """Shares of the variance between classes along them, (r,)."""
        return self.discriminants[2]

    def transform_rows(self, rows: AnyArray) -> Array:
        """Coordinates along the discriminants, of the rule of LDA."""
        if self.decoder != "lda":
            return super().transform_rows(rows)
        return np.asarray((rows - self.discriminants[0]) @ self.discriminants[1])

    @property
    def labels(self) -> AnyArray:
        """The classes as they were given."""
        return np.array([_LABELS[self.label_type](text) for text in self.classes])

    @property
    def headline(self) -> str:
        """What it is, in a few words."""
        columns = counted(len(self.columns), "column")
        return f"{self.size} class{'es' * (self.size != 1)} of {self.row_count} rows, {columns}"

    def numbers(self) -> list[tuple[str, str]]:
        """The plural of class is classes."""
        return [(value, "classes" if what == "classs" else what) for value, what in super().numbers()]

    def own_numbers(self) -> list[tuple[str, str]]:
        """How often a class gets its own label, if its density is true."""
        if self.linear is not None:
            return []
        right = float(self.counts @ np.diag(self.typical) / self.counts.sum())
        return [(f"{right:.1%}", "labelled right, if the densities are true")]

    def table(self) -> Table:
        """Rows, share and what the rows of a class typically get."""
        linear = self.linear is not None
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
        if not isinstance(self.rule, MixtureRule):
            return super().parts()
        priors, mixtures = np.exp(self.rule.log_priors), self.rule.mixtures
        weights = np.concatenate([p * m.weights for p, m in zip(priors, mixtures, strict=True)])
        means = np.concatenate([m.means for m in mixtures])
        return Mixture(weights / weights.sum(), means, np.concatenate([m.full_covariances() for m in mixtures]))

    def predict_rows(self, rows: Array) -> AnyArray:
        """The class of each row."""
        return np.asarray(self.labels[self.rule.scores(rows).argmax(1)])

    def probabilities(self, rows: AnyArray) -> Array:
        """Probability of each class."""
        return np.asarray(self.rule.probabilities(rows))

    def decisions(self, rows: AnyArray) -> Array:
        """Scores of the classes, (n, c); the second one's minus the first one's, (n,), if there are two."""
        scores = self.rule.scores(rows)
        return np.asarray(scores[:, 1] - scores[:, 0]) if scores.shape[1] == 2 else scores

    def own_answers(self, rows: Array) -> dict[str, AnyArray]:
        """The class."""
        return {"class": self.predict_rows(rows)}

    def summary(self) -> dict[str, Any]:
        """What was learned, and the number of classes."""
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
        linear = _linear(reader, found) if reader.has("recipe") or not reader.has("mixtures") else None
        densities = None
        if reader.has("mixtures"):
            # of the columns, or of all scores of coefficients but the last
            mixtures = _mixtures(reader, None if linear is None else len(found["classes"]) - 1)
            if len(mixtures) != len(found["classes"]) or "log_priors" not in found:
                raise reader.fail("a density and a prior for each class")
            densities = MixtureRule(found["log_priors"], mixtures)
        if linear is None or densities is None:
            rule: Any = densities if linear is None else linear
        else:
            rule = DiscriminantRule(linear, densities)
        return {name: found[name] for name in ("classes", "label_type", "counts", "typical")} | {"rule": rule}


def _mixtures(reader: Reader, dim: int | None) -> tuple[Mixture, ...]:
    """One density per class, of so many columns; None: of the columns of the model."""
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


def _linear(reader: Reader, found: Mapping[str, Any]) -> LinearRule:
    if "coefficients" not in found or "intercepts" not in found:
        raise reader.fail("neither densities nor coefficients")
    phi, softness = reader.recipe(), float(found.get("softness", 0.0))
    reader.check_features(phi, embedded)
    if softness < 0:
        raise reader.fail("a negative softness")
    return LinearRule(phi, found["coefficients"], found["intercepts"], softness)
