"""What a sweep over numbers of components returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders.budget import over
from sketchlearn.decoders.registry import Decoder
from sketchlearn.decoders.solution import Code, Solution
from sketchlearn.engines.progress import Report, silent
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import html_table

CERTIFIED = "the smallest number that is certified"
AT_FLOOR = (Code.RELIABLE, Code.UNDETERMINED)
"""What a certificate that lets the misfit pass may say; components may still be undetermined."""


@dataclass(frozen=True)
class SweepRow:
    """One number of components."""

    k: int
    residual: float
    ratio: float
    inertia: float
    criterion: float
    code: Code = Code.UNCERTIFIED
    """The certificate of this number, as :func:`sketchlearn.decode` would give it."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """Result of :func:`sketchlearn.sweep`: a table by number of components, and a recommendation.

    :func:`sketchlearn.plots.sweep` draws it.

    Attributes
    ----------
    rows : tuple of SweepRow
        ``k``, ``residual``, ``ratio`` to the noise floor, estimated ``inertia`` (mean squared distance of a
        row to its centre), information ``criterion`` (smaller is better).
    recommended : int
        The recommended number of components.
    reason : str
        Why.
    models : tuple
        One for each row: mixtures where the task has them, solutions otherwise.
    privacy : PrivacyRecord or None
        What the sketch promises that it was decoded from; None for exact sums.
    solution : Solution or None
        The final fit of the recommended number, where the sweep has made one; its verdict is that of the table.
    because : str
        Why this number, whatever the final fit says.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(6000, 2)) + np.repeat([[0, 0], [12, 0], [0, 12]], 2000, axis=0)
    >>> table = sl.sweep(sl.sketch(X, sl.design(X[::5], n_components=6, seed=0)), range(1, 6), random_state=0)
    >>> table.recommended
    3
    """

    rows: tuple[SweepRow, ...]
    recommended: int
    reason: str
    models: tuple[Any, ...]
    privacy: PrivacyRecord | None = None
    solution: Solution | None = None
    because: str = ""

    @property
    def certified(self) -> bool:
        """Whether the misfit of the recommended number is at the noise floor."""
        return any(row.code in AT_FLOOR for row in self.rows if row.k == self.recommended)

    def concluded(self, solution: Solution) -> Sweep:
        """The table with what the final fit of the recommended number says: one verdict for both.

        Only this number has a final fit: the others are not certified, whatever a quick search said.
        """
        codes: dict[int, Code] = {
            row.k: Code.UNCERTIFIED if row.code is Code.RELIABLE else row.code for row in self.rows
        }
        codes[self.recommended] = solution.code
        rows = tuple(replace(row, code=codes[row.k]) for row in self.rows)
        words = f"the fit with k = {self.recommended} is " + ("certified" if solution.reliable else "not certified")
        if solution.code is Code.GOOD:
            words += f", but {solution.nearness}"
        return replace(self, rows=rows, reason=f"{self.because}; {words}", solution=solution)

    def unfinished(self, words: str) -> Sweep:
        """The table with what there was no time for."""
        because, reason = (f"{said}. {words}" if said else "" for said in (self.because, self.reason))
        return replace(self, because=because, reason=reason)

    def knowing(self, k: int) -> Sweep:
        """The table where k components have been certified by decoding them: nothing larger is recommended then."""
        rows = tuple(replace(row, code=Code.RELIABLE) if row.k == k else row for row in self.rows)
        certified = [row.k for row in rows if row.code == Code.RELIABLE]
        if not certified or self.recommended == min(certified):
            return replace(self, rows=rows)
        return replace(self, rows=rows, recommended=min(certified), reason=CERTIFIED, solution=None)

    def __iter__(self) -> Iterator[SweepRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> Array:
        """One column of the table as an array."""
        return np.array([getattr(row, name) for row in self.rows])

    def __repr__(self) -> str:
        lines = [f"{'k':>4} {'residual':>11} {'ratio':>10} {'inertia':>12} {'criterion':>11}  certificate"]
        for r in self.rows:
            mark = "  <" if r.k == self.recommended else ""
            numbers = f"{r.k:>4} {r.residual:>11.4g} {r.ratio:>10.3g} {r.inertia:>12.5g} {r.criterion:>11.1f}"
            lines.append(f"{numbers}  {r.code}{mark}")
        return "\n".join([*lines, f"recommended: {self.recommended} ({self.reason})"])

    def _repr_html_(self) -> str:
        head = ("k", "residual", "ratio", "inertia", "criterion", "certificate")
        rows = [
            (f"{r.k}{' ←' * (r.k == self.recommended)}", f"{r.residual:.4g}", f"{r.ratio:.3g}", f"{r.inertia:.5g}",
             f"{r.criterion:.1f}", r.code)
            for r in self.rows
        ]  # fmt: skip
        return html_table("Numbers of components", rows, head, f"Recommended: {self.recommended} ({self.reason}).")


def numbers_of_components(sketch: Sketch, ks: int | Iterable[int]) -> list[int]:
    """Numbers of components to try, ascending; ValueError if a sketch can't have them."""
    given = [ks] if isinstance(ks, int | np.integer) else list(ks)
    numbers = sorted({int(k) for k in given})
    if any(k != int(k) for k in given):
        raise ValueError(f"numbers of components must be whole, got {next(k for k in given if k != int(k))!r}")
    if not numbers:
        raise ValueError(f"there is no number of components to try: {ks!r} is empty")
    if numbers[0] < 1:
        raise ValueError(f"numbers of components must be positive, got {numbers[0]}")
    if numbers[-1] > sketch.count:
        raise ValueError(f"{numbers[-1]} components are more than the {sketch.count} rows of the sketch")
    return numbers


def watched(numbers: list[int], report: Report) -> Iterator[int]:
    """The numbers in turn, as the budget allows; what is done with each is reported when the next one is asked for."""
    for i, k in enumerate(numbers):
        report(i, len(numbers))
        if i and over(f"{k} or more components"):
            break
        yield k
    report(len(numbers), len(numbers))


def recommend(rows: list[SweepRow], enough: tuple[Code, ...] = AT_FLOOR) -> tuple[int, str]:
    """The fewest components that explain the sketch, or else the fewest that come near the least misfit."""
    for row in rows:
        if row.code in enough:
            return row.k, CERTIFIED
    least = min(row.ratio for row in rows)
    close = next(row.k for row in rows if row.ratio <= 1.25 * least)
    return close, "the smallest within a quarter of the least misfit, a weak reason: no number is certified"


def sweep_by_certificate(
    decoder: Decoder,
    sketch: Sketch,
    ks: Iterable[int],
    *,
    rng: np.random.Generator,
    report: Report = silent,
    **options: Any,
) -> Sweep:
    """Decode every number of components with the same decoder; the certificate chooses."""
    numbers = numbers_of_components(sketch, ks)
    found = {k: decoder(sketch, k, rng=rng, trace=None, **options) for k in watched(numbers, report)}
    nan = float("nan")
    rows = [SweepRow(k, s.residual, s.ratio, getattr(s, "inertia", nan), nan, s.code) for k, s in found.items()]
    chosen = recommend(rows, (Code.RELIABLE,))
    return Sweep(tuple(rows), *chosen, tuple(getattr(s, "mixture", s) for s in found.values()))
