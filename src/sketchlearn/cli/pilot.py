"""A feature map when none is given: designed from a pilot sample of the rows."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

import sketchlearn
from sketchlearn.cli.app import note, usage
from sketchlearn.designs.spread import remarks, standard_units
from sketchlearn.exceptions import DataWarning
from sketchlearn.features.base import FeatureMap
from sketchlearn.files import sealed

PILOT_ROWS = 20_000


def check_task(task: str) -> None:
    """Refuse a task that there is no design for."""
    from sketchlearn.designs import tasks

    if task not in tasks():
        raise usage(f"--task {task}: choose one of {', '.join(tasks())}")


def designed(
    sample: npt.NDArray[Any],
    names: tuple[str, ...] | None,
    components: int,
    task: str,
    seed: int,
    standardize: bool,
    projection: int | None = None,
) -> FeatureMap:
    """A feature map from a pilot sample."""
    if len(sample) < components:
        raise ValueError(
            f"a design for {components} components needs at least as many valid rows, the data has {len(sample)}: "
            "ask for fewer components (-k)"
        )
    rows = np.asarray(sample, np.float64)
    known = names if names and len(names) == rows.shape[1] else None
    if standardize and projection is None:
        standard_units(rows, known)  # a constant column is refused by its name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # said below, with names
        phi = sketchlearn.design(
            rows, n_components=components, task=task, seed=seed, standardize=standardize, projection=projection
        )
    for text in remarks(rows, known, task == "kmeans" and not standardize):
        note("note: " + text.replace("standardize=True", "--standardize"))
    return phi.with_columns(known) if known else phi


def recipe_text(phi: FeatureMap) -> bytes:
    """The file that `design` writes."""
    return (json.dumps(sealed({"features": phi.recipe()}), indent=2, sort_keys=True) + "\n").encode()


def announce(phi: FeatureMap) -> None:
    """Say which map was chosen."""
    few = "" if phi.projection is None else f" ({phi.projection.describe()})"
    note(f"features: {phi.size} for {phi.dim} columns{few} ({phi.describe()})")
