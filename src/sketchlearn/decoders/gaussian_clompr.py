"""CL-OMPR for Gaussian mixtures: greedy, one component at a time, with replacement.

Keriven, Bourrier, Gribonval & Perez (2018), "Sketching for large-scale learning of mixture models"; Keriven (2017),
Algorithms 3 and 4 (:mod:`sketchlearn.decoders.atom_clompr`), with the certificate of the default decoder.  Several
starts are an addition: the one with the smallest misfit is kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.atoms.gaussian import GAUSSIANS
from sketchlearn.decoders.atom_clompr import clompr
from sketchlearn.decoders.atom_problem import AtomFit, AtomProblem
from sketchlearn.decoders.gaussian.certificate import Certificate, certify, solution
from sketchlearn.decoders.gaussian.setting import Setting
from sketchlearn.decoders.gmm import mixture_problem
from sketchlearn.decoders.refine import Fit
from sketchlearn.decoders.solution import MixtureSolution
from sketchlearn.designs.gmm import check_covariance_type
from sketchlearn.sketches.value import Sketch
from sketchlearn.threads import single_blas_thread


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

    def run(problem: AtomProblem) -> AtomFit:
        return clompr(problem, n_components, rng, candidates)

    return decode_published(sketch, n_components, covariance_type, rng, run, starts, trace, "CL-OMPR")


def decode_published(
    sketch: Sketch,
    k: int,
    kind: str,
    rng: np.random.Generator,
    run: Any,
    starts: int,
    trace: list[dict[str, Any]] | None,
    name: str,
) -> MixtureSolution:
    """The best of several runs of a published algorithm, with the certificate of the default decoder."""
    check_covariance_type(kind)
    if k < 1:
        raise ValueError(f"n_components must be a positive integer, got {k!r}")
    if starts < 1:
        raise ValueError(f"starts must be positive, got {starts!r}")
    base = mixture_problem(sketch, kind)
    atom = GAUSSIANS[kind]()
    # the published algorithms weigh all frequencies alike
    problem = AtomProblem.of(base, atom, 1e-2 / base.effective_radius(k) ** 2, 4.0)
    problem = problem.reweighted(np.ones(base.size))
    best: tuple[float, Certificate] | None = None
    setting = Setting.of(base, kind, k, rng, trace)
    with single_blas_thread:
        for start in range(starts):
            found = run(problem)
            covariances = atom.describe(found.shapes, base.dim)["covariances"]
            certificate = certify(setting, Fit(found.means, np.maximum(found.weights, 1e-6), covariances))
            setting.note(start=start, ratio=certificate.ratio)
            setting.rounds += 1
            if best is None or found.value < best[0]:
                best = found.value, certificate
            if best[1].ratio < best[1].limit:
                break
    assert best is not None
    return solution(setting, best[1], name)
