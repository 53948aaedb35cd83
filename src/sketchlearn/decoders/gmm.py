"""The default decoder for Gaussian mixtures: nothing to tune, and it says whether it worked.

1. Components are searched with a shared width (:mod:`sketchlearn.decoders.search`), first as many as asked
   for, then, if that leaves something unexplained, two or three times as many, merged down.
2. They get widths of their own, then covariances of the type asked for.
3. Rounds of splitting and merging, guided by what the sketch still holds, until the misfit is at the
   noise floor.
4. All frequencies are reweighted by the noise that is left once each component's own weight, mean and
   covariance have been fitted, and everything is refined again.  One pseudo-row per component, with the
   pooled covariance, keeps directions that the sketch does not resolve from collapsing.
5. A mixture that explains the data takes a last step in the metric of the sampling noise, with all its correlations
   (:mod:`sketchlearn.decoders.gaussian.efficient`), after which it is about as good as EM on the rows.
6. If the misfit stays above the noise floor by more than chance, the data are not such a mixture.  A richer
   mixture is then fitted to the sketch, and the model is the projection of that density on the family asked for
   (maximum likelihood on points drawn from it): what EM would do, had it the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.decoders.gaussian.certificate import finish, in_rows, solution
from sketchlearn.decoders.gaussian.efficient import efficient
from sketchlearn.decoders.gaussian.moves import explore, from_start
from sketchlearn.decoders.gaussian.projection import project as projected
from sketchlearn.decoders.gaussian.setting import Setting, simplex
from sketchlearn.decoders.metric import View, whiten, whitening_metric
from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.refine import Fit
from sketchlearn.decoders.solution import MixtureSolution
from sketchlearn.designs.gmm import check_covariance_type
from sketchlearn.features.characteristic import CharacteristicMap, characteristic
from sketchlearn.sketches.value import Sketch
from sketchlearn.threads import single_blas_thread

_ROUNDS = 12  # of splitting and merging


def decode_gmm(
    sketch: Sketch,
    n_components: int,
    covariance_type: str = "full",
    *,
    rng: np.random.Generator,
    start: Mixture | None = None,
    starts: int = 4,
    rounds: int = _ROUNDS,
    project: bool = True,
    trace: list[dict[str, Any]] | None = None,
) -> MixtureSolution:
    """Decode a Gaussian mixture from a sketch.

    Parameters
    ----------
    sketch : Sketch
        Of Fourier features, best from :func:`sketchlearn.designs.gmm.design_gmm`.
    n_components : int
        Number of components.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Shape of the components.
    rng : numpy Generator
        Source of the random starts.
    start : Mixture, optional
        An earlier model to start from; the search runs only if it does not explain the sketch.
    starts : int
        At most this many searches; no more once the misfit is at the noise floor, and none if `start` is
        given and this is 0.
    rounds : int
        At most this many rounds of splitting and merging after each search.
    project : bool
        For data that no such mixture explains, return the projection of a richer mixture (step 5 of the
        module) instead of the least-squares fit to the sketch.
    trace : list, optional
        Gets one dict per round.

    Returns
    -------
    MixtureSolution

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
    if n_components < 1:
        raise ValueError(f"n_components must be a positive integer, got {n_components!r}")
    # many small products: more than one thread only costs
    with single_blas_thread:
        problem = mixture_problem(sketch, covariance_type)
        found = decode_problem(
            problem,
            n_components,
            covariance_type,
            rng=rng,
            start=start,
            starts=starts,
            rounds=rounds,
            project=project,
            trace=trace,
        )
        try:
            return efficient(View.of(sketch, problem.metric), problem, found, rng)
        except np.linalg.LinAlgError:  # so few rows that the noise has no covariance to speak of
            return found


def decode_problem(
    problem: Problem,
    k: int,
    kind: str,
    *,
    rng: np.random.Generator,
    start: Mixture | None = None,
    starts: int = 4,
    rounds: int = _ROUNDS,
    project: bool = True,
    trace: list[dict[str, Any]] | None = None,
) -> MixtureSolution:
    """:func:`decode_gmm` for a sketch that has been normalised."""
    setting = Setting.of(problem, kind, k, rng, trace)
    fit = None
    if start is not None:
        _, s = whiten(start.means, start.full_covariances(), "full", problem.metric)
        begin = Fit(problem.normalised(start.means), start.weights, s / problem.scale**2)
        fit = from_start(setting, begin, rounds)
    if fit is None or (starts > 0 and not setting.explained(fit)):
        found = explore(setting, starts, rounds)
        fit = found if fit is None or found.value < fit.value else fit
    certificate = finish(setting, fit)
    richer = None
    if project and certificate.ratio > certificate.limit:
        certificate, rich = projected(setting, certificate)
        if rich is not None:
            richer = Mixture(simplex(rich.weights), *in_rows(problem, rich.means, rich.covariances, "full"))
    return solution(setting, certificate, "tuning-free", richer)


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
