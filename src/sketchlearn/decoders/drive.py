"""The driver of decoders: a policy is a list of stages, run in order until one is accepted, each decision recorded.

A stage says why it runs, or that it does not apply; its step returns what it found.  The record of a decoding is
:attr:`~sketchlearn.decoders.solution.Solution.trace`: a dict for each stage that ran, with its name, why it ran, what
it found in words, whether that was accepted, and in how many seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from time import perf_counter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from sketchlearn.decoders.budget import affords
from sketchlearn.decoders.solution import Solution
from sketchlearn.decoders.state import State
from sketchlearn.threads import single_blas_thread

M = TypeVar("M", bound=Solution)
R = TypeVar("R", bound="Run")


def decoder(decode: Callable[..., M]) -> Callable[..., M]:
    """Make a decoder of a function ``(sketch, k, *, rng, **options)`` that returns a model (a decorator).

    A decoder also takes ``trace=``, a list that gets what the model's trace holds.
    """

    @wraps(decode)
    def run(
        sketch: Any, n_components: int = 1, *args: Any, trace: list[dict[str, Any]] | None = None, **options: Any
    ) -> M:
        if n_components < 1:
            raise ValueError(f"n_components must be a positive integer, got {n_components!r}")
        with single_blas_thread:  # many small products: more than one thread only costs
            found = decode(sketch, n_components, *args, **options)
        if trace is not None:
            trace += map(dict, found.trace)
        return found

    return run


class Outcome(Protocol):
    """What a stage finds: in words, and whether nothing more need be tried."""

    @property
    def words(self) -> str: ...
    @property
    def accepted(self) -> bool: ...


class Remark(NamedTuple):
    """An outcome that is no more than its words."""

    words: str
    accepted: bool = False


class Run:
    """A decoding in progress: subclasses hold the problem and the best that was found so far."""

    def __init__(self) -> None:
        self.trace: list[dict[str, Any]] = []

    def note(self, stage: str, why: str, found: str, accepted: bool, seconds: float, **numbers: float) -> None:
        """Record one stage."""
        self.trace.append(
            {"stage": stage, "why": why, "found": found, "accepted": accepted, "seconds": round(seconds, 4), **numbers}
        )

    def best_of(
        self, attempts: Iterable[tuple[str, Callable[[], State]]], floor: Callable[[State], float], enough: float
    ) -> State:
        """The attempt with the lowest misfit, each recorded under its name; one below `enough` floors is the last."""
        best: State | None = None
        for name, attempt in attempts:
            begin, why = perf_counter(), "always first" if best is None else "no run has explained the sketch yet"
            state = attempt()
            best = state if best is None or state.value < best.value else best
            ratio = best.value / floor(best)
            self.note(name, why, misfit_words(ratio), ratio < enough, perf_counter() - begin)
            if ratio < enough:
                break
        assert best is not None
        return best


def misfit_words(ratio: float) -> str:
    """How well something explains a sketch."""
    return f"misfit {ratio:.3g} times the noise floor"


@dataclass(frozen=True)
class Stage(Generic[R]):
    """One stage of a policy.

    Attributes
    ----------
    name : str
        As the trace has it.
    applies : callable
        Why the stage runs now, in words; empty if it does not apply.
    step : callable
        Works on the run and returns what it found, or None if it found nothing new.
    cost : callable, optional
        Multiply-adds that it takes at least, about; stages without always run: they stop when nothing is left.
    """

    name: str
    applies: Callable[[R], str]
    step: Callable[[R], Outcome | None]
    cost: Callable[[R], float] | None = None


def drive(policy: Iterable[Stage[R]], run: R) -> None:
    """Run the stages that apply until the outcome of one is accepted."""
    for stage in policy:
        why = stage.applies(run)
        if not why or (stage.cost is not None and not affords(stage.cost(run), f"the stage {stage.name!r}")):
            continue
        begin = perf_counter()
        outcome = stage.step(run) or Remark("nothing better")
        run.note(stage.name, why, outcome.words, outcome.accepted, perf_counter() - begin)
        if outcome.accepted:
            return
