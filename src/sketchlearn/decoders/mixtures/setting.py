"""One decoding problem of a mixture: the parts of the sketch that its steps look at, and the family asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders import noise
from sketchlearn.decoders.families import Family
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.refine import refine


@dataclass(eq=False)
class Setting:
    """The problem in its parts, the shape asked for, and a count of rounds."""

    base: Problem  # as normalised
    searching: Problem  # the frequencies of all scales, for the search
    whole: Problem  # with the equation "weights sum to 1"
    strength: float  # of one pseudo-row beside it
    exploring: Problem  # the part of the whole that moves are tried on
    exploring_strength: float
    smallest: float  # variance of a component
    largest: float
    family: Family
    k: int
    rng: np.random.Generator
    rounds: int = 0

    @classmethod
    def of(cls, base: Problem, family: Family, k: int, rng: np.random.Generator, largest: float = 4.0) -> Setting:
        """The parts of a problem."""
        raw = noise.first_weights(base.power, base.n, base.added)
        broad = np.flatnonzero(base.broad)
        searchable = len(broad) >= min(base.size, k * (base.dim + 1))
        whole, strength = _with_total(base, raw)
        exploring, exploring_strength = whole, strength
        enough = max(2000, int(2.5 * family.parameters(k, base.dim)))
        if base.size > 1.5 * enough:  # moves are tried on a part of a large sketch
            part = base.operator.sample(enough, rng)
            exploring, exploring_strength = _with_total(base.subset(part), raw[part])
        return cls(
            base=base,
            searching=base.subset(broad) if searchable and len(broad) < base.size else base,
            whole=whole,
            strength=strength,
            exploring=exploring,
            exploring_strength=exploring_strength,
            smallest=1e-2 / base.effective_radius(k) ** 2,
            largest=largest,
            family=family,
            k=k,
            rng=rng,
        )

    @property
    def limits(self) -> dict[str, Any]:
        """Variances of components, at least and at most."""
        return {"smallest": self.smallest, "largest": self.largest}

    def improve(self, state: State, steps: int) -> State:
        """Refine on the exploring part of the sketch."""
        return refine(self.exploring, state.revived(), steps, strength=self.exploring_strength, **self.limits)

    def explained(self, state: State) -> bool:
        """Is the misfit on the exploring part about what noise leaves?"""
        return state.value < noise.SLACK * self.exploring.floor(state, self.k)[0] or self.exploring.explains(
            state, self.k
        )

    def reweighted(self, state: State) -> tuple[Problem, float]:
        """The whole problem with weights from the noise that the model leaves, and the strength of one pseudo-row."""
        raw = noise.renewed_weights(self.whole, self.whole.left(state), noise.RENEWED_LEAST)
        raw[-1] = noise.weight_of_total(self.base, noise.RENEWED_LEAST)
        return self.whole.reweighted(raw), 1.0 / (2.0 * self.base.n * float(raw.sum()))


def _with_total(problem: Problem, raw: Array) -> tuple[Problem, float]:
    """The problem with the equation "weights sum to 1", and the strength of one pseudo-row."""
    weight = noise.weight_of_total(problem, noise.LEAST_VARIANCE)
    return problem.with_total(raw, weight), 1.0 / (2.0 * problem.n * (float(raw.sum()) + weight))
