"""From a fitted mixture to a certificate: polish, examine, mend, and say what is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.certificate import repair
from sketchlearn.decoders.certificate.examine import Examination, examine
from sketchlearn.decoders.certificate.scores import SPLIT, split_test
from sketchlearn.decoders.certificate.tangent import Tangent
from sketchlearn.decoders.certificate.whitened import DENSE, FEW, Array, State, Whitened
from sketchlearn.decoders.metric import View
from sketchlearn.decoders.problem import Problem

_FEWEST = 500  # frequencies that are looked at if there are so many,
_PER_PARAMETER = 1.5  # and as many per parameter, if that is more
_NOISY = 0.3  # noise that was added, over that of rows: then every frequency tells something new,
_MOST = 10**9  # and as many are taken as make so many products
_MANY = 800  # parameters, beyond which one frequency each must do
_STRAYS = 10.0  # rows far from all clusters that do not cost the certificate
_LEAST_STRAY = 0.5  # rows: what has fewer is nothing
_MANY_PARAMETERS = 4000  # beyond this there is no certificate: the normal equations would take minutes


@dataclass
class Certified:
    """A mixture (normalised units) and what is known of it.

    `strays` are components of a few rows each (place, rows) beyond those that were asked for.
    """

    state: State
    examination: Examination
    strays: tuple[tuple[Array, float], ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the certificate is given."""
        return self.examination.passed


class Certifier:
    """The frequencies and averages of a sketch in double precision, as many as are needed.

    Parameters
    ----------
    view : View
        The sketch.
    problem : Problem
        The same, normalised: its units are used.
    """

    def __init__(self, view: View, problem: Problem, rng: np.random.Generator) -> None:
        self.view, self.problem, self.rng = view, problem, rng

    def can(self, k: int, kind: str = "shared") -> bool:
        """Whether there is a certificate for so many components."""
        return self._parameters(k, kind) <= min(_MANY_PARAMETERS, 2 * self.problem.size - 1)

    def _parameters(self, k: int, kind: str) -> int:
        d = self.problem.dim
        free = {"shared": 1, "spherical": k, "diag": k * d, "full": k * d * (d + 1) // 2}[kind]
        return k * (d + 1) - 1 + free

    def whitened(self, state: State, everything: bool = False) -> Whitened:
        """The problem in the metric of its noise around a state, with a random part of a large sketch."""
        size, d = self.problem.size, self.problem.dim
        count = self._parameters(len(state.weights), state.kind)
        wanted = max(_FEWEST, int((_PER_PARAMETER if count <= _MANY else 1.0) * count))
        if d <= FEW:
            wanted = max(DENSE, wanted // 2)
        if self.problem.n * float(self.view.added.mean()) > _NOISY:
            wanted = max(wanted, _MOST // count**2)
        index: npt.NDArray[np.intp] = np.arange(size)
        if wanted < size and not everything:
            index = np.sort(np.random.default_rng(size).permutation(size)[:wanted])
        w = np.ascontiguousarray(self.view.operator.rows(index).forward(np.eye(d)).T)
        z = self.view.mean[index] * np.exp(-1j * (w @ self.problem.center))
        # (what was added is the same in both parts)
        return Whitened(w * self.problem.scale, z, self.problem.n, state, 0.5 * self.view.added[index])

    def certify(self, state: State, *, mend: bool = True) -> Certified:
        """Polish and examine a fit; if it fails, mend it where the tests point."""
        state = State(state.means, _positive(state.weights), np.maximum(state.covariances, 1e-12))
        problem = self.whitened(state)
        problem.settle(2 if state.kind == "shared" else 3)
        best = Certified(problem.state, examine(problem, self.problem.box, self.rng))
        if best.passed or not mend or self._parameters(len(state.weights), state.kind) > _MANY:
            return best
        mended = self._mended(problem)
        return mended if mended.passed or mended.examination.residual < best.examination.residual else best

    def _mended(self, problem: Whitened) -> Certified:
        k = len(problem.state.weights)
        work = repair.copy(problem)
        explained = repair.grow(work, self.problem.box, self.rng, k // 2 + 3)
        order = np.argsort(-work.state.weights)
        order = order[: max(k, int((work.state.weights * problem.n >= _LEAST_STRAY).sum()))]
        full = State(work.state.means[order], work.state.weights[order], _ordered(work.state.covariances, order))
        repair.shrink(work, k)
        out = Certified(work.state, examine(work, self.problem.box, self.rng))
        rows = full.weights[k:] * problem.n
        if out.passed or not explained or not len(rows) or rows.sum() > _STRAYS:
            return out
        work.replace(full)
        work.settle(1)
        whole = examine(work, self.problem.box, self.rng, core=k)
        if not whole.passed:
            return out
        places = zip(work.state.means[k:], work.state.weights[k:] * problem.n, strict=True)
        s = work.state.covariances
        kept = State(work.state.means[:k], _positive(work.state.weights[:k]), s if len(s) == 1 else s[:k])
        return Certified(kept, whole, tuple((x, float(n)) for x, n in places))

    def from_scratch(self, k: int) -> Certified | None:
        """Coarse to fine, whatever the search has found; None if so many components explain nothing."""
        d = self.problem.dim
        problem = self.whitened(State(np.zeros((1, d)), np.ones(1), np.ones(1)), everything=self.problem.size <= 3000)
        if not repair.coarse_to_fine(problem, k, self.problem.box, self.rng) or len(problem.state.weights) < k:
            return None
        return Certified(problem.state, examine(problem, self.problem.box, self.rng))

    def whole_components(self, state: State) -> npt.NDArray[np.bool_]:
        """Which components pass the split test as they are: on data of another shape none does."""
        problem = self.whitened(State(state.means, _positive(state.weights), np.maximum(state.covariances, 1e-12)))
        return np.asarray(split_test(Tangent(problem))[0] < SPLIT)


def _positive(weights: Array) -> Array:
    a = np.maximum(weights, 1e-9)
    return np.asarray(a / a.sum())


def _ordered(covariances: Array, order: npt.NDArray[np.intp]) -> Array:
    return covariances if len(covariances) == 1 else covariances[order]  # (shared ones have no order)
