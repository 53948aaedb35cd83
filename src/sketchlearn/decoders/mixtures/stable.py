"""Mixtures of elliptic stable laws from a sketch.

Heavy tails have no moments, but their characteristic functions are as simple as Gaussian ones, which is all that a
sketch needs.  Components are searched with a shared Gaussian envelope, which is right enough to find the places;
then stability, location and scatter of every component are fitted together, with the moves of all mixtures
(:mod:`sketchlearn.decoders.mixtures.moves`).  Keriven (2017), section 5.6, has the model and single greedy runs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketchlearn.decoders import noise, verdicts
from sketchlearn.decoders.drive import Run, decoder
from sketchlearn.decoders.evidence import determined
from sketchlearn.decoders.families import Stable
from sketchlearn.decoders.metric import View, unwhiten, whitening_metric
from sketchlearn.decoders.mixtures.moves import ROUNDS, STARTS, explore
from sketchlearn.decoders.mixtures.setting import Setting
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import StableSolution, said
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.refine import refine
from sketchlearn.features.characteristic import characteristic
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import counted


@decoder
def decode_stable(sketch: Sketch, k: int, scatter_type: str = "full", *, rng: np.random.Generator) -> StableSolution:
    """Decode a mixture of elliptic stable laws, with ``scatter_type="full"`` or ``"diag"``.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.designs.stable import design_stable
    >>> X = np.random.default_rng(0).standard_cauchy(size=(20_000, 1))
    >>> s = sl.sketch(X, design_stable(X[:1000], 1, seed=0))
    >>> sl.decode(s, 1, task="stable", random_state=0).alphas.round(1)
    array([1.])
    """
    family, problem = Stable(scatter_type), robust_problem(sketch, scatter_type)
    run, setting = Run(), Setting.of(problem, family, k, rng, largest=100.0)
    search = (f"search for {k} stable component{'s' * (k > 1)}", lambda: explore(setting, STARTS, ROUNDS))
    best = run.best_of([search], lambda found: problem.floor(found)[0], noise.SLACK)
    for _ in range(2):  # weights of the frequencies from the noise that the model leaves
        problem = problem.reweighted(noise.renewed_weights(problem, problem.left(best), noise.RENEWED_LEAST))
        best = refine(problem, best, 400, boxed=True, saddles=True, **setting.limits)
    floor = problem.floor(best)[0]
    unreliable = _undetermined(problem, best, setting)
    what = counted(k, "elliptic stable distribution")
    judged = verdicts.of_mixture(best.value / floor, verdicts.FAMILY, what, unreliable)
    judged = determined(judged, family.parameters(k, problem.dim) - 1, 2 * problem.size, best.value / floor)
    facts = family.describe(best.shapes, k, problem.dim)
    locations, scatters = unwhiten(
        best.means * problem.scale + problem.center,
        facts["scatters"] * problem.scale**2,
        family.scatter_type,
        problem.metric,
    )
    return StableSolution(
        **said("stable", "search", best.value, floor, judged, setting.rounds, run.trace),
        weights=best.simplex,
        alphas=facts["alphas"],
        locations=locations,
        scatters=scatters,
        unreliable=unreliable,
    )


def robust_problem(sketch: Sketch, kind: str) -> Problem:
    """The sketch in units of the recipe: neither the range nor the low frequencies say where heavy tails belong."""
    features = characteristic(sketch.features)
    metric = whitening_metric(features, kind)
    near = np.zeros(features.dim) if features.center is None else features.center
    view = View.of(sketch, metric, near=near)
    scale = features.designed_width
    if scale is None or (metric is None and features.whitening is not None):
        scale = float(np.sqrt(features.dim / np.mean(view.operator.squared_norms)))
    problem = Problem.from_view(view, metric, at=(view.place, scale))
    # components lie within fifty spreads of the centre
    return replace(problem, box=(np.maximum(problem.box[0], -50.0), np.minimum(problem.box[1], 50.0)))


def _undetermined(problem: Problem, state: State, setting: Setting) -> tuple[int, ...]:
    """Components with next to no weight or at the edge of what the sketch resolves."""
    low, high = state.family.bounds(problem.dim, **setting.limits)
    edge = ((state.shapes[:, 1:] <= low[1:] + 1e-9) | (state.shapes[:, 1:] >= high[1:] - 1e-9)).any(1)
    edge |= state.shapes[:, 0] <= low[0] + 1e-6
    light = state.simplex * problem.n < min(verdicts.FEWEST_ROWS, 0.5 * problem.n / state.k)
    return tuple(int(l) for l in np.flatnonzero(edge | light))
