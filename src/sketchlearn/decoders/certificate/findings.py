"""What a test of a fitted mixture found: a number, its limit, and the question that it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sketchlearn.decoders.certificate.tangent import Tangent

EXPLAINED, DETERMINED, RESOLVED = "explained", "determined", "resolved"
"""The three questions of the certificate: is anything left, are all parameters known, would a cluster be noticed?"""


@dataclass(frozen=True)
class Finding:
    """The outcome of one test; it passes if `score` is below `limit`.

    Attributes
    ----------
    name : str
        Of the test.
    score, limit : float
        In the test's own units.
    words : str
        What the score means.
    question : {"explained", "determined", "resolved"}
        What the test is about.
    at : int
        The component that the score is about, if it is about one.

    Examples
    --------
    >>> from sketchlearn.decoders.certificate import Finding
    >>> print(Finding("residual", 1.2, 4.0, "standard deviations of the misfit above its mean"))
    test 'residual' passes with 1.2 (limit 4; standard deviations of the misfit above its mean)
    """

    name: str
    score: float
    limit: float
    words: str
    question: str = EXPLAINED
    at: int = 0

    @property
    def passed(self) -> bool:
        """Whether chance explains the score."""
        return bool(self.score < self.limit)

    def __str__(self) -> str:
        outcome = "passes" if self.passed else "fails"
        return f"test '{self.name}' {outcome} with {self.score:.3g} (limit {self.limit:.3g}; {self.words})"


@dataclass(frozen=True, eq=False)
class Exam:
    """What a test looks at: the whitened residual with its derivatives, rows drawn as noise, the box, randomness."""

    tangent: Tangent
    noise: Any
    box: tuple[Any, Any]
    rng: np.random.Generator
    core: int


Test = Callable[[Exam], Finding]
TESTS: list[Test] = []
"""Tests beyond those of :func:`~sketchlearn.decoders.certificate.examine.examine`."""


def register_test(test: Test) -> Test:
    """Add a test to the certificate: a function from an :class:`Exam` to a :class:`Finding`.

    Every certificate runs it from then on, and is refused where it fails.

    Examples
    --------
    >>> from sketchlearn.decoders.certificate import TESTS, Finding, register_test
    >>> @register_test
    ... def lightest(exam):
    ...     rows = exam.tangent.problem.state.weights.min() * exam.tangent.problem.n
    ...     return Finding("lightest", 1 / max(rows, 1e-9), 1.0, "one over the rows of the lightest component")
    >>> TESTS.remove(lightest)
    """
    TESTS.append(test)
    return test
