"""Mixtures of Gaussian and of stable components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.families import stable_log_density
from sketchlearn.decoders.mixture import Mixture
from sketchlearn.learn.models.base import register_model
from sketchlearn.learn.models.components import ComponentModel
from sketchlearn.learn.models.file import Reader
from sketchlearn.learn.models.table import Column
from sketchlearn.sketches.value import Sketch

Array = npt.NDArray[np.float64]

_BLOCK = 2048  # rows whose densities are computed together


@register_model
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GaussianMixtureModel(ComponentModel):
    """A Gaussian mixture, in scikit-learn's shapes.

    Attributes
    ----------
    weights, means, covariances : ndarray
        The mixture.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Shape of the covariances.
    means_std, weights_std : ndarray (k, d), (k,), or None
        Standard errors of means and weights, where they are known.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.learn.models import GaussianMixtureModel
    >>> model = GaussianMixtureModel(
    ...     rows=10, columns=("x",), weights=np.array([0.5, 0.5]), means=np.array([[0.0], [4.0]]),
    ...     covariances=np.ones(2), covariance_type="spherical")
    >>> model, model.predict([[3.0]])
    (Model(gmm: 2 Gaussian components of 10 rows, 1 column), array([1]))
    """

    task: ClassVar[str] = "gmm"
    layout: ClassVar[Mapping[str, Any]] = {
        "weights": ("k",),
        "means": ("k", "d"),
        "covariances": None,  # its shape depends on the type
        "covariance_type": str,
        "means_std": ("k", "d"),
        "weights_std": ("k",),
    }
    title: ClassVar[str] = "Gaussian mixture"
    thing: ClassVar[str] = "Gaussian component"

    means: Array
    covariances: Array
    covariance_type: str
    means_std: Array | None = None
    weights_std: Array | None = None

    @classmethod
    def from_solution(cls, sketch: Sketch, solution: Any) -> GaussianMixtureModel:
        """A mixture with what the decoder knows about it."""
        names = ("weights", "means", "covariances", "covariance_type", "means_std", "weights_std")
        learned = {name: getattr(solution, name) for name in names}
        return cls.from_sketch(sketch, solution, kind=solution.covariance_type, **learned)

    @property
    def mixture(self) -> Mixture:  # type: ignore[override]
        """The components."""
        s = self.covariances
        return Mixture(
            self.weights, self.means, np.repeat(s[None], self.size, 0) if self.covariance_type == "tied" else s
        )

    def parts(self) -> Mixture:
        """The components."""
        return self.mixture

    def sweep_options(self) -> dict[str, Any] | None:
        """Other numbers of components of the same shape."""
        return {"covariance_type": self.covariance_type}

    def predict_rows(self, rows: Array) -> npt.NDArray[Any]:
        """The most probable component."""
        return self._logarithms(rows).argmax(1)

    def probabilities(self, rows: Array) -> Array:
        """Weighted densities over their sum."""
        return _shares(self._logarithms(rows))

    def _logarithms(self, rows: Array) -> Array:
        """Logarithm of weight times density, up to what all components have in common, (n, k).

        One product for all components, and few rows at a time: they stay in the cache.
        """
        mixture = self.mixture
        k, d = mixture.means.shape
        roots = np.linalg.cholesky(mixture.full_covariances())
        factors = np.linalg.inv(roots)  # (k, d, d), lower
        with np.errstate(divide="ignore"):
            logs = np.log(mixture.weights) - np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(1)
        matrix = np.ascontiguousarray(factors.reshape(k * d, d).T)
        middle = mixture.means.mean(0)
        offset = np.einsum("kij,kj->ki", factors, mixture.means - middle).ravel()
        out = np.empty((len(rows), k))
        for start in range(0, len(rows), _BLOCK):
            y = (rows[start : start + _BLOCK] - middle) @ matrix
            y -= offset
            y *= y
            out[start : start + _BLOCK] = logs - 0.5 * y.reshape(-1, k, d).sum(2)
        return out

    @classmethod
    def read(cls, reader: Reader) -> dict[str, Any]:
        """Covariances have the shape that their type says."""
        found = {name: reader.value(name, cls.layout[name]) for name in ("means", "weights")}
        k, d = found["means"].shape
        shapes = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}
        kind = reader.facts.get("covariance_type")
        if not isinstance(kind, str) or kind not in shapes:
            raise reader.fail(f"the covariance type {kind!r} is none of {', '.join(shapes)}")
        covariances = reader.array(reader.facts, "covariances", shapes[kind])
        reader.check_covariances("covariances", covariances, kind in ("full", "tied"))
        cls.check(reader, found)
        errors = {
            name: reader.value(name, cls.layout[name]) for name in ("means_std", "weights_std") if reader.has(name)
        }
        return {**found, **errors, "covariances": covariances, "covariance_type": kind}


@register_model
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class StableMixtureModel(ComponentModel):
    """A mixture of elliptic stable laws.

    Attributes
    ----------
    weights, locations, scatters, alphas : ndarray
        The mixture; scatters are matrices, (k, d, d).

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.learn.models import StableMixtureModel
    >>> model = StableMixtureModel(
    ...     rows=10, columns=("x",), weights=np.array([0.5, 0.5]), locations=np.array([[0.0], [40.0]]),
    ...     scatters=np.ones((2, 1, 1)), alphas=np.array([1.0, 1.5]))
    >>> model, model.predict([[30.0]])
    (Model(stable: 2 stable components of 10 rows, 1 column), array([1]))
    """

    task: ClassVar[str] = "stable"
    layout: ClassVar[Mapping[str, Any]] = {
        "weights": ("k",),
        "locations": ("k", "d"),
        "scatters": ("k", "d", "d"),
        "alphas": ("k",),
    }
    title: ClassVar[str] = "Mixture of stable laws"
    thing: ClassVar[str] = "stable component"
    outlines: ClassVar[str] = "scatter matrices (stable laws reach much farther)"

    locations: Array
    scatters: Array
    alphas: Array

    @classmethod
    def from_solution(cls, sketch: Sketch, solution: Any) -> StableMixtureModel:
        """A mixture with what the decoder knows about it."""
        scatters = np.asarray(solution.scatters)
        if scatters.ndim == 2:
            scatters = scatters[:, :, None] * np.eye(scatters.shape[1])
        names = ("weights", "locations", "alphas")
        return cls.from_sketch(sketch, solution, scatters=scatters, **{name: getattr(solution, name) for name in names})

    def parts(self) -> Mixture:
        """Locations with their scatter matrices: pictures show these as if they were covariances."""
        return Mixture(self.weights, self.locations, self.scatters)

    def density(self) -> Mixture:
        """There is none."""
        raise ValueError("densities of stable components have no closed form: draw the centres, or use score_samples")

    def own_columns(self) -> list[Column]:
        """How heavy the tails are."""
        return [Column("alpha", self.alphas, "number", 3)]

    def predict_rows(self, rows: Array) -> npt.NDArray[Any]:
        """The most probable component."""
        return self._logarithms(rows).argmax(1)

    def probabilities(self, rows: Array) -> Array:
        """Weighted densities over their sum."""
        return _shares(self._logarithms(rows))

    def _logarithms(self, rows: Array) -> Array:
        """Logarithm of weight times density, (n, k)."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights)
        parts = zip(logs, self.alphas, self.locations, self.scatters, strict=True)
        return np.stack([log + stable_log_density(rows, float(a), c, s) for log, a, c, s in parts], 1)

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """Scatter matrices must not be negative."""
        super().check(reader, found)
        reader.check_covariances("scatters", found["scatters"], matrices=True)


def _shares(logarithms: Array) -> Array:
    """Numbers of which these are the logarithms, over their sum in each row."""
    found = np.exp(logarithms - logarithms.max(1, keepdims=True))
    return np.asarray(found / found.sum(1, keepdims=True))
