"""Centres of clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.kernels.nearest import nearest as nearest_center
from sketchlearn.models.base import register_model, stored
from sketchlearn.models.components import ComponentModel
from sketchlearn.models.file import Reader
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.table import Column, decimals, number
from sketchlearn.sketches.value import Sketch


@register_model
class ClusterModel(ComponentModel):
    """Centres of k-means or k-medians.

    Attributes
    ----------
    centers : ndarray (k, d)
        Centres.
    weights : ndarray (k,)
        Share of the rows in each cluster.
    inertia : float
        Estimated mean squared distance of a row to its centre (plain distance for medians; in units of `spread`).
    criterion : {"means", "medians"}
        Squared or plain distances.
    spread : ndarray (d,) or None
        Units of the columns in which distances are meant.
    mixture : Mixture or None
        The mixture that explains the sketch.
    centers_std, weights_std : ndarray (k, d), (k,), or None
        Standard errors of centres and weights from the sampling of the rows and the noise of the sketch; None where the
        model does not explain the data, so that its errors are not those of sampling.
    smallest : float
        Share of the rows that another cluster would need to be noticed, wherever it is (NaN if it is not known).
    closest : float
        Distance of a pair of clusters, taken as one, that would have been noticed, at the worst cluster.
    excess_cost, excess_cost_bound : float
        Estimated excess of the cost over the best on all rows, .01 for one per cent, and an upper bound for nine in ten
        sets of rows. NaN if the sketch has additive noise, or if the box of the rows is not known.
    strays : tuple
        Places far from all clusters with a few rows each: (place, rows).  A file leaves them out.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models import ClusterModel
    >>> model = ClusterModel(rows=10, columns=("x",), centers=np.array([[0.0], [4.0]]), weights=np.array([0.5, 0.5]))
    >>> model, model.predict([[3.0]]).tolist()
    (Model(kmeans: 2 clusters of 10 rows, 1 column), [1])
    """

    task: str = "kmeans"
    thing: ClassVar[str] = "cluster"
    places: ClassVar[tuple[str, ...]] = ("centers",)

    attributes: ClassVar[Mapping[str, str]] = {"inertia_": "total_inertia"}

    centers: Array = stored("k", "d", shown="cluster_centers_")
    weights: Array = stored("k", shown=True)
    criterion: str = stored(kind=str, default="means")
    inertia: float = stored(default=float("nan"))
    spread: Array | None = stored("d", default=None)  # type: ignore[misc]  # a field where the base has a constant
    mixture: Mixture = stored(kind=Mixture, default=None)  # type: ignore[misc]  # decoders always have one
    centers_std: Array | None = stored("k", "d", default=None, shown=True)
    weights_std: Array | None = stored("k", default=None, shown=True)
    smallest: float = stored(default=float("nan"))
    closest: float = stored(default=float("nan"))
    excess_cost: float = stored(default=float("nan"), shown=True)
    excess_cost_bound: float = stored(default=float("nan"), shown=True)
    strays: tuple[tuple[Array, float], ...] = ()

    def of_sketch(self, sketch: Sketch) -> Self:
        """The model with the facts of its sketch, and the units in which distances are meant."""
        seen = sketch.features.as_characteristic
        return replace(super().of_sketch(sketch), spread=None if seen is None else seen.spread)

    @property
    def nearness(self) -> str:
        """How near the cost is to the least, in words."""
        return f"its cost is at most {100 * self.excess_cost_bound:.2g} % above the least"

    @property
    def total_inertia(self) -> float:
        """Estimated cost of all rows."""
        return self.inertia * float(self.rows)

    @property
    def fitted_shape(self) -> str | None:  # type: ignore[override]
        """Widths that were round in standardised columns are no diagonals."""
        return None if self.mixture is None else _fitted_shape(self.mixture, self.spread)

    @property
    def title(self) -> str:  # type: ignore[override]
        """The kind of model in words."""
        return "k-medians" if self.criterion == "medians" else "k-means"

    def own_numbers(self) -> list[tuple[str, str]]:
        """The estimated cost."""
        if not np.isfinite(self.inertia):
            return []
        what = "mean distance to the centre" if self.criterion == "medians" else "mean squared distance"
        units = ", columns in units of their spread" if self.spread is not None else ""
        out = [(number(self.inertia), f"{what} (estimated{units})")]
        if np.isfinite(self.excess_cost):
            bound = f"at most {100 * self.excess_cost_bound:.2g} %, with 90 % confidence"
            most = bound if self.excess_cost_bound < 1.0 else "no upper bound"
            out.append((f"{100 * self.excess_cost:.2g} %", f"more than the least cost on all rows ({most})"))
        if self.smallest < 1.0:
            out.append(
                (
                    f"{100 * self.smallest:.2g} %",
                    "of the rows: another cluster of at least that size would have been noticed",
                )
            )
        return out

    def own_columns(self) -> list[Column]:
        """Standard errors, where they are known."""
        if self.weights_std is None or self.centers_std is None:
            return []
        unit = 1.0 if self.spread is None else self.spread
        worst = np.sqrt(((self.centers_std / unit) ** 2).sum(1))
        return [
            Column("± share", self.weights_std, "share"),
            Column("± centre", worst, "number", decimals(float(np.median(worst)))),
        ]

    def parts(self) -> Mixture:
        """The centres with the spread of their cells."""
        if self.mixture is None:
            return Mixture(self.weights, self.centers, np.zeros(len(self.weights)))
        order = nearest_center(self.centers, self.mixture.means, self.spread)
        if len(self.centers) == self.mixture.n_components == len(set(order.tolist())):  # each has its own cell
            return Mixture(self.weights, self.centers, self.mixture.covariances[order])
        return Mixture(self.weights, self.centers, _cells(self.centers, self.mixture, self.spread))

    def sweep_options(self) -> dict[str, Any] | None:
        """There is nothing to say but the task."""
        return {}

    def predict_rows(self, rows: AnyArray) -> AnyArray:
        """The nearest centre."""
        return nearest_center(rows, self.centers, self.spread)

    def probabilities(self, rows: Array) -> Array:
        """There are none: clusters are cells."""
        raise TypeError("a kmeans model has no probabilities")

    def transform_rows(self, rows: AnyArray) -> AnyArray:
        """Distances from the centres, (n, k)."""
        middle = self.centers.mean(0)
        x, c = self._in_units(rows - middle), self._in_units(self.centers - middle)
        out = x @ (-2.0 * c.T)
        out += np.einsum("nd,nd->n", x, x)[:, None]
        out += np.einsum("kd,kd->k", c, c)
        return np.sqrt(np.maximum(out, 0.0, out=out), out=out).astype(rows.dtype, copy=False)

    def costs(self, rows: AnyArray) -> Array:
        """Squared distance of each row from its centre; plain distance for medians."""
        apart = self._in_units(rows - self.centers[self.predict_rows(rows)])
        squares = np.einsum("nd,nd->n", apart, apart)
        return np.sqrt(squares) if self.criterion == "medians" else squares

    def _in_units(self, differences: Array) -> Array:
        return differences if self.spread is None else differences / self.spread

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """Units must be positive."""
        super().check(reader, found)
        if "spread" in found and not (found["spread"] > 0).all():
            raise reader.fail("the spread of columns must be positive")


def _fitted_shape(mixture: Mixture, spread: Array | None) -> str | None:
    """Widths that were round in standardised columns are no diagonals; None for what its shape tells."""
    s = mixture.covariances
    if spread is None or s.ndim != 2 or not s.any():
        return None
    round_ = s / spread**2
    if not np.allclose(round_, round_[:, :1], rtol=1e-9):
        return None
    return "shared" if len(s) > 1 and np.allclose(round_, round_[0, 0], rtol=1e-9) else "spherical"


def _cells(centers: Array, mixture: Mixture, spread: Array | None) -> Array:
    """Covariance of what each centre's cell holds, by points drawn from the mixture."""
    x, w, _ = mixture.weighted_points(20_000, np.random.default_rng(0))
    owner = nearest_center(x, centers, spread)
    out = np.zeros((len(centers), x.shape[1], x.shape[1]))
    for l in range(len(centers)):
        mine = owner == l
        if w[mine].sum() > 0:
            apart = x[mine] - np.average(x[mine], axis=0, weights=w[mine])
            out[l] = (w[mine][:, None] * apart).T @ apart / w[mine].sum()
    return out
