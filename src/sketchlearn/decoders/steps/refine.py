"""Descent on all parameters of a mixture, for every family.

L-BFGS in the coordinates of the family's chart (:mod:`sketchlearn.decoders.families.charts`), scaled by the diagonal of
the Gauss-Newton matrix; the chart is laid anew every so many iterations.  Round components of one width, the model of
the greedy search, have a compiled objective of their own (:func:`refine_shared`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders.families.charts import Frame
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.lbfgs import lbfgs, wolfe

_CHUNK = 150  # iterations in one chart
_UNIT = 1e-3  # of the energy of the sketch: the unit of the objective


class Objective:
    """Misfit and penalty of a mixture in the coordinates of a chart."""

    def __init__(
        self, problem: Problem, state: State, smallest: float, largest: float, strength: float, boxed: bool
    ) -> None:
        self.problem, self.family, self.strength = problem, state.family, strength
        self.k, self.d = state.means.shape
        frame = Frame(
            problem.operator, problem.u, state.means, state.weights, state.shapes, smallest, largest, strength
        )
        self.chart = self.family.chart(frame)
        self.unit_f = max(_UNIT * problem.energy, 1e-12)
        shapes = self.chart.shapes(np.zeros(self.chart.lower.shape))[0]
        e2 = problem.u * np.exp(2.0 * self.family.damping(shapes, problem.operator)).astype(np.float32)
        e2 = np.broadcast_to(e2, (self.k, problem.size))
        h_a = e2.sum(1).astype(np.float64)
        h_t, h_p = self.chart.curvatures(e2)
        self.unit_a = 1.0 / np.sqrt(np.maximum(h_a, 1e-3 * h_a.max()))
        self.unit_t, self.unit_p = 1.0 / np.sqrt(h_t), 1.0 / np.sqrt(h_p)
        low, high = (np.full(state.means.shape, side) for side in (-np.inf, np.inf))
        if boxed:
            low, high = (np.broadcast_to(side, state.means.shape) - state.means for side in problem.box)
        self.lower = self._packed(low / self.unit_t, np.zeros(self.k), self.chart.lower / self.unit_p)
        self.upper = self._packed(high / self.unit_t, np.full(self.k, np.inf), self.chart.upper / self.unit_p)
        start = state.weights / self.unit_a
        self.start = self._packed(np.zeros(state.means.shape), start, np.zeros(self.chart.lower.shape))

    @staticmethod
    def _packed(means: Array, weights: Array, shapes: Array) -> Array:
        return np.concatenate([means.ravel(), weights, shapes.ravel()])

    def parts(self, v: Array) -> tuple[Array, Array, Array]:
        """Coordinates of means and shapes, and weights."""
        k, d = self.k, self.d
        t = v[: k * d].reshape(k, d) * self.unit_t
        p = v[k * d + k :].reshape(self.unit_p.shape) * self.unit_p
        return t, v[k * d : k * d + k] * self.unit_a, p

    def state(self, v: Array) -> State:
        """The mixture at some coordinates."""
        t, weights, p = self.parts(v)
        return State(self.family, weights, self.chart.means(t), self.chart.shapes(p)[0])

    def __call__(self, v: Array) -> tuple[float, Array]:
        """Value and gradient."""
        t, weights, p = self.parts(v)
        shapes, kept = self.chart.shapes(p)
        value, g_a, g_c, g_s = self.problem.slopes(self.family, weights, self.chart.means(t), shapes)
        if self.strength > 0:
            try:
                penalty, g_penalty = self.chart.penalty(shapes, kept)
            except np.linalg.LinAlgError:  # a trial step to where a covariance is singular, to rounding
                return 1e12, np.zeros(len(v))
            value += self.strength * penalty
            g_s = g_s + self.strength * g_penalty
        gradient = self._packed(
            self.chart.pull_means(g_c) * self.unit_t,
            g_a * self.unit_a,
            self.chart.pull(g_s, shapes, kept) * self.unit_p,
        )
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return 1e12, np.zeros(len(v))
        return value / self.unit_f, gradient / self.unit_f


def refine(
    problem: Problem,
    start: State,
    steps: int,
    *,
    smallest: float = 1e-6,
    largest: float = 4.0,
    strength: float = 0.0,
    tolerance: float = 1e-6,
    boxed: bool = False,
    saddles: bool = False,
) -> State:
    """Improve a mixture; variances stay between `smallest` and `largest`, means in the box if it is `boxed`.

    With `saddles` the start may be a saddle point: a slower line search leaves it.
    """
    descend = wolfe if saddles else lbfgs
    state, last = start, np.inf
    while steps > 0:
        objective = Objective(problem, state, smallest, largest, strength, boxed)
        before = objective(objective.start)[0]
        v, after, done = descend(objective, objective.start, objective.lower, objective.upper, min(_CHUNK, steps))
        if not after <= before + 1e-9 * abs(before):  # a failed line search: keep what was there
            return replace(state, value=problem.misfit(state))
        state = objective.state(v)
        value = problem.misfit(state)
        state = replace(state, value=value)
        steps -= max(done, 10)
        if last - value < tolerance * value + 1e-12 or (done < _CHUNK and last - value < 1e-3 * value):
            break
        last = value
    return state


def refine_shared(
    problem: Problem, start: State, steps: int, *, free: bool, largest: float, lightest: float = 0.1
) -> State:
    """Descent on means, weights and, if `free`, the width of components that share it.

    Means stay in the box.  Components lighter than `lightest` times the average move as if they weighed that much.
    """
    (k, d), variance = start.means.shape, float(start.shapes[0])
    r2 = problem.operator.squared_norms
    e2 = problem.u * np.exp(-r2 * np.float32(variance))
    s0, s1 = float(e2.sum()), float((e2 * r2).sum()) / d
    s2 = float((problem.u * r2**2) @ problem.power.astype(np.float32)) / 4.0
    a = np.maximum(start.weights, lightest * max(float(start.weights.mean()), 1e-6))
    unit_a, unit_c = 1.0 / np.sqrt(s0), (1.0 / (a * np.sqrt(s1)))[:, None]
    unit_s = 1.0 / np.sqrt(max(s2, 1e-12))
    # tolerances are relative to this unit: it must not exceed what is left to gain
    unit_f = min(_UNIT * problem.energy, max(problem.misfit(start), 1e-300))
    gradient = np.empty(k * d + k + free)
    slopes = gradient[: k * d].reshape(k, d)

    def unpack(v: Array) -> tuple[Array, Array, float]:
        s = float(v[-1] * unit_s) if free else variance
        return v[: k * d].reshape(k, d) * unit_c, v[k * d : k * d + k] * unit_a, s

    def objective(v: Array) -> tuple[float, Array]:
        c, w, s = unpack(v)
        value, spread, along, pull = problem.shared_width(c, s, w)
        np.multiply(pull, (-2.0 / unit_f) * w[:, None] * unit_c, out=slopes)
        np.multiply(along, -2.0 / unit_f * unit_a, out=gradient[k * d : k * d + k])
        if free:
            gradient[-1] = spread * unit_s / unit_f
        return value / unit_f, gradient

    low, high = (np.broadcast_to(side, (k, d)) / unit_c for side in problem.box)
    lower = np.concatenate([low.ravel(), np.zeros(k + free)])
    upper = np.concatenate([high.ravel(), np.full(k, np.inf), [largest / unit_s] * free])
    v0 = np.concatenate([(start.means / unit_c).ravel(), start.weights / unit_a, [variance / unit_s] * free])
    v, value, _ = lbfgs(objective, np.clip(v0, lower, upper), lower, upper, steps, tolerance=1e-6)
    c, w, s = unpack(v)
    return State(start.family, w, c, np.array([s]), value * unit_f)
