"""From a fitted mixture to a certificate: polish, examine, repair, and say what is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sketchlearn.arrays import Array, Index
from sketchlearn.decoders.budget import LARGE
from sketchlearn.decoders.certificate import repair
from sketchlearn.decoders.certificate.examine import Examination, examine
from sketchlearn.decoders.certificate.scores import MANY
from sketchlearn.decoders.certificate.tangent import HALF_A_ROW
from sketchlearn.decoders.certificate.whitened import DENSE, FEW, Whitened
from sketchlearn.decoders.families import SHARED, Family
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import LIGHTEST, NARROWEST, State
from sketchlearn.decoders.verdicts import FEWEST_ROWS

_DOUBLE, _SINGLE = 80, 24  # bytes for each squared parameter, in double and in single precision
_MOST_DOUBLE, _MOST = 4000, 5000  # parameters whose normal equations take a minute, and in single precision 20 seconds


@dataclass(frozen=True, eq=False)
class Certified:
    """A mixture (normalised units) and what is known of it.

    The last field holds components of a few rows each (place, rows) beyond those that were asked for: outliers.
    """

    state: State
    examination: Examination
    strays: tuple[tuple[Array, float], ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the certificate is given."""
        return self.examination.passed

    @property
    def residual(self) -> float:
        """What is left, in standard deviations."""
        return self.examination["residual"].score


class Certifier:
    """Certificates for states of one problem, which was made from a sketch."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self.problem, self.rng = problem, rng

    def can(self, k: int, family: Family = SHARED) -> bool:
        """Whether there is a certificate for so many components.

        A certificate may take as much memory as any decoder may, or four times the map.
        """
        most = (
            min(_MOST, math.isqrt(self._memory // _SINGLE))
            if self.problem.dim > FEW and family.projected
            else self._most_double
        )
        return self._parameters(k, family) <= min(most, 2 * self.problem.size - 1)

    @property
    def _memory(self) -> int:
        return int(max(LARGE, 4 * 4 * self.problem.size * self.problem.dim))

    @property
    def _most_double(self) -> int:
        """Parameters up to which normal equations are made in double precision."""
        return min(_MOST_DOUBLE, math.isqrt(self._memory // _DOUBLE))

    def _parameters(self, k: int, family: Family) -> int:
        return family.parameters(k, self.problem.dim) - 1  # (weights sum to 1)

    def whitened(self, state: State, everything: bool = False) -> Whitened:
        """The problem in the metric of its noise around a state, with a random part of a large sketch.

        In additive noise every frequency tells something new: as many as seconds allow then.
        """
        size, d = self.problem.size, self.problem.dim
        count = self._parameters(state.k, state.family)
        wanted = max(500, int((1.5 if count <= MANY else 1.0) * count))
        if d <= FEW:
            wanted = max(DENSE, wanted // 2)
        if self.problem.n * float(self.problem.added.mean()) > 0.3:
            wanted = max(wanted, 10**9 // count**2)
        index: Index = np.arange(size)
        if wanted < size and not everything:
            index = np.sort(np.random.default_rng(size).permutation(size)[:wanted])
        # (shortcuts for blocks know Gaussian rows only)
        dense = None if state.family.projected else True
        return Whitened.of(self.problem, state, index, dense, count > self._most_double)

    def certify(self, state: State, *, mend: bool = True) -> Certified:
        """Polish and examine a fit; if it fails, repair it where the tests point."""
        state = _possible(state)
        problem = self.whitened(state)
        problem.settle(2 if state.family.shared else 3)
        best = Certified(problem.state, examine(problem, self.problem.box, self.rng))
        if best.passed or not mend or self._parameters(state.k, state.family) > MANY:
            return best
        repaired = self._repaired(problem)
        return repaired if repaired.passed or repaired.residual < best.residual else best

    def _repaired(self, problem: Whitened) -> Certified:
        """Components added where they are missing, then the least needed pruned; a few outliers may stay apart."""
        k = problem.state.k
        work = problem.copy()
        explained = repair.grow(work, self.problem.box, self.rng, k // 2 + 3)
        order = np.argsort(-work.state.weights)
        order = order[: max(k, int((work.state.weights * problem.n >= HALF_A_ROW).sum()))]
        full = work.state.select(order)
        repair.shrink(work, k)
        out = Certified(work.state, examine(work, self.problem.box, self.rng))
        rows = full.weights[k:] * problem.n
        if out.passed or not explained or not len(rows) or rows.sum() > FEWEST_ROWS:
            return out
        work.replace(full)
        work.settle(1)
        whole = examine(work, self.problem.box, self.rng, core=k)
        if not whole.passed:
            return out
        places = zip(work.state.means[k:], work.state.weights[k:] * problem.n, strict=True)
        kept = _possible(work.state.select(slice(0, k)))
        return Certified(kept, whole, tuple((x, float(n)) for x, n in places))

    def from_scratch(self, k: int) -> Certified | None:
        """Coarse to fine, whatever the search has found; None if so many components explain nothing."""
        first = State.shared(np.ones(1), np.zeros((1, self.problem.dim)), 1.0)
        problem = self.whitened(first, everything=True)
        if not repair.coarse_to_fine(problem, k, self.problem.box, self.rng) or problem.state.k < k:
            return None
        return Certified(problem.state, examine(problem, self.problem.box, self.rng))


def _possible(state: State) -> State:
    """The state with positive weights that sum to 1, and widths above zero."""
    a = np.maximum(state.weights, LIGHTEST)
    shapes = np.maximum(state.shapes, NARROWEST) if state.shapes.ndim == 1 else state.shapes
    return State(state.family, a / a.sum(), state.means, shapes)
