"""Maps for a private release: how many features, where, and at which scale, without giving rows away."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sketchlearn.designs import default_size, design
from sketchlearn.designs.kmeans import multiscale_map
from sketchlearn.features.base import FeatureMap
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.features.second_moment import second_moment
from sketchlearn.privacy import noise
from sketchlearn.privacy.composition import Spent, combined_record
from sketchlearn.privacy.mechanism import choose_mechanism, draw
from sketchlearn.privacy.quadratic_size import pca_release_size
from sketchlearn.privacy.release import charge, check_ledger, check_sketch, map_mark, released
from sketchlearn.privacy.sensitivity import phase_bounds, row_bounds
from sketchlearn.privacy.sizes import class_size, column_cells
from sketchlearn.sketches.record import PrivacyRecord
from sketchlearn.sketches.value import Sketch
from sketchlearn.sketching import sketch

if TYPE_CHECKING:
    from sketchlearn.privacy.ledger import Ledger

Bounds = tuple[npt.ArrayLike, npt.ArrayLike]
# features per component and column: with fewer than six, maps that span all scales of public bounds miss clusters
_FEWEST, _USUAL, _BOUNDS_USUAL = 6, 10, 20
_HARMLESS = 1e-3  # relative squared error of the averages that is not worth giving up features for
_TOLERATED = 4e-3  # times features per component and column: error beyond which centres were found no more
_OF_MIXTURES = 0.02  # of that: covariances are lost before centres (here 0.01 to 0.2 nats, k = 3 to 5)
_FLATNESS = 3.0  # squared length of one row's features over that of the average
_ALL_PRODUCTS = 64  # columns up to which the pilot keeps all products
_ROUNDS = 2  # the second looks at the ball that the first found
_SLACK = 2.0  # the spread of the pilot may be off by that much
_CLIP = 3.0  # radius of the clipping ball, in root mean square lengths


def private_size(
    n_components: int,
    dim: int,
    epsilon: float,
    delta: float = 0.0,
    *,
    rows: int,
    task: str = "kmeans",
    relation: str = "add-remove",
    records_per_user: int = 1,
) -> tuple[int, str]:
    """How many features to release for at least `rows` rows, and what to expect, in words.

    With pure epsilon, the noise of every feature grows with the number of features, so too many are worse than few.
    With delta, it grows with the square root, and more features compensate for that. The error is compared with the
    error that k-means tolerated in experiments (Chatalic 2020, section 9.2, has the argument). Quadratic features
    follow another rule, see :mod:`sketchlearn.privacy.quadratic_size`.

    Parameters
    ----------
    n_components, dim : int
        Clusters and columns.
    epsilon, delta, relation, records_per_user
        As in :func:`sketchlearn.privatize`.
    rows : int
        A public lower bound of the number of rows.
    task : {"kmeans", "gmm", "pca", "classifier", "columns"}
        Fourier features for centres or mixtures, quadratic ones for principal components, Fourier features of each of
        `n_components` classes, or cells of each column; give the number to :func:`sketchlearn.design` with public
        bounds and the same task ("kmeans" for mixtures).

    Examples
    --------
    >>> from sketchlearn.privacy import private_size
    >>> private_size(10, 10, 1.0, 1e-6, rows=10**6)[0]
    2000
    >>> size, why = private_size(10, 10, 0.01, rows=10**4)
    >>> size, "no useful result" in why
    (600, True)
    >>> private_size(5, 100, 0.1, rows=10**5, task="pca")[0]
    5050
    """
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise ValueError(f"rows must be a public lower bound of their number, got {rows!r}")
    if task == "pca":
        return pca_release_size(n_components, dim, epsilon, delta, int(rows), relation, records_per_user)
    if task == "classifier":
        return class_size(n_components, epsilon, delta, int(rows), relation, records_per_user)
    if task == "columns":
        return column_cells(dim, epsilon, delta, int(rows), relation, records_per_user)
    if task not in ("kmeans", "gmm"):
        raise ValueError(f"task={task!r}: sizes of releases are known for kmeans, gmm, pca, classifier and columns")
    unit = max(1, n_components * dim)

    def error(per_unit: int) -> float:
        size = max(100, per_unit * unit)
        bounds = phase_bounds(size)
        chosen = choose_mechanism(bounds, size, epsilon, delta, relation, records_per_user)
        noise = 2 * size * chosen.variance / (bounds.added.l2_squared / _FLATNESS) + chosen.count_variance
        return noise / float(rows) ** 2

    usual = _BOUNDS_USUAL
    if task == "gmm":  # a component has a covariance too
        usual = max(usual, math.ceil(default_size(n_components, dim, "gmm") / unit))
    best = usual
    # Gaussian noise grows with the root of their number, by which more features make up for it
    while best > _FEWEST and delta == 0.0 and error(best) > _HARMLESS:
        best -= 1
    size, reached = max(100, best * unit), error(best)
    limit = _TOLERATED * best * (1.0 if task == "kmeans" else _OF_MIXTURES)
    what, things = ("k-means", "clusters") if task == "kmeans" else ("a mixture", "components")
    if reached > limit:
        needed = math.ceil(rows * math.sqrt(reached / limit))
        words = (
            f"no useful result is to be expected: the noise has {reached:.2g} of the energy of the averages (NSR), "
            f"{what} with {n_components} {things} tolerates about {limit:.2g}. It would take about {needed:,} rows, a "
            "larger epsilon" + ("" if delta > 0 else ", delta > 0") + f", or fewer {things}"
        )
    else:
        words = f"the noise has {reached:.2g} of the energy of the averages (NSR), {what} tolerates about {limit:.2g}"
    return size, f"{size} features ({best} k d) for epsilon={epsilon:g}, delta={delta:g} and {rows:,} rows: {words}"


def private_design(
    data: Any,
    *,
    bounds: Bounds,
    epsilon: float,
    delta: float = 0.0,
    n_components: int = 20,
    task: str = "kmeans",
    size: int | None = None,
    seed: int = 0,
    relation: str = "add-remove",
    records_per_user: int = 1,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> tuple[FeatureMap, PrivacyRecord]:
    """A map whose centre and scale are estimated from the data, with a small privacy budget of its own.

    Rows are clipped to the ball around the public bounds. Their noisy mean and second moment give a smaller ball, and a
    second pass gives centre and spread. Each pass spends half of the budget. This is useful if the public bounds are
    tens of times wider than the data; a tenth of the budget is enough.

    Parameters
    ----------
    data : anything that can be sketched
        All rows, or a sample of them. `records_per_user` applies to these rows.
    bounds : (lower, upper)
        Public bounds of the columns.
    epsilon, delta, relation, records_per_user, ledger, dataset
        As in :func:`sketchlearn.privatize`, for this pilot alone.
    n_components, size, seed
        As in :func:`sketchlearn.design`.
    task : {"kmeans", "pca", "regression"}
        What the sketch is for.

    Returns
    -------
    FeatureMap, PrivacyRecord
        Give the record to ``privatize(..., pilot=record)``, which adds it to what the release spends.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.privacy import private_design
    >>> X = np.random.default_rng(0).normal(50, 1, size=(50_000, 2))
    >>> phi, spent = private_design(X, bounds=([-100, -100], [100, 100]), epsilon=0.1, delta=1e-7, n_components=3)
    >>> s = sl.privatize(sl.sketch(X, phi), epsilon=0.9, delta=9e-7, pilot=spent)
    >>> s.privacy.epsilon, bool(np.abs(phi.center - 50).max() < 5)
    (1.0, True)
    """
    if task not in ("kmeans", "pca", "regression"):
        raise ValueError(f"task={task!r}: a private pilot serves kmeans, pca and regression")
    check_ledger(ledger, dataset)
    around = design(task="regression", bounds=bounds)
    dim, mean, radius = around.dim, np.asarray(around.center, np.float64), float(around.radius or 0.0)
    records: list[PrivacyRecord] = []
    spread, charged = 0.0, None
    for turn in range(_ROUNDS):
        moments = QuadraticFeatures.draw(
            dim=dim, size=None if dim <= _ALL_PRODUCTS else 512, center=mean, radius=radius, seed=seed
        )
        limits = row_bounds(moments)
        chosen = choose_mechanism(
            limits, moments.size, epsilon / _ROUNDS, delta / _ROUNDS, relation, records_per_user
        )  # fmt: skip
        exact = sketch(data, moments)
        check_sketch(exact, relation, records_per_user)
        if not turn:  # all turns at once, before the first: a budget that is too small is left as it is
            most = _whole_cost(chosen.spent, float(epsilon), float(delta))
            noise.ready()
            charged = charge(ledger, dataset, [("pilot for a map", most)], relation, records_per_user)
        elif not chosen.rho <= (most.rho or 0.0) / _ROUNDS:
            raise RuntimeError("a turn of the pilot would spend more than was charged")
        sums, rows = draw(exact.sums, exact.weight, limits, chosen)
        noisy = released(moments, sums, rows, chosen, limits, relation, records_per_user, "public bounds")
        assert noisy.privacy is not None
        records.append(noisy.privacy)
        mean, trace, error = _moments(noisy, mean, radius)
        mean = np.clip(mean, *(np.asarray(bound, np.float64) for bound in bounds))
        if turn < _ROUNDS - 1:
            # the next ball holds the rows even if the noise was against us
            radius = min(radius, _CLIP * math.sqrt(max(trace, 0.0) + 3.0 * error))
        spread = math.sqrt(max(trace, 0.0) / dim)
    if trace <= 4.0 * error:  # nothing stands out of the noise: the last ball is all that is known
        corner = np.full(dim, radius / math.sqrt(dim))
        phi = design(bounds=(mean - corner, mean + corner), n_components=n_components, task=task, size=size, seed=seed)
    elif task == "kmeans":
        phi = spread_map(mean, spread, n_components, size or max(100, _USUAL * n_components * dim), seed)
    else:
        corner = np.full(dim, _CLIP * spread)
        phi = design(bounds=(mean - corner, mean + corner), n_components=n_components, task=task, size=size, seed=seed)
    together = combined_record(records, "same")
    details = {**together.details, "rho": most.rho, "margin": most.margin, "chose": map_mark(phi)}
    if charged is not None:
        details["charged"] = charged
    return phi, replace(together, epsilon=most.epsilon, delta=most.delta, details=details)


def spread_map(center: npt.NDArray[np.float64], spread: float, n_components: int, size: int, seed: int) -> FeatureMap:
    """A map for k-means around a noisy centre, of a noisy spread."""
    return multiscale_map(
        center=center, spread=spread * math.sqrt(_SLACK), k=n_components, size=size, seed=seed, slack=_SLACK
    )


def _whole_cost(turn: Spent, epsilon: float, delta: float) -> Spent:
    """What all turns of a pilot cost, from the first; the others differ from it by rounding alone."""
    slack = _ROUNDS * (1.0 + 1e-6)
    rho = None if turn.rho is None else turn.rho * slack
    used = delta if turn.delta else 0.0
    return Spent(epsilon, used, rho, margin=None if turn.margin is None else turn.margin * slack)


def _moments(
    noisy: Sketch, center: npt.NDArray[np.float64], radius: float
) -> tuple[npt.NDArray[np.float64], float, float]:
    """Mean and trace of the covariance of the rows behind a noisy sketch, and the noise of the trace."""
    phi = second_moment(noisy.features, "the pilot")
    count, record, d = float(noisy.weight), noisy.privacy, phi.dim
    assert record is not None
    mean = phi.row_mean_from_sums(noisy.sums, count)
    centred = phi.centred_mean_from_sums(noisy.sums, count)
    unit = float(np.abs(phi.mean_from_sums(np.ones_like(noisy.sums), 1.0)).max())  # one step of the grid
    if phi.is_exact:
        rows = np.arange(d)
        trace, entries = float(centred[rows * d - rows * (rows - 1) // 2].sum()), float(d)
    else:
        trace, entries = d * float(centred.mean()), d * d / phi.size  # unit directions: each expects trace / d
    off = mean - center
    length = float(np.linalg.norm(off))
    if length > radius:  # noise: clipped rows are inside the ball
        mean = center + off * (radius / length)
    return np.asarray(mean), trace, math.sqrt(entries * record.sums_variance) * unit / count
