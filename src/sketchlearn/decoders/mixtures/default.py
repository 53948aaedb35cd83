"""The default decoder for Gaussian mixtures: nothing to tune, and it says whether it worked.

1. Components are searched with a shared width (:mod:`sketchlearn.decoders.steps.greedy`), first as many as asked
   for, then, if that leaves something unexplained, two or three times as many, merged down.
2. They get widths of their own, then covariances of the type asked for.
3. Rounds of splitting and merging, guided by what the sketch still holds, until the misfit is at the
   noise floor.
4. All frequencies are reweighted by the noise that is left once each component's own weight, mean and
   covariance have been fitted, and everything is refined again.  One pseudo-row per component, with the
   pooled covariance, keeps directions that the sketch does not resolve from collapsing.
5. A mixture that explains the data takes a last step in the metric of the sampling noise, with all its correlations
   (:mod:`sketchlearn.decoders.mixtures.efficient`), after which it is about as good as EM on the rows.
6. If the misfit stays above the noise floor by more than chance, the data are not such a mixture.  A richer
   mixture is then fitted to the sketch, and the model is the projection of that density on the family asked for
   (maximum likelihood on points drawn from it): what EM would do, had it the rows.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.decoders import noise, verdicts
from sketchlearn.decoders.budget import announce
from sketchlearn.decoders.drive import Remark, Run, Stage, decoder, drive, misfit_words
from sketchlearn.decoders.evidence import examined
from sketchlearn.decoders.families import FULL, GAUSSIANS, TIED
from sketchlearn.decoders.metric import has_box, whitening_metric
from sketchlearn.decoders.mixtures.certificate import Certificate, finish, in_rows, solution
from sketchlearn.decoders.mixtures.efficient import efficient
from sketchlearn.decoders.mixtures.grade import graded, of_graded, tells_halves
from sketchlearn.decoders.mixtures.moves import ROUNDS, STARTS, explore, from_start
from sketchlearn.decoders.mixtures.projection import TYPICAL_ROUNDS, points_drawn
from sketchlearn.decoders.mixtures.projection import project as projected
from sketchlearn.decoders.mixtures.setting import Setting
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import Code, MixtureSolution
from sketchlearn.decoders.state import State
from sketchlearn.designs.gmm import check_covariance_type
from sketchlearn.features.characteristic import CharacteristicMap, characteristic
from sketchlearn.features.operator import DenseOperator
from sketchlearn.models.base import column_names
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.start import as_mixture
from sketchlearn.sketches.value import Sketch
from sketchlearn.words import counted

KEPT = (
    4.0  # times all products of coordinates that a decoding keeps at most: measured on 12 000 frequencies, 100 columns
)


class Decoding(Run):
    """The decoding of a mixture in progress."""

    def __init__(
        self,
        problem: Problem,
        k: int,
        kind: str,
        rng: np.random.Generator,
        start: Mixture | None,
        starts: int,
        rounds: int,
        project: bool,
    ) -> None:
        super().__init__()
        self.problem, self.rng, self.start, self.starts, self.rounds = problem, rng, start, starts, rounds
        self.project = project
        self.setting = Setting.of(problem, GAUSSIANS[kind], k, rng)
        self.state: State | None = None
        self.certificate: Certificate
        self.solution: MixtureSolution
        self.richer: Mixture | None = None

    def explored(self, state: State | None) -> Remark | None:
        """Keep a state if it is the best, and say how it does on the part of the sketch that is explored."""
        if state is None or (self.state is not None and state.value >= self.state.value):
            return None
        self.state = state
        ratio = state.value / self.setting.exploring.floor(state, self.setting.k)[0]
        return Remark(f"{state.k} {state.family.name} components: {misfit_words(ratio)}")

    def judged(self, certificate: Certificate) -> Remark:
        """Keep a certificate."""
        self.certificate = certificate
        words = f"{misfit_words(certificate.ratio)} (limit {certificate.limit:.3g})"
        return Remark(words, certificate.ratio <= certificate.limit)


def warm_start(run: Decoding) -> Remark | None:
    """An earlier model, refined."""
    assert run.start is not None
    begin = State.of(run.problem.inverse(run.start)).to(FULL)
    return run.explored(from_start(run.setting, begin, run.rounds))


def searches(run: Decoding) -> Remark | None:
    """Searches with a shared width, the family asked for, splits and merges."""
    return run.explored(explore(run.setting, run.starts, run.rounds))


def finished(run: Decoding) -> Remark:
    """All frequencies, weighted by the noise that the model leaves."""
    assert run.state is not None
    return run.judged(finish(run.setting, run.state))


def projection(run: Decoding) -> Remark:
    """The projection of a richer mixture on the family."""
    certificate, rich = projected(run.setting, run.certificate)
    if rich is not None:
        means, covariances = in_rows(run.problem, rich)
        run.richer = Mixture(rich.simplex, means, covariances)
    return run.judged(certificate)


def _needs_search(run: Decoding) -> str:
    if run.state is None:
        return "always" if run.start is None else "the warm start has too few components"
    unexplained = run.starts > 0 and not run.setting.explained(run.state)
    return "the warm start does not explain the sketch" if unexplained else ""


def _needs_projection(run: Decoding) -> str:
    wrong = run.project and run.certificate.ratio > run.certificate.limit
    return "the rows are no such mixture, or a component was missed" if wrong else ""


def _projection_cost(run: Decoding) -> float:
    """Of maximum likelihood on the points that are drawn, from two starts."""
    k, d = run.setting.k, run.problem.dim
    return 2.0 * TYPICAL_ROUNDS * points_drawn(k) * k * d * (d if run.setting.family in (FULL, TIED) else 1)


POLICY: tuple[Stage[Decoding], ...] = (
    Stage("warm start", lambda run: "a model was given" if run.start is not None else "", warm_start),
    Stage("searches", _needs_search, searches),
    Stage("noise weights", lambda run: "always", finished),
    Stage("projection", _needs_projection, projection, _projection_cost),
)
"""The stages of the default decoder."""


def precise(run: Decoding) -> Remark | None:
    """The last step, in the metric of the sampling noise."""
    try:
        found = efficient(run.problem, run.solution, run.rng)
    except np.linalg.LinAlgError:  # so few rows that the noise has no covariance to speak of
        return None
    if found is None:
        return None
    run.solution = found
    return Remark("standard errors of means and weights; the sketch is still explained")


AFTERWARDS: tuple[Stage[Decoding], ...] = (
    Stage("generalised least squares", lambda run: "certified" if run.solution.reliable else "", precise),
)
"""Stages that follow, whatever was accepted before."""


@decoder
def decode_gmm(
    sketch: Sketch, k: int, covariance_type: str = "full", *, rng: np.random.Generator, start: Any = None, **limits: Any
) -> MixtureSolution:
    """Decode a Gaussian mixture from a sketch.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical"}
        Shape of the components.
    start : Mixture, or anything that has one, optional
        An earlier model to start from; the search runs only if it does not explain the sketch.
    **limits
        ``starts``, the most searches (0: none, if `start` is given); ``rounds``, the most rounds of splitting and
        merging after each; ``project``, whether data that no such mixture explains gives the projection of a richer
        mixture (step 6 of the module) or the least-squares fit to the sketch.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.designs.gmm import design_gmm
    >>> X = np.random.default_rng(0).normal(size=(4000, 1)) * 3 + 5
    >>> s = sl.sketch(X, design_gmm(X[:500], 1, seed=0))
    >>> solution = sl.decode(s, 1, task="gmm", random_state=0)
    >>> solution.means.round(), solution.covariances.shape
    (array([[5.]]), (1, 1, 1))
    """
    check_covariance_type(covariance_type)
    begin = None if start is None else as_mixture(start, sketch.features.dim)
    problem = mixture_problem(sketch, covariance_type)
    m, d = problem.operator.shape
    if GAUSSIANS[covariance_type] in (FULL, TIED) and isinstance(problem.operator, DenseOperator):
        announce(KEPT * 2.0 * m * d * (d + 1), 4.0 * m * d + sketch.sums.nbytes)
    run = decode_problem(problem, k, covariance_type, rng=rng, start=begin, **limits)
    drive(AFTERWARDS, run)
    run.solution = examined(run.solution, sketch, k)
    if run.project and has_box(sketch) and problem.n * float(problem.added.max()) < noise.NOISELESS:
        _grade(run, (sketch.lower, sketch.upper), column_names(sketch.features))
    return replace(run.solution, trace=run.trace)


def _grade(run: Decoding, box: tuple[Array, Array], names: tuple[str, ...]) -> None:
    """What judges say of the likelihood, recorded as the last stage; it changes the verdict and nothing else."""
    begin, found, setting, certificate = perf_counter(), run.solution, run.setting, run.certificate
    grade = graded(setting, certificate, found.mixture, run.richer, box, found.reliable)
    if grade is None:
        if found.reliable and not tells_halves(setting):
            doubt = (
                "half of its frequencies have fewer numbers than the mixture, and agree with any: make a larger sketch"
            )
            verdict = f"Not certified. The misfit is {found.ratio:.2f} times the noise floor, but {doubt}."
            run.solution = replace(found, code=Code.UNDETERMINED, verdict=verdict, means_std=None, weights_std=None)
        return
    why = "densities that explain the sketch estimate how many nats per row are lost"
    run.note("grade", why, grade.words, False, perf_counter() - begin, **grade.numbers)
    judged: verdicts.Verdict = found.code, found.verdict
    if certificate.ratio > certificate.limit:  # the grade says what to do
        what = f"{counted(setting.k, 'Gaussian')} ({found.covariance_type} covariances)"
        judged = verdicts.of_mixture(certificate.ratio, certificate.limit, what, found.unreliable, advice=False)
    code, verdict = of_graded(*judged, grade, setting.k, names, box)
    run.solution = replace(found, code=code, verdict=verdict, excess_nats=grade.excess, excess_nats_bound=grade.bound)
    if found.reliable and not run.solution.reliable:  # errors are not those of sampling
        run.solution = replace(run.solution, means_std=None, weights_std=None)


def decode_problem(
    problem: Problem,
    k: int,
    kind: str,
    *,
    rng: np.random.Generator,
    start: Mixture | None = None,
    starts: int = STARTS,
    rounds: int = ROUNDS,
    project: bool = True,
) -> Decoding:
    """The stages of :func:`decode_gmm` for a sketch that has been normalised."""
    run = Decoding(problem, k, kind, rng, start, starts, rounds, project)
    drive(POLICY, run)
    run.solution = solution(run.setting, run.certificate, "tuning-free", run.trace, run.richer)
    return run


def mixture_problem(sketch: Sketch, kind: str) -> Problem:
    """A sketch normalised in the metric of its frequencies, in units no smaller than those of its design."""
    features = characteristic(sketch.features)
    return at_designed_scale(Problem.from_sketch(sketch, whitening_metric(features, kind)), features)


def at_designed_scale(problem: Problem, features: CharacteristicMap) -> Problem:
    """The problem in units no smaller than those the map was designed in.

    The spread that low frequencies show misses a small component far away; a pilot sample does not.
    """
    designed = features.designed_width
    if designed is None or (features.whitening is not None and problem.metric is None):
        return problem
    widest = problem.scale * float(np.max(problem.box[1] - problem.box[0]))
    factor = min(designed, widest) / problem.scale
    return problem if factor <= 1.0 else problem.rescaled(factor)
