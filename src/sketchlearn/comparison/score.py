"""How well a model explains a sketch: its cost or log-likelihood on rows that nobody has any more.

The average of a function f over the rows is estimated in two steps.  A mixture Q decoded from the sketch gives the
average over Q.  What the mixture misses is corrected through the sketch: f is fitted, over a sample of Q, by the
features of the map, and the fit is averaged over the difference between the sketch and Q:

    E f  =  E_Q f + a·(z - z_Q) + rest,      f = a·features + residual over Q.

The rest is the average of the residual over the difference between the rows and Q.  Its size is taken to be the
standard deviation of the residual times the distance between the rows and Q along one direction, in units of Q: that
along the fit of f, and the average over the directions of the features beyond sampling noise.  This is the idea of
control variates and of regression estimators in survey sampling (Cochran, Sampling Techniques, 1977, chapter 7).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.arrays import Array, Complex
from sketchlearn.decoders.noise import added_variance
from sketchlearn.features.characteristic import characteristic
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.start import as_centers, as_mixture
from sketchlearn.sketches.value import Sketch

Function = Callable[[Array], Array]

_POINTS = 8_000  # sampled from the mixture; the features take most of the error of the sample away again
_ENTRIES = 400  # complex features that a function is fitted by: more cost time and follow the sample
_Z90 = 1.6448536269514722  # normal quantile of 0.95


@dataclass(frozen=True)
class Score:
    """How well a model explains the rows behind a sketch.

    Attributes
    ----------
    value : float
        Estimate of an average over the rows: the squared distance to the nearest centre, the log-likelihood, or the
        squared distance to the subspace.
    error : float
        Its standard error. It includes sampling noise, noise added to the sketch, and what the mixture may miss.
    what : str
        ``"cost"`` (smaller is better) or ``"log-likelihood"`` (larger is better).
    risk : float
        Misfit of the sketch by the model (centres with the best weights, or the mixture), over the misfit that
        noise alone gives: about 1 for a model that explains the sketch completely.
    rows : int or float
        Rows behind the sketch.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> s = sl.sketch(X, sl.FourierFeatures.draw(dim=2, size=100, scale=1.5, seed=0))
    >>> score = sl.score(s, [[0.0, 0.0]])
    >>> low, high = score.interval(0.9)
    >>> low < 2.0 < high, score.what
    (True, 'cost')
    """

    value: float
    error: float
    what: str
    risk: float
    rows: int | float

    def interval(self, coverage: float = 0.9) -> tuple[float, float]:
        """An interval that covers the true average with this probability."""
        from scipy.special import ndtri

        if not 0 < coverage < 1:
            raise ValueError(f"coverage must be between 0 and 1, got {coverage}")
        half = float(ndtri(0.5 + coverage / 2)) * self.error
        return self.value - half, self.value + half

    def __repr__(self) -> str:
        return f"Score({self.what}={self.value:.6g} ± {_Z90 * self.error:.2g} (90 %), risk={self.risk:.3g})"


def score(sketch: Sketch, model: Any, *, mixture: Any = None) -> Score:
    """How well centres, a mixture or a subspace explain the rows behind a sketch, without the rows.

    Parameters
    ----------
    sketch : Sketch
        A sketch of Fourier features. The model may never have seen its rows.
    model : array, estimator or model
        Centres (k, dim), or anything with ``cluster_centers_`` or ``centers``: the average squared distance to the
        nearest one.  A Gaussian mixture (:class:`sketchlearn.Mixture`, or anything with ``weights_``, ``means_`` and
        ``covariances_``): the average log-likelihood.  Anything with ``components_`` and ``mean_``: the average
        squared distance to the subspace.
    mixture : Mixture, optional
        A mixture that describes the sketch. By default, one is decoded; this is most of the work.

    Returns
    -------
    Score

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2)) + rng.choice([-5.0, 5.0], size=(4000, 1))
    >>> s = sl.sketch(X, sl.design(X, n_components=2))
    >>> good, bad = sl.score(s, [[-5.0, -5.0], [5.0, 5.0]]), sl.score(s, [[0.0, 0.0], [5.0, 5.0]])
    >>> good.value < bad.value, good.risk < bad.risk
    (True, True)
    """
    features = characteristic(sketch.features, "a score")
    if sketch.effective_count < 2:
        raise ValueError(f"a score needs at least two rows, got {sketch.effective_count:.6g}")
    function, what, law = _meaning(model, features.dim)
    from sketchlearn.decoders.description import describe  # loads the decoders of mixtures

    described = describe(sketch) if mixture is None else as_mixture(mixture, features.dim)
    value, error = Averager(sketch, described)(function)
    return Score(value, error, what, _risk(sketch, law, described), sketch.count)


def _meaning(model: Any, dim: int) -> tuple[Function, str, Any]:
    """What is averaged, its name, and the law of the model: centres or a mixture, None for a subspace."""
    model = getattr(model, "mixture", model)
    if isinstance(model, Mixture) or hasattr(model, "covariances_"):
        law = as_mixture(model, dim)
        return law.log_density, "log-likelihood", law
    if hasattr(model, "components_") and hasattr(model, "mean_"):
        basis, mean = np.asarray(model.components_, np.float64), np.asarray(model.mean_, np.float64)
        return lambda X: _beside(X - mean, basis), "cost", None
    centers = as_centers(model, dim)
    return lambda X: _nearest(X, centers), "cost", centers


def _nearest(X: Array, centers: Array) -> Array:
    squares = (X**2).sum(1)[:, None] - 2.0 * X @ centers.T + (centers**2).sum(1)
    return np.maximum(squares.min(1), 0.0)


def _beside(X: Array, basis: Array) -> Array:
    return np.maximum((X**2).sum(1) - ((X @ basis.T) ** 2).sum(1), 0.0)


class Averager:
    """Averages of functions over the rows behind a sketch; see the head of this file.

    `sketch`: of Fourier features. `mixture`: that describes it.
    """

    def __init__(self, sketch: Sketch, mixture: Mixture) -> None:
        features = characteristic(sketch.features, "a score")
        chosen = np.arange(min(features.size, _ENTRIES))
        self.rows = sketch.effective_count
        self.points, _ = mixture.sample(_POINTS, np.random.default_rng(0))
        phases = features.operator(dtype=np.float64).rows(chosen).forward(self.points)
        columns = np.concatenate([np.cos(phases), np.sin(phases)], axis=1)
        centre, z = columns.mean(0), sketch.mean[chosen]
        self._gap = np.concatenate([z.real, z.imag]) - centre
        self._columns = columns - centre
        covariance = self._columns.T @ self._columns / _POINTS
        self._added = np.tile(added_variance(sketch)[chosen] / 2.0, 2)
        # directions that noise of the sketch or of the sample hides are left out by the ridge
        noise = np.diag(covariance).mean() * (1.0 / self.rows + 1.0 / _POINTS)
        self._inverse = np.linalg.inv(covariance + np.diag(self._added + noise))
        seen = float(self._gap @ self._inverse @ self._gap)
        by_noise = float(
            np.sum(self._inverse * (covariance * (1.0 / self.rows + 1.0 / _POINTS) + np.diag(self._added)))
        )
        directions = float(np.sum(self._inverse * covariance))
        self._typical = max(seen - by_noise, 0.0) / max(directions, 1.0)

    def __call__(self, function: Function) -> tuple[float, float]:
        """The average of a function, and its standard error."""
        values = np.asarray(function(self.points), np.float64)
        centred = values - values.mean()
        slope = self._inverse @ (self._columns.T @ centred) / _POINTS
        fitted = self._columns @ slope
        residual = centred - fitted
        correction = float(slope @ self._gap)
        # the residual is taken to be as far off, in units of its spread, as the part of the function that the features
        # see, or as their average direction
        off = self._typical + correction**2 / max(float(fitted.var()), 1e-300) + 1.0 / self.rows
        sampling = values.var() / self.rows + float(slope @ (self._added * slope)) + residual.var() / _POINTS
        return float(values.mean()) + correction, float(np.sqrt(sampling + off * residual.var()))


def _risk(sketch: Sketch, law: Any, mixture: Mixture) -> float:
    """Misfit of the sketch by a model with its best weights, over the misfit of noise alone."""
    from scipy.optimize import nnls

    features = characteristic(sketch.features, "a score")
    chosen = np.arange(min(features.size, 1000))
    operator = features.operator(dtype=np.float64).rows(chosen)
    z, variance = sketch.mean[chosen], sketch.variances[chosen]
    if law is None:
        return float("nan")
    if isinstance(law, Mixture):
        atoms = _characteristic_values(law, operator)
    else:
        atoms = np.exp(1j * operator.forward(law))
    if isinstance(law, Mixture):
        model = law.weights @ atoms
    else:
        weight = 1.0 / np.sqrt(np.maximum(variance, 1e-12))
        A = np.concatenate([(atoms * weight).real, (atoms * weight).imag], axis=1).T
        b = np.concatenate([(z * weight).real, (z * weight).imag])
        model = nnls(A, b)[0] @ atoms
    return float(np.sum(np.abs(z - model) ** 2) / max(float(np.sum(variance)), 1e-300))


def _characteristic_values(mixture: Mixture, operator: Any) -> Complex:
    w = operator.forward(np.eye(operator.shape[1])).T
    half = np.stack([np.einsum("ij,jk,ik->i", w, c, w) / 2 for c in mixture.full_covariances()])
    return np.exp(1j * (mixture.means @ w.T) - half)
