"""What pictures of mixtures are made of: planes, ellipses and marginal densities, without any drawing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.models import Model
from sketchlearn.models.mixture import Mixture


@dataclass(frozen=True, eq=False)
class Plane:
    """One or two directions to look along: coordinates are ``axes @ (x - origin)``."""

    origin: Array
    axes: Array
    labels: tuple[str, ...]

    def points(self, rows: Array) -> Array:
        """Coordinates of points, (n, 1) or (n, 2)."""
        if rows.ndim != 2 or rows.shape[1] != len(self.origin):
            raise ValueError(f"rows to draw must have {len(self.origin)} columns, got an array of shape {rows.shape}")
        return np.asarray((rows - self.origin) @ self.axes.T)

    def seen(self, mixture: Mixture) -> Mixture:
        """The mixture as seen in the plane."""
        s = self.axes @ mixture.full_covariances() @ self.axes.T
        return Mixture(mixture.weights, self.points(mixture.means), s)


def as_model(model: Any) -> Model:
    """A model from an estimator, a file or a model."""
    if isinstance(model, Model):
        return model
    if isinstance(model, str | os.PathLike):
        return Model.load(model)
    return Model.of(model)


def column_numbers(columns: str | int | Sequence[str | int], names: Sequence[str]) -> list[int]:
    """Positions of columns (or of one) that are given by name or number."""
    found = []
    columns = [columns] if isinstance(columns, str | int) else columns
    for column in columns:
        if isinstance(column, str) and column in names:
            found.append(list(names).index(column))
        elif str(column).isdecimal() and int(column) < len(names):
            found.append(int(column))
        else:
            known = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
            raise ValueError(f"there is no column {column!r}; columns are {known}")
    return found


def plane_of(
    mixture: Mixture,
    names: Sequence[str],
    columns: str | int | Sequence[str | int] | None = None,
    unit: Array | None = None,
) -> Plane:
    """Two columns, or the plane in which the mixture varies most.

    `mixture`: what is to be seen. `names`: of the columns. `columns`: look at these. By default two columns are shown
    as they are, and more by the first two principal components of the mixture's covariance. `unit`: principal
    components of the columns in these units, (d,).
    """
    d = len(names)
    if columns is not None:
        chosen = column_numbers(columns, names)
        if len(chosen) not in (1, 2) or len(set(chosen)) != len(chosen):
            raise ValueError(f"give one or two different columns to look at, got {columns!r}")
    elif d <= 2:
        chosen = list(range(d))
    else:
        return _principal(mixture, np.ones(d) if unit is None else unit)
    return Plane(np.zeros(d), np.eye(d)[chosen], tuple(names[i] for i in chosen))


def column_units(model: Model, mixture: Mixture, standardize: bool | None) -> Array | None:
    """Units of the columns for principal components: their spread, if asked for or if the model was learned so."""
    if standardize is None:
        return model.spread
    if not standardize:
        return None
    spread = np.sqrt(np.maximum(np.diag(mixture.covariance), 0.0))
    return np.where(spread > 0, spread, 1.0)


def _principal(mixture: Mixture, unit: Array) -> Plane:
    covariance = mixture.covariance
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    values, vectors = values[::-1], vectors[:, ::-1][:, :2].T
    vectors = vectors * np.where(vectors[np.arange(2), np.abs(vectors).argmax(1)] < 0, -1.0, 1.0)[:, None]
    total = max(float(values.sum()), 1e-300)
    labels = tuple(f"principal component {i + 1} ({values[i] / total:.0%} of the variance)" for i in range(2))
    return Plane(mixture.mean, vectors / unit, labels)


def ellipse(covariance: Array, radius: float = 1.0, points: int = 100) -> Array:
    """Outline of ``x' S^-1 x = radius**2``, (points, 2)."""
    values, vectors = np.linalg.eigh(covariance)
    turn = np.linspace(0.0, 2 * np.pi, points)
    circle = np.stack([np.cos(turn), np.sin(turn)])
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0)) @ circle).T * radius)


def limits(mixture: Mixture, deviations: float = 3.0) -> tuple[Array, Array]:
    """A box around the components of a mixture in a plane, a few standard deviations wide."""
    reach = deviations * np.sqrt(np.maximum(np.diagonal(mixture.full_covariances(), axis1=1, axis2=2), 0.0))
    lower, upper = (mixture.means - reach).min(0), (mixture.means + reach).max(0)
    room = 0.05 * (upper - lower)
    room = np.where(room > 0, room, 1.0)
    return lower - room, upper + room


def density_at(mixture: Mixture, points: Array) -> Array:
    """Density of a mixture in a plane; components too narrow to be seen are widened to a 200th of the picture."""
    lower, upper = limits(mixture)
    least = ((upper - lower) / 200) ** 2
    out = np.zeros(len(points))
    d = points.shape[1]
    for a, mean, s in zip(mixture.weights, mixture.means, mixture.full_covariances(), strict=True):
        root = np.linalg.cholesky(s + np.diag(np.maximum(least - np.diag(s), 1e-9 * least)))
        y = np.linalg.solve(root, (points - mean).T)
        log = -0.5 * (y * y).sum(0) - np.log(np.diag(root)).sum() - 0.5 * d * np.log(2 * np.pi)
        out += a * np.exp(log)
    return out
