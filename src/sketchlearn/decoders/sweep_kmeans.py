"""Every number of clusters from one sketch, and a recommendation.

How many clusters there are is a question about rows, so the answer has to know how many there are.  A Gaussian mixture
that describes the sketch in detail stands for the rows (:mod:`sketchlearn.decoders.description`).  The criterion is
the integrated completed likelihood (Biernacki, Celeux and Govaert 2000): minus twice the log-likelihood of k round
clusters of one width, plus the logarithm of the number of rows for each parameter, plus twice the entropy of the
labels.  The entropy makes the difference between clusters and components: two components that share most of their
rows are one cluster that is not round.

A certificate overrules the criterion only where there are rows enough to know the widths of clusters.  The
recommendation and the verdict both come from the final fit of the recommended number.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.special import logsumexp

from sketchlearn.decoders.description import FREQUENCIES, describe
from sketchlearn.decoders.kmeans.partition import DRAWS
from sketchlearn.decoders.metric import standard_metric
from sketchlearn.decoders.noise import SLACK
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import Code, Solution
from sketchlearn.decoders.steps.greedy import Found, search
from sketchlearn.decoders.sweep import CERTIFIED, Sweep, SweepRow, numbers_of_components
from sketchlearn.decoders.sweep_gmm import sweep_gmm
from sketchlearn.decoders.verdicts import CLUSTERS, FEWEST_ROWS
from sketchlearn.designs.gmm import parameter_count
from sketchlearn.features.characteristic import characteristic
from sketchlearn.kernels import lloyd
from sketchlearn.models.mixture import Array, Mixture
from sketchlearn.sketches.value import Sketch

_DRAWS = 4000  # rows drawn from the mixture that stands for the data; evidence counts as that of so many rows at most
_KNOWN = 100  # rows for each cluster from which on its variance is known to 14 %: then a certificate overrules
_TRIES = 3  # numbers that are decoded to the end in search of a certificate
_FEW_PARAMETERS = 0.25  # of the numbers in a sketch, up to which a mixture with full covariances is tried


def sweep_kmeans(sketch: Sketch, ks: Iterable[int], *, rng: np.random.Generator) -> Sweep:
    """Decode every k, each warm-started from the last."""
    numbers = numbers_of_components(sketch, ks)
    metric = standard_metric(characteristic(sketch.features))
    problem = Problem.from_sketch(sketch, metric)
    found: list[Found] = []
    for k in numbers:
        found.append(_next(problem, k, rng, found[-1] if found else None))
    models = [problem.mixture(f.state.with_weights(np.maximum(f.state.weights, 1e-12)).mixture()) for f in found]
    explained = next((model for f, model in zip(found, models, strict=True) if f.ratio <= SLACK), None)
    draws = problem.normalised(_stand_in(sketch, explained).sample(DRAWS, 0)[0])
    draws = draws[np.random.default_rng(0).permutation(len(draws))]
    few = draws[:_DRAWS]
    n, rows, centers = min(sketch.effective_count, float(_DRAWS)), [], None
    for k, f in zip(numbers, found, strict=True):
        centers, cost = _cells(draws, f.state.means, centers)
        code = Code.UNCERTIFIED if f.ratio <= CLUSTERS else Code.MISFIT
        criterion = completed_likelihood(few, f.state.mixture(), n)
        rows.append(SweepRow(k, f.value, f.ratio, cost * problem.scale**2, criterion, code))
    return _concluded(sketch, rows, tuple(models), rng)


def _stand_in(sketch: Sketch, explained: Mixture | None) -> Mixture:
    """A mixture that stands for the rows: the description, unless round clusters come much nearer to the sketch.

    Narrow clusters that are far apart are hard to describe without knowing how many they are.
    """
    detailed = describe(sketch)
    if explained is None:
        return detailed
    features = characteristic(sketch.features)
    few = np.arange(min(features.size, FREQUENCIES))
    w = features.operator(dtype=np.float64).rows(few).frequencies()

    def misfit(mixture: Mixture) -> float:
        z = np.zeros(len(w), complex)
        for weight, mean, covariance in zip(mixture.weights, mixture.means, mixture.full_covariances(), strict=True):
            z += weight * np.exp(1j * (w @ mean) - 0.5 * ((w @ covariance) * w).sum(1))
        return float(np.mean(np.abs(sketch.mean[few] - z) ** 2))

    return explained if misfit(explained) < 0.5 * misfit(detailed) else detailed


def completed_likelihood(draws: Array, found: Mixture, n: float) -> float:
    """The criterion for n rows like these draws, and round clusters that were found; smaller is better.

    The width is the one that suits the draws best: that of a search depends on which frequencies count.  It counts in
    as many dimensions as the rows vary in (the effective rank of their covariance, Roy and Vetterli 2007): columns that
    hardly vary are no evidence for anything.
    """
    count, k = len(draws), len(found.means)
    spectrum = np.maximum(np.linalg.eigvalsh(np.atleast_2d(np.cov(draws.T))), 0.0)
    parts = np.maximum(spectrum, 1e-300) / max(float(spectrum.sum()), 1e-300)
    d = float(np.exp(-(parts * np.log(np.maximum(parts, 1e-300))).sum()))
    apart = ((draws[:, None, :] - found.means[None]) ** 2).sum(2)
    width = max(float(apart.min(1).mean()) / d, 1e-12)
    shares = np.maximum(found.weights, 1e-12)
    logs = np.log(shares / shares.sum()) - 0.5 * apart / width - 0.5 * d * np.log(2 * np.pi * width)
    total = logsumexp(logs, axis=1)
    belongs = np.exp(logs - total[:, None])
    entropy = -float((belongs * (logs - total[:, None])).sum()) / count
    parameters = k * (d + 1)
    return float(n * (-2.0 * total.mean() + 2.0 * entropy) + parameters * np.log(n))


def _cells(draws: Array, means: Array, last: Array | None) -> tuple[Array, float]:
    """Centres by k-means on the draws, and their mean cost, which is never above that of fewer centres.

    From the means that were found, from k-means++, and from the last centres and the draws that are farthest from them.
    """
    x, weights = np.ascontiguousarray(draws, np.float32), np.full(len(draws), 1.0 / len(draws))
    k = len(means)
    starts = [means, lloyd.seed_centers(x, weights, k, np.random.default_rng(k).uniform(size=(k, 2 + int(np.log(k)))))]
    if last is not None:
        more = last
        for _ in range(k - len(last)):
            apart = ((draws[:, None, :] - more[None]) ** 2).sum(2).min(1)
            more = np.concatenate([more, draws[[int(apart.argmax())]]])
        starts.append(more)
    best: tuple[Array, float] | None = None
    for start in starts:
        centers = np.ascontiguousarray(start, np.float32)
        lloyd.lloyd(x, weights, centers, 100, 1e-6)
        placed = centers.astype(np.float64)
        cost = float(((draws[:, None, :] - placed[None]) ** 2).sum(2).min(1).mean())
        if best is None or cost < best[1]:
            best = placed, cost
    assert best is not None
    return best


def _next(problem: Problem, k: int, rng: np.random.Generator, last: Found | None) -> Found:
    """k components from the last solution, and from scratch where that doesn't explain the data."""
    found = search(problem, k, rng, start=None if last is None else last.state.means, replacements=8)
    if not found.explained and (last is None or found.value > 0.3 * last.value):
        fresh = search(problem, k, rng, replacements=8)
        found = fresh if fresh.value < found.value else found
    return found


def _concluded(sketch: Sketch, rows: list[SweepRow], models: tuple[Mixture, ...], rng: np.random.Generator) -> Sweep:
    """The recommendation: by the criterion, or a number that a final fit certifies."""
    n = sketch.effective_count
    allowed = [row for row in rows if row.k * FEWEST_ROWS <= n] or rows[:1]
    best = min(allowed, key=lambda row: row.criterion)
    final = _final(sketch, best.k, rng)
    because = "the smallest integrated completed likelihood"
    if final.code is not Code.RELIABLE:
        explained = [row for row in rows if row.ratio <= CLUSTERS and row.k != best.k and row.k * _KNOWN <= n]
        for row in explained[:_TRIES]:
            other = _final(sketch, row.k, rng)
            if other.code is Code.RELIABLE:
                best, final, because = row, other, CERTIFIED
                break
    if final.code is not Code.RELIABLE:
        because += _fewer_gaussians(sketch, best.k, rng)
    table = Sweep(tuple(rows), best.k, because, models, because=because)
    return table.concluded(final)


def _final(sketch: Sketch, k: int, rng: np.random.Generator) -> Solution:
    """What :func:`sketchlearn.decode` gives for this number."""
    from sketchlearn.decoders import decode

    solution: Solution = decode(sketch, k, random_state=rng)
    return solution


def _fewer_gaussians(sketch: Sketch, k: int, rng: np.random.Generator) -> str:
    """A remark, if fewer components of any shape explain what so many round ones don't."""
    features = characteristic(sketch.features)
    most = [
        g for g in range(1, k + 1)
        if parameter_count(g, features.dim, "full") <= _FEW_PARAMETERS * 2 * features.size
        and parameter_count(g, features.dim, "full") * FEWEST_ROWS <= 4 * sketch.effective_count
    ]  # fmt: skip
    if not most:
        return ""
    found = sweep_gmm(sketch, most, "full", rng=rng)
    if not found.certified:
        return ""
    return (
        f"; a Gaussian mixture with {found.best} component{'s' * (found.best > 1)} of any shape explains the sketch, "
        "round clusters don't"
    )
