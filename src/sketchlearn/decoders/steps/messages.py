"""Messages between centres and a sketch: simplified hybrid generalised approximate message passing.

The sketch at frequency w is ``sum_l a_l exp(i w·c_l - |w|^2 t_l / 2)`` plus noise.  Messages are means and variances:
of the projections ``w·c_l / |w|``, given what all other components leave of the sketch there (the output step, a sum
over a grid of phases, :mod:`sketchlearn.kernels.amp`), and of the coordinates of the centres, given all projections.
Weights and widths are tuned by EM between stretches of messages.  See :mod:`sketchlearn.decoders.kmeans.published.amp`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.decoders import noise
from sketchlearn.decoders.families import SPHERICAL
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.weights import losses
from sketchlearn.features.operator import F32
from sketchlearn.kernels import amp, tiers

_SPAN = 4.0  # half width of the grid: wider phases say nothing
_INNER = 10  # iterations between two EM steps; twice as many before the first
_SETTLED = 8  # rounds before weights and single widths are tuned
_PATIENCE = 10  # rounds without a better state
_EM_STEPS = 4  # of weights in a round, and halvings of each


@dataclass
class Messages:
    """Messages and parameters: arrays by component; `scores` are (k, m), None before the first iteration."""

    means: Array
    variances: Array
    weights: Array
    widths: Array
    pseudo: Array | None = None
    scores: F32 | None = None
    information: Array | None = None
    damping: float = 1.0
    settle: int = _SETTLED
    patience: int = _PATIENCE
    round: int = 0


class Passing:
    """Message passing on one problem; buffers are used again."""

    def __init__(
        self, problem: Problem, k: int, rng: np.random.Generator, damping: float = 0.4, *, flat: bool = False
    ) -> None:
        self.problem, self.k, self.rng, self.damping = problem, k, rng, damping
        # of the prior: the data have variance 1; what is unknown stays finite under a flat one, too
        self.precision = 1e-6 if flat else 1.0
        m = problem.size
        self.iterations = 0
        self.radii = problem.radii.astype(np.float32)
        self.squares = self.radii**2
        self.inverse = (1.0 / np.maximum(self.radii, np.float32(1e-12))).astype(np.float32)
        self.noise = 0.5 * (noise.sampling_variance(problem.power) / problem.n + problem.added) + 1e-9
        self.grid = np.linspace(-_SPAN, _SPAN, 32).astype(np.float32)
        self.cosine, self.sine, self.shift, self.left = (np.zeros((k, m), np.float32) for _ in range(4))
        self.phases, self.spans = np.zeros((k, m), np.float32), np.zeros((k, m), np.float32)
        self.model, self.sums = np.zeros((2, m), np.float32), np.zeros((5, m), np.float32)
        self.nothing, self.zero = np.zeros((1, m), np.float32), np.zeros(k, np.float32)
        self.narrow = 1.0 / problem.effective_radius(k) ** 2
        self._loops: Any = tiers.loops("atoms")

    def somewhere(self) -> Messages:
        """Random centres, of which nothing is known."""
        k = self.k
        means = self.rng.standard_normal((k, self.problem.dim))
        return Messages(means, np.ones(k), np.full(k, 1.0 / k), np.full(k, self.narrow), damping=self.damping)

    def known(self, weights: Array, means: Array, width: float) -> Messages:
        """Components that are known to about their width, one for all."""
        a, t = np.maximum(weights, 1e-6), np.full(self.k, max(width, 1e-8))
        return Messages(means.copy(), np.maximum(t, 1e-3), a / a.sum(), t, damping=self.damping)

    def released(self, fit: State, failures: int) -> Messages:
        """A fit whose least important components are unknown again, and all others known to about their width."""
        k = self.k
        weights = np.maximum(fit.weights, 1e-9)
        weights = weights / weights.sum()
        loss = losses(self.problem.gram(fit)[0], weights)
        # a cluster that is missed leaves about as much as an ordinary one explains
        surplus = fit.value - self.problem.floor(fit)[0]
        missed = int(np.clip(surplus / max(float(np.median(loss)), 1e-30), 0, k // 8))
        count = max(1, missed >> failures)
        free = np.argsort(loss)[:count] if failures % 2 == 0 else self.rng.choice(k, count, replace=False)
        widths = np.array(np.broadcast_to(fit.shapes, k))
        means, variances = fit.means.copy(), np.maximum(widths, 1e-6)
        means[free] = self.rng.standard_normal((count, self.problem.dim))
        variances[free], widths[free] = 1.0, np.median(widths)
        weights[free] = np.maximum(weights[free], 0.5 / k)
        weights /= weights.sum()
        settle = _SETTLED * (count > 1)
        return Messages(means, variances, weights, widths, damping=self.damping, settle=settle, patience=_PATIENCE // 2)

    def run(self, state: Messages, rounds: int) -> State:
        """The state with the smallest residual of some more rounds; `state` is that after the last of them."""
        if not state.round:
            self._iterate(state, 2 * _INNER)
        best, least, waited = replace(state), self._misfit(state)[0], 0
        last = least
        for _ in range(rounds):
            settled = state.round >= state.settle
            self._tune(state, settled)
            self._iterate(state, _INNER)
            state.round += 1
            value = self._misfit(state)[0]
            if value > 1.2 * last:
                state.damping = max(0.7 * state.damping, 0.1)
            last = value
            waited += 1
            if value < 0.99 * least:
                waited = 0
            if value < least:
                best, least = replace(state), value
            if settled and waited > state.patience:
                break
        return self.fit(best, least)

    def fit(self, state: Messages, value: float | None = None) -> State:
        """The means and parameters of a state, with its misfit if that is not known yet."""
        value = self._misfit(state)[0] if value is None else value
        means = np.clip(state.means, *self.problem.box)
        return State(SPHERICAL, state.weights, means, np.maximum(state.widths, 1e-8), value)

    def _misfit(self, state: Messages) -> tuple[float, float]:
        """Weighted misfit of the model, and its plain mean square."""
        r = self.problem.residual(State(SPHERICAL, state.weights, state.means, state.widths))
        square = r[0] ** 2 + r[1] ** 2
        return float(self.problem.u @ square), float(square.mean())

    def _iterate(self, state: Messages, count: int) -> None:
        """Some iterations of the messages, with the noise that the residual calls for now."""
        surplus = max(0.5 * self._misfit(state)[1] - float(self.noise.mean()), 0.0)
        nugget = (self.noise + 0.5 * surplus).astype(np.float32)
        amplitude = state.weights.astype(np.float32)[:, None] * self._envelope(state.widths)
        for _ in range(count):
            self._step(state, nugget, amplitude)
        self.iterations += count

    def _envelope(self, widths: Array) -> F32:
        return np.exp(np.float32(-0.5) * self.squares * widths.astype(np.float32)[:, None])

    def _step(self, state: Messages, nugget: F32, amplitude: F32) -> None:
        """One iteration: projections given the sketch, centres given the projections."""
        operator = self.problem.operator
        m, d = operator.shape
        a = state.damping
        state.pseudo = _damped(state.variances, state.pseudo, a)
        q = state.pseudo.astype(np.float32)[:, None]
        self.phases[:] = operator.forward(state.means)
        if state.scores is not None:
            self.phases -= self.radii * state.scores * q
        root = np.sqrt(q)
        np.multiply(self.radii, root, out=self.spans)
        spread = np.exp(np.float32(-0.5) * self.squares * q)
        self._loops.atoms(self.phases, self.nothing, self.zero, self.cosine, self.sine, self.model)
        amp.interference(self.cosine, self.sine, spread, amplitude, self.sums)
        amp.moments(
            self.cosine, self.sine, spread, amplitude, self.sums, self.problem.z, nugget, self.spans, _SPAN,
            self.grid, self.shift, self.left,
        )  # fmt: skip
        learned = np.clip(1.0 - self.left.mean(1, dtype=np.float64), 0.02 * min(d / m, 1.0), 1.0 - 1e-6)
        first = state.scores is None
        information = _damped(learned / state.pseudo, state.information, a)
        state.information = information
        scores: F32 = _damped((self.shift / root).astype(np.float32), state.scores, a)
        state.scores = scores
        variance = (d / m) / information
        moved = state.means + operator.adjoint(scores * self.inverse).astype(np.float64) * variance[:, None]
        shrink = 1.0 / (1.0 + self.precision * variance)
        moved *= shrink[:, None]
        state.means = moved if first else a * moved + (1.0 - a) * state.means
        state.variances = variance * shrink

    def _tune(self, state: Messages, settled: bool) -> None:
        """EM: a few steps down the expected misfit in the widths (one for all at first) and the weights."""
        self._loops.atoms(
            self.phases + self.spans * self.shift,
            np.float32(-0.5) * self.spans**2 * self.left,
            self.zero, self.cosine, self.sine, self.model,
        )  # fmt: skip
        lost = 1.0 - self.cosine**2 - self.sine**2
        largest = 4.0 * self.narrow
        for _ in range(_EM_STEPS):
            value, slope, bend = self._expected(state.weights, state.widths, lost)[:3]
            if settled:
                step = -slope / np.maximum(bend, 1e-3 * bend.max() + 1e-30)
            else:
                step = np.full(self.k, -slope.sum() / max(float(bend.sum()), 1e-30))
            step = np.clip(step, -0.5 * largest, 0.5 * largest)
            for _ in range(_EM_STEPS):
                widths = np.clip(state.widths + step, 0.0, largest)
                if self._expected(state.weights, widths, lost)[0] <= value:
                    state.widths = widths
                    break
                step = 0.3 * step
            if settled:
                self._tune_weights(state, lost)

    def _tune_weights(self, state: Messages, lost: F32) -> None:
        """A step in the logarithms of the weights."""
        value, _, _, slope, bend = self._expected(state.weights, state.widths, lost)
        slope = slope - slope @ state.weights
        step = np.clip(-slope / np.maximum(bend * state.weights, 1e-12), -1.0, 1.0)
        for _ in range(_EM_STEPS):
            weights = state.weights * np.exp(step)
            weights /= weights.sum()
            if self._expected(weights, state.widths, lost)[0] <= value:
                state.weights = np.maximum(weights, 1e-9)
                return
            step = 0.3 * step

    def _expected(self, weights: Array, widths: Array, lost: F32) -> tuple[float, Array, Array, Array, Array]:
        """Expected misfit over the posterior of the phases; slope and curvature in the widths and in the weights."""
        u, z, c, s = self.problem.u, self.problem.z, self.cosine, self.sine
        e = self._envelope(widths)
        b = weights.astype(np.float32)[:, None] * e
        r0, r1 = z[0] - (b * c).sum(0), z[1] - (b * s).sum(0)
        value = float(u @ (r0 * r0 + r1 * r1)) + float((b * b * lost).sum(0) @ u)
        pull = e * (r0 * c + r1 * s - b * lost)
        by_width = weights * (pull @ (u * self.squares))
        return (
            value,
            by_width,
            0.5 * ((b * b) @ (u * self.squares**2)).astype(np.float64),
            -2.0 * (pull @ u).astype(np.float64),
            2.0 * ((e * e) @ u).astype(np.float64),
        )


def propose(problem: Problem, k: int, rng: np.random.Generator) -> Array:
    """Centres of one run from random ones."""
    passing = Passing(problem, k, rng)
    return passing.run(passing.somewhere(), 25).means


def _damped(new: AnyArray, old: AnyArray | None, share: float) -> AnyArray:
    return new if old is None else share * new + (1.0 - share) * old
