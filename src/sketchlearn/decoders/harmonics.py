"""What the harmonics of one-bit features have added to a sketch, once a model of the rows is known.

The average of a one-bit feature is the characteristic function at w plus, for h = -3, 5, -7, ..., its value at h w
times ``exp(i (h - 1) u) / h`` up to a sign, u the dither.  Without a model that is noise that no number of rows takes
away, and the decoders weigh it as such.  A first model says most of it: taken off, it leaves a sketch from which the
next model is as good as one from full features, or nearly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sketchlearn.arrays import Array, Complex
from sketchlearn.decoders.budget import FEW_STEPS, GAIN, RESTARTS
from sketchlearn.decoders.families import SPHERICAL
from sketchlearn.decoders.metric import View
from sketchlearn.decoders.noise import Averages
from sketchlearn.decoders.problem import Problem, location_and_scale
from sketchlearn.decoders.registry import DECODERS, Entry
from sketchlearn.decoders.solution import Solution
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.refine import refine
from sketchlearn.features.phases import PhaseMap
from sketchlearn.features.reading import HARMONICS
from sketchlearn.models.mixture import Mixture
from sketchlearn.sketches.value import Sketch

_GAIN = 0.8  # of what is left of the harmonics, by which a round is worth another


class Cleaned:
    """A sketch without the harmonics that a model of its rows predicts, as decoders read it; all else is as it came."""

    def __init__(self, sketch: Sketch, mean: Complex, variances: Array) -> None:
        self._sketch, self.mean, self.variances = sketch, mean, variances

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sketch, name)


def characteristic_values(features: PhaseMap, mixture: Mixture, spread: Array) -> tuple[Complex, Complex, Array]:
    """Of a mixture whose means are known up to `spread` (k,): its averages, their harmonics, and variances of those."""
    operator = features.operator(dtype=np.float64)
    center = np.zeros(features.dim) if features.center is None else np.asarray(features.center, np.float64)
    phases = operator.forward(mixture.means - center)
    q = operator.quadratic(mixture.covariances)
    unsure = np.outer(spread**2, operator.squared_norms)
    turn = np.exp(1j * operator.forward(center[None])[0])
    dither = math.pi * np.asarray(features.dither, np.float64)
    plain = mixture.weights @ np.exp(1j * phases - 0.5 * q)
    added, left = np.zeros(features.size, complex), np.zeros(features.size)
    for h, share in HARMONICS:
        expected = np.exp(1j * h * phases - 0.5 * h * h * (q + unsure))
        added += share * np.exp(1j * (h - 1) * dither) * (mixture.weights @ expected)
        left += share**2 * (mixture.weights**2 @ (np.exp(-h * h * q) * -np.expm1(-h * h * unsure)))
    return plain * turn, added * turn, left


def uncertainty(features: PhaseMap, mixture: Mixture, variances: Array) -> Array:
    """Standard error of a coordinate of each mean, roughly: from the noise of the averages alone, (k,)."""
    operator = features.operator(dtype=np.float64)
    damping = np.exp(-operator.quadratic(mixture.covariances))
    slope = operator.squared_norms / (features.dim * np.maximum(variances, 1e-300))
    information = 2.0 * np.maximum(mixture.weights, 1e-6) ** 2 * (damping @ slope)
    return np.asarray(1.0 / np.sqrt(np.maximum(information, 1e-300)))


def cleaned(sketch: Sketch, before: Averages, mixture: Mixture) -> tuple[Averages, float]:
    """The sketch without the harmonics that a mixture predicts, and which share of their variance is left.

    The mixture was decoded from what was cleaned `before`.
    """
    features: PhaseMap = sketch.features  # type: ignore[assignment]  # (only such maps have a dither)
    told = features.distortion_variances(sketch.sums, float(sketch.weight))
    rest = sketch.variances - told
    spread = uncertainty(features, mixture, before.variances)
    plain, added, left = characteristic_values(features, mixture, spread)
    mean, weights = sketch.mean - added, 1.0 / (rest + told)
    before_it, after = (float(weights @ np.maximum(np.abs(z - plain) ** 2 - rest, 0.0)) for z in (sketch.mean, mean))
    share = min(max(after / max(before_it, 1e-300), 1e-3), 1.0)  # (a model is never taken for perfect)
    return Cleaned(sketch, mean, rest + np.minimum(share * told + left, told)), share


def _polished(sketch: Sketch, seen: Averages, mixture: Mixture) -> tuple[Averages, float, Mixture]:
    """A sketch cleaned by a mixture that was refined on what it leaves, as often as that helps; the share left."""
    after, share = cleaned(sketch, seen, mixture)
    if mixture.covariances.ndim > 1:
        return after, share, mixture
    at = location_and_scale(View.of(sketch))
    for _ in range(FEW_STEPS):
        problem = Problem.from_view(View.of(after), at=at)
        s = np.maximum(mixture.covariances / problem.scale**2, 1e-6)
        start = State(SPHERICAL, mixture.weights, problem.normalised(mixture.means), s)
        state = refine(problem, start, FEW_STEPS, largest=10.0 * float(s.max()))
        refined = problem.mixture(state.mixture())
        again, left = cleaned(sketch, after, refined)
        if left > GAIN * share:
            break
        after, share, mixture = again, left, refined
    return after, share, mixture


def decode_cleaned(entry: Entry, sketch: Sketch, k: int, **options: Any) -> Any:
    """Decode without the harmonics that a first, rough model predicts, and again while the next predicts more of them.

    If the decoder can be rough, models that only serve to clean the sketch are.  If it also takes a start, the next
    model starts from the last one.
    """
    decoder: Any = entry.decoder
    rough = {"rough": True} if entry.rough else {}
    clean: Averages = sketch
    seen: Averages = sketch
    least, stalled, tried_messages = 1.0, 0, not rough
    now, found = decoder(sketch, k, **options, **rough), None
    for _ in range(RESTARTS):
        model = getattr(now, "mixture", None)
        if not isinstance(now, Solution) or not isinstance(model, Mixture):
            break
        after, share, mixture = _polished(sketch, seen, model)
        tried_messages = tried_messages or found is not None
        if share < _GAIN * least:
            begin = entry.start and entry.rough and mixture.n_components == k
            start = {"start": mixture} if begin else {}
            clean, least, stalled = after, share, 0
            now = found = decoder(clean, k, **(options | start))
        elif not tried_messages:  # a search that goes wrong in so much noise; message passing goes other ways
            now, tried_messages = DECODERS["kmeans"]["cl-amp"](sketch, k, rng=options["rng"]), True
            continue
        elif found is None:
            now = found = decoder(clean, k, **options) if rough else now
        else:
            stalled += 1
            if found.reliable or stalled > 1:
                break
            now = decoder(clean, k, **options, **rough)
        seen = clean
    return now if found is None else found
