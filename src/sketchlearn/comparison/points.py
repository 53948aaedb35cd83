"""Rows made from a sketch: draws from a mixture that describes it, or a few points placed to have its averages.

Points are moved together until their average features are those of the sketch: ``min |mean_j Phi(x_j) - z|^2``, from
draws of the mixture.  A hundred such points are worth as much as a thousand random rows or more, since their errors
cancel.  A tenth of the frequencies is kept aside: moving stops where it no longer helps there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sketchlearn.arrays import Array
from sketchlearn.comparison.histograms import histogram, reshaped
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.characteristic import characteristic
from sketchlearn.features.encoder import Category
from sketchlearn.features.operator import Operator
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.randomness import RandomState, as_generator
from sketchlearn.sketches.value import Sketch

_FEW = 500  # points that are moved rather than drawn, by default
_FREQUENCIES = 2000  # that are decoded and that points are moved by: they come in random order, more gain little
_ROUNDS, _STEPS = 12, 25


def synthesize(
    sketch: Sketch,
    n: int,
    *,
    method: str = "auto",
    mixture: Mixture | None = None,
    bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    integers: Sequence[int | str] = (),
    columns: Sketch | None = None,
    random_state: RandomState = None,
) -> Array:
    """Rows that have the distribution of those behind a sketch.

    Values stay within the box of the sketch and within `bounds`. Indicator columns of a category hold a single 1 in
    each row. The rows are not rows of the data, but this alone doesn't protect privacy: only rows made from a private
    sketch are private.

    Parameters
    ----------
    sketch : Sketch
        Of Fourier features.
    n : int
        Number of rows.
    method : {"auto", "mixture", "points"}
        ``"mixture"``: independent draws from a Gaussian mixture that describes the sketch. ``"points"``: draws that are
        moved until their average features match the sketch; this is the default for up to 500 rows.
    mixture : Mixture, optional
        The mixture to draw from; by default it is decoded from the sketch.
    bounds : (lower, upper), optional
        Public bounds of the columns (a number for each column, or one for all). Values beyond are clipped.
    integers : sequence of int or str
        Columns of whole numbers, by number or name. Their values are rounded.
    columns : Sketch, optional
        Histograms of the single columns (``task="columns"``): the rows keep their order along each column and take the
        values of its histogram, with its spikes, whole numbers and edges.
    random_state : int, Generator, RandomState or None
        For repeatable rows.

    Returns
    -------
    ndarray (n, dim)

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> X = np.random.default_rng(0).normal(size=(5000, 2)) + [3.0, 0.0]
    >>> s = sl.sketch(X, sl.FourierFeatures.draw(dim=2, size=100, scale=1.0, seed=0))
    >>> sl.synthesize(s, 20, random_state=0).mean(0).round(1) + 0.0
    array([3., 0.])
    """
    features = characteristic(sketch.features, "synthesize")
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n must be a positive integer, got {n!r}")
    if method not in ("auto", "mixture", "points"):
        raise ValueError(f"method={method!r}: choose 'auto', 'mixture' or 'points'")
    if sketch.effective_count < 2:
        raise ValueError("the sketch has fewer than two rows: there is nothing to imitate")
    if columns is not None:
        _check_columns(columns, features, sketch.privacy is not None)
    rng = as_generator(random_state)
    if mixture is None:
        from sketchlearn.decoders.description import describe  # loads the decoders of mixtures

        mixture = describe(sketch, _FREQUENCIES)
    if mixture.dim != features.dim:
        raise ValueError(f"the mixture has {mixture.dim} columns, the sketch {features.dim}")
    start = mixture.sample(int(n), rng)[0]
    whole = [_place(column, features) for column in integers]
    if method == "mixture" or (method == "auto" and n > _FEW):
        return _valid(start, sketch, bounds, whole, columns, rng)
    used = min(features.size, _FREQUENCIES)
    apart = np.arange(used) % 10 == 9 if used >= 20 else np.zeros(used, bool)
    operator = features.operator(dtype=np.float64)
    spread = np.sqrt(np.maximum(np.diag(mixture.covariance), 1e-300))
    moved = _moved(
        start,
        spread,
        operator.rows(np.flatnonzero(~apart)),
        sketch.mean[:used][~apart],
        operator.rows(np.flatnonzero(apart)),
        sketch.mean[:used][apart],
    )
    return _valid(moved, sketch, bounds, whole, columns, rng)


def _check_columns(columns: Sketch, features: FeatureMap, private: bool) -> None:
    """Refuse histograms of other columns."""
    known, own = histogram(columns).columns, features.columns
    if columns.features.dim != features.dim:
        raise ValueError(f"the sketch has {features.dim} columns, that of single columns {columns.features.dim}")
    if private != (columns.privacy is not None):
        raise ValueError("one of sketch and columns= is private and the other is exact: nothing would protect the rows")
    if known is not None and own is not None and known != own:
        raise ValueError(f"the columns are {', '.join(own[:8])}, those of the histograms {', '.join(known[:8])}")


def _place(column: int | str, features: FeatureMap) -> int:
    """The number of a column that is given by its number or name."""
    names = list(features.columns or ())
    if isinstance(column, str) and column in names:
        return names.index(column)
    if isinstance(column, str | bool) or not 0 <= column < features.dim:
        known = f"; there are {', '.join(names[:8])}" if names else f" of {features.dim} columns"
        raise ValueError(f"integers: there is no column {column!r}{known}")
    return int(column)


def _valid(
    rows: Array,
    sketch: Sketch,
    bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None,
    whole: Sequence[int],
    columns: Sketch | None,
    rng: np.random.Generator,
) -> Array:
    """Rows that could have been data: within bounds, with whole numbers and labels where there are such."""
    rows = rows.copy() if columns is None else reshaped(rows, columns, rng, _label_columns(sketch.features))
    limits = [(sketch.lower, sketch.upper)] if sketch.has_box else []
    limits += [] if bounds is None else [(np.asarray(bounds[0], np.float64), np.asarray(bounds[1], np.float64))]
    d = rows.shape[1]
    lower = np.max([np.broadcast_to(low, d) for low, _ in limits] or [np.full(d, -np.inf)], axis=0)
    upper = np.min([np.broadcast_to(high, d) for _, high in limits] or [np.full(d, np.inf)], axis=0)
    encoder = sketch.features.encoder
    if encoder is not None:
        at = 0
        for rule in encoder.rules:
            mine = slice(at, at + len(rule.names))
            at = mine.stop
            if isinstance(rule, Category):
                # one of the labels, or none: that with the largest part
                parts = np.column_stack([rows[:, mine], 1.0 - rows[:, mine].sum(1)])
                rows[:, mine] = (parts.argmax(1)[:, None] == np.arange(len(rule.names))).astype(np.float64)
            elif rule.indicator:
                missing = rows[:, mine.start + 1] > 0.5
                rows[:, mine.start + 1] = missing
                if rule.fill is not None:
                    rows[missing, mine.start] = rule.fill
    for j in whole:
        rows[:, j] = np.rint(rows[:, j])
    clipped = np.clip(rows, lower, upper)
    for j in whole:  # bounds need not be whole numbers
        low, high = (
            np.ceil(np.broadcast_to(lower, rows.shape[1])[j]),
            np.floor(np.broadcast_to(upper, rows.shape[1])[j]),
        )
        clipped[:, j] = np.clip(rows[:, j], low, high) if low <= high else clipped[:, j]
    return clipped


def _label_columns(features: FeatureMap) -> set[int]:
    """Columns that an encoder made of labels."""
    found: set[int] = set()
    at = 0
    for rule in () if features.encoder is None else features.encoder.rules:
        found |= set(range(at, at + len(rule.names))) if isinstance(rule, Category) else set()
        at += len(rule.names)
    return found


def _moved(start: Array, spread: Array, operator: Operator, z: Array, other: Operator, held: Array) -> Array:
    """Points after moving, as long as that helps at the frequencies that were held out."""
    from scipy.optimize import minimize  # slow to import

    points = start
    best = misfit(points, other, held) if len(held) else np.inf
    for _ in range(_ROUNDS):
        found = minimize(
            _value_and_gradient,
            (points / spread).ravel(),
            (operator, z, spread, points.shape),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _STEPS},
        )
        moved = found.x.reshape(points.shape) * spread
        now = misfit(moved, other, held) if len(held) else float(found.fun)
        if not now < best * (1.0 - 1e-3):
            break
        points, best = moved, now
    return points


def misfit(points: Array, operator: Operator, z: Array) -> float:
    """Mean squared distance of the points' average features from z."""
    phases = operator.forward(points)
    return float(np.mean(np.abs(np.exp(1j * phases).mean(0) - z) ** 2))


def _value_and_gradient(
    x: Array, operator: Operator, z: Array, spread: Array, shape: tuple[int, int]
) -> tuple[float, Array]:
    phases = operator.forward(x.reshape(shape) * spread)
    cos, sin = np.cos(phases), np.sin(phases)
    left = cos.mean(0) - z.real, sin.mean(0) - z.imag
    value = float(np.mean(left[0] ** 2 + left[1] ** 2))
    slopes = (cos * left[1] - sin * left[0]) * (2.0 / phases.size)
    return value, np.asarray(operator.adjoint(slopes) * spread).ravel()
