"""From a sketch to a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sketchlearn.decoders.solution import Mixture, Solution
from sketchlearn.decoders.tuning_free import decode_tuning_free
from sketchlearn.sketch.value import Sketch

DECODERS: dict[str, Callable[..., Solution]] = {
    "tuning-free": decode_tuning_free,
}


def decode(
    sketch: Sketch,
    n_components: int,
    *,
    decoder: str = "auto",
    random_state: int | np.random.Generator | None = None,
    **options: Any,
) -> Solution:
    """Decode k centres from a sketch."""
    rng = np.random.default_rng(random_state)
    return DECODERS["tuning-free" if decoder == "auto" else decoder](sketch, n_components, rng=rng, **options)
