"""Every number of components from one sketch, and a recommendation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.decoders.metric import standardised
from sketchlearn.decoders.partition import partition
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.search import Found, search
from sketchlearn.decoders.solution import Mixture
from sketchlearn.sketches.value import Sketch

_DROP = 1.6  # of the misfit, by one more component that is a cluster
EXPLAINED = 1.5  # misfit over noise floor up to which a model explains the data


@dataclass(frozen=True)
class SweepRow:
    """One number of components."""

    k: int
    residual: float
    ratio: float
    inertia: float
    criterion: float


@dataclass(frozen=True, eq=False)
class Sweep:
    """Result of :func:`sketchlearn.sweep`: a table by number of components, and a recommendation.

    Attributes
    ----------
    rows : tuple of SweepRow
        ``k``, ``residual``, ``ratio`` to the noise floor, estimated ``inertia`` (mean squared distance of a
        row to its centre), information ``criterion`` (smaller is better).
    recommended : int
        The recommended number of components.
    reason : str
        Why.

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
    models: tuple[Mixture, ...]

    def __iter__(self) -> Iterator[SweepRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> Array:
        """One column of the table as an array."""
        return np.array([getattr(row, name) for row in self.rows])

    def __repr__(self) -> str:
        lines = [f"{'k':>4} {'residual':>11} {'ratio':>10} {'inertia':>12} {'criterion':>11}"]
        for r in self.rows:
            mark = "  <" if r.k == self.recommended else ""
            lines.append(f"{r.k:>4} {r.residual:>11.4g} {r.ratio:>10.3g} {r.inertia:>12.5g} {r.criterion:>11.1f}{mark}")
        return "\n".join([*lines, f"recommended: {self.recommended} ({self.reason})"])

    def plot(self, ax: Any = None) -> Any:
        """Misfit over noise floor and estimated inertia against k; needs matplotlib. Returns the axes."""
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError("pictures need matplotlib: pip install sketchlearn[plots]") from None
        if ax is None:
            ax = plt.subplots(figsize=(6, 4))[1]
        k = self.column("k")
        ax.semilogy(k, self.column("ratio"), "o-", label="misfit / noise floor")
        ax.axhline(EXPLAINED, color="gray", linestyle=":", label="explained")
        ax.axvline(self.recommended, color="C2", linestyle="--", label=f"recommended: {self.recommended}")
        ax.set_xlabel("number of components")
        ax.set_ylabel("misfit / noise floor")
        right = ax.twinx()
        right.plot(k, self.column("inertia"), "s-", color="C1", alpha=0.6)
        right.set_ylabel("estimated inertia", color="C1")
        ax.legend(loc="upper right")
        return ax


def sweep_kmeans(sketch: Sketch, ks: Iterable[int], *, rng: np.random.Generator) -> Sweep:
    """Decode every k, each warm-started from the last."""
    numbers = sorted({int(k) for k in ks})
    if not numbers or numbers[0] < 1:
        raise ValueError(f"numbers of components must be positive, got {numbers[:3]}")
    if numbers[-1] > sketch.count:
        raise ValueError(f"{numbers[-1]} components are more than the {sketch.count} rows of the sketch")
    view, spread = standardised(sketch)
    problem = Problem.from_sketch(view)
    rows, models, found = [], [], None
    for k in numbers:
        found = _next(problem, k, rng, found)
        mixture = Mixture(_simplex(found.weights), found.means, np.full(k, found.variance))
        centers_cost = partition(mixture, k, rng, start=found.means, points=4000, restarts=0)[2]
        parameters = k * (problem.dim + 1) + 1
        criterion = 2 * problem.size * np.log(found.value) + parameters * np.log(2 * problem.size)
        inertia = centers_cost * problem.scale**2
        rows.append(SweepRow(k, found.value, found.ratio, inertia, float(criterion)))
        models.append(mixture.scaled(problem.scale, problem.center).stretched(spread))
    return Sweep(tuple(rows), *_recommend(rows), tuple(models))


def _simplex(weights: Array) -> Array:
    w = np.maximum(weights, 1e-12)
    return w / w.sum()


def _next(problem: Problem, k: int, rng: np.random.Generator, last: Found | None) -> Found:
    """k components from the last solution, and from scratch where that doesn't explain the data."""
    found = search(problem, k, rng, start=None if last is None else last.means, replacements=8)
    if not found.certified and (last is None or found.value > 0.3 * last.value):
        fresh = search(problem, k, rng, replacements=8)
        found = fresh if fresh.value < found.value else found
    return found


def _recommend(rows: list[SweepRow]) -> tuple[int, str]:
    for row in rows:
        if row.ratio < EXPLAINED:
            return row.k, f"the smallest k whose misfit is at the noise floor (ratio {row.ratio:.2f})"
    # no k explains the data: clusters are not round, and more components than clusters still help, but slowly
    because = "no k brings it down to the noise: the clusters are not round Gaussians of one width, or k must be larger"
    chosen, least, at = None, rows[0].residual, rows[0].k
    for row in rows[1:]:
        if row.residual * _DROP ** (row.k - at) < least:
            chosen = row.k
        if row.residual < least:
            least, at = row.residual, row.k
    if chosen is None:
        return rows[0].k, f"the smallest k, a weak reason: no other lowers the misfit much, and {because}"
    return chosen, f"the last k whose clusters lower the misfit by a factor of {_DROP} each, a weak reason: {because}"
