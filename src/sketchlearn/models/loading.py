"""One way to read what this library writes: sketches, tables of sketches, feature maps and models."""

from __future__ import annotations

import json
import os
from os import PathLike
from pathlib import Path
from typing import Any

from sketchlearn.exceptions import SketchFileError
from sketchlearn.features.base import FeatureMap
from sketchlearn.files import check_seal
from sketchlearn.limits import read_json
from sketchlearn.models.base import Model
from sketchlearn.models.file import FORMAT
from sketchlearn.sketches import file as sketch_file
from sketchlearn.sketches.table import SketchTable

_HEAD = 16  # bytes that tell what a file is


def load(path: str | PathLike[str]) -> Any:
    """Read a sketch, a table of sketches, a feature map or a model: its first bytes say which it is.

    Parameters
    ----------
    path : path
        A file that this library or its command line wrote.

    Returns
    -------
    Sketch, SketchTable, FeatureMap or Model

    Raises
    ------
    SketchFileError, ModelFileError
        If the file is damaged, truncated, of an unknown version, or none of these.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile, sketchlearn as sl
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "day.sketch"
    ...     sl.sketch([[1.0], [2.0]], phi).save(file)
    ...     sl.load(file).count
    ...     sl.CompressivePCA(1).fit(np.eye(3)).to_model().save(pathlib.Path(folder) / "model.json")
    ...     sl.load(pathlib.Path(folder) / "model.json")
    2
    Model(pca: 1 component of 3 rows, 3 columns)
    """
    name = os.fsdecode(path)
    with Path(path).open("rb") as file:
        head = file.read(_HEAD)
    if head[:4] == b"PAR1":
        return SketchTable.load(path)
    if not head.lstrip().startswith(b"{"):
        return sketch_file.load(path)
    data = read_json(path)
    return Model.from_json(data, name) if is_model(data) else features_in(data, name)


def is_model(data: bytes) -> bool:
    """Whether some JSON text is a model."""
    try:
        facts = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(facts, dict) and facts.get("format") == FORMAT


def features_in(data: bytes, name: str) -> FeatureMap:
    """The feature map that ``sketchlearn design`` wrote; `name` is for error messages."""
    try:
        recipe = json.loads(data)
        if isinstance(recipe, dict) and recipe.get("format") == FORMAT:
            raise ValueError("it is a model")
        if not isinstance(recipe, dict) or "features" not in recipe:
            raise ValueError("it has no field 'features'")
        check_seal(recipe)
        return FeatureMap.from_recipe(recipe["features"]).with_words(recipe)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SketchFileError(f"{name}: neither a feature map nor a sketch: {error}") from None
