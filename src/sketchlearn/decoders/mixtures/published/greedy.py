"""CL-OMPR and hierarchical splitting for Gaussian mixtures, with the certificate of the default decoder.

Keriven, Bourrier, Gribonval & Perez (2018), "Sketching for large-scale learning of mixture models"; Keriven (2017),
Algorithms 3, 4 and 6 (:mod:`sketchlearn.decoders.steps.pursuit`).  Several starts are an addition: the one with the
smallest misfit is kept.  Splitting is fast, and good for smooth densities with many components; it rarely reaches well
separated clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from sketchlearn.decoders import noise
from sketchlearn.decoders.drive import Run, decoder
from sketchlearn.decoders.families import GAUSSIANS, Family
from sketchlearn.decoders.mixtures.certificate import certify, solution
from sketchlearn.decoders.mixtures.default import mixture_problem
from sketchlearn.decoders.mixtures.setting import Setting
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import MixtureSolution
from sketchlearn.decoders.state import LIGHTEST, State
from sketchlearn.decoders.steps.pursuit import Explained, ascend, clompr, first_variance, normal_places, splitting
from sketchlearn.designs.gmm import check_covariance_type
from sketchlearn.sketches.value import Sketch

Algorithm = Callable[[Problem, Family, int, float, int, np.random.Generator, Explained | None], State]


def published(name: str) -> Callable[[Algorithm], Callable[..., MixtureSolution]]:
    """Make a decoder of an algorithm (a decorator): the best of several runs, with the certificate of the default.

    The algorithm takes a problem, a family, a number of components, their smallest variance, a number of candidates,
    a generator, and a rule for stopping or None.
    """

    def made(algorithm: Algorithm) -> Callable[..., MixtureSolution]:
        @decoder
        def decode(
            sketch: Sketch,
            k: int,
            covariance_type: str = "diag",
            *,
            rng: np.random.Generator,
            starts: int = 3,
            candidates: int = 50,
            stop: bool = False,
        ) -> MixtureSolution:
            check_covariance_type(covariance_type)
            if starts < 1:
                raise ValueError(f"starts must be positive, got {starts!r}")
            base, family = mixture_problem(sketch, covariance_type), GAUSSIANS[covariance_type]
            # the published algorithms weigh all frequencies alike
            problem = base.reweighted(np.ones(base.size))
            run, setting = Run(), Setting.of(base, family, k, rng)

            def explained(state: State) -> bool:
                found = certify(replace(setting, k=state.k), state)
                return found.ratio <= found.limit

            once = partial(
                algorithm, problem, family, k, setting.smallest, candidates, rng, explained if stop else None
            )
            attempts = ((f"{name}, run {i + 1}", once) for i in range(starts))
            found = run.best_of(attempts, lambda state: problem.floor(state)[0], noise.SLACK)
            setting.k = found.k
            certificate = certify(setting, found.with_weights(np.maximum(found.weights, LIGHTEST)))
            setting.rounds = len(run.trace)
            return solution(setting, certificate, name, run.trace)

        decode.__module__, decode.__qualname__ = algorithm.__module__, algorithm.__name__
        decode.__doc__ = algorithm.__doc__
        return decode

    return made


@published("CL-OMPR")
def decode_gaussian_clompr(
    problem: Problem,
    family: Family,
    k: int,
    smallest: float,
    candidates: int,
    rng: np.random.Generator,
    explained: Explained | None = None,
) -> State:
    """Decode a Gaussian mixture with CL-OMPR (published for diagonal covariances).

    At most `starts` runs; no more once the misfit is near the noise floor.  The start of each ascent is chosen among
    `candidates` random points (1: as published).  With `stop`, k is the largest number of components: a run ends with
    as few as leave no more than noise.

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
    return clompr(problem, family, k, rng, candidates, smallest=smallest, explained=explained)


@published("splitting")
def decode_gaussian_splitting(
    problem: Problem,
    family: Family,
    k: int,
    smallest: float,
    candidates: int,
    rng: np.random.Generator,
    explained: Explained | None = None,
) -> State:
    """Decode a Gaussian mixture by splitting.

    At most `starts` runs; no more once the misfit is near the noise floor.  The start of the first component is chosen
    among `candidates` random points (1: as published).  With `stop`, k is the largest number of components: doubling
    ends once no more than noise is left, and components that are not needed for that are taken away.

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
    points = normal_places(problem, candidates, rng)
    variance = max(first_variance(problem, k), 0.5)
    shapes = family.rounded(np.full(len(points), variance), problem.dim)
    place, shape = ascend(problem, family, problem.z, points, shapes, smallest=smallest, largest=4.0)
    return splitting(problem, family, k, place, shape, smallest=smallest, explained=explained)
