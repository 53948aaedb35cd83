"""The default decoder for k-means: nothing to tune, and it says whether it worked.

1. Search k components with a shared width (:mod:`sketchlearn.decoders.search`), restarting while the misfit is above
   the noise floor and searches disagree; where a small sketch stays unexplained, messages are asked as well
   (:mod:`sketchlearn.decoders.literature.amp`).
2. If the misfit is near the noise floor, the fit is polished and examined in the metric of the sampling noise, and
   mended where a test says that a cluster is missing (:mod:`sketchlearn.decoders.certificate`); then the same with a
   width per component.  What passes is certified.
3. If it is not, and some components are clusters while others are not, the search has failed, and mending starts from
   those.  Otherwise the model is wrong: an over-complete mixture, with a diagonal plus a few factors as covariance of
   each component, is fitted several times, with shrinkage scaled to the misfit, and the fits are pooled.
4. k-means (or k-medians) on the decoded mixture gives the centres; where added noise hides them, on that and on others
   that are as likely (:mod:`sketchlearn.decoders.posterior`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sketchlearn.decoders import noise, verdicts
from sketchlearn.decoders.certificate import Certified, Certifier, State
from sketchlearn.decoders.certificate.scores import SPLIT
from sketchlearn.decoders.factored import Factored, refine_factored
from sketchlearn.decoders.literature.amp import best_of_runs
from sketchlearn.decoders.metric import View, standard_metric
from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.partition import (
    check_criterion,
    partition,
    partition_thoroughly,
    standard_errors,
    task_of,
)
from sketchlearn.decoders.passing import Passing
from sketchlearn.decoders.posterior import believed, pooled
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.refine import Fit, misfit, noise_floor, refine
from sketchlearn.decoders.search import Found, left_over, refine_shared, search
from sketchlearn.decoders.search import noise_floor as noise_floor_shared
from sketchlearn.decoders.solution import ClusterSolution
from sketchlearn.features.characteristic import characteristic
from sketchlearn.sketches.value import Sketch
from sketchlearn.threads import in_parallel, limited

_RESTARTS = 3
_MORE_RESTARTS = 10  # while the misfit is so large that a cluster must be missing
_MISSING = 100.0
_CROWDED_RESTARTS = 6  # where noise that was added leaves little else
_HANDED_RESTARTS = 2  # of messages, where searches have failed,
_HANDED_SIZE = 2000  # and k d up to which they take seconds
_SHRINKAGE = 0.1
_NOISE_CAP = 0.01  # frequencies count at most 1 / this times more than those with the full noise
_AXES_STEPS, _DIAGONAL_STEPS, _STEPS = 40, 60, 100
_MORE_STEPS = 150  # for all factors in eleven to twenty dimensions
_REPLACEMENTS = 4
_DECODES = 3  # pooled fits of the richer model
_LONG = 2**20  # numbers of a step; below, threads wait for the interpreter and each other more than they compute
_EXTRA = 10  # components of it besides two a cluster: few clusters need more to show their shapes
_ENOUGH = 4.0  # frequencies per number of the model that the search looks at,
_WHOLE_STEPS = 30  # and steps with all of them afterwards
_AGREE = 1.05  # two searches with misfits that close have found what there is
_WHOLE, _FEW_WHOLE = 0.4, 0.1  # share of components that must be clusters as they are for others to be worth mending
_SMALL = 200  # k d up to which it is worth starting from scratch
_MANY_SCALES = 66.0  # longest frequency, over one standard deviation of the data, of a map for clusters in groups
_SCARCE = 4.0  # frequencies per number of the model below which a search may fail on the right model
_ROWS_PER_COMPONENT = 20  # below this nothing can be said of shapes


def decode_tuning_free(
    sketch: Sketch,
    n_components: int,
    *,
    rng: np.random.Generator,
    criterion: str = "means",
    n_decodes: int | None = None,
    start: Array | None = None,
    rough: bool = False,
    trace: list[dict[str, Any]] | None = None,
) -> ClusterSolution:
    """Decode k centres; see the module for the steps.

    With `rough` it is the search alone, with nothing examined or mended: for a model that is only a beginning.
    """
    check_criterion(criterion)
    metric = standard_metric(characteristic(sketch.features))
    view = View.of(sketch, metric)
    problem = Problem.from_view(view, metric)
    k = n_components
    certifier = Certifier(view, problem, rng)
    found = _found(problem, k, rng, start, trace)
    fit = _alone(found) if rough else _as_it_is(certifier, found)
    if fit is None:
        if found.ratio < _MISSING:
            found = _look_closer(problem, found, rng, trace)
        fit = _explained(certifier, found, rng, n_decodes, trace)
    rows = believed(problem, fit.mixture, rng) if _hidden(problem, fit) else fit.mixture
    if rows.n_components > k:
        cells = partition_thoroughly(rows, k, rng, criterion)
    else:
        cells = partition(rows, k, rng, start=rows.means, criterion=criterion)
    code, verdict = verdicts.of_clusters(fit.ratio, fit.path, k, found.ratio, _findings(problem, fit))
    return ClusterSolution(
        task=task_of(criterion),
        decoder=f"tuning-free ({fit.path})",
        residual=fit.misfit,
        noise_floor=fit.floor,
        # an over-complete fit can follow the noise: what counts is that the plain model was refuted
        ratio=found.ratio if fit.certified is None else fit.ratio,
        code=code,
        verdict=verdict,
        iterations=found.rounds,
        trace=trace or [],
        mixture=problem.mixture(fit.mixture),
        centers=problem.points(cells.centers),
        weights=cells.weights,
        inertia=cells.cost * problem.scale ** (2 if criterion == "means" else 1),
        criterion=criterion,
        **_known(problem, fit, cells.centers, rng),
    )


def _hidden(problem: Problem, fit: _Outcome) -> bool:
    """Whether noise that was added leaves the centres uncertain by more than the clusters are wide."""
    seen = fit.certified
    return noise.drowned(problem.n, problem.added) and seen is not None and not seen.examination.determined


def _known(problem: Problem, fit: _Outcome, centers: Array, rng: np.random.Generator) -> dict[str, Any]:
    """What the certificate adds to a solution, in the units of the rows."""
    if fit.certified is None:
        return {}
    seen, k = fit.certified.examination, len(centers)
    out: dict[str, Any] = {
        "smallest": seen.smallest,
        "closest": float((seen.closest[:k] * fit.certified.state.widths).max()) * problem.scale,
        "strays": tuple((problem.points(place[None])[0], rows) for place, rows in fit.certified.strays),
    }
    if seen.explained:
        means, weights = standard_errors(fit.mixture, centers, seen.covariance_of(k), rng)
        columns = 1.0 if problem.metric is None else 1.0 / np.diag(problem.metric)
        out |= {"centers_std": means * problem.scale * columns, "weights_std": weights}
    return out


@dataclass
class _Outcome:
    """A fitted mixture (normalised units), its misfit and noise floor, how it came about and what is known of it."""

    mixture: Mixture
    misfit: float
    floor: float
    path: str
    certified: Certified | None = None

    @property
    def ratio(self) -> float:
        return self.misfit / self.floor


def _found(
    problem: Problem, k: int, rng: np.random.Generator, start: Array | None, trace: list[dict[str, Any]] | None
) -> Found:
    """The search, on as many frequencies as it needs; all of them then have their say.

    Noise that was added averages out over all: there is no part of such a sketch that would do.
    """
    enough = int(_ENOUGH * k * (problem.dim + 1) / max(problem.telling, 1e-3))
    if noise.drowned(problem.n, problem.added):
        return _best_of_restarts(problem, k, rng, start, trace)
    if problem.size < 1.2 * enough:
        found = _best_of_restarts(problem, k, rng, start, trace)
        small = k * problem.dim <= _HANDED_SIZE
        return _handed_over(problem, found, rng) if small and not found.certified else found
    chosen = problem.operator.sample(enough, rng)
    part = problem.subset(chosen) if len(chosen) < problem.size else problem
    found = _best_of_restarts(part, k, rng, start, trace)
    largest = max(4.0 / problem.effective_radius(k) ** 2, found.variance)
    means, weights, variance, value = refine_shared(
        problem, found.means, found.weights, found.variance, True, _WHOLE_STEPS, largest, 1e-3
    )
    return Found(means, weights, variance, value, *noise_floor_shared(problem, k, variance), found.rounds)


def _alone(found: Found) -> _Outcome:
    """What was found, with nothing known of it."""
    plain = _mixture(found.weights, found.means, np.full(len(found.means), max(found.variance, 1e-9)))
    return _Outcome(plain, found.value, found.floor, "shared width, not examined")


def _handed_over(problem: Problem, found: Found, rng: np.random.Generator) -> Found:
    """What messages find in a small sketch that no search explains, if that explains more of it."""
    k = len(found.means)
    fit, _ = best_of_runs(Passing(problem, k, rng), _HANDED_RESTARTS)
    largest = max(4.0 / problem.effective_radius(k) ** 2, found.variance)
    width = float(fit.weights @ fit.covariances / fit.weights.sum())
    means, weights, variance, value = refine_shared(
        problem, fit.means, fit.weights, min(width, largest), True, _STEPS, largest, 1e-3
    )
    if not value < found.value:
        return found
    return Found(means, weights, variance, value, *noise_floor_shared(problem, k, variance), found.rounds)


def _as_it_is(certifier: Certifier, found: Found) -> _Outcome | None:
    """What was found, if it passes the examination without any mending."""
    k = len(found.means)
    if found.ratio > verdicts.CLUSTERS or not certifier.can(k):
        return None
    plain = _mixture(found.weights, found.means, np.full(k, found.variance))
    certified = certifier.certify(State(found.means, found.weights, _shared(found)), mend=False)
    if not certified.passed:
        return None
    return _of(certifier.problem, certified, "shared width", _Outcome(plain, found.value, found.floor, "shared width"))


def _shared(found: Found) -> Array:
    return np.array([max(found.variance, 1e-9)])


def _best_of_restarts(
    problem: Problem, k: int, rng: np.random.Generator, start: Array | None, trace: list[dict[str, Any]] | None
) -> Found:
    begin = None if start is None else problem.normalised(start)
    best: Found | None = None
    values: list[float] = []
    # where noise was added, wrong centres can come near the floor: the lowest misfit of several searches counts
    fewest = _CROWDED_RESTARTS if noise.drowned(problem.n, problem.added) else 1
    for attempt in range(_MORE_RESTARTS):
        agree = len(values) > max(1, fewest - 1) and sorted(values)[1] < _AGREE * min(values)
        if best is not None and (agree or (attempt >= max(_RESTARTS, fewest) and best.ratio < _MISSING)):
            break  # close enough, or the searches agree: the model is wrong, not the search
        effort = 1 + attempt % _RESTARTS
        found = search(problem, k, rng, start=begin if attempt == 0 else None, effort=effort, trace=trace)
        values.append(found.value)
        if best is None or found.value < best.value:
            best = found
        if best.certified and attempt >= fewest - 1:
            break
    assert best is not None
    return best


def _look_closer(problem: Problem, found: Found, rng: np.random.Generator, trace: list[dict[str, Any]] | None) -> Found:
    """Search again with frequencies weighted by what noise leaves at each, given the clusters found.

    At low frequencies almost all of the sampling noise is absorbed by the fitted weights and means: a cluster of
    one row in ten thousand, invisible beside the full noise, stands out there.
    """
    k = len(found.means)
    renewed = noise.renewed_weights(problem, left_over(problem, found.variance), _NOISE_CAP)
    closer = problem.reweighted(problem.u / problem.u.max() * renewed)
    again = search(closer, k, rng, start=found.means, replacements=8, trace=trace)
    residual = problem.residual(again.means, again.variance, again.weights)
    value = float(problem.u @ (residual[0] ** 2 + residual[1] ** 2))
    if value > 1.1 * found.value:
        return found
    floor, deviation = noise_floor_shared(problem, k, again.variance)
    return Found(again.means, again.weights, again.variance, value, floor, deviation, found.rounds + again.rounds)


def _findings(problem: Problem, fit: _Outcome) -> verdicts.Findings | None:
    """What the examination found, in the units of the rows."""
    if fit.certified is None:
        return None
    seen, state = fit.certified.examination, fit.certified.state
    return verdicts.Findings(
        passed=seen.passed,
        explained=seen.explained,
        determined=seen.determined,
        residual=seen.residual,
        missing=seen.missing / seen.limit,
        place=problem.points(seen.missing_at[None])[0],
        rows=seen.missing_weight * problem.n,
        split=seen.split / SPLIT,
        component=seen.split_at,
        error=max(seen.worst_coordinate, seen.worst_distance / 2.0),
        worst=seen.worst,
        reach=seen.reach,
        smallest=seen.smallest,
        closest=float(seen.closest[: len(state.weights)].max()),
        total=problem.n,
        strays=len(fit.certified.strays),
    )


def _mixture(weights: Array, means: Array, covariances: Array) -> Mixture:
    w = np.maximum(weights, 1e-12)  # a few rows may leave a single component without weight
    return Mixture(w / w.sum(), means, covariances)


def _explained(
    certifier: Certifier,
    found: Found,
    rng: np.random.Generator,
    n_decodes: int | None,
    trace: list[dict[str, Any]] | None,
) -> _Outcome:
    """The simplest model that explains the data: one width, mended if need be, own widths, a richer one."""
    problem = certifier.problem
    k = len(found.means)
    shared = State(found.means, found.weights, _shared(found))
    plain = _mixture(found.weights, found.means, np.full(k, found.variance))
    first = _Outcome(plain, found.value, found.floor, "shared width")
    if not certifier.can(k):
        return first if first.ratio <= verdicts.CLUSTERS else _richer(problem, found, rng, n_decodes, trace)
    many = problem.n >= _ROWS_PER_COMPONENT * k
    if first.ratio <= verdicts.CLUSTERS:
        first = _of(problem, certifier.certify(shared, mend=many), "shared width", first)
        if first.certified is not None and first.certified.passed:
            return first
    alone = Fit(found.means, found.weights, np.full(k, max(found.variance, 1e-6)), found.value)
    own = refine(problem, alone, "spherical", 100, largest=10 * max(found.variance, 1e-4))
    floor = noise_floor(problem, own, "spherical")[0]
    widths = State(own.means, own.weights, own.covariances)
    second = _Outcome(_mixture(own.weights, own.means, own.covariances), own.value, floor, "own widths")
    if k > 1 and second.ratio < verdicts.CLUSTERS and certifier.can(k, "spherical"):
        second = _of(problem, certifier.certify(widths, mend=False), "own widths", second)
        if second.certified is not None and second.certified.passed:
            return second
    if first.ratio <= verdicts.CLUSTERS:
        return first
    if second.ratio < verdicts.CLUSTERS:
        return second
    if not many:  # too few rows to speak of shapes
        return replace(second, path="own widths, few rows")
    mended = _mended(certifier, widths)
    if mended is not None:
        return _of(problem, mended, "shared width", first)
    return _richer(problem, found, rng, n_decodes, trace)


def _mended(certifier: Certifier, widths: State) -> Certified | None:
    """A search that went wrong, put right; None if it is the model that is wrong.

    Where some components are clusters as they are and others are not, the search has missed something.  It can miss
    everything in a small sketch, and where clusters lie in groups that are far apart (a map of many scales was made
    for such rows): then it starts again, from coarse to fine.
    """
    problem, (k, d) = certifier.problem, widths.means.shape
    whole = certifier.whole_components(widths)
    scarce = problem.size < _SCARCE * k * (d + 1)
    again = scarce or (k * d <= _SMALL and float(problem.radii.max()) > _MANY_SCALES)
    if whole.mean() >= (_FEW_WHOLE if scarce else _WHOLE):
        variance = np.median(widths.covariances[whole])
        made = certifier.certify(State(widths.means, widths.weights, np.array([variance])))
        if made.passed:
            return made
        again = again or k * d <= _SMALL
    fresh = certifier.from_scratch(k) if again else None
    return fresh if fresh is not None and fresh.examination.explained else None


def _of(problem: Problem, certified: Certified, path: str, fit: _Outcome) -> _Outcome:
    """What was certified, with its misfit; the fit itself if that is better and the certificate is not given."""
    state = certified.state
    k = len(state.weights)
    s = state.covariances
    kind = "spherical" if len(s) > 1 or k == 1 else "shared"
    value = misfit(problem, Fit(state.means, state.weights, np.broadcast_to(s, k).copy()), "spherical")
    if not certified.passed and value > fit.misfit:
        return replace(fit, certified=certified)
    floor = noise_floor_shared(problem, k, float(s[0]))[0] if kind == "shared" else fit.floor
    return _Outcome(_mixture(state.weights, state.means, np.broadcast_to(s, k).copy()), value, floor, path, certified)


def _richer(
    problem: Problem,
    found: Found,
    rng: np.random.Generator,
    n_decodes: int | None,
    trace: list[dict[str, Any]] | None,
) -> _Outcome:
    """Over-complete mixtures with a covariance per component, pooled, for data that is not k round clusters."""
    k, d = found.means.shape
    count = min(2 * k + min(k, _EXTRA if d <= 20 else _EXTRA // 2), max(problem.size // (2 * (d + 2)), k))
    # numbers of the model are at most four times those of the sketch (shrinkage does the rest)
    rank = min(_rank(d), max(8 * problem.size // (count * d) - 2, 1))
    problem = replace(problem, operator=problem.operator.as_matrix())
    axes = _axes(problem, found, rank, rng)

    def fitted(own: np.random.Generator) -> Fit:
        part = _turned(problem, axes)
        start = search(part, count, own, replacements=_REPLACEMENTS, trace=trace)
        fit = _with_covariances(part, start, rank, own)
        s = fit.covariances if rank else fit.covariances[:, :, None] * np.eye(d)
        return Fit(fit.means @ axes, fit.weights, axes.T @ s @ axes, fit.value)

    with limited(None if problem.size * count * d > _LONG else 1):
        fits = in_parallel(fitted, rng.spawn(n_decodes or _DECODES))
    value = float(np.mean([f.value for f in fits]))
    floor = float(np.mean([noise_floor(problem, f, "full")[0] for f in fits]))
    shape = f"covariances of rank {rank} plus diagonal" if rank else "widths of their own"
    return _Outcome(pooled(fits), value, floor, f"{len(fits)} pooled fits of {count} components with {shape}")


def _rank(d: int) -> int:
    """Factors of a covariance: all in up to twenty dimensions, where they cost little, if five would not do."""
    if d <= 20:
        return min(5, d - 1) if d <= 10 else d - 1
    return max(10, d // 5)


def _axes(problem: Problem, found: Found, rank: int, rng: np.random.Generator) -> Array:
    """Orthonormal axes (rows) in which components are diagonal on average: factors are then left for what is their own.

    Where the columns are correlated within all clusters alike, as those of word vectors are, this is worth more than
    any number of factors.
    """
    d = problem.dim
    if d == 1:
        return np.eye(1)
    start = Factored.round(found.means, found.weights, found.variance)
    fit = refine_factored(problem, start, _AXES_STEPS, largest=_widest(problem), strength=0.0)
    strength = _SHRINKAGE * 2.0 * fit.value / problem.size
    fit = refine_factored(
        problem, fit.with_factors(rank, rng), _AXES_STEPS, largest=_widest(problem), strength=strength
    )
    weights = np.maximum(fit.weights, 0.0)
    pooled = np.tensordot(weights / weights.sum(), fit.fit().covariances, 1)
    return np.ascontiguousarray(np.linalg.eigh(pooled)[1].T)


def _turned(problem: Problem, axes: Array) -> Problem:
    """The problem in other orthonormal axes, with buffers of its own."""
    low, high = problem.box
    middle, half = axes @ (0.5 * (low + high)), np.abs(axes) @ (0.5 * (high - low))
    return replace(problem, operator=problem.operator.transformed(axes), box=(middle - half, middle + half))


def _widest(problem: Problem) -> float:
    """Largest variance of a component."""
    return max(4.0, float(4.0 * np.max(np.ptp(np.stack(problem.box), axis=0)) ** 2))


def _with_covariances(problem: Problem, found: Found, rank: int, rng: np.random.Generator) -> Fit:
    """Diagonals, then some factors, shrunk to the pooled diagonal in proportion to the misfit."""
    widest = _widest(problem)
    start = Factored.round(found.means, found.weights, found.variance)
    fit = refine_factored(problem, start, _DIAGONAL_STEPS, largest=widest, strength=0.0)
    if rank:
        strength = _SHRINKAGE * 2.0 * fit.value / problem.size
        steps = _MORE_STEPS if 10 < problem.dim <= 20 else _STEPS
        fit = refine_factored(problem, fit.with_factors(rank, rng), steps, largest=widest, strength=strength)
    return fit.fit()
