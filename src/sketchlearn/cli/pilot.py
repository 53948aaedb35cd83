"""A feature map when none is given: designed from a pilot sample of the rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

import sketchlearn
from sketchlearn.cli.app import note, usage
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.files import sealed

PILOT_ROWS = 20_000
_DOMINANT = 0.95  # share of the variance that is worth a word


def check_task(task: str) -> None:
    """Refuse a task that there is no design for."""
    from sketchlearn.designs import tasks

    if task not in tasks():
        raise usage(f"--task {task}: choose one of {', '.join(tasks())}")


def designed(
    sample: npt.NDArray[Any], names: tuple[str, ...] | None, components: int, task: str, seed: int, standardize: bool
) -> FeatureMap:
    """A feature map from a pilot sample."""
    if len(sample) < components:
        raise ValueError(
            f"a design for {components} components needs at least as many valid rows, the data has {len(sample)}: "
            "ask for fewer components (-k)"
        )
    rows = np.asarray(sample, np.float64)
    if standardize:
        offset, spread = rows.mean(0), rows.std(0)
        if not (spread > 0).all():
            k = int(np.argmin(spread))
            name = repr(names[k]) if names and len(names) == len(spread) else k
            raise ValueError(f"column {name} is constant in the pilot and can't be standardised: leave it out")
        phi = sketchlearn.design((rows - offset) / spread, n_components=components, task=task, seed=seed)
        if not isinstance(phi, FourierFeatures):
            raise ValueError(f"--standardize needs Fourier features, the task {task!r} uses {phi.kind}")
        phi = phi.standardized(offset, spread)
    else:
        phi = sketchlearn.design(rows, n_components=components, task=task, seed=seed)
        if task == "kmeans":
            _warn_of_units(rows, names)
    return phi.with_columns(names) if names and len(names) == phi.dim else phi


def _warn_of_units(rows: npt.NDArray[np.float64], names: tuple[str, ...] | None) -> None:
    """Distances are decided by the widest column: say so where there is hardly any other."""
    variances = rows.var(0)
    k = int(np.argmax(variances))
    if len(variances) > 1 and variances[k] > _DOMINANT * variances.sum():
        name = repr(names[k]) if names and len(names) == len(variances) else k
        share = variances[k] / variances.sum()
        note(f"note: column {name} has {share:.1%} of the variance; --standardize gives every column the same say")


def recipe_text(phi: FeatureMap) -> bytes:
    """The file that `design` writes."""
    return (json.dumps(sealed({"features": phi.recipe()}), indent=2, sort_keys=True) + "\n").encode()


def announce(phi: FeatureMap) -> None:
    """Say which map was chosen."""
    note(f"features: {phi.size} for {phi.dim} columns ({phi.describe()})")
