"""A Gaussian mixture that describes a sketch of any data, down to its noise where that can be had.

The question is not which components there are but what the characteristic function is at frequencies that the
sketch does not hold: more components than needed do little harm, too few do.  One component comes first, with a full
covariance if a diagonal one will not do.  Where the misfit stays above the noise floor, more components with diagonal
covariances follow, in the metric of the first, in which the columns are uncorrelated and of one width.  Where the
frequencies are so low that only mean and covariance show, these are read off directly; where they are so high that
nothing shows, the box has to do.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from sketchlearn.arrays import Array
from sketchlearn.decoders import noise
from sketchlearn.decoders.metric import View, box_of
from sketchlearn.decoders.mixtures.default import decode_problem
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.solution import MixtureSolution
from sketchlearn.designs.gmm import parameter_count
from sketchlearn.features.characteristic import characteristic
from sketchlearn.models.mixture import Mixture
from sketchlearn.sketches.value import Sketch
from sketchlearn.threads import single_blas_thread

_FULL = 0.6  # parameters of the mixture per number of the sketch, at most: beyond that it follows the noise
FREQUENCIES = 600  # that the mixture is decoded from, where nobody draws from it: more change little


def describe(sketch: Sketch, frequencies: int = FREQUENCIES) -> Mixture:
    """A mixture, with full covariances, whose characteristic function is near that of the rows.

    It is decoded from so many of the first frequencies of a sketch of Fourier features.
    """
    features = characteristic(sketch.features, "a description")
    rng = np.random.default_rng(0)
    metric = np.eye(features.dim) if features.whitening is None else np.asarray(features.whitening, np.float64)
    near = location(sketch)
    view = _view(sketch, metric, near, frequencies)
    if np.abs(view.mean).min() > 0.98:  # nothing shows but mean and covariance
        return _from_moments(view).mapped(np.asarray(np.linalg.inv(metric), np.float64))
    with single_blas_thread:  # many small products: more than one thread only costs
        try:
            found = _one_component(Problem.from_view(view), rng)
        except ValueError:  # nothing stands above the noise
            return _from_box(sketch)
        if not _explained(found):
            variances, axes = np.linalg.eigh(found.mixture.full_covariances()[0])
            variances += noise.ROUNDING * variances.mean()  # axes first: what is round stays diagonal
            metric = (axes / np.sqrt(variances)).T @ metric
            found = _climb_ladder(Problem.from_view(_view(sketch, metric, near, frequencies)), rng, frequencies)
    return found.mixture.mapped(np.asarray(np.linalg.inv(metric), np.float64))


def _view(sketch: Sketch, metric: Array, near: Array, frequencies: int) -> View:
    """Some of the frequencies, all taken alike; what is decoded from them is a mixture of the rows A x."""
    view = View.of(sketch, metric, first=frequencies, near=near)
    return replace(view, broad=np.ones_like(view.broad), importance=np.ones_like(view.importance))


def _decoded(problem: Problem, k: int, kind: str, rng: np.random.Generator) -> MixtureSolution:
    return decode_problem(problem, k, kind, rng=rng, starts=1, rounds=1, project=False).solution


def _affordable(size: int, dim: int, kind: str) -> bool:
    """Is a sketch of this size large enough for one component of this shape?"""
    return parameter_count(1, dim, kind) <= _FULL * 2 * size


def _one_component(problem: Problem, rng: np.random.Generator) -> MixtureSolution:
    """A diagonal covariance, or a full one if that explains much more (many parameters follow the noise)."""
    found = _decoded(problem, 1, "diag" if _affordable(problem.size, problem.dim, "diag") else "spherical", rng)
    if _explained(found) or not _affordable(problem.size, problem.dim, "full"):
        return found
    full = _decoded(problem, 1, "full", rng)
    return full if full.ratio < found.ratio / noise.SLACK else found


def _explained(found: MixtureSolution) -> bool:
    return found.ratio <= 1.0 + noise.DEVIATIONS * found.deviation


def location(sketch: Sketch) -> Array:
    """A place among the rows, (d,), as a start: with outliers the middle of the box may be far from all of them.

    The average of ``Re z exp(-i w·x)`` is a smooth estimate of the density at x.  The best of some places is
    improved by the phases, which are linear in the place: those of low frequencies first, which don't wrap.
    """
    features = characteristic(sketch.features, "a description")
    operator = features.operator(dtype=np.float64).rows(np.arange(min(FREQUENCIES, features.size)))
    z = sketch.mean[:FREQUENCIES]
    lower, upper = box_of(sketch)
    width = upper - lower
    rng = np.random.default_rng(0)
    # along the diagonal of the box, and as many at random
    shares = np.concatenate([np.linspace(0, 1, 257)[:, None] * np.ones(len(width)), rng.random((256, len(width)))])
    places = np.concatenate([lower + width * shares, np.clip(np.zeros((1, len(width))), lower, upper)])
    if features.center is not None:
        places = np.concatenate([places, features.center[None]])
    place = places[np.argmax((np.exp(-1j * operator.forward(places)) @ z).real)]
    norms = np.sqrt(operator.squared_norms)
    for cut in np.quantile(norms, np.linspace(0.1, 0.5, 8)):
        low = np.exp(-0.5 * (norms / cut) ** 2)
        turned = low * z * np.exp(-1j * operator.forward(place[None])[0])
        pull = operator.adjoint(turned.imag[None])[0]
        stiff = operator.quadratic_adjoint((low * np.abs(z))[None], "full")[0]
        place = np.clip(place + np.linalg.lstsq(stiff, pull, rcond=1e-8)[0], lower, upper)
    return place


def _climb_ladder(problem: Problem, rng: np.random.Generator, frequencies: int) -> MixtureSolution:
    """The fewest components that explain the sketch, or the most that do well.

    They have at most two thirds of a parameter per frequency, as more change little, and half a parameter per row.
    """
    parameters = min(_FULL * 2 * problem.size, 2 / 3 * frequencies, problem.n / 2)
    most = max(1, int(parameters / (2 * problem.dim + 1)))
    steps = sorted({min(k, most) for k in (8, 16, 32)})
    tried = []
    for k in steps:
        tried.append(_decoded(problem, k, "diag", rng))
        if _explained(tried[-1]):
            break
    least = min(s.ratio for s in tried)
    return next(s for s in reversed(tried) if s.ratio <= noise.SLACK * least)


def _from_moments(view: View) -> Mixture:
    """One component for frequencies so low that only mean and covariance show: log z = i w·mean - w'Cov w/2."""
    size, d = view.operator.shape
    w = view.operator.frequencies()
    log = np.log(view.mean * np.exp(-1j * (w @ view.place)))
    mean = view.place + np.linalg.lstsq(w, log.imag, rcond=None)[0]
    kind = next((kind for kind in ("full", "diag") if _affordable(size, d, kind)), "spherical")
    if kind == "spherical":
        squares = (w * w).sum(1)
        covariance = -2.0 * float(squares @ log.real / (squares @ squares)) * np.eye(d)
    else:
        i, j = np.tril_indices(d) if kind == "full" else (np.arange(d), np.arange(d))
        found = np.linalg.lstsq(w[:, i] * w[:, j] * np.where(i == j, 1.0, 2.0), -2.0 * log.real, rcond=None)[0]
        covariance = np.zeros((d, d))
        covariance[i, j] = covariance[j, i] = found
    values, vectors = np.linalg.eigh(covariance)
    return Mixture(np.ones(1), mean[None], ((vectors * np.maximum(values, 0.0)) @ vectors.T)[None])


def _from_box(sketch: Sketch) -> Mixture:
    """One normal component whose largest and smallest of n rows would be about those seen."""
    lower, upper = box_of(sketch)
    width = (upper - lower) / (-2.0 * ndtri(1.0 / (2.0 + float(sketch.count))))
    middle = 0.5 * (lower + upper)
    return Mixture(np.ones(1), middle[None], np.diag(width**2)[None])
