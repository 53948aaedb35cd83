"""Centres and densities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sketchlearn.plots.axes import INK, axes, caption, color, tidy
from sketchlearn.plots.geometry import as_model, column_units, density_at, ellipse, limits, plane_of

_GRID = 200
_LABELLED = 30  # components beyond which numbers are only clutter


def centers(
    model: Any,
    *,
    columns: str | int | Sequence[str | int] | None = None,
    standardize: bool | None = None,
    rows: Any = None,
    ax: Any = None,
) -> Any:
    """Centres as discs, larger for more weight, with the outline of each component at two standard deviations.

    Parameters
    ----------
    model : estimator, Model or path
        k-means, Gaussian or stable mixture.
    columns : two names or numbers, optional
        Columns to draw. By default, two columns are drawn directly; more columns are drawn in the first two principal
        components of the decoded mixture. No rows are needed.
    standardize : bool, optional
        Principal components of columns in units of their own spread; by default if the model was learned so.
    rows : array (n, d), optional
        Some rows to draw underneath.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3)) + 9 * np.eye(3)[rng.integers(3, size=5000)]
    >>> ax = sl.plots.centers(sl.CompressiveKMeans(3, random_state=0).fit(X))
    >>> ax.get_xlabel()[:21]
    'principal component 1'
    """
    model = as_model(model)
    found = model.parts()
    plane = plane_of(found, model.columns, columns, column_units(model, found, standardize))
    ax = tidy(axes(ax))
    seen = plane.seen(found)
    two = len(plane.labels) == 2
    if rows is not None:
        _draw_rows(ax, plane.points(np.asarray(rows, np.float64)))
    area = 30 + 600 * seen.weights / seen.weights.max() / np.sqrt(len(seen.weights))
    for l, (mean, s) in enumerate(zip(seen.means, seen.covariances, strict=True)):
        if two:
            outline = mean + ellipse(s, 2.0)
            ax.fill(*outline.T, facecolor=color(l), alpha=0.12, linewidth=0)
            ax.plot(*outline.T, color=color(l), alpha=0.6, linewidth=1)
        else:
            half = 2.0 * np.sqrt(max(s[0, 0], 0.0))
            ax.plot([mean[0] - half, mean[0] + half], [seen.weights[l]] * 2, color=color(l), linewidth=2, alpha=0.6)
    x, y = seen.means[:, 0], seen.means[:, 1] if two else seen.weights
    ax.scatter(x, y, s=area, c=[color(l) for l in range(len(x))], edgecolors="white", linewidths=1, zorder=3)
    if len(x) <= _LABELLED:
        for l in range(len(x)):
            text = f"{l}: {seen.weights[l]:.1%}"
            ax.annotate(text, (x[l], y[l]), xytext=(6, 6), textcoords="offset points", color=INK, fontsize=8, zorder=4)
    ax.set_xlabel(caption(plane.labels[0]))
    ax.set_ylabel(caption(plane.labels[1]) if two else "weight")
    ax.margins(0.12)  # space for the labels
    ax.set_title(caption(model.headline))
    return ax


def density(
    model: Any,
    *,
    columns: str | int | Sequence[str | int] | None = None,
    standardize: bool | None = None,
    rows: Any = None,
    ax: Any = None,
) -> Any:
    """Density of the rows over a pair of columns (or one), decoded from the sketch.

    Parameters
    ----------
    model : estimator, Model or path
        k-means or Gaussian mixture.
    columns : one or two names or numbers, optional
        Columns to look at; the others are summed out.  By default as for :func:`centers`.
    standardize : bool, optional
        As for :func:`centers`.
    rows : array (n, d), optional
        Some rows to draw on top, or the histogram of one column.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 3)) * [1.0, 2.0, 3.0]
    >>> gm = sl.CompressiveGaussianMixture(1, random_state=0).fit(X)
    >>> sl.plots.density(gm, columns=[0, 2]).get_ylabel()
    'column 2'
    """
    model = as_model(model)
    mixture = model.density()
    plane = plane_of(mixture, model.columns, columns, column_units(model, mixture, standardize))
    ax = axes(ax)
    seen = plane.seen(mixture)
    lower, upper = limits(seen)
    if len(plane.labels) == 1:
        tidy(ax)
        grid = np.linspace(lower[0], upper[0], 4 * _GRID)
        value = density_at(seen, grid[:, None])
        if rows is not None:
            values = plane.points(np.asarray(rows, np.float64))[:, 0]
            ax.hist(values, bins=80, range=(lower[0], upper[0]), density=True, color="#d5dae0")
        ax.plot(grid, value, color=color(0), linewidth=2)
        ax.fill_between(grid, value, color=color(0), alpha=0.15)
        ax.set_ylim(bottom=0)
        ax.set_ylabel("density")
    else:
        x, y = (np.linspace(a, b, _GRID) for a, b in zip(lower, upper, strict=True))
        points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        value = density_at(seen, points).reshape(_GRID, _GRID)
        # equal steps of the square root: rare components stay visible beside common ones
        levels = np.linspace(0.02, 1.0, 14) ** 2 * value.max()
        shades = ax.contourf(x, y, value, levels=levels, cmap="viridis")
        ax.figure.colorbar(shades, ax=ax, label="density", format="%.2g")
        if rows is not None:
            _draw_rows(ax, plane.points(np.asarray(rows, np.float64)))
        ax.set_xlim(lower[0], upper[0])
        ax.set_ylim(lower[1], upper[1])
        ax.set_ylabel(caption(plane.labels[1]))
    ax.set_xlabel(caption(plane.labels[0]))
    ax.set_title(caption(model.headline))
    return ax


def _draw_rows(ax: Any, points: Any) -> None:
    y = points[:, 1] if points.shape[1] == 2 else np.zeros(len(points))
    ax.scatter(points[:, 0], y, s=2, c="#9aa4af", alpha=0.4, linewidths=0, zorder=1)
