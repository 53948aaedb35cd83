"""What an argument accepts, declared once: a test, and words for the error that names the argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Accepts:
    """A test of a value, and what it accepts in words; ``|`` joins two of them.

    Examples
    --------
    >>> from sketchlearn.accepts import choice, whole
    >>> count = whole() | choice("auto")
    >>> count.test(3), count.test(True), count.words
    (True, False, ('a positive integer', "'auto'"))
    """

    test: Callable[[Any], bool]
    words: tuple[str, ...]

    def __or__(self, other: Accepts) -> Accepts:
        return Accepts(lambda value: self.test(value) or other.test(value), self.words + other.words)

    def check(self, name: str, value: Any) -> None:
        """ValueError that names the parameter, its value and what is accepted."""
        if not self.test(value):
            *most, last = self.words
            wanted = f"{', '.join(most)} or {last}" if most else last
            raise ValueError(f"{name} must be {wanted}, got {name}={value!r}")


def whole(least: int = 1) -> Accepts:
    """Integers from `least` on; a boolean is none."""
    words = {0: "an integer that is not negative", 1: "a positive integer"}.get(least, f"an integer above {least - 1}")
    return Accepts(
        lambda v: isinstance(v, int | np.integer) and not isinstance(v, bool | np.bool_) and bool(v >= least), (words,)
    )


def real(low: float = 0.0, high: float = math.inf, *, closed: bool = False) -> Accepts:
    """Finite numbers between two bounds, which belong to them if `closed`."""
    if high == math.inf:
        words = f"a number of at least {low:g}" if closed else f"a number above {low:g}"
    else:
        words = f"a number between {low:g} and {high:g}" if closed else f"a number above {low:g} and below {high:g}"

    def test(value: Any) -> bool:
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
            return False
        inside = low <= value <= high if closed else low < value < high
        return bool(inside) and math.isfinite(value)

    return Accepts(test, (words,))


def choice(*names: str) -> Accepts:
    """One of some names."""
    return Accepts(lambda v: isinstance(v, str) and v in names, tuple(repr(name) for name in names))


def kind(types: Any, words: str) -> Accepts:
    """Instances of a type."""
    return Accepts(lambda v: isinstance(v, types), (words,))


SEED = Accepts(lambda v: whole(0).test(v) and v < 2**64, ("an integer in [0, 2**64)",))
NOTHING = Accepts(lambda v: v is None, ("None",))
FLAG = kind((bool, np.bool_), "True or False")
PROGRESS = FLAG | Accepts(callable, ("a callable",)) | NOTHING
RANDOM = whole(0) | kind((np.random.Generator, np.random.RandomState), "a generator") | NOTHING
"""Where random numbers come from."""
