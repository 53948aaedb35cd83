"""What an engine is: something that runs one pass over a source and returns its sketch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sketchlearn.engines.checkpoint import Checkpoint
from sketchlearn.engines.progress import Report, silent
from sketchlearn.features.base import FeatureMap
from sketchlearn.kernels import Plan, Summer
from sketchlearn.sketches.table import SketchTable
from sketchlearn.sketches.value import Sketch
from sketchlearn.sources.base import Source

Prepare = Callable[[Plan], Summer]
"""How an engine gets what sums rows from what is to be summed."""


@dataclass(frozen=True)
class Job:
    """One pass, checked and ready to run.

    Attributes
    ----------
    source : Source
        The rows; with ``Source.grouped``, the result is a table.
    features : FeatureMap
        What is summed.
    skip_invalid : bool
        Leave out invalid rows and count them; otherwise the first one is an error that says where it is.
    workers : int, optional
        How many threads or processes; the engine chooses if None.
    report : callable
        To be called with (rows done, rows in all or None) now and then, and at the end.
    checkpoint : Checkpoint, optional
        Where to go on, and where to save: rows must be added in the order of the source.
    """

    source: Source
    features: FeatureMap
    skip_invalid: bool = False
    workers: int | None = None
    report: Report = silent
    checkpoint: Checkpoint | None = None


class Engine(ABC):
    """Runs passes.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.engines import Engine, register_engine
    >>> @register_engine("one-by-one")
    ... class OneByOne(Engine):
    ...     def run(self, job):
    ...         total = sl.Accumulator(job.features)
    ...         for batch in job.source.stream(1000):
    ...             total.update(batch.rows, batch.weights)
    ...         return total.sketch()
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> sl.sketch([[1.0], [2.0]], phi, engine="one-by-one") == sl.sketch([[1.0], [2.0]], phi)
    True
    """

    @abstractmethod
    def run(self, job: Job) -> Sketch | SketchTable | None:
        """The sketch of all rows (the table, if the source is grouped); None if there are no rows."""

    def bounds_users(self, source: Source) -> bool:
        """Whether the engine itself takes no more than ``source.max_rows_per_user`` rows of each user."""
        return False


Opener = Callable[[Any], Engine | None]
_Made = TypeVar("_Made", bound=Callable[[], Engine])
_ENGINES: dict[str, Callable[[], Engine]] = {}
_OPENERS: list[Opener] = []


def register_engine(name: str, recognise: Opener | None = None) -> Callable[[_Made], _Made]:
    """Make an engine known by a name; the decorated class or function makes one.

    Parameters
    ----------
    name : str
        What ``engine=`` is to be.
    recognise : callable, optional
        Given anything else that somebody passes as ``engine=`` (a client, a session), the engine for it, or None if
        it is not of this kind.
    """

    def add(make: _Made) -> _Made:
        _ENGINES[name] = make
        if recognise is not None:
            _OPENERS.append(recognise)
        return make

    return add


def engine_of(engine: Any) -> Engine:
    """The engine behind a name, an engine, or something that an engine is known for."""
    if isinstance(engine, Engine):
        return engine
    if isinstance(engine, str):
        name = "threads" if engine == "auto" else engine
        if name not in _ENGINES:
            raise ValueError(f"engine={engine!r} is not known; choose auto, {', '.join(sorted(_ENGINES))}")
        return _ENGINES[name]()
    for opener in _OPENERS:
        found = opener(engine)
        if found is not None:
            return found
    raise TypeError(f"engine must be a name or an engine, got {type(engine).__name__}")
