"""The default decoder for k-means: nothing to tune, and it says whether it worked.

:data:`POLICY` lists its stages.  A greedy search finds k round components of one width; message passing helps where a
small sketch stays unexplained.  What comes near the noise floor is examined in the metric of the sampling noise and
repaired where a test says that a cluster is missing (:mod:`sketchlearn.decoders.certificate`); then components get
widths of their own.  The first state that passes the certificate is the answer.  Where a search may fail on the right
model, it starts again from coarse scales.  Otherwise the model is wrong, as on most real data: over-complete mixtures,
with a diagonal plus a few factors as covariance of each component, are fitted several times, with shrinkage scaled to
the misfit, and pooled.  Whatever was found, far rows that carry much of the cost are added to it where the map has
frequencies that show them (:data:`AFTERWARDS`).

k-means (or k-medians) on the decoded mixture gives the centres; where additive noise hides them, on that and on others
that are as likely (:mod:`sketchlearn.decoders.kmeans.posterior`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders import noise, verdicts
from sketchlearn.decoders.budget import AGREE, RESTARTS, STEPS, Budget, announce, over, running, spending
from sketchlearn.decoders.certificate import Certified, Certifier
from sketchlearn.decoders.drive import Remark, Run, Stage, decoder, drive
from sketchlearn.decoders.families import SPHERICAL
from sketchlearn.decoders.kmeans.advice import of_graded
from sketchlearn.decoders.kmeans.fit import Fit
from sketchlearn.decoders.kmeans.grade import Grade, graded, percent
from sketchlearn.decoders.kmeans.partition import (
    Partition,
    cluster_model,
    partition,
    partition_thoroughly,
    standard_errors,
    task_of,
)
from sketchlearn.decoders.kmeans.posterior import believed, pooled
from sketchlearn.decoders.metric import has_box, standard_metric
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import ClusterSolution, said
from sketchlearn.decoders.state import State
from sketchlearn.decoders.steps.amp import best_of_runs
from sketchlearn.decoders.steps.far import FarComponents, Low, far_components, reach
from sketchlearn.decoders.steps.greedy import ENOUGH, MANY, Found, search, widest
from sketchlearn.decoders.steps.messages import Passing
from sketchlearn.decoders.steps.overcomplete import Fitted, least_work, over_complete_fits
from sketchlearn.decoders.steps.refine import refine, refine_shared
from sketchlearn.exceptions import DataWarning, Option, warn
from sketchlearn.features.characteristic import characteristic
from sketchlearn.features.operator import DenseOperator
from sketchlearn.models.base import column_names
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.start import as_centers
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import counted

# Each line: a name, its value, its unit and why.  benchmarks/ablation.py says what each is worth.
HOPELESS = 100.0  # misfit over noise floor beyond which a fit says nothing of the noise (of many components: CLUSTERS)
SMALL = 200  # k d up to which starting from coarse scales takes seconds
MANY_SCALES = 66.0  # longest frequency, over one standard deviation of the data: other maps resolve a twentieth of it
MESSAGES = 2000  # k d up to which message passing takes seconds
DECODES = 3  # pooled over-complete mixtures: the error of centres falls by a third from one to three
COPIES = 4.6  # times the map and the sketch that a decoding of 3000 rows in 1000 columns took at most
FAR = 15.0  # standard deviations of a column: no normal row lies as far, and maps have low frequencies from there on


class Decoding(Run):
    """A k-means decoding in progress."""

    def __init__(
        self, problem: Problem, k: int, rng: np.random.Generator, start: Array | None, n_decodes: int | None
    ) -> None:
        super().__init__()
        self.problem, self.k, self.rng, self.n_decodes = problem, k, rng, n_decodes or DECODES
        self.start = None if start is None else problem.normalised(start)
        self.certifier = Certifier(problem, rng)
        self.enough = int(ENOUGH * k * (problem.dim + 1) / max(problem.telling, 1e-3))
        self.scarce = problem.size < ENOUGH * k * (problem.dim + 1)
        self.many_rows = problem.n >= verdicts.FEWEST_ROWS * k
        self.small_sketch = problem.drowned or problem.size < 1.2 * self.enough
        self.low: Low | None = None
        self.fits: list[Fitted] = []
        self.names: tuple[str, ...] = ()
        self.blind = False
        self.bulk: Mixture | None = None
        self.far: FarComponents | None = None
        self.found: Found
        self.best: Fit

    @property
    def unexplained(self) -> bool:
        """Whether the misfit is so large that the model is wrong, or the search has failed."""
        return not self.best.ratio <= verdicts.CLUSTERS

    @property
    def size(self) -> int:
        """Coordinates of the centres."""
        return self.k * self.problem.dim

    @property
    def many_coordinates(self) -> bool:
        """Whether message passing would take minutes: searches go from coarse to fine instead."""
        return self.size > MESSAGES and not self.problem.drowned


# -- stages ---------------------------------------------------------------------------------------


def greedy_search(run: Decoding) -> Fit:
    """Search on as many frequencies as it needs, then refine with all of them.

    Additive noise averages out over all frequencies: no part of such a sketch would do.
    """
    run.found = _searched(
        run, lambda part: best_of_searches(part, run.k, run.rng, run.start, run.many_coordinates, run.scarce)
    )
    run.best = Fit.of(run.found)
    return run.best


def _searched(run: Decoding, searching: Callable[[Problem], Found]) -> Found:
    """What a search on enough frequencies finds, refined with all of them."""
    problem = run.problem
    if run.small_sketch:
        return searching(problem)
    chosen = problem.operator.sample(run.enough, run.rng)
    found = searching(problem.subset(chosen) if len(chosen) < problem.size else problem)
    return Found.of(problem, _refined(problem, found.state), found.rounds)


def best_of_searches(
    problem: Problem, k: int, rng: np.random.Generator, start: Array | None, coarse: bool = False, scarce: bool = True
) -> Found:
    """Greedy searches, until one explains the sketch or two agree: then the model is wrong, not the search.

    Under additive noise wrong centres can come near the floor: the lowest misfit of all counts.  In many columns peaks
    of a residual are so narrow at high frequencies that no particle meets them: further searches are `coarse`.  A
    search for many components fails only where the sketch is scarce, or drowned.
    """
    tried: list[Found] = []
    same = 3 if coarse and scarce else 2  # (failures there come near each other)
    for attempt in range(RESTARTS if scarce or k <= MANY or problem.drowned else 1):
        if tried and over("more searches"):
            break
        begin, again = (start, False) if attempt == 0 else (None, coarse)
        tried.append(search(problem, k, rng, start=begin, effort=1 + attempt % 3, coarse=again))
        values = sorted(found.value for found in tried)
        agree = len(values) >= same and values[same - 1] < AGREE * values[0]
        if not problem.drowned and (agree or tried[-1].explained):
            break
    return min(tried, key=lambda found: found.value)


def message_passing(run: Decoding) -> Fit | None:
    """What messages find, if that explains more."""
    problem, k = run.problem, run.k
    state, _ = best_of_runs(Passing(problem, k, run.rng), restarts=2)
    width = min(float(state.weights @ state.shapes / state.weights.sum()), widest(problem, k))
    state = _refined(problem, State.shared(state.weights, state.means, width))
    if not state.value < run.found.value:
        return None
    run.found = Found.of(problem, state, run.found.rounds)
    run.best = Fit.of(run.found)
    return run.best


def _refined(problem: Problem, state: State) -> State:
    largest = max(widest(problem, state.k), float(state.shapes[0]))
    return refine_shared(problem, state, STEPS, free=True, largest=largest, lightest=1e-3)


def examined(run: Decoding) -> Fit:
    """The search's result in the certificate, as it is."""
    certified = run.certifier.certify(run.found.state, mend=False)
    fit = _certified(run, certified, "shared width", Fit.of(run.found))
    if fit.accepted:
        run.best = fit
    return fit


def noise_weighted_search(run: Decoding) -> Fit | None:
    """Search again with frequencies weighted by what noise leaves at each, given the clusters found.

    At low frequencies almost all of the sampling noise is absorbed by the fitted weights and means: a cluster of
    one row in ten thousand, invisible beside the full noise, stands out there.
    """
    problem, found = run.problem, run.found
    renewed = noise.renewed_weights(problem, problem.left(found.state), noise.RENEWED_LEAST)
    closer = problem.reweighted(problem.u / problem.u.max() * renewed)
    again = search(closer, run.k, run.rng, start=found.state.means)
    value = problem.misfit(again.state)
    if value > 1.1 * found.value:
        return None
    run.found = Found.of(problem, replace(again.state, value=value), found.rounds + again.rounds)
    run.best = Fit.of(run.found)
    return run.best


def repaired(run: Decoding) -> Fit:
    """Components added where the score test points, and the least needed pruned."""
    run.best = _certified(
        run, run.certifier.certify(run.found.state, mend=run.many_rows), "shared width", Fit.of(run.found)
    )
    return run.best


def own_widths(run: Decoding) -> Fit:
    """A width for each component."""
    found, problem = run.found.state, run.problem
    variance = float(found.shapes[0])
    start = State(SPHERICAL, found.weights, found.means, np.full(run.k, max(variance, 1e-6)))
    own = refine(problem, start, STEPS, largest=10 * max(variance, 1e-4))
    fit = Fit(own.mixture(), own.value, problem.floor(own)[0], "own widths")
    if run.k > 1 and fit.ratio < verdicts.CLUSTERS and run.certifier.can(run.k, SPHERICAL):
        fit = _certified(run, run.certifier.certify(own, mend=False), "own widths", fit)
    if fit.accepted or run.unexplained:
        run.best = fit if run.many_rows else replace(fit, path="own widths, few rows")
    return fit


def coarse_to_fine(run: Decoding) -> Fit | None:
    """Components fitted to low frequencies first, more as higher ones ask for them."""
    fresh = run.certifier.from_scratch(run.k)
    if fresh is None or not fresh.examination.explained:
        return None
    run.best = _certified(run, fresh, "shared width", Fit.of(run.found))
    return run.best


def over_complete(run: Decoding) -> Fit | None:
    """Over-complete mixtures with a covariance per component, pooled, for data that is not k round clusters.

    Where the budget ends before they explain more than k components do, these stay.
    """
    found = over_complete_fits(run.problem, run.found.state, run.n_decodes, run.rng)
    fits = [fit.whole for fit in found]
    value = float(np.mean([f.value for f in fits]))
    if value > run.best.misfit:
        return None
    run.fits = found
    floor = float(np.mean([run.problem.floor(f)[0] for f in fits]))
    count = f"{len(fits)} pooled fits" if len(fits) > 1 else "one fit"
    path = f"{count} of {fits[0].k} components with a covariance each"
    run.best = Fit(pooled(fits), value, floor, path)
    return run.best


def with_far_components(run: Decoding) -> Fit | Remark | None:
    """What was found, and far components next to it, if these carry a share of the cost that centres should follow."""
    run.blind = run.low is None or not run.low.tells(run.best.mixture)
    if run.low is None:
        return Remark("the map has no low frequencies: a few far rows can't be seen with it, whatever they cost")
    if run.blind:
        return Remark(
            "some rows are so far that the low frequencies of the map can't tell where: centres leave them out"
        )
    far = far_components(run.low, run.best.mixture, run.found.state.means)
    if far is None:
        return None
    rows = f"{100 * far.rows:.2g} % of the rows (about {max(far.rows * run.problem.n, 1.0):.0f})"
    path = f"{run.best.path}, and far components with {rows}"
    run.bulk, run.far = run.best.mixture, far
    run.best = replace(run.best, mixture=far.mixture, path=path, certified=None)
    column = run.names[far.column] if run.names else f"column {far.column}"
    return Remark(
        f"{path}, farthest in {column}; without centres of their own they carry {percent(far.cost)} of the cost"
    )


def _certified(run: Decoding, certified: Certified, path: str, fit: Fit) -> Fit:
    """What was examined, with its misfit; the fit itself if that is better and the certificate is not given."""
    state = certified.state
    value = run.problem.misfit(state)
    if not certified.passed and value > fit.misfit:
        return replace(fit, certified=certified)
    floor = run.problem.floor(state)[0] if state.family.shared else fit.floor
    return Fit(state.mixture(), value, floor, path, certified)


# -- the policy -------------------------------------------------------------------------------------


def _if(condition: bool, why: str) -> str:
    return why if condition else ""


def _searchable(run: Decoding) -> bool:
    return run.certifier.can(run.k)


def _not_round(run: Decoding) -> bool:
    return run.unexplained and (run.many_rows or not _searchable(run))


def _from_scratch(run: Decoding) -> str:
    if not (_searchable(run) and run.unexplained and run.many_rows):
        return ""
    if run.scarce:
        return "the sketch is small: a search may fail on the right model"
    many = run.size <= SMALL and float(run.problem.radii.max()) > MANY_SCALES
    return _if(many, "the map has many scales: clusters may lie in groups")


def _coarse_to_fine_cost(run: Decoding) -> float:
    """Of components that are added and taken away one at a time, and of what follows where they explain nothing."""
    k, d, m = run.k, run.problem.dim, run.problem.size
    rest = run.n_decodes * STEPS * 3.0 * k * run.problem.size * d * min(d, 10)
    return k * 3.0 * 2.0 * m * (k * (d + 1.0)) ** 2 + rest


POLICY: tuple[Stage[Decoding], ...] = (
    Stage(
        "greedy search", lambda run: "always first" + (", here from a model" * (run.start is not None)), greedy_search
    ),
    Stage(
        "message passing",
        lambda run: _if(
            not (run.found.explained or run.problem.drowned) and run.small_sketch and run.size <= MESSAGES,
            "the search does not explain a small sketch",
        ),
        message_passing,
    ),
    Stage("certificate", lambda run: _if(not run.unexplained and _searchable(run), "the misfit is low"), examined),
    Stage(
        "noise-weighted search",
        lambda run: _if(
            run.found.ratio < (HOPELESS if run.k <= MANY else verdicts.CLUSTERS), "small clusters may hide in the noise"
        ),
        noise_weighted_search,
    ),
    Stage("repair", lambda run: _if(not run.unexplained and _searchable(run), "a test failed"), repaired),
    Stage("own widths", lambda run: _if(_searchable(run), "one width does not explain the sketch"), own_widths),
    Stage("coarse to fine", _from_scratch, coarse_to_fine, _coarse_to_fine_cost),
    Stage(
        "over-complete mixture",
        lambda run: _if(_not_round(run), "the data are not k round clusters"),
        over_complete,
        lambda run: least_work(run.problem, run.k),
    ),
)
"""The stages of the default decoder."""


def _far(run: Decoding) -> str:
    if run.problem.drowned:
        return ""
    far = reach(run.problem.box, run.best.mixture)
    return _if(run.low is not None or far > FAR, f"rows lie up to {far:.3g} standard deviations from the mean")


AFTERWARDS: tuple[Stage[Decoding], ...] = (Stage("far components", _far, with_far_components),)
"""Stages that follow, whatever was accepted before."""


@decoder
def decode_tuning_free(
    sketch: Sketch,
    k: int,
    *,
    rng: np.random.Generator,
    criterion: str = "means",
    n_decodes: int | None = None,
    start: Any = None,
    rough: bool = False,
) -> ClusterSolution:
    """Decode k centres.

    Parameters
    ----------
    criterion : {"means", "medians"}
        Squared or plain distances.
    n_decodes : int, optional
        Over-complete mixtures that are pooled on data that is not Gaussian; more is better and slower.
    start : array (k, d), or anything that has centres, optional
        The first search starts from them; further ones, if that does not explain the sketch, start from nothing.
    rough : bool
        The search alone, with nothing examined or repaired: for a model that is only a beginning.
    """
    task = task_of(criterion)
    problem = Problem.from_sketch(sketch, standard_metric(characteristic(sketch.features)))
    begin = None if start is None else as_centers(start, sketch.features.dim)
    if isinstance(problem.operator, DenseOperator) and not rough:
        kept = 4.0 * problem.size * problem.dim + sketch.sums.nbytes
        announce(COPIES * kept, kept)
    run = Decoding(problem, k, rng, begin, n_decodes)
    run.names = column_names(sketch.features)
    if not rough:
        _check_size(problem, k)
    drive(POLICY[:2] if rough else POLICY, run)
    if not rough and has_box(sketch):
        run.low = Low.of(sketch, problem)
        drive(AFTERWARDS, run)
    fit = replace(run.best, path="shared width, not examined") if rough else run.best
    gradable = not rough and has_box(sketch) and problem.n * float(problem.added.max()) < noise.NOISELESS
    stopped = bool(running().cut) and not run.best.accepted
    if stopped or (_not_round(run) and not run.fits):  # the budget ended before there was a model that could judge
        gradable = False
    rows = believed(problem, fit.mixture, rng) if hidden(problem, fit) else fit.mixture
    if rows.n_components > k:
        cells = partition_thoroughly(rows, k, rng, criterion)
    else:
        cells = partition(rows, k, rng, start=rows.means, criterion=criterion)
    judged = verdicts.of_clusters(fit.ratio, fit.path, k, run.found.ratio, fit.certified, problem, run.far is not None)
    excess = {}
    if gradable:
        grade = _grade(run, fit, cells, criterion)
        excess = {"excess_cost": grade.excess, "excess_cost_bound": grade.bound}
        what = "k-means" if criterion == "means" else "k-medians"
        judged = of_graded(
            *judged, grade, problem, run.names, k, what, run.blind, _constant(sketch, problem, run.names)
        )
    # an over-complete fit can follow the noise: what counts is that the plain model was refuted
    ratio = run.found.ratio if fit.certified is None else fit.ratio
    name = f"tuning-free ({fit.path})"
    known = said(task, name, fit.misfit, fit.floor, judged, run.found.rounds, run.trace, ratio) | excess
    return cluster_model(problem, fit.mixture, cells, criterion, **known, **_known(problem, fit, cells.centers, rng))


def _grade(run: Decoding, fit: Fit, cells: Partition, criterion: str) -> Grade:
    """What judges say of the centres, recorded as the last stage."""
    begin = perf_counter()
    bulk = fit.mixture if run.bulk is None else run.bulk
    fits = run.fits or [Fitted(run.problem, State.of(bulk))]
    explained = fit.certified is not None and fit.certified.examination.explained
    rng = run.rng.spawn(1)[0]
    sighted = run.low is not None and not run.blind
    with spending(Budget(math.inf)) as own:  # judges that are stopped say nothing
        grade = graded(run.problem, fits, fit.mixture, run.far, cells, criterion, explained, sighted, rng)
    running().absorb([own])
    why = "densities that explain the sketch say how much more the centres cost than the best ones"
    run.note("grade", why, grade.words, False, perf_counter() - begin, **grade.numbers)
    return grade


def hidden(problem: Problem, fit: Fit) -> bool:
    """Whether additive noise leaves the centres uncertain by more than the clusters are wide."""
    return problem.drowned and fit.certified is not None and not fit.certified.examination.determined


def _constant(sketch: Sketch, problem: Problem, names: tuple[str, ...]) -> list[str]:
    """Columns of the rows with one value only; indicators that an encoder made are none of the rows' own."""
    encoder = sketch.features.encoder
    own = np.ones(len(names), bool) if encoder is None or sketch.features.projection else ~encoder.indicators
    return [name for name, low, high, is_own in zip(names, *problem.box, own, strict=True) if low == high and is_own]


def _check_size(problem: Problem, k: int) -> None:
    """Warn, before the search, where the centres and weights are more numbers than the sketch has."""
    asked, held = k * (problem.dim + 1), 2 * problem.size
    if asked > held:
        what = f"{counted(k, 'cluster')} in {counted(problem.dim, 'column')}"
        few = f"{'has' if k == 1 else 'have'} {asked:,} unknown numbers, but the sketch has only {held:,}"
        most = held // (problem.dim + 1)
        advice = f"Ask for at most {most:,}, or sketch" if most else "Sketch"
        warn(
            DataWarning(
                f"{what} {few}: most centres will be arbitrary. {advice} the rows again with a map of more features, "
                "designed with ",
                Option("n_components", k),
            )
        )


def _known(problem: Problem, fit: Fit, centers: Array, rng: np.random.Generator) -> dict[str, Any]:
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
