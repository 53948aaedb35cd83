"""Hierarchical splitting for Gaussian mixtures: one component, then two, four, ... until there are enough.

Keriven (2017), Algorithm 6.  Fast, and good for smooth densities with many components; poor for well separated
clusters, which splitting rarely reaches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.atoms.gaussian import DiagonalGaussian, SphericalGaussian
from sketchlearn.decoders.atom_clompr import ascend, hard_threshold, width
from sketchlearn.decoders.atom_problem import AtomFit, AtomProblem
from sketchlearn.decoders.gaussian_clompr import decode_published
from sketchlearn.decoders.solution import MixtureSolution
from sketchlearn.sketches.value import Sketch

_INNER, _FINAL = 100, 600


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
        Random points among which the first component's start is chosen (1: as published).
    trace : list, optional
        Gets one dict per start.

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

    def run(problem: AtomProblem) -> AtomFit:
        return splitting(problem, n_components, rng, candidates)

    return decode_published(sketch, n_components, covariance_type, rng, run, starts, trace, "splitting")


def splitting(problem: AtomProblem, k: int, rng: np.random.Generator, candidates: int) -> AtomFit:
    """Double the components until there are k, refitting after every doubling."""
    d = problem.operator.shape[1]
    frozen = problem.atom.round_shapes([1.0], d) if problem.atom.shared else None
    mean, shape = ascend(problem, problem.z, max(width(problem, k), 0.5), frozen, rng, candidates)
    fit = problem.refine(AtomFit(mean, np.ones(1), shape), _INNER)
    while len(fit.means) < k:
        fit = split_all(problem, fit)
        if len(fit.means) > k:
            fit = hard_threshold(problem, fit, k)
        fit = AtomFit(fit.means, problem.solve_weights(problem.atoms(fit)), fit.shapes)
        fit = problem.refine(fit, _FINAL if len(fit.means) == k else _INNER)
    return fit


def split_all(problem: AtomProblem, fit: AtomFit) -> AtomFit:
    """Every component becomes two, one standard deviation to either side along its longest axis."""
    k, d = fit.means.shape
    s = problem.atom.describe(fit.shapes, d)["covariances"]
    if isinstance(problem.atom, SphericalGaussian):
        step = np.sqrt(s)[:, None] * np.eye(d)[np.arange(k) % d]
    elif isinstance(problem.atom, DiagonalGaussian):
        step = np.sqrt(s.max(1))[:, None] * np.eye(d)[s.argmax(1)]
    else:
        values, vectors = np.linalg.eigh(np.broadcast_to(s, (k, d, d)))
        step = vectors[:, :, -1] * np.sqrt(values[:, -1:])
    shapes = fit.shapes if problem.atom.shared else np.vstack([fit.shapes, fit.shapes])
    return AtomFit(np.vstack([fit.means - step, fit.means + step]), np.tile(fit.weights / 2, 2), shapes)
