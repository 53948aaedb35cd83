"""Mixtures of Gaussian and of stable components."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sketchlearn.arrays import Array, Index
from sketchlearn.models.base import register_model, shown, stored
from sketchlearn.models.components import ComponentModel
from sketchlearn.models.file import Reader
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.randomness import RandomState, as_generator
from sketchlearn.models.stable_law import sample_stable, stable_log_density
from sketchlearn.models.table import Column

_POINTS = 20_000  # draws for the overlap of components


@register_model
class GaussianMixtureModel(ComponentModel):
    """A Gaussian mixture, in scikit-learn's shapes.

    Attributes
    ----------
    weights, means, covariances : ndarray
        The mixture.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Shape of the covariances.
    means_std, weights_std : ndarray (k, d), (k,), or None
        Standard errors of means and weights, where the last step was taken in the metric of the sampling noise.
    excess_nats, excess_nats_bound : float
        Estimate of how far the log-likelihood of a row is below that of the best mixture of this size, and an upper
        bound for nine in ten sets of rows. NaN where nothing can be said.
    deviation : float
        Relative standard deviation of the noise floor (counting correlations if the ratio is above 1.5).
    unreliable : tuple of int
        Components whose weight, place or width the sketch does not determine.
    richer : Mixture or None
        For data that no such mixture explains, the richer mixture that the model was projected from.  A file leaves
        these three out.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models import GaussianMixtureModel
    >>> model = GaussianMixtureModel(
    ...     rows=10, columns=("x",), weights=np.array([0.5, 0.5]), means=np.array([[0.0], [4.0]]),
    ...     covariances=np.ones(2), covariance_type="spherical")
    >>> model, model.predict([[3.0]])
    (Model(gmm: 2 Gaussian components of 10 rows, 1 column), array([1]))
    """

    task: str = "gmm"
    title: ClassVar[str] = "Gaussian mixture"
    thing: ClassVar[str] = "Gaussian component"

    places: ClassVar[tuple[str, ...]] = ("means",)

    attributes: ClassVar[Mapping[str, str]] = shown(
        "precisions", "precisions_cholesky", converged="reliable", n_iter="iterations"
    )

    weights: Array = stored("k", shown=True)
    means: Array = stored("k", "d", shown=True)
    covariances: Array = stored(kind=None, shown=True)  # their shape depends on the type
    covariance_type: str = stored(kind=str)
    means_std: Array | None = stored("k", "d", default=None, shown=True)
    weights_std: Array | None = stored("k", default=None, shown=True)
    excess_nats: float = stored(default=float("nan"), shown=True)
    excess_nats_bound: float = stored(default=float("nan"), shown=True)
    deviation: float = float("nan")
    unreliable: tuple[int, ...] = ()  # type: ignore[misc]  # a field where the base has a constant
    richer: Mixture | None = None

    @property
    def mixture(self) -> Mixture:  # type: ignore[override]
        """The components as a :class:`~sketchlearn.Mixture`."""
        s = self.covariances
        return Mixture(
            self.weights, self.means, np.repeat(s[None], self.size, 0) if self.covariance_type == "tied" else s
        )

    @property
    def fitted_shape(self) -> str:  # type: ignore[override]
        """The type of the covariances."""
        return self.covariance_type

    @cached_property
    def precisions_cholesky(self) -> Array:
        """Upper triangular factors of the precisions, or roots of them if they are diagonal, as in scikit-learn."""
        if self.covariance_type in ("diag", "spherical"):
            return 1.0 / np.sqrt(self.covariances)
        return np.swapaxes(np.linalg.inv(np.linalg.cholesky(self.covariances)), -1, -2)

    @property
    def precisions(self) -> Array:
        """Inverse covariances, in scikit-learn's shape."""
        p = self.precisions_cholesky
        return p**2 if self.covariance_type in ("diag", "spherical") else p @ np.swapaxes(p, -1, -2)

    @cached_property
    def expected_log_likelihood(self) -> float:
        """Mean log-density of rows of its own: exact for separate components, and the overlap by simulation."""
        mixture = self.mixture
        log_det = np.linalg.slogdet(mixture.full_covariances())[1]
        entropy = 0.5 * (log_det + mixture.dim * (1.0 + np.log(2 * np.pi)))
        heavy = self.weights > 0
        separate = float((self.weights[heavy] * (np.log(self.weights[heavy]) - entropy[heavy])).sum())
        if self.size == 1:
            return separate
        x, w, owner = mixture.weighted_points(_POINTS, np.random.default_rng(0))
        logs = self.log_densities(x)
        own = logs[np.arange(len(x)), owner]
        seen = w > 0
        return separate + float(w[seen] @ (np.logaddexp.reduce(logs[seen], axis=1) - own[seen]))

    @property
    def nearness(self) -> str:
        """How near the likelihood is to the best, in words."""
        return f"its likelihood is at most {self.excess_nats_bound:.2g} nats per row below the best"

    def own_numbers(self) -> list[tuple[str, str]]:
        """How far the likelihood is below the best."""
        if not np.isfinite(self.excess_nats):
            return []
        what = f"nats per row below the best likelihood (90 %: at most {self.excess_nats_bound:.2g})"
        return [(f"{self.excess_nats:.2g}", what)]

    def sweep_options(self) -> dict[str, Any] | None:
        """Other numbers of components of the same shape."""
        return {"covariance_type": self.covariance_type}

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
        more = ("means_std", "weights_std", "excess_nats", "excess_nats_bound")
        known = {name: reader.value(name, cls.layout[name]) for name in more if reader.has(name)}
        return {**found, **known, "covariances": covariances, "covariance_type": kind}


@register_model
class StableMixtureModel(ComponentModel):
    """A mixture of elliptic stable laws.

    Attributes
    ----------
    weights, locations, scatters, alphas : ndarray
        The mixture; scatters are matrices (k, d, d) or diagonals (k, d).
    unreliable : tuple of int
        Components with next to no weight or at the edge of what the sketch resolves.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models import StableMixtureModel
    >>> model = StableMixtureModel(
    ...     rows=10, columns=("x",), weights=np.array([0.5, 0.5]), locations=np.array([[0.0], [40.0]]),
    ...     scatters=np.ones((2, 1, 1)), alphas=np.array([1.0, 1.5]))
    >>> model, model.predict([[30.0]])
    (Model(stable: 2 stable components of 10 rows, 1 column), array([1]))
    """

    task: str = "stable"
    title: ClassVar[str] = "Mixture of stable laws"
    thing: ClassVar[str] = "stable component"
    outlines: ClassVar[str] = "scatter matrices (stable laws reach much farther)"

    attributes: ClassVar[Mapping[str, str]] = shown(converged="reliable", n_iter="iterations")

    weights: Array = stored("k", shown=True)
    locations: Array = stored("k", "d", shown=True)
    scatters: Array = stored("k", "d", "d", shown=True)
    alphas: Array = stored("k", shown=True)
    unreliable: tuple[int, ...] = ()  # type: ignore[misc]  # a field where the base has a constant

    def filed(self, name: str) -> Any:
        """A file holds scatter matrices, not diagonals."""
        return self.parts().full_covariances() if name == "scatters" else super().filed(name)

    def parts(self) -> Mixture:
        """Locations with their scatter matrices: pictures show these as if they were covariances."""
        return Mixture(self.weights, self.locations, self.scatters)

    def density(self) -> Mixture:
        """There is none."""
        raise ValueError("densities of stable components have no closed form: draw the centres, or use score_samples")

    def own_columns(self) -> list[Column]:
        """How heavy the tails are."""
        return [Column("alpha", self.alphas, "number", 3)]

    def log_densities(self, rows: Array) -> Array:
        """Logarithm of weight times density, (n, k)."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights)
        parts = zip(logs, self.alphas, self.locations, self.scatters, strict=True)
        return np.stack([log + stable_log_density(rows, float(a), c, s) for log, a, c, s in parts], 1)

    def sample(self, n: int = 1, random_state: RandomState = None) -> tuple[Array, Index]:
        """Rows drawn from the model, and their components."""
        if n < 1:
            raise ValueError(f"n={n}: ask for at least one row")
        rng = as_generator(random_state)
        numbers = rng.multinomial(n, self.weights / self.weights.sum())
        parts = zip(numbers, self.alphas, self.locations, self.scatters, strict=True)
        rows = [sample_stable(int(c), float(alpha), place, scatter, rng) for c, alpha, place, scatter in parts]
        return np.concatenate(rows), np.repeat(np.arange(self.size), numbers)

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """Scatter matrices must not be negative."""
        super().check(reader, found)
        reader.check_covariances("scatters", found["scatters"], matrices=True)
