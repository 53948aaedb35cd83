"""By how much do centres cost more than the best?  Judges answer: densities that explain the sketch.

No judge is right, but their median is near it.  Judges are fits that were made of the sketch, refitted to a half of
the frequencies: rows are fixed and frequencies are random, so halves of these are the right resampling.  Far components
are searched for again with either half.  The excess of centres under a density is that over
k-means on draws from it, begun at the centres and at components.

What no fit can see is judged by the box of the rows, where the map has no frequencies low enough to see them: how much
rows may cost that lie beyond the lowest one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.decoders import device
from sketchlearn.decoders.kmeans.partition import k_medians, medians_start, nearest_centers
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.steps.far import FarComponents
from sketchlearn.decoders.steps.overcomplete import Fitted
from sketchlearn.kernels import lloyd
from sketchlearn.models.mixture import Mixture, mixture_quantiles

DRAWS, DRAWS_PER_CENTER = 6000, 200  # of a judge: optimism and noise of k-means on them cancel in two sets
SEEDING, STEPS, TOLERANCE = 3000, 40, 1e-4  # draws that centres are seeded from, Lloyd's iterations, last gain
REFITTED = 2  # fits that are refitted to halves
RESOLUTION = 1e-6  # standard deviations of the data: float32 tells no smaller distances apart
SEEN = 0.01  # tail probability from which on the box sets the tail


class Draws(NamedTuple):
    """Points from a mixture, their weights, and the means of the components."""

    points: Array
    weights: Array
    means: Array


@dataclass(frozen=True)
class Opinions:
    """What judges say of some centres: excesses of the cost.

    Attributes
    ----------
    judges : float
        Median under refits to halves of the frequencies.
    tails : float
        What it is more under a density whose columns reach as far as the box, beyond a probability of :data:`SEEN`.
    far : float
        What a row at the worst end of the box costs, beyond what a centre is worth.  Both are 0 where the sketch has
        frequencies low enough to see such rows.
    far_column, far_place : int, float
        The worst end of the box (normalised units).
    """

    judges: float
    tails: float
    far: float
    far_column: int
    far_place: float


def opinions(
    problem: Problem,
    fits: list[Fitted],
    mixture: Mixture,
    far: FarComponents | None,
    centers: Array,
    criterion: str,
    explained: bool,
    sighted: bool,
    rng: np.random.Generator,
) -> Opinions:
    """What all judges say of centres (normalised units).

    Parameters
    ----------
    problem, fits : Problem, list of Fitted
        The sketch and the fits that were made of it.
    mixture : Mixture
        What the centres were computed from.
    far : FarComponents or None
        Far components next to the fits.
    centers, criterion : ndarray (k, d), str
        What is judged, by squared or plain distances.
    explained, sighted : bool
        Whether a model explains the sketch, and whether it has frequencies low enough to see far rows.
    rng : Generator
        For draws.
    """
    court = _Court(centers, criterion, rng)
    halves = [np.sort(half) for half in np.array_split(rng.permutation(problem.size), 2)]
    halves[1] = halves[1 if len(halves[1]) else 0]  # (one feature has no halves)
    beyond = [None, None] if far is None else far.halves(rng)
    judges = [
        _with(fit.refitted(half).mixture(), part)
        for fit in fits[:REFITTED]
        for half, part in zip(halves, beyond, strict=True)
    ]
    one, two = court.drawn(mixture), court.drawn(mixture)
    tails = 0.0
    if not (explained or sighted):
        reaching = [draws._replace(points=_reaching(mixture, problem, draws.points)) for draws in (one, two)]
        tails = court.between(*reaching) - court.between(one, two)
    ends = np.stack(problem.box)
    row = court.at_ends(ends)
    at = np.unravel_index(int(row.argmax()), row.shape)
    f = float(row[at]) / problem.n
    return Opinions(
        judges=float(np.median([court.between(court.drawn(judge), court.drawn(judge)) for judge in judges])),
        tails=tails,
        far=0.0 if sighted else f * f / (f + court.removal(one)) / court.cost(one, centers),
        far_column=int(at[1]),
        far_place=float(ends[at]),
    )


def _with(mixture: Mixture, beyond: Mixture | None) -> Mixture:
    """A judge that also has the far components."""
    if beyond is None:
        return mixture
    share = 1.0 - float(beyond.weights.sum())
    return Mixture(
        np.concatenate([mixture.weights * share, beyond.weights]),
        np.concatenate([mixture.means, beyond.means]),
        np.concatenate([mixture.full_covariances(), beyond.full_covariances()]),
    )


class _Court:
    """Centres, and how they are compared with the best for some draws."""

    def __init__(self, centers: Array, criterion: str, rng: np.random.Generator) -> None:
        self.centers, self.medians, self.rng = centers, criterion == "medians", rng
        self.n = max(DRAWS, DRAWS_PER_CENTER * len(centers))

    def drawn(self, mixture: Mixture) -> Draws:
        """Points from a mixture."""
        x, w, _ = mixture.weighted_points(self.n, self.rng)
        return Draws(x, w, mixture.means)

    def cost(self, draws: Draws, centers: Array) -> float:
        """Mean squared distance to the nearest centre, plain distance for medians; that of rounding at least."""
        x, w = np.ascontiguousarray(draws.points, np.float32), draws.weights
        labels, cost = device.lloyd(x, w, np.array(centers, np.float32), 1, 0.0)
        if self.medians:
            cost = float(w @ np.sqrt(((draws.points - centers[labels]) ** 2).sum(1)))
        return max(cost / float(w.sum()), RESOLUTION if self.medians else RESOLUTION**2)

    def at_ends(self, ends: Array) -> Array:
        """Cost of rows that lie at an end of the box in one column, and on the nearest centre in all others, (2, d)."""
        apart = np.abs(self.centers[None] - ends[:, None]).min(1)
        return apart if self.medians else apart**2

    def best(self, draws: Draws) -> Array:
        """The best centres from ours and from those of the components that help most."""
        x, w = np.ascontiguousarray(draws.points, np.float32), draws.weights
        few, means = self.rng.permutation(len(x))[:SEEDING], np.asarray(draws.means, np.float32)
        starts = [np.array(self.centers, np.float32), lloyd.best_among(x[few], w[few], means, len(self.centers))]
        costs = [device.lloyd(x, w, start, STEPS, TOLERANCE)[1] for start in starts]
        found = starts[int(np.argmin(costs))].astype(np.float64)
        if self.medians:
            return k_medians(draws.points, w, medians_start(draws.points, w, found, self.rng))
        return found

    def between(self, first: Draws, second: Draws) -> float:
        """Excess from two sets of draws: the best for the first is too good there by as much as too bad on the second.

        The mean has neither error.
        """
        best = self.best(first)
        return 0.5 * sum(self.cost(draws, self.centers) / self.cost(draws, best) - 1.0 for draws in (first, second))

    def removal(self, draws: Draws) -> float:
        """What taking away the centre that is missed least adds to the cost."""
        if len(self.centers) == 1:
            return np.inf
        labels, two = nearest_centers(draws.points, self.centers, 2)
        two = np.sqrt(two) if self.medians else two
        added = np.bincount(labels, draws.weights * (two[:, 1] - two[:, 0]), len(self.centers))
        return float(added.min() / draws.weights.sum())


def _reaching(mixture: Mixture, problem: Problem, x: Array) -> Array:
    """Draws whose columns reach as far as the box: beyond the quantiles power laws, of which n rows end there."""
    out, w = x.copy(), mixture.weights
    spread: AnyArray = np.sqrt(np.maximum(np.diagonal(mixture.full_covariances(), axis1=1, axis2=2), 1e-12))
    levels = np.array([0.5, SEEN, 1.0 - SEEN])
    quantiles = mixture_quantiles(np.broadcast_to(w, spread.T.shape), mixture.means.T, spread.T, levels)
    for j, (middle, *starts) in enumerate(quantiles):
        for sign, end, start in zip((-1.0, 1.0), (problem.box[0][j], problem.box[1][j]), starts, strict=True):
            at = np.flatnonzero(sign * (x[:, j] - start) > 0.0)
            place, near, reach = (sign * (value - middle) for value in (x[at, j], start, end))
            if near <= 0.0 or reach <= 1.01 * near:
                out[at, j] = middle + sign * np.minimum(place, reach)
                continue
            beyond = ndtr(-sign * (x[at, j][:, None] - mixture.means[:, j]) / spread[:, j]) @ w
            index = np.log(max(problem.n * SEEN, 2.0)) / np.log(reach / near)
            moved = np.minimum(near * (SEEN / np.maximum(beyond, 1e-300)) ** (1.0 / index), reach)
            out[at, j] = middle + sign * np.maximum(moved, place)
    return out
