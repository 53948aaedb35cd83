"""Estimators that learn from one sketch for each group of rows: classes, or speakers."""

from __future__ import annotations

from numbers import Number
from typing import Any, ClassVar

import numpy as np

from sketchlearn.engines import run
from sketchlearn.features.base import FeatureMap
from sketchlearn.learn.base import SketchEstimator
from sketchlearn.learn.rows import Rows
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources import Selection, open_source


def checked_labels(y: Any, what: str) -> None:
    """Refuse labels of which some are missing, or that are of several types, such as text and numbers."""
    given = np.asarray(y, object) if isinstance(y, list | tuple) or hasattr(y, "dtype") else np.empty(0, object)
    if given.ndim != 1 or (hasattr(y, "dtype") and getattr(y.dtype, "kind", "O") not in "Of"):
        return
    kinds: dict[str, Any] = {}
    for i, label in enumerate(given.tolist()):
        if label is None or label != label or type(label).__name__ in ("NAType", "NaTType"):
            raise ValueError(f"y: row {i} has no {what} ({label!r}): leave such rows out, or give them a {what}")
        name = "text" if isinstance(label, str) else "numbers" if isinstance(label, Number) else type(label).__name__
        kinds.setdefault("True or False" if isinstance(label, bool | np.bool_) else name, label)
    if len(kinds) > 1:
        mixed = " and ".join(f"{name} ({label!r})" for name, label in list(kinds.items())[:2])
        raise ValueError(f"y mixes labels of several types, {mixed}: make all of them text")


class TableEstimator(SketchEstimator):
    """An estimator that holds a table of sketches; subclasses say which group a row belongs to."""

    group: ClassVar[str] = "group"
    """What rows of one sketch have in common."""
    sketch_: SketchTable  # type: ignore[assignment]

    def _given(self, sketch: Any) -> SketchTable:
        if isinstance(sketch, dict):
            sketch = SketchTable(sketch)
        if not isinstance(sketch, SketchTable):
            kind = type(sketch).__name__
            raise TypeError(f"fit_sketch takes a table with one Sketch a {self.group}, got {kind}; for rows use fit")
        self._check_sketch(next(iter(sketch.values())))
        return sketch

    def _whole(self) -> Sketch:
        return self.sketch_.union()

    def _pass(self, rows: Rows, features: FeatureMap) -> SketchTable:
        """A sketch for each group; those of rows in memory that have no weight are left out."""
        source = rows.data
        if rows.groups is not None:
            expected = features.input_columns
            source = open_source(
                rows.data, Selection.of(group_by=rows.groups[0], sample_weight=rows.weights, expected=expected)
            )
        found = run(source, features, workers=self._workers, progress=self.progress, on_invalid=self.on_invalid)
        assert isinstance(found, SketchTable)
        if rows.groups is None:
            return found
        kept = {rows.groups[1][number]: sketch for number, sketch in found.items() if sketch.weight > 0}
        if not kept:
            raise ValueError("sample_weight is zero for every row: there is nothing to learn from")
        return SketchTable(kept)
