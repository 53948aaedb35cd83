"""A Gaussian mixture that describes a sketch of any data, down to its noise where that can be had.

The question is not which components there are but what the characteristic function is at frequencies that the
sketch does not hold: more components than needed do little harm, too few do.  One component comes first, with a full
covariance if a diagonal one will not do.  Where the misfit stays above the noise floor, more components with diagonal
covariances follow, in the metric of the first, in which the columns are uncorrelated and of one width.  Where the
frequencies are so low that only mean and covariance show, these are read off directly; where they are so high that
nothing shows, the box has to do.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from sketchlearn.decoders.gmm import decode_gmm
from sketchlearn.decoders.metric import moved
from sketchlearn.decoders.mixture import Mixture
from sketchlearn.decoders.problem import Array
from sketchlearn.decoders.solution import MixtureSolution
from sketchlearn.designs.gmm import parameter_count
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.radial import GaussianLaw
from sketchlearn.sketches.value import Sketch

_LADDER = (8, 16, 32)  # components that are tried after one
_PARAMETERS = 400  # of the mixture, at most: more cost time and change little
_FULL = 0.6  # parameters of the mixture per number of the sketch, at most: beyond that it follows the noise
_ROUNDS = 1  # of splitting and merging
_FREQUENCIES = 600  # that the mixture is decoded from: more cost time and change little
_DEVIATIONS = 2.0  # of the noise floor, within which the sketch counts as explained
_CLOSE = 1.5  # times the least misfit, up to which more components are preferred to fewer
_NEAR_ONE = 0.98  # averages so near 1 tell of nothing but mean and covariance
_PLACES = 256  # where rows are looked for: along the diagonal of the box, and as many at random
_COARSE_TO_FINE = 8  # steps in which the best of these places is improved
_ROUND = 1e-9  # relative variance of a direction without any


def describe(sketch: Sketch) -> Mixture:
    """A mixture, with full covariances, whose characteristic function is near that of the rows.

    Parameters
    ----------
    sketch : Sketch
        Of Fourier features.

    Returns
    -------
    Mixture

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.comparison.description import describe
    >>> X = np.random.default_rng(0).uniform(size=(5000, 2))
    >>> mixture = describe(sl.sketch(X, sl.FourierFeatures.draw(dim=2, size=100, scale=0.5, seed=0)))
    >>> mixture.mean.round(1)
    array([0.5, 0.5])
    """
    features = sketch.features
    assert isinstance(features, FourierFeatures)
    rng = np.random.default_rng(0)
    matrix = np.eye(features.dim) if features.whitening is None else features.whitening
    plain = moved(sketch, matrix, GaussianLaw(), size=_FREQUENCIES, center=location(sketch))
    if np.abs(plain.mean).min() > _NEAR_ONE:
        return _carried_back(_from_moments(plain), matrix)
    try:
        found = _one_component(plain, rng)
    except ValueError:  # nothing stands above the noise
        return _from_box(sketch)
    if not _explained(found):
        spread = found.mixture.full_covariances()[0]
        root = np.linalg.cholesky(spread + _ROUND * np.trace(spread) / len(spread) * np.eye(len(spread)))
        back = np.asarray(np.linalg.inv(root), np.float64)
        view = moved(plain, back, GaussianLaw())
        matrix = back @ matrix
        found = _climb_ladder(view, rng)
    return _carried_back(found.mixture, matrix)


def _decoded(sketch: Sketch, k: int, kind: str, rng: np.random.Generator) -> MixtureSolution:
    return decode_gmm(sketch, k, kind, rng=rng, starts=1, rounds=_ROUNDS, project=False)


def _affordable(sketch: Sketch, kind: str) -> bool:
    """Is the sketch large enough for one component of this shape?"""
    return parameter_count(1, sketch.features.dim, kind) <= _FULL * 2 * sketch.features.size


def _one_component(sketch: Sketch, rng: np.random.Generator) -> MixtureSolution:
    """A diagonal covariance, or a full one if that explains much more (many parameters follow the noise)."""
    found = _decoded(sketch, 1, "diag" if _affordable(sketch, "diag") else "spherical", rng)
    if _explained(found) or not _affordable(sketch, "full"):
        return found
    full = _decoded(sketch, 1, "full", rng)
    return full if full.ratio < found.ratio / _CLOSE else found


def _explained(found: MixtureSolution) -> bool:
    return found.ratio <= 1.0 + _DEVIATIONS * found.deviation


def location(sketch: Sketch) -> Array:
    """A place among the rows, (d,), as a start: with outliers the middle of the box may be far from all of them.

    The average of ``Re z exp(-i w·x)`` is a smooth estimate of the density at x.  The best of some places is
    improved by the phases, which are linear in the place: those of low frequencies first, which don't wrap.
    """
    features = sketch.features
    assert isinstance(features, FourierFeatures)
    w, z = features.frequencies[:_FREQUENCIES], sketch.mean[:_FREQUENCIES]
    lower, width = sketch.lower, sketch.upper - sketch.lower
    rng = np.random.default_rng(0)
    shares = np.concatenate(
        [np.linspace(0, 1, _PLACES + 1)[:, None] * np.ones(len(width)), rng.random((_PLACES, len(width)))]
    )
    places = np.concatenate([lower + width * shares, np.clip(np.zeros((1, len(width))), lower, sketch.upper)])
    if features.center is not None:
        places = np.concatenate([places, features.center[None]])
    place = places[np.argmax((np.exp(-1j * (places @ w.T)) @ z).real)]
    norms = np.sqrt((w**2).sum(1))
    for cut in np.quantile(norms, np.linspace(0.1, 0.5, _COARSE_TO_FINE)):
        low = np.exp(-0.5 * (norms / cut) ** 2)
        turned = low * z * np.exp(-1j * (w @ place))
        pull, stiff = w.T @ turned.imag, (w.T * (low * np.abs(z))) @ w
        place = np.clip(place + np.linalg.lstsq(stiff, pull, rcond=1e-8)[0], lower, sketch.upper)
    return place


def _climb_ladder(sketch: Sketch, rng: np.random.Generator) -> MixtureSolution:
    """The fewest components of the ladder that explain the sketch, or the most that do well."""
    size, dim = sketch.features.size, sketch.features.dim
    most = max(1, int(min(_FULL * 2 * size, _PARAMETERS) / (2 * dim + 1)))
    steps = sorted({min(k, most) for k in _LADDER})
    tried = []
    for k in steps:
        tried.append(_decoded(sketch, k, "diag", rng))
        if _explained(tried[-1]):
            break
    least = min(s.ratio for s in tried)
    return next(s for s in reversed(tried) if s.ratio <= _CLOSE * least)


def _carried_back(mixture: Mixture, matrix: Array) -> Mixture:
    """From the rows A x to the rows x."""
    inverse = np.linalg.inv(matrix)
    covariances = inverse @ mixture.full_covariances() @ inverse.T
    return Mixture(mixture.weights, mixture.means @ inverse.T, covariances)


def _from_moments(sketch: Sketch) -> Mixture:
    """One component for frequencies so low that only mean and covariance show: log z = i w·mean - w'Cov w/2."""
    features = sketch.features
    assert isinstance(features, FourierFeatures)
    assert features.center is not None
    w, d = features.frequencies, features.dim
    log = np.log(sketch.mean * np.exp(-1j * (w @ features.center)))
    mean = features.center + np.linalg.lstsq(w, log.imag, rcond=None)[0]
    kind = next((kind for kind in ("full", "diag") if _affordable(sketch, kind)), "spherical")
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
    width = (sketch.upper - sketch.lower) / (-2.0 * ndtri(1.0 / (2.0 + float(sketch.count))))
    middle = 0.5 * (sketch.lower + sketch.upper)
    return Mixture(np.ones(1), middle[None], np.diag(width**2)[None])
