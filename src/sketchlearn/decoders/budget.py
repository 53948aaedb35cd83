"""What a decoding may cost, and what it has cost: one count for all decoders.

Work is counted in multiply-adds of a product of matrices, not timed: results are the same on a slow, a fast and a busy
machine.  A second is what one core does in about that time.  Loops ask :func:`over` and stop with the best so far;
stages that are known to cost more than is left are not begun (:func:`affords`).  The solution then says what was
stopped or left out.

The numbers at the top are what searches and descents do at most: every decoder and step without a reason of its own
uses them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sketchlearn.exceptions import DataWarning, warn

STEPS = 100
"""L-BFGS iterations of a descent from which others go on: the misfit is then within a percent of its minimum."""
FEW_STEPS = 20
"""L-BFGS iterations within a loop that changes the components between them."""
RESTARTS = 6
"""Searches, at most: where one of three fails, six leave one failure in seven hundred."""
PATIENCE = 3
"""Rounds without progress that end a loop."""
ROUNDS = 60
"""Rounds of a loop at most, where progress may be slow."""
GAIN = 0.99
"""A round that leaves more than this share of the misfit is without progress."""
AGREE = 1.05
"""Ratio of two misfits up to which two searches have found the same: the model is wrong then, not the search."""

SECOND = 1.4e10
"""Multiply-adds of a second of one core; decodings took between 0.6 and 1.5 times as long as counted."""
SECONDS = 60.0
"""The budget of one decoding, unless told."""
EACH = 0.1
"""Seconds for each component, if that is more: a thousand round clusters are found in 70, as work is counted."""


LARGE = 2.0**29
"""Bytes that a decoder may take without a word: what one takes for any sketch, and a few copies of a usual one."""


def announce(needed: float, kept: float) -> None:
    """Warn, before a decoder begins, that it takes many bytes: more than is usual, and than four times what is kept.

    Examples
    --------
    >>> import warnings
    >>> from sketchlearn.decoders.budget import announce
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     announce(2.0**28, 1.0)
    ...     announce(2.0**31, 2.0**28)
    >>> [str(w.message) for w in said]
    ['decoding takes about 2 GB of memory, 8 times the map and the sketch']
    """
    if needed > max(LARGE, 4.0 * kept):
        said = (
            f"decoding takes about {needed / 2**30:.2g} GB of memory, {needed / kept:.2g} times the map and the sketch"
        )
        warn(said, DataWarning)


class Budget:
    """Work that may be done, that was done, and what was stopped or left out for lack of it.

    Examples
    --------
    >>> from sketchlearn.decoders.budget import SECOND, Budget
    >>> budget = Budget(2.0)
    >>> budget.charge(1.5 * SECOND)
    >>> budget.affords(1.0 * SECOND, "messages"), budget.words
    (False, 'Unfinished. The budget of 2 s of CPU left no time for messages.')
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.spent = seconds, 0.0
        self.cut: dict[str, None] = {}

    @property
    def left(self) -> float:
        """Multiply-adds that are left."""
        return self.seconds * SECOND - self.spent

    def charge(self, work: float) -> None:
        """Count some work."""
        self.spent += work

    def over(self, what: str) -> bool:
        """Whether nothing is left; `what` is then stopped."""
        if self.left > 0:
            return False
        self.cut[what] = None
        return True

    def affords(self, work: float, what: str) -> bool:
        """Whether so much work is left; if not, `what` is left out."""
        if work <= self.left:
            return True
        self.cut[what] = None
        return False

    def shares(self, count: int) -> list[Budget]:
        """What is left in equal parts, for work side by side; :meth:`absorb` counts them."""
        return [Budget(self.left / count / SECOND) for _ in range(count)]

    def absorb(self, shares: list[Budget]) -> None:
        """Count what was done in shares."""
        for share in shares:
            self.spent += share.spent
            self.cut |= share.cut

    @property
    def words(self) -> str:
        """What was stopped or left out; empty if nothing was."""
        if not self.cut:
            return ""
        return f"Unfinished. The budget of {self.seconds:.3g} s of CPU left no time for {', '.join(self.cut)}."


_SECONDS: ContextVar[float | None] = ContextVar("seconds", default=None)
_OUTSIDE = Budget(float("inf"))
_RUNNING: ContextVar[Budget] = ContextVar("running", default=_OUTSIDE)


@contextmanager
def decoding_budget(seconds: float) -> Iterator[None]:
    """Limit each decoding inside a ``with`` block to about so many seconds of one core.

    Without it, the limit is 60 seconds, or a tenth of a second for each component where that is more.

    Parameters
    ----------
    seconds : float
        The budget; infinity for no limit.  Work is counted, not timed.  When the budget is used up, decoders return the
        best model so far.  Its code is ``"unfinished"`` unless the certificate passes anyway, and its verdict says what
        was left out.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).exponential(size=(3000, 8))
    >>> with sl.decoding_budget(0.01):
    ...     model = sl.CompressiveKMeans(10, random_state=0).fit(X)
    >>> str(model.solution_.code)
    'unfinished'
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise ValueError(f"a budget is a positive number of seconds, got {seconds!r}")
    token = _SECONDS.set(float(seconds))
    try:
        yield
    finally:
        _SECONDS.reset(token)


@contextmanager
def spending(budget: Budget | None = None, components: int = 1) -> Iterator[Budget]:
    """Work inside counts for this budget, or for that of the decoding that is under way, or for a new one."""
    if budget is None and running() is _OUTSIDE:
        budget = Budget(_SECONDS.get() or max(SECONDS, EACH * components))
    budget = budget or running()
    token = _RUNNING.set(budget)
    try:
        yield budget
    finally:
        _RUNNING.reset(token)


def running() -> Budget:
    """The budget that work counts for now; one without limit outside of a decoding."""
    return _RUNNING.get()


def charge(work: float) -> None:
    """Count some work."""
    running().charge(work)


def over(what: str) -> bool:
    """Whether the budget is spent, so that `what` should stop with the best so far."""
    return running().over(what)


def affords(work: float, what: str) -> bool:
    """Whether the budget allows so much more work, for `what`."""
    return running().affords(work, what)
