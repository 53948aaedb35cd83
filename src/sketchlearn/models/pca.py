"""Principal components."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np

from sketchlearn.arrays import AnyArray, Array
from sketchlearn.features.second_moment import SecondMomentMap, second_moment
from sketchlearn.models.base import Model, register_model, shown, stored
from sketchlearn.models.solution import LowRankSolution, Solution
from sketchlearn.models.table import Column, Table, loadings
from sketchlearn.sketches.value import Sketch

_CERTIFICATE = tuple(field.name for field in fields(Solution))


@register_model
class PCAModel(Model):
    """Principal directions and the variances along them.

    Attributes
    ----------
    components : ndarray (k, d)
        Directions, orthonormal.
    explained_variance, explained_variance_ratio : ndarray (k,)
        Variances along them, and their parts of the whole.
    mean : ndarray (d,)
        Mean of the rows.
    noise_variance : float
        Mean variance of the directions that are left out; NaN if it is not known.
    captured, captured_bound : float
        Estimated variance along the components as a share of the most that so many can have, and a low estimate; 1 from
        a sketch of all products of columns, NaN where noise was added or the sketch is too small to tell.
    singular_values : ndarray (k,) or None
        Of the centred rows; a file leaves them out.
    scale : ndarray (d,) or None
        Standard deviations of the columns, if directions and variances are those of standardised columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models import PCAModel
    >>> PCAModel(rows=10, columns=("x", "y"), components=np.eye(2)[:1], explained_variance=np.ones(1),
    ...          explained_variance_ratio=np.ones(1), mean=np.zeros(2))
    Model(pca: 1 component of 10 rows, 2 columns)
    """

    task: str = "pca"
    title: ClassVar[str] = "Principal component analysis"
    praise: ClassVar[str] = "The sketch is good enough for this"

    attributes: ClassVar[Mapping[str, str]] = shown("singular_values", n_components="size", n_samples="rows")

    components: Array = stored("k", "d", shown=True)
    explained_variance: Array = stored("k", shown=True)
    explained_variance_ratio: Array = stored("k", shown=True)
    mean: Array = stored("d", shown=True)
    noise_variance: float = stored(default=float("nan"), shown=True)
    captured: float = stored(default=float("nan"), shown=True)
    captured_bound: float = stored(default=float("nan"), shown=True)
    singular_values: Array | None = None
    scale: Array | None = stored("d", default=None, shown=True)

    @classmethod
    def of_moment(cls, found: LowRankSolution, sketch: Sketch, choice: Any, scale: Array | None = None) -> Self:
        """So many components of a second moment that was decoded.

        Parameters
        ----------
        found : LowRankSolution
            The second moment.
        sketch : Sketch
            What it was decoded from.
        choice : int, float, "auto" or None
            Number of components, the part of the variance that they should explain, those above noise, or all.
        scale : ndarray (d,), optional
            Standard deviations of the columns, if the moment is that of standardised columns.
        """
        phi = second_moment(sketch.features, "PCA")
        count = sketch.effective_count * phi.seen_share(sketch.sums, float(sketch.weight))
        most = most_components(sketch)
        unbiased = count / (count - 1.0) if count > 1 else 1.0
        variances = (found.values + found.isotropic) * unbiased
        total = float(found.values.sum() + phi.dim * found.isotropic) * unbiased
        if phi.is_exact:
            total = float(variances.sum())
        k = _choose(choice, variances, total, found, phi, count, most)
        vectors = found.vectors[:, :k].T
        # signs as scikit-learn has them: the largest entry of each component is positive
        largest = vectors[np.arange(k), np.abs(vectors).argmax(1)]
        others = (most if phi.is_exact else phi.dim) - k
        rest = max(total - float(variances[:k].sum()), 0.0)
        captured, least = found.captured(k)
        said = {name: getattr(found, name) for name in _CERTIFICATE}
        if phi.is_exact:
            said["ratio"] = float("nan")  # what an exact sketch leaves is what was left out on purpose
        return cls(
            components=np.where(largest < 0, -1.0, 1.0)[:, None] * vectors,
            explained_variance=variances[:k],
            explained_variance_ratio=variances[:k] / total if total > 0 else np.zeros(k),
            mean=found.mean,
            noise_variance=rest / others if others > 0 else 0.0,
            captured=captured,
            captured_bound=least,
            singular_values=np.sqrt(np.maximum(variances[:k] * max(count - 1.0, 0.0), 0.0)),
            scale=scale,
            **said,
        ).of_sketch(sketch)

    @property
    def deviations(self) -> Array:
        """Standard deviations along the components, kept away from zero."""
        scale = np.sqrt(self.explained_variance)
        return np.maximum(scale, np.finfo(np.float64).eps * max(float(scale.max(initial=0.0)), 1e-300))

    def transform_rows(self, rows: AnyArray) -> AnyArray:
        """Coordinates along the components, (n, k)."""
        centred = rows - self.mean.astype(rows.dtype)
        if self.scale is not None:
            centred /= self.scale.astype(rows.dtype)
        return np.asarray(centred @ self.components.T.astype(rows.dtype))

    def inverse_rows(self, coordinates: Array) -> Array:
        """Rows that have these coordinates, (n, d)."""
        centred = coordinates @ self.components
        return np.asarray((centred if self.scale is None else centred * self.scale) + self.mean)

    def own_numbers(self) -> list[tuple[str, str]]:
        """How much is explained."""
        out = [(f"{self.explained_variance_ratio.sum():.1%}", "of the variance explained")]
        if np.isfinite(self.captured):
            least = f" (at least {self.captured_bound:.1%})" if self.captured_bound < 1.0 else ""
            out.append((f"{self.captured:.1%}", f"of what {self.size} components can explain{least}"))
        return out

    def table(self) -> Table:
        """Variance, share and loadings of each component."""
        columns = [
            Column("component", range(1, self.size + 1), "text"),
            Column("variance", self.explained_variance),
            Column("share", self.explained_variance_ratio, "share"),
            *loadings(self.columns, self.components.T),
        ]
        return Table("loadings", "Loadings", tuple(columns), "How much each column takes part in each component.")

    def pictures(self) -> dict[str, Any]:
        """Variances and shares."""
        return {"spectrum": {"variances": self.explained_variance, "shares": self.explained_variance_ratio}}

    def own_answers(self, rows: Array) -> dict[str, AnyArray]:
        """Coordinates along the components."""
        return {f"component {l + 1}": c for l, c in enumerate(self.transform_rows(rows).T)}


def most_components(sketch: Sketch) -> int:
    """As many as columns of the map, and no more than rows."""
    return int(min(sketch.features.dim, max(1, math.floor(sketch.effective_count))))


def _choose(
    choice: Any,
    variances: Array,
    total: float,
    found: LowRankSolution,
    phi: SecondMomentMap,
    count: float,
    most: int,
) -> int:
    """Number of components."""
    most = min(most, len(variances))
    if isinstance(choice, int | np.integer):
        return int(choice)
    if choice is None and phi.is_exact:
        # directions without variance are arbitrary: rounding alone would choose them
        return max(1, min(most, int(np.sum(variances > 1e-13 * len(variances) * variances[0]))))
    if isinstance(choice, float | np.floating):
        part = np.cumsum(variances) / total if total > 0 else np.ones(len(variances))
        return min(int(np.searchsorted(part, float(choice))) + 1, most)
    # white noise of variance s in n rows has sample variances up to s (1 + sqrt(d / n))^2 (Marchenko and Pastur)
    ratio = phi.dim / count
    edge = (1.0 + math.sqrt(ratio)) ** 2
    if phi.is_exact:
        # the median of what noise there is; exact for ratio -> 0, and at most 3 % off up to ratio 1/2
        present = variances[:most]
        noise = float(np.median(present)) / (1.0 - min(ratio, 1.0) / 3.0)
        above = int(np.sum(present > noise * edge))
    else:
        # twice the edge: the residual is neither quite random nor quite normal
        level = max(2.0 * found.resolution, found.isotropic * (edge - 1.0))
        above = int(np.sum(found.values > level))
    return max(1, min(above, most))
