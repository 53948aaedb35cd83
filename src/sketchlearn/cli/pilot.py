"""A feature map when none is given: designed from a pilot sample of the rows."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

from sketchlearn.cli.app import note, usage
from sketchlearn.designs.front import design_request
from sketchlearn.designs.request import Request
from sketchlearn.exceptions import DataWarning
from sketchlearn.features.base import FeatureMap
from sketchlearn.files import sealed
from sketchlearn.sources.pilot import PILOT_ROWS

if TYPE_CHECKING:
    from sketchlearn.sources import Source


def check_task(task: str) -> None:
    """Refuse a task that there is no design for."""
    from sketchlearn.designs import tasks

    if task not in tasks():
        raise usage(f"--task {task}: choose one of {', '.join(tasks())}")


def designed(
    source: Source, components: int, task: str, seed: int, standardize: bool, projection: int | None = None
) -> FeatureMap:
    """A feature map from a pilot of the rows."""
    rows, weights, box = source.pilot(PILOT_ROWS, seed)
    if len(rows) < min(components, PILOT_ROWS):
        raise ValueError(
            f"a design for {components} components needs at least as many valid rows, the data has {len(rows)}: "
            "ask for fewer components (-k)"
        )
    names = source.names if source.names and len(source.names) == rows.shape[1] else None
    request = Request(task, components, seed, rows, weights=weights, standardize=standardize, looked_at=box)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", DataWarning)
        phi = design_request(request, names, projection=projection).chosen_from("a sample")
    for warning in said:
        note("note: " + str(warning.message).replace("standardize=True", "--standardize"))
    return phi


def recipe_text(phi: FeatureMap) -> bytes:
    """The file that `design` writes: the recipe, why it was chosen, and from what."""
    words = {"reason": phi.reason, "provenance": phi.provenance}
    facts = {"features": phi.recipe(), **{name: text for name, text in words.items() if text}}
    return (json.dumps(sealed(facts), indent=2, sort_keys=True) + "\n").encode()


def announce(phi: FeatureMap) -> None:
    """Say which map was chosen."""
    few = "" if phi.projection is None else f" ({phi.projection.describe()})"
    note(f"features: {phi.size} for {phi.dim} columns{few} ({phi.describe()})")
