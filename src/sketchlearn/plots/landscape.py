"""The function that greedy decoders climb."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sketchlearn.decoders.metric import View, standard_metric
from sketchlearn.decoders.problem import location_and_scale
from sketchlearn.decoders.profile import characteristic
from sketchlearn.exceptions import InputError, Option
from sketchlearn.features.characteristic import characteristic as characteristic_map
from sketchlearn.features.operator import Operator
from sketchlearn.models.mixture import Mixture
from sketchlearn.plots.axes import axes, caption
from sketchlearn.plots.geometry import Plane, as_model, limits, plane_of
from sketchlearn.sketches.value import Sketch

_GRID = 160


def landscape(
    sketch: Sketch,
    model: Any = None,
    *,
    width: float | None = None,
    columns: Sequence[str | int] | None = None,
    remove: bool = True,
    ax: Any = None,
) -> Any:
    """The criterion of greedy decoding over a plane: how well one more component at x would explain the sketch.

    It is the correlation ``Re <a(x), r>`` of the residual r with the sketch a(x) of a Gaussian of the given width at x,
    over the norm of a.  Clusters that were not found yet are its hills.

    Parameters
    ----------
    sketch : Sketch
        Of Fourier features.
    model : estimator, Model, path or Mixture, optional
        The model found so far. It is subtracted from the sketch (if `remove`), and its centres are marked.
    width : float, optional
        Standard deviation of the probing component (in standardised columns, if the map standardises); by default a
        tenth of the data's.  Narrow ones see detail and
        noise, wide ones a few broad hills.
    columns : two names or numbers, optional
        For more than two columns: the plane of these two through the centre of the data; by default the plane of
        the first two principal components of the model.
    remove : bool
        Subtract the model; otherwise only mark its centres.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + np.repeat([[1.0, 0.0], [9.0, 0.0]], 2500, axis=0)
    >>> s = sl.sketch(X, sl.design(X[::5], n_components=2, seed=0))
    >>> sl.plots.landscape(s).get_xlabel()
    'column 0'
    """
    features = characteristic_map(sketch.features, "the landscape")
    if sketch.count == 0:
        raise ValueError("the sketch is empty: there is no landscape")
    names = features.columns or tuple(f"column {i}" for i in range(features.dim))
    spread = features.spread
    view = View.of(sketch, standard_metric(features))  # decoders look at standardised columns, if the map says so
    center, scale = location_and_scale(view)
    found, mixture = (None if m is None else m.stretched(None if spread is None else 1 / spread) for m in _found(model))
    plane = _plane(found, names, columns, center)
    width = 0.1 * scale if width is None else float(width)
    if not (0 <= width < np.inf):
        raise ValueError(f"width={width}: give a standard deviation, not negative")
    left = view.mean - (characteristic(mixture, view.operator) if mixture is not None and remove else 0.0)
    if found is not None:
        low, high = limits(plane.seen(found))
    else:
        # the box of the data, unless a few far rows make it too wide to see anything
        corners, middle = plane.points(np.stack([view.lower, view.upper])), plane.points(center[None])[0]
        reach = 4.0 * scale * np.sqrt(features.dim)
        low, high = np.maximum(corners.min(0), middle - reach), np.minimum(corners.max(0), middle + reach)
    x, y, value = _criterion(plane, view.operator, left, width, low, high)
    unit = _shown_units(plane, spread)
    x, y = x * unit[0], y * unit[1]
    ax = axes(ax)
    image = ax.pcolormesh(x, y, value, cmap="magma", shading="nearest", rasterized=True)
    what = "residual" if mixture is not None and remove else "sketch"
    ax.figure.colorbar(image, ax=ax, label=f"correlation with the {what}")
    if found is not None:
        points = plane.points(found.means) * unit
        ax.plot(points[:, 0], points[:, 1], "+", color="white", markersize=9, markeredgewidth=1.6)
    ax.set_xlabel(caption(plane.labels[0]))
    ax.set_ylabel(caption(plane.labels[1]))
    ax.set_title(f"greedy criterion, width {width:.3g}" + (" (standardised columns)" if spread is not None else ""))
    return ax


def _shown_units(plane: Plane, spread: Any) -> Any:
    """What one unit along each axis is in the units of its column; principal planes stay standardised."""
    if spread is None or np.count_nonzero(plane.axes) != 2:
        return np.ones(2)
    return plane.axes @ spread


def _found(model: Any) -> tuple[Mixture | None, Mixture | None]:
    """Centres to mark, and the mixture to take away."""
    if model is None:
        return None, None
    if isinstance(model, Mixture):
        return model, model
    learned = as_model(model)
    marked = learned.parts()
    return marked, learned.mixture if learned.mixture is not None else marked


def _plane(found: Mixture | None, names: Sequence[str], columns: Sequence[str | int] | None, center: Any) -> Plane:
    d = len(names)
    if d < 2:
        raise ValueError("the landscape is drawn over two columns, the sketch has one")
    if columns is None and d > 2:
        if found is None:
            raise InputError(
                f"the landscape is drawn over two of the {d} columns: choose them with ", Option("columns"),
                ", or give a model whose plane is taken",
            )  # fmt: skip
        return plane_of(found, names)
    at = Mixture(np.ones(1), center[None], np.zeros(1))
    plane = plane_of(at, names, columns)
    if len(plane.labels) != 2:
        raise ValueError("the landscape is drawn over two columns")
    # the plane passes through the centre of the data; coordinates stay those of the columns
    origin = center - plane.axes.T @ (plane.axes @ center)
    return Plane(origin, plane.axes, plane.labels)


def _criterion(plane: Plane, w: Operator, left: Any, width: float, low: Any, high: Any) -> tuple[Any, Any, Any]:
    """Grid coordinates and the criterion on the grid."""
    x, y = (np.linspace(a, b, _GRID) for a, b in zip(low, high, strict=True))
    damping = np.exp(-0.5 * width**2 * w.squared_norms)
    turned = (
        left * np.exp(-1j * w.forward(plane.origin[None])[0]) * damping / max(float(np.linalg.norm(damping)), 1e-300)
    )
    # exp(-i w·x) over the grid is a product of one factor along each axis
    parts = zip(w.forward(plane.axes), (x, y), strict=True)
    along_x, along_y = (np.exp(-1j * np.outer(phases, at)) for phases, at in parts)
    return x, y, ((turned[:, None] * along_y).T @ along_x).real
