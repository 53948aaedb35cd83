"""Over-complete mixtures for data that no simple model explains: more components than clusters, with own covariances.

Each fit is a greedy search for about three components per cluster, then diagonals, then a few factors, shrunk to the
pooled diagonal in proportion to the misfit.  Fits from several seeds are independent, and pooled by the caller.  A
search for many components begins at the k that were found: from nothing it would take longer and explain less.

There are as many fits, with as many factors, as the budget pays for: a fit that was stopped can be worth less than the
components that it began with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.arrays import Array, Index
from sketchlearn.decoders.budget import STEPS, Budget, running, spending
from sketchlearn.decoders.families import DIAGONAL, Factors
from sketchlearn.decoders.noise import SLACK
from sketchlearn.decoders.problem import Problem, atom_work
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.greedy import MANY, search
from sketchlearn.decoders.steps.groups import groups_apart, joined, without
from sketchlearn.decoders.steps.refine import refine
from sketchlearn.threads import in_parallel, limited

SHRINKAGE = 0.1  # of the misfit per number: strength of the penalty on covariances
REPLACEMENTS = 4  # rounds of the search with all components: the model is wrong, and more would follow the noise
FIRST_STEPS = 40  # L-BFGS iterations that find axes and diagonals, and that refit to half of a sketch


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit in the problem that it was made for, which may have other axes (rows) than the sketch."""

    problem: Problem
    state: State
    axes: Array | None = None

    @property
    def whole(self) -> State:
        """The fit in the axes of the sketch."""
        return self.state if self.axes is None else self.state.turned(self.axes.T)

    def refitted(self, half: Index) -> State:
        """The fit moved to what some of the frequencies say."""
        part, start = self.problem.subset(half), self.state
        largest = max(_widest(part), 10.0 * float(start.widths.max()) ** 2)
        strength = 0.0 if self.axes is None else SHRINKAGE * 2.0 * start.value / len(half)
        return replace(
            self, state=refine(part, start, FIRST_STEPS, largest=largest, strength=strength, boxed=True)
        ).whole


def over_complete_fits(problem: Problem, found: State, count: int, rng: np.random.Generator) -> list[Fitted]:
    """Some independent fits with full covariances, for data in which a search found k components of one width."""
    k, d = found.means.shape
    components = _components(problem, k)
    # numbers of the model are at most four times those of the sketch (shrinkage does the rest)
    rank = min(_rank(d), max(8 * problem.size // (components * d) - 2, 1))
    left = running().left
    while rank > 1 and _work(problem, components, rank) > left:
        rank -= 1
    count = max(1, int(min(count, left / _work(problem, components, rank))))
    problem = replace(problem, operator=problem.operator.as_matrix())
    axes = _axes(problem, found, rank, rng)

    def fitted(own: np.random.Generator) -> Fitted:
        part = _turned(problem, axes)
        begin = found.means @ axes.T if components > MANY else None
        start = search(part, components, own, start=begin, replacements=REPLACEMENTS).state
        return Fitted(part, _with_factors(part, start, rank, STEPS, own), axes)

    def beside(own: np.random.Generator, groups: State) -> Fitted:
        """A fit to what is beside some groups, then to all: with these it is the columns that are to be diagonal."""
        part = _turned(problem, np.eye(d, dtype=axes.dtype))
        start = search(without(part, groups), components, own, replacements=REPLACEMENTS).state
        return Fitted(part, _with_factors(part, start, rank, STEPS, own, groups), np.eye(d))

    # threads wait for the interpreter where an iteration is short; copies of many frequencies are made one by one
    alone = problem.size * components * d <= 2**20 or problem.size * d > 2**22
    with limited(1 if alone else None):
        fits = _side_by_side(fitted, rng.spawn(count))
        groups = _groups(problem, fits)
        if groups is not None:
            fits += _side_by_side(lambda own: beside(own, groups), rng.spawn(count))
    best, *others = sorted(fits, key=lambda fit: fit.state.value)[:count]
    enough = SLACK * max(best.state.value, problem.floor(best.whole)[0])
    return [best, *[fit for fit in others if fit.state.value <= enough]]


def _side_by_side(
    fitted: Callable[[np.random.Generator], Fitted], generators: Sequence[np.random.Generator]
) -> list[Fitted]:
    """One fit for each generator, in equal parts of what is left of the budget."""

    def one(given: tuple[np.random.Generator, Budget]) -> Fitted:
        with spending(given[1]):
            return fitted(given[0])

    budget = running()
    shares = budget.shares(len(generators))
    fits = in_parallel(one, zip(generators, shares, strict=True))
    budget.absorb(shares)
    return fits


def _groups(problem: Problem, fits: list[Fitted]) -> State | None:
    """Groups that lie apart in one column, beside the fit that leaves the least with them; None if one explains all."""
    if any(fit.problem.explains(fit.state) for fit in fits):
        return None
    states = [fit.whole for fit in fits]
    found = [(fit, groups) for fit in states if (groups := groups_apart(problem, fit)) is not None]
    return min(found, key=lambda pair: problem.misfit(joined(*pair)))[1] if found else None


def least_work(problem: Problem, k: int) -> float:
    """Multiply-adds of one fit with one factor."""
    return _work(problem, _components(problem, k), 1)


def _components(problem: Problem, k: int) -> int:
    extra = 10 if problem.dim <= 20 else 5  # besides two per cluster: few clusters need more to show their shapes
    return min(2 * k + min(k, extra), max(problem.size // (2 * (problem.dim + 2)), k))


def _work(problem: Problem, components: int, rank: int) -> float:
    """Multiply-adds of a fit, as :class:`Problem` counts them: those of its last descent, and half as many before."""
    return 1.5 * STEPS * problem.size * 2.0 * components * (atom_work(problem.dim) + problem.dim * (1.0 + rank))


def _widest(problem: Problem) -> float:
    return max(4.0, float(4.0 * np.max(np.ptp(np.stack(problem.box), axis=0)) ** 2))


def _rank(d: int) -> int:
    """Factors of a covariance: all in up to twenty dimensions, where they cost little, if five would not do."""
    if d <= 20:
        return min(5, d - 1) if d <= 10 else d - 1
    return max(10, d // 5)


def _axes(problem: Problem, found: State, rank: int, rng: np.random.Generator) -> Array:
    """Orthonormal axes (rows) in which components are diagonal on average: factors are then left for what is their own.

    Where the columns are correlated within all clusters alike, as those of word vectors are, this is worth more than
    any number of factors.
    """
    if problem.dim == 1:
        return np.eye(1)
    fit = _with_factors(problem, found, rank, FIRST_STEPS, rng)
    average = np.tensordot(fit.simplex, fit.covariances, 1)
    return np.ascontiguousarray(np.linalg.eigh(average)[1].T)


def _turned(problem: Problem, axes: Array) -> Problem:
    """The problem in other orthonormal axes, with buffers of its own."""
    low, high = problem.box
    middle, half = axes @ (0.5 * (low + high)), np.abs(axes) @ (0.5 * (high - low))
    return replace(problem, operator=problem.operator.transformed(axes), box=(middle - half, middle + half))


def _with_factors(
    problem: Problem, found: State, rank: int, steps: int, rng: np.random.Generator, groups: State | None = None
) -> State:
    """Diagonals, then some factors, shrunk to the pooled diagonal in proportion to the misfit; with groups, if any."""
    widest = _widest(problem)
    k, d = found.means.shape
    start = State(DIAGONAL, found.weights, found.means, np.full((k, d), max(float(found.shapes[0]), 1e-6)))
    if groups is not None:
        start = joined(start, groups)
    fit = refine(problem, start.revived(), FIRST_STEPS, largest=widest, boxed=True)
    if not rank:
        return fit
    family, fit = Factors(rank), replace(fit.revived(), value=fit.value)
    start = State(family, fit.weights, fit.means, family.widened(fit.shapes, fit.weights, rng))
    strength = SHRINKAGE * 2.0 * fit.value / problem.size
    return refine(problem, start, steps, largest=widest, strength=strength, boxed=True)
