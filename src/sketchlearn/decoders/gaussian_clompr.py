"""CL-OMPR for Gaussian mixtures: greedy, one component at a time, with replacement.

Keriven, Bourrier, Gribonval & Perez (2018), "Sketching for large-scale learning of mixture models"; Keriven (2017),
Algorithms 3 and 4.  Kept as published, with two additions that can be switched off: several starts of which the
one with the smallest misfit is kept, and the choice of the best of a few candidates before each ascent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sketchlearn.atoms.base import Array, ComplexArray
from sketchlearn.atoms.gaussian import GAUSSIANS
from sketchlearn.decoders.family import FamilyFit, FamilyProblem, joined
from sketchlearn.decoders.gmm import MixtureTask, at_designed_scale
from sketchlearn.decoders.metric import whitened
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.refine import Fit
from sketchlearn.decoders.search import lbfgs
from sketchlearn.decoders.solution import MixtureSolution
from sketchlearn.designs.gmm import check_covariance_type
from sketchlearn.sketches.value import Sketch

_INNER, _FINAL = 60, 600  # quasi-Newton steps within the loop and at the end


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
    >>> from sketchlearn.decoders.gaussian_clompr import decode_gaussian_clompr
    >>> X = np.random.default_rng(0).normal(size=(4000, 1)) + np.repeat([[5.0], [14.0]], 2000, axis=0)
    >>> s = sl.sketch(X, design_gmm(X[::4], 2, "diag", seed=0))
    >>> np.sort(decode_gaussian_clompr(s, 2, rng=np.random.default_rng(0)).means[:, 0]).round(0)
    array([ 5., 14.])
    """

    def run(problem: FamilyProblem) -> FamilyFit:
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
    view, matrix = whitened(sketch, kind)
    base = at_designed_scale(Problem.from_sketch(view), view)
    atom = GAUSSIANS[kind]()
    # the published algorithms weigh all frequencies alike
    problem = FamilyProblem.of(base, atom, 1e-2 / base.effective_radius(k) ** 2, 4.0)
    problem = problem.reweighted(np.ones(base.size))
    best: tuple[float, Fit, MixtureTask] | None = None
    with threadpool_limits(1, "blas"):
        for start in range(starts):
            found = run(problem)
            fit = Fit(
                found.means, np.maximum(found.weights, 1e-6), atom.describe(found.shapes, base.dim)["covariances"], 0.0
            )
            task = MixtureTask(base, view, kind, k, rng, trace, decoder=name)
            task.certify(fit)
            task.note(start=start, ratio=task.ratio)
            if best is None or found.value < best[0]:
                best = found.value, fit, task
            if best[2].ratio < best[2].limit:
                break
    assert best is not None
    best[2].rounds = start + 1
    return best[2].solution(best[1], matrix)


def clompr(problem: FamilyProblem, k: int, rng: np.random.Generator, candidates: int) -> FamilyFit:
    """2k rounds: add the atom most correlated with the residual, drop the weakest beyond k, refit everything."""
    d, shared = problem.w.shape[1], problem.atom.shared
    variance = width(problem, k)
    fit = FamilyFit(np.zeros((0, d)), np.zeros(0), problem.atom.round_shapes([variance], d)[: 1 if shared else 0])
    for step in range(2 * k):
        residual = problem.z if len(fit.means) == 0 else problem.residual(fit)
        mean, shape = ascend(problem, residual, variance, fit.shapes if shared else None, rng, candidates)
        fit = joined(fit, mean, shape, shared)
        if len(fit.means) > k:
            fit = hard_threshold(problem, fit, k)
        fit = FamilyFit(fit.means, problem.solve_weights(problem.atoms(fit)), fit.shapes)
        fit = problem.refine(fit, _FINAL if step == 2 * k - 1 else _INNER)
    return fit


def width(problem: FamilyProblem, k: int) -> float:
    """A first variance of a component, from where |z|^2 falls to exp(-2)/k."""
    radii = np.sqrt((problem.w**2).sum(1))
    strong = np.abs(problem.z) ** 2 >= np.exp(-2.0) / k
    return 2.0 / float(np.quantile(radii[strong], 0.9) if strong.any() else radii.min()) ** 2


def ascend(
    problem: FamilyProblem,
    residual: ComplexArray,
    variance: float,
    frozen: Array | None,
    rng: np.random.Generator,
    candidates: int,
) -> tuple[Array, Array]:
    """A local maximum of the correlation of a normalised atom with the residual (Keriven 2017, eq. 4.14)."""
    atom, d = problem.atom, problem.w.shape[1]
    points = problem.spread * rng.standard_normal((candidates, d))
    points = np.clip(points, *problem.box)
    widths = variance * rng.uniform(0.5, 1.5, candidates)
    shapes = np.repeat(frozen, candidates, 0) if frozen is not None else atom.round_shapes(widths, d)
    plain = np.repeat(shapes[:1], candidates, 0) if len(shapes) == 1 else shapes
    atoms = np.concatenate([atom.value(points[i : i + 1], plain[i : i + 1], problem.w) for i in range(candidates)])
    norms = np.sqrt((np.abs(atoms) ** 2).sum(1))
    first = int(np.argmax((np.conj(residual) * atoms).real.sum(1) / norms))
    low, high = atom.shape_bounds(d, problem.smallest, problem.largest)
    if frozen is not None:
        low = high = plain[first]
    lower, upper = np.append(problem.box[0], low), np.append(problem.box[1], high)
    unit = np.append(np.full(d, np.sqrt(variance)), np.maximum(np.abs(plain[first]), 0.1 * np.sqrt(variance)))

    def fun(v: Array) -> tuple[float, Array]:
        x = v * unit
        mean, shape = x[None, :d], x[None, d:]
        f = atom.value(mean, shape, problem.w)
        norm = float(np.sqrt((np.abs(f) ** 2).sum()))
        height = float((np.conj(residual) * f[0]).real.sum()) / norm
        g_mean, g_shape = atom.vjp(mean, shape, problem.w, (residual - height / norm * f[0])[None])
        return -height, -np.concatenate([g_mean[0], g_shape[0]]) / norm * unit

    start = np.clip(np.append(points[first], plain[first]), lower, upper)
    x = lbfgs(fun, start / unit, lower / unit, upper / unit, _INNER, 10, 1e-9)[0] * unit
    return x[None, :d], x[None, d:]


def hard_threshold(problem: FamilyProblem, fit: FamilyFit, k: int) -> FamilyFit:
    """The k components with the largest weights of normalised atoms."""
    atoms = problem.atoms(fit)
    norms = np.sqrt((np.abs(atoms) ** 2) @ problem.u)
    beta = problem.solve_weights(atoms / norms[:, None])
    keep = np.sort(np.argsort(-beta)[:k])
    return fit.select(keep, fit.weights[keep])
