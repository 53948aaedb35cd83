"""One way to say where random numbers come from."""

from __future__ import annotations

import numpy as np

from sketchlearn.accepts import RANDOM

RandomState = int | np.random.Generator | np.random.RandomState | None
"""What public functions take as ``random_state``."""


def as_generator(random_state: RandomState) -> np.random.Generator:
    """A generator from what users pass: a seed, a generator (used as it is), a RandomState (drawn from) or None.

    Examples
    --------
    >>> from sketchlearn.models.randomness import as_generator
    >>> as_generator(3).integers(100) == as_generator(3).integers(100)
    np.True_
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        RANDOM.check("random_state", random_state)
        raise
