"""Every number of clusters from one sketch, and a recommendation.

How many clusters there are is a question about rows, so the answer has to know how many rows there are. A mixture
stands for them: the smallest one of Gaussians of any shape that explains the sketch, or else one that describes it in
detail (:mod:`sketchlearn.decoders.description`). Rows drawn from it are divided by k-means. The criterion is the
integrated completed likelihood (Biernacki, Celeux and Govaert 2000) of that division: minus twice the log-likelihood of
the rows and their labels, plus the logarithm of the number of rows for each parameter. Clusters are round with one
width, round, with a variance for each column, or of any shape, whichever is best, as far as there are enough rows for
so many parameters: a long cluster is then one and not three.

If criteria differ by less than two standard errors, the smallest number is recommended.  A certificate overrules
the criterion only where there are rows enough to know the widths of clusters.  The recommendation and the verdict both
come from the final fit of the recommended number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders.budget import PATIENCE, Budget, running, spending
from sketchlearn.decoders.description import FREQUENCIES, describe
from sketchlearn.decoders.kmeans.partition import DRAWS, k_means, squared_distances
from sketchlearn.decoders.metric import standard_metric
from sketchlearn.decoders.noise import SLACK
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.profile import characteristic as characteristic_function
from sketchlearn.decoders.solution import Code, Solution
from sketchlearn.decoders.steps.far import Low, far_components
from sketchlearn.decoders.steps.greedy import Found, search
from sketchlearn.decoders.sweep import CERTIFIED, Sweep, SweepRow, numbers_of_components, watched
from sketchlearn.decoders.sweep_gmm import sweep_gmm
from sketchlearn.decoders.verdicts import CLUSTERS, FEWEST_ROWS
from sketchlearn.designs.gmm import parameter_count
from sketchlearn.engines.progress import Report, silent
from sketchlearn.features.characteristic import characteristic
from sketchlearn.models.mixture import Mixture
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import counted

_DRAWS = 4000  # rows drawn from the mixture that stands for the data; evidence counts as that of so many rows at most
_FEW_PARAMETERS = 0.25  # of the numbers in a sketch or of the rows, up to which clusters of other shapes are tried
_SHAPES = ("one width", "round", "diagonal", "any")


def sweep_kmeans(sketch: Sketch, ks: Iterable[int], *, rng: np.random.Generator, report: Report = silent) -> Sweep:
    """Decode every k, each warm-started from the last."""
    numbers = numbers_of_components(sketch, ks)
    metric = standard_metric(characteristic(sketch.features))
    problem = Problem.from_sketch(sketch, metric)
    found: list[Found] = []
    for k in watched(numbers, report):
        found.append(_next(problem, k, rng, found[-1] if found else None))
    budget = running()
    with spending(Budget(budget.seconds)) as own:  # whatever the searches have left
        table = _judged(sketch, problem, numbers[: len(found)], found, rng)
    budget.absorb([own])
    return table


def _judged(
    sketch: Sketch, problem: Problem, numbers: list[int], found: list[Found], rng: np.random.Generator
) -> Sweep:
    """The table of what was found, and the number that it supports."""
    models = [problem.mixture(f.state.with_weights(np.maximum(f.state.weights, 1e-12)).mixture()) for f in found]
    explained = next((model for f, model in zip(found, models, strict=True) if f.ratio <= SLACK), None)
    gaussians = _gaussians(sketch, numbers[-1], rng)
    draws, weights, few = _rows_like(sketch, problem, gaussians or _stand_in(sketch, explained), found[-1].state.means)
    n, rows, evidence, centers = min(sketch.effective_count, float(_DRAWS)), [], [], None
    for k, f in zip(numbers, found, strict=True):
        centers, cost = _cells(draws, weights, f.state.means, centers)
        code = Code.UNCERTIFIED if f.ratio <= CLUSTERS else Code.MISFIT
        evidence.append(completed_likelihood(few, centers, n))
        rows.append(SweepRow(k, f.value, f.ratio, cost * problem.scale**2, evidence[-1].criterion, code))
    allowed = [i for i, row in enumerate(rows) if row.k * FEWEST_ROWS <= sketch.effective_count] or [0]
    best = rows[_fewest([evidence[i] for i in allowed], n)]
    return _concluded(sketch, rows, best, tuple(models), gaussians, rng)


def _rows_like(sketch: Sketch, problem: Problem, mixture: Mixture, centers: Array) -> tuple[Array, Array, Array]:
    """Rows that stand for those of the sketch (normalised) with weights, and some of them that are all alike.

    Far rows that low frequencies show are among them, by their weights.
    """
    own = np.random.default_rng(0)
    low = None if problem.drowned else Low.of(sketch, problem)
    inner = problem.inverse(mixture)
    far = far_components(low, inner, centers) if low is not None and low.tells(inner) else None
    if far is None:
        draws = problem.normalised(mixture.sample(DRAWS, 0)[0])
        draws = draws[own.permutation(len(draws))]
        return draws, np.full(len(draws), 1.0 / len(draws)), draws[:_DRAWS]
    x, w, _ = far.mixture.weighted_points(DRAWS, own)
    return x, w / w.sum(), x[own.choice(len(x), _DRAWS, p=w / w.sum())]


def _stand_in(sketch: Sketch, explained: Mixture | None) -> Mixture:
    """A mixture that stands for the rows: the description, unless round clusters come much nearer to the sketch.

    Narrow clusters that are far apart are hard to describe without knowing how many they are.
    """
    detailed = describe(sketch)
    if explained is None:
        return detailed
    features = characteristic(sketch.features)
    few = np.arange(min(features.size, FREQUENCIES))
    operator = features.operator(dtype=np.float64).rows(few)

    def misfit(mixture: Mixture) -> float:
        return float(np.mean(np.abs(sketch.mean[few] - characteristic_function(mixture, operator)) ** 2))

    return explained if misfit(explained) < 0.5 * misfit(detailed) else detailed


class Evidence(NamedTuple):
    """How well a number of clusters suits the rows."""

    criterion: float
    """Smaller is better."""
    likelihoods: Array
    """Logarithms for each row with its label."""


def completed_likelihood(draws: Array, centers: Array, n: float) -> Evidence:
    """The evidence of n rows like these draws for clusters around some centres, of the shape that suits them best."""
    count, d = draws.shape
    labels = ((draws[:, None, :] - centers[None]) ** 2).sum(2).argmin(1)
    rows = [draws[labels == j] for j in np.unique(labels)]
    least = 1e-4 * float(draws.var(0).mean()) + 1e-300  # thinner clusters are a matter of rounding
    whole = max(sum(float(((part - part.mean(0)) ** 2).sum()) for part in rows) / (count * d), least)
    k, found = len(rows), list[Evidence]()
    for shape, each in zip(_SHAPES, (0, 1, d, d * (d + 1) // 2), strict=True):
        parameters = k * (d + 1 + each) - (0 if each else -1) - 1
        if found and parameters > _FEW_PARAMETERS * min(n, count):
            break
        logs = np.concatenate([np.log(len(part) / count) + _normal(part, shape, whole, least) for part in rows])
        found.append(Evidence(float(parameters * np.log(n) - 2.0 * n * logs.mean()), logs))
    best = min(found, key=lambda one: one.criterion)
    order = np.argsort(np.concatenate([np.flatnonzero(labels == j) for j in np.unique(labels)]))
    return Evidence(best.criterion, best.likelihoods[order])


def _normal(rows: Array, shape: str, whole: float, least: float) -> Array:
    """Log-densities of the rows of a cluster under the normal law of a shape that suits them best."""
    apart, d = rows - rows.mean(0), rows.shape[1]
    if shape == "any":
        variances, axes = np.linalg.eigh(apart.T @ apart / len(rows))
        apart = apart @ axes
    elif shape == "diagonal":
        variances = (apart**2).mean(0)
    else:
        variances = np.full(d, whole if shape == "one width" else (apart**2).mean())
    variances = np.maximum(variances, least)
    logs: Array = -0.5 * (apart**2 / variances + np.log(2.0 * np.pi * variances)).sum(1)
    return logs


def _fewest(evidence: list[Evidence], n: float) -> int:
    """The place of the first number that is not worse than the best by more than two standard errors."""
    best = min(evidence, key=lambda one: one.criterion)
    for i, one in enumerate(evidence):
        error = 2.0 * np.sqrt(n) * float((one.likelihoods - best.likelihoods).std())
        if one.criterion - best.criterion <= 2.0 * error:
            return i
    raise AssertionError("the best one is not worse than itself")


def _cells(draws: Array, weights: Array, means: Array, last: Array | None) -> tuple[Array, float]:
    """Centres by k-means on the draws, and their mean cost.

    From the means that were found, from k-means++, and from the last centres and the draws that are farthest from
    them: so the cost is never above that of fewer centres.
    """
    k = len(means)
    own = np.random.default_rng(k)
    found = [k_means(draws, weights, start, runs, own)[0] for start, runs in ((means, 1), (k, 3))]
    if last is not None:
        more = last
        for _ in range(k - len(last)):
            apart = weights * squared_distances(draws, more).min(1)
            more = np.concatenate([more, draws[[int(apart.argmax())]]])
        found.append(k_means(draws, weights, more, 1, own)[0])
    costs = [float(weights @ squared_distances(draws, centers).min(1)) for centers in found]
    best = int(np.argmin(costs))
    return found[best], costs[best]


def _next(problem: Problem, k: int, rng: np.random.Generator, last: Found | None) -> Found:
    """k components from the last solution, and from scratch where that doesn't explain the data."""
    found = search(problem, k, rng, start=None if last is None else last.state.means)
    if not found.explained and (last is None or found.value > 0.3 * last.value):
        fresh = search(problem, k, rng)
        found = fresh if fresh.value < found.value else found
    return found


def _concluded(
    sketch: Sketch,
    rows: list[SweepRow],
    best: SweepRow,
    models: tuple[Mixture, ...],
    gaussians: Mixture | None,
    rng: np.random.Generator,
) -> Sweep:
    """The recommendation: by the criterion, or a number that a final fit certifies."""
    n = sketch.effective_count
    final = _final(sketch, best.k, rng)
    because = "the smallest number that the criterion supports"
    if final.code is not Code.RELIABLE:
        # (from a hundred rows in each cluster on its variance is known to 14 %)
        explained = [row for row in rows if row.ratio <= CLUSTERS and row.k != best.k and row.k * 100 <= n]
        for row in explained[:PATIENCE]:
            other = _final(sketch, row.k, rng)
            if other.code is Code.RELIABLE:
                best, final, because = row, other, CERTIFIED
                break
    if final.code is not Code.RELIABLE and gaussians is not None:
        count = counted(gaussians.n_components, "component")
        because += f"; round clusters don't explain the sketch, but a Gaussian mixture with {count} does"
    table = Sweep(tuple(rows), best.k, because, models, because=because)
    return table.concluded(final)


def _final(sketch: Sketch, k: int, rng: np.random.Generator) -> Solution:
    """What :func:`sketchlearn.decode` gives for this number."""
    from sketchlearn.decoders import decode

    solution: Solution = decode(sketch, k, random_state=rng)
    return solution


def _gaussians(sketch: Sketch, largest: int, rng: np.random.Generator) -> Mixture | None:
    """The smallest mixture of components of any shape that explains the sketch, or None.

    It may have as many parameters as the largest number of round clusters.
    """
    features = characteristic(sketch.features)
    each = parameter_count(1, features.dim, "full")
    most = min(
        largest * (features.dim + 1),
        _FEW_PARAMETERS * 2 * features.size,
        4 * sketch.effective_count / FEWEST_ROWS,
    )
    if most < each:
        return None
    table = sweep_gmm(sketch, range(1, int(most / each) + 1), "full", rng=rng, exhaustive=False)
    models: dict[int, Mixture] = {row.k: model for row, model in zip(table, table.models, strict=True)}
    return models[table.recommended] if table.certified else None
