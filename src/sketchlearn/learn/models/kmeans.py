"""Centres of clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sketchlearn.decoders.mixture import Mixture
from sketchlearn.features.characteristic import characteristic
from sketchlearn.kernels.nearest import nearest as nearest_center
from sketchlearn.learn.models.base import register_model
from sketchlearn.learn.models.components import ComponentModel, nearest
from sketchlearn.learn.models.file import Reader
from sketchlearn.learn.models.table import Column, decimals, number
from sketchlearn.sketches.value import Sketch

Array = npt.NDArray[np.float64]


@register_model
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class KMeansModel(ComponentModel):
    """Centres of k-means or k-medians.

    Attributes
    ----------
    centers : ndarray (k, d)
        Centres.
    weights : ndarray (k,)
        Share of the rows in each cluster.
    inertia : float or None
        Estimated mean cost of a row.
    criterion : {"means", "medians"}
        Squared or plain distances.
    spread : ndarray (d,) or None
        Units of the columns in which distances are meant.
    mixture : Mixture or None
        The mixture that explains the sketch.
    centers_std, weights_std : ndarray (k, d), (k,), or None
        Standard errors of centres and weights, where they are known.
    smallest, closest : float or None
        Share of the rows of the smallest cluster, and distance of the closest pair, that would have been noticed.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.learn.models import KMeansModel
    >>> model = KMeansModel(rows=10, columns=("x",), centers=np.array([[0.0], [4.0]]), weights=np.array([0.5, 0.5]))
    >>> model, model.predict([[3.0]]).tolist()
    (Model(kmeans: 2 clusters of 10 rows, 1 column), [1])
    """

    task: ClassVar[str] = "kmeans"
    layout: ClassVar[Mapping[str, Any]] = {
        "centers": ("k", "d"),
        "weights": ("k",),
        "criterion": str,
        "inertia": (),
        "spread": ("d",),
        "mixture": Mixture,
        "centers_std": ("k", "d"),
        "weights_std": ("k",),
        "smallest": (),
        "closest": (),
    }
    thing: ClassVar[str] = "cluster"

    centers: Array
    criterion: str = "means"
    inertia: float | None = None
    spread: Array | None = None  # type: ignore[misc]  # a field where the base has a constant
    mixture: Mixture | None = None  # type: ignore[misc]
    centers_std: Array | None = None
    weights_std: Array | None = None
    smallest: float | None = None
    closest: float | None = None

    @classmethod
    def from_solution(cls, sketch: Sketch, solution: Any) -> Self:
        """Centres with what the decoder knows about them."""
        spread = characteristic(sketch.features, "a model of clusters").spread
        return cls.from_sketch(
            sketch,
            solution,
            kind=_fitted_shape(solution.mixture, spread),
            centers=solution.centers,
            weights=solution.weights,
            inertia=solution.inertia,
            criterion=solution.criterion,
            spread=spread,
            mixture=solution.mixture,
            centers_std=solution.centers_std,
            weights_std=solution.weights_std,
            smallest=_finite(solution.smallest),
            closest=_finite(solution.closest),
        )

    @property
    def title(self) -> str:  # type: ignore[override]
        """The kind of model in words."""
        return "k-medians" if self.criterion == "medians" else "k-means"

    def own_numbers(self) -> list[tuple[str, str]]:
        """The estimated cost."""
        if self.inertia is None:
            return []
        what = "mean distance to the centre" if self.criterion == "medians" else "mean squared distance"
        units = ", columns in units of their spread" if self.spread is not None else ""
        out = [(number(self.inertia), f"{what} (estimated{units})")]
        if self.smallest is not None and self.smallest < 1.0:
            out.append(
                (f"{100 * self.smallest:.2g} %", "of the rows: another cluster of that size would have been noticed")
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
        unit = 1.0 if self.spread is None else self.spread
        order = nearest(self.centers / unit, self.mixture.means / unit)
        if len(self.centers) == self.mixture.n_components == len(set(order.tolist())):  # each has its own cell
            return Mixture(self.weights, self.centers, self.mixture.covariances[order])
        return Mixture(self.weights, self.centers, _cells(self.centers, self.mixture, unit))

    def sweep_options(self) -> dict[str, Any] | None:
        """There is nothing to say but the task."""
        return {}

    def predict_rows(self, rows: Array) -> npt.NDArray[Any]:
        """The nearest centre."""
        return nearest_center(rows, self.centers, self.spread)

    @classmethod
    def check(cls, reader: Reader, found: Mapping[str, Any]) -> None:
        """Units must be positive."""
        super().check(reader, found)
        if "spread" in found and not (found["spread"] > 0).all():
            raise reader.fail("the spread of columns must be positive")


def _finite(value: float) -> float | None:
    """Numbers that are not known are left out."""
    return float(value) if np.isfinite(value) else None


def _fitted_shape(mixture: Mixture, spread: Array | None) -> str | None:
    """Widths that were round in standardised columns are no diagonals; None for what its shape tells."""
    s = mixture.covariances
    if spread is None or s.ndim != 2 or not s.any():
        return None
    round_ = s / spread**2
    if not np.allclose(round_, round_[:, :1], rtol=1e-9):
        return None
    return "shared" if len(s) > 1 and np.allclose(round_, round_[0, 0], rtol=1e-9) else "spherical"


def _cells(centers: Array, mixture: Mixture, unit: Any) -> Array:
    """Covariance of what each centre's cell holds, by points drawn from the mixture."""
    x, w, _ = mixture.weighted_points(20_000, np.random.default_rng(0))
    owner = nearest(x / unit, centers / unit)
    out = np.zeros((len(centers), x.shape[1], x.shape[1]))
    for l in range(len(centers)):
        mine = owner == l
        if w[mine].sum() > 0:
            apart = x[mine] - np.average(x[mine], axis=0, weights=w[mine])
            out[l] = (w[mine][:, None] * apart).T @ apart / w[mine].sum()
    return out
