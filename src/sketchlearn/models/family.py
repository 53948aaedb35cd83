"""Mixtures of any family of components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.models.base import register_model, stored
from sketchlearn.models.components import ComponentModel
from sketchlearn.models.file import Reader
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.table import Column


@register_model
class FamilyModel(ComponentModel):
    """A mixture of some family of atoms, which a model file knows by its numbers only.

    Attributes
    ----------
    weights, means, shapes : ndarray (k,), (k, d), (k, s)
        The mixture, in the units of the rows.
    facts : dict
        The shapes by name, as the family describes them.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models import FamilyModel
    >>> model = FamilyModel(rows=10, columns=("x",), weights=np.ones(1), means=np.zeros((1, 1)), shapes=np.ones((1, 1)),
    ...                     facts={"width": np.ones(1)})
    >>> model, FamilyModel.from_json(model.to_json()).facts["width"]
    (Model(family: 1 component of 10 rows, 1 column), array([1.]))
    """

    task: str = "family"
    title: ClassVar[str] = "Mixture of a family"

    weights: Array = stored("k")
    means: Array = stored("k", "d")
    shapes: Array = stored("k", "s")
    facts: Mapping[str, Any] = stored(kind=None, default_factory=dict)  # arrays by name

    def parts(self) -> Mixture:
        """The centres, as points: only the family knows what its shapes look like."""
        return Mixture(self.weights, self.means, np.zeros(self.size))

    def density(self) -> Mixture:
        """There is none."""
        raise ValueError("the density of this family is unknown")

    def predict_rows(self, rows: Array) -> AnyArray:
        """Nothing: that takes a density."""
        raise TypeError("a family model can't predict: the density of the family is unknown")

    def own_columns(self) -> list[Column]:
        """Facts that are one number per component."""
        return [Column(name, value) for name, value in self.facts.items() if np.shape(value) == (self.size,)]

    @classmethod
    def read(cls, reader: Reader) -> dict[str, Any]:
        """Facts are arrays with a row for each component."""
        found = {name: reader.value(name, kind) for name, kind in cls.layout.items() if kind is not None}
        cls.check(reader, found)
        given = reader.facts.get("facts", {})
        if not isinstance(given, dict):
            raise reader.fail("the field 'facts' should be an object")
        facts = {}
        for name, value in given.items():
            depth = min(np.ndim(value), 3) if isinstance(value, list) else 1
            facts[name] = reader.array(given, name, (reader.lengths["k"], *[None] * (depth - 1)))
        return found | {"facts": facts}
