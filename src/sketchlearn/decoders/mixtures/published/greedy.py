"""CL-OMPR and hierarchical splitting for Gaussian mixtures, with the certificate of the default decoder.

Keriven, Bourrier, Gribonval & Perez (2018), "Sketching for large-scale learning of mixture models"; Keriven (2017),
Algorithms 3, 4 and 6 (:mod:`sketchlearn.decoders.steps.pursuit`).  Several starts are an addition: the one with the
smallest misfit is kept.  Splitting is fast, and good for smooth densities with many components; it rarely reaches well
separated clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sketchlearn.decoders import noise
from sketchlearn.decoders.drive import Run
from sketchlearn.decoders.families import GAUSSIANS, Family
from sketchlearn.decoders.mixtures.certificate import certify, solution
from sketchlearn.decoders.mixtures.default import mixture_problem
from sketchlearn.decoders.mixtures.setting import Setting
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import MixtureSolution
from sketchlearn.decoders.state import LIGHTEST, State
from sketchlearn.decoders.steps.pursuit import ascend, clompr, first_variance, normal_places, splitting
from sketchlearn.designs.gmm import check_covariance_type
from sketchlearn.sketches.value import Sketch
from sketchlearn.threads import single_blas_thread

Runner = Callable[[Problem, Family, float], State]


def decode_gaussian_clompr(
    sketch: Sketch,
    n_components: int,
    covariance_type: str = "diag",
    *,
    rng: np.random.Generator,
    starts: int = 3,
    candidates: int = 50,
    trace: list[dict[str, Any]] | None = None,
) -> MixtureSolution:
    """Decode a Gaussian mixture with CL-OMPR.

    Parameters
    ----------
    sketch : Sketch
        Of Fourier features.
    n_components : int
        Number of components.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Shape of the components (published for "diag").
    rng : numpy Generator
        Source of the random starts.
    starts : int
        At most this many runs; no more once the misfit is near the noise floor.
    candidates : int
        Random points among which each ascent's start is chosen (1: as published).
    trace : list, optional
        Gets one dict per start.

    Returns
    -------
    MixtureSolution

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.designs.gmm import design_gmm
    >>> X = np.random.default_rng(0).normal(size=(4000, 1)) + np.repeat([[5.0], [14.0]], 2000, axis=0)
    >>> s = sl.sketch(X, design_gmm(X[::4], 2, "diag", seed=0))
    >>> solution = sl.decode(s, 2, task="gmm", decoder="clompr", covariance_type="diag", random_state=0)
    >>> np.sort(solution.means[:, 0]).round(0)
    array([ 5., 14.])
    """

    def run(problem: Problem, family: Family, smallest: float) -> State:
        return clompr(problem, family, n_components, rng, candidates, smallest=smallest)

    return _decode(sketch, n_components, covariance_type, rng, run, starts, trace, "CL-OMPR")


def decode_gaussian_splitting(
    sketch: Sketch,
    n_components: int,
    covariance_type: str = "diag",
    *,
    rng: np.random.Generator,
    starts: int = 3,
    candidates: int = 50,
    trace: list[dict[str, Any]] | None = None,
) -> MixtureSolution:
    """Decode a Gaussian mixture by splitting.

    Parameters
    ----------
    sketch, n_components, covariance_type, rng, starts, trace
        As for :func:`decode_gaussian_clompr`.
    candidates : int
        Random points among which the first component's start is chosen (1: as published).

    Returns
    -------
    MixtureSolution

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.designs.gmm import design_gmm
    >>> X = np.random.default_rng(0).normal(size=(4000, 1)) + np.repeat([[5.0], [9.0]], 2000, axis=0)
    >>> s = sl.sketch(X, design_gmm(X[::4], 2, "diag", seed=0))
    >>> solution = sl.decode(s, 2, task="gmm", decoder="splitting", covariance_type="diag", random_state=0)
    >>> np.sort(solution.means[:, 0]).round(0)
    array([5., 9.])
    """

    def run(problem: Problem, family: Family, smallest: float) -> State:
        points = normal_places(problem, candidates, rng)
        variance = max(first_variance(problem, n_components), 0.5)
        shapes = family.rounded(np.full(len(points), variance), problem.dim)
        place, shape = ascend(problem, family, problem.z, points, shapes, smallest=smallest, largest=4.0)
        return splitting(problem, family, n_components, place, shape, smallest=smallest)

    return _decode(sketch, n_components, covariance_type, rng, run, starts, trace, "splitting")


def _decode(
    sketch: Sketch,
    k: int,
    kind: str,
    rng: np.random.Generator,
    algorithm: Runner,
    starts: int,
    trace: list[dict[str, Any]] | None,
    name: str,
) -> MixtureSolution:
    """The best of several runs of a published algorithm, with the certificate of the default decoder."""
    check_covariance_type(kind)
    if starts < 1:
        raise ValueError(f"starts must be positive, got {starts!r}")
    base, family = mixture_problem(sketch, kind), GAUSSIANS[kind]
    # the published algorithms weigh all frequencies alike
    problem = base.reweighted(np.ones(base.size))
    run, setting = Run(), Setting.of(base, family, k, rng)
    smallest = 1e-2 / base.effective_radius(k) ** 2
    attempts = ((f"{name}, run {i + 1}", partial(algorithm, problem, family, smallest)) for i in range(starts))
    with single_blas_thread:
        found = run.best_of(attempts, lambda state: problem.floor(state)[0], noise.SLACK)
        certificate = certify(setting, found.with_weights(np.maximum(found.weights, LIGHTEST)))
    setting.rounds = len(run.trace)
    if trace is not None:
        trace += run.trace
    return solution(setting, certificate, name, run.trace)
