"""Rulers: costs and their references, divergences, scores; and intervals for what they measure.

Two references of k-means are reported everywhere, because the reference decides the result: *best* is the lowest cost
that is known, *published* is what the document used.  Success is a cost below 1.05 of the best.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans, kmeans_plusplus

import sketchlearn as sl

Array = npt.NDArray[np.float64]
SUCCESS = 1.05
"""Largest cost over that of the best known solution that counts as success (Chatalic 2020 shows such maps)."""
LLOYD_ITERATIONS = 1000
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def mean_cost(rows: Array, centers: Array) -> float:
    """Mean squared distance of rows to the nearest centre."""
    best = np.full(len(rows), np.inf)
    for center in np.asarray(centers, np.float64):
        np.minimum(best, ((rows - center) ** 2).sum(1), out=best)
    return float(best.mean())


def lloyd(rows: Array, start: Array, weights: Array | None = None) -> Array:
    """Centres of Lloyd's algorithm from a given start."""
    model = KMeans(len(start), init=start, n_init=1, max_iter=LLOYD_ITERATIONS, tol=1e-6, algorithm="lloyd")
    return np.asarray(model.fit(rows, sample_weight=weights).cluster_centers_)


def best_cost(rows: Array, k: int, truth: Array | None = None) -> float:
    """The lowest known cost: ten runs of scikit-learn's k-means, and Lloyd's algorithm from the truth."""
    found = KMeans(k, n_init=10, random_state=0).fit(rows).inertia_ / len(rows)
    if truth is not None:
        found = min(found, mean_cost(rows, lloyd(rows, truth)))
    return float(found)


def plus_plus_cost(rows: Array, k: int, seed: int, runs: int = 3) -> float:
    """Best of three runs from plain k-means++ starts, one candidate per step (Chatalic 2020)."""
    costs = []
    for run in range(runs):
        start, _ = kmeans_plusplus(rows, k, random_state=1000 * seed + run, n_local_trials=1)
        costs.append(mean_cost(rows, lloyd(rows, start)))
    return min(costs)


def box_cost(rows: Array, k: int, seed: int) -> float:
    """One run from uniform points in the box of the data (Keriven 2017)."""
    rng = np.random.default_rng([seed, 71])
    return mean_cost(rows, lloyd(rows, rng.uniform(rows.min(0), rows.max(0), (k, rows.shape[1]))))


def log_symmetric_kl(truth: sl.Mixture, found: sl.Mixture, seed: int, draws: int = 50_000) -> float:
    """Natural logarithm of the symmetrised Kullback-Leibler divergence, by Monte Carlo."""
    total = 0.0
    for one, other in ((truth, found), (found, truth)):
        rows, _ = one.sample(draws, random_state=seed)
        total += float(np.mean(_log_density(one, rows) - _log_density(other, rows)))
    return math.log(max(total, 1e-12))


def _log_density(mixture: sl.Mixture, rows: Array) -> Array:
    """As the mixture's own, by three matrix products where covariances are diagonal."""
    variances = mixture.covariances
    if variances.ndim != 2:
        return mixture.log_density(rows)
    means = mixture.means
    squares = rows**2 @ (1 / variances).T - 2 * rows @ (means / variances).T + (means**2 / variances).sum(1)
    logs = np.log(np.maximum(mixture.weights, 1e-300)) - 0.5 * (np.log(2 * np.pi * variances).sum(1) + squares)
    return np.asarray(np.logaddexp.reduce(logs, axis=1))


def timed(function: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, float]:
    """What a function returns, and its CPU seconds."""
    start = time.process_time()
    value = function(*arguments, **options)
    return value, time.process_time() - start


def attempt(function: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any | None, float]:
    """As :func:`timed`; None where the library refuses, because the sketch holds no information."""
    start = time.process_time()
    try:
        value = function(*arguments, **options)
    except ValueError:
        value = None
    return value, time.process_time() - start


# -- intervals --------------------------------------------------------------------------------------------------------

DRAWS = 2000  # bootstrap samples: 5 and 95 % quantiles to about half a per cent of probability


def interval(values: Iterable[float], statistic: Callable[..., Any] = np.median) -> tuple[float, float, float]:
    """A statistic and its 90 % bootstrap interval over data sets."""
    given = np.asarray(list(values), np.float64)
    if len(given) == 0:
        return math.nan, math.nan, math.nan
    rng = np.random.default_rng(0)
    with np.errstate(invalid="ignore"):
        drawn = statistic(given[rng.integers(len(given), size=(DRAWS, len(given)))], axis=1)
        low, high = np.quantile(drawn, [0.05, 0.95], method="nearest")
        return float(statistic(given)), float(low), float(high)


def better(ours: dict[int, float], theirs: dict[int, float]) -> bool | None:
    """Whether the first are lower: the 90 % interval of the median difference over common data sets is below zero.

    No tolerance: what differs by little, but on nearly every data set, differs.  None without common data sets.
    """
    common = sorted(set(ours) & set(theirs))
    if not common:
        return None
    _, _, high = interval([ours[seed] - theirs[seed] for seed in common])
    return high < 0


def by_seed(rows: list[dict[str, Any]], name: str, sign: float = 1.0) -> dict[int, float]:
    """One value a data set, for :func:`better`; with the sign -1 if large values are good."""
    return {row["seed"]: sign * row[name] for row in rows if name in row}


def wilson(successes: int, trials: int) -> tuple[float, float, float]:
    """A rate and its 90 % interval (Wilson 1927)."""
    if not trials:
        return math.nan, 0.0, 1.0
    z, rate = 1.645, successes / trials
    middle = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    return rate, max(0.0, middle - half), min(1.0, middle + half)


def number(value: float, digits: int = 3) -> str:
    """A number for the page."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and (abs(value) < 10 ** (1 - digits) or abs(value) >= 10**5):
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}·10{str(int(exponent)).translate(SUPERSCRIPTS)}".replace("-", "−")
    text = f"{value:.{digits}f}" if abs(value) < 10 else f"{value:.{max(digits - 2, 0)}f}"
    return text.replace("-", "−")


def spaced(count: int) -> str:
    """A large whole number, its digits in groups of three."""
    return f"{count:,}".replace(",", " ")


def shown(values: Sequence[float], digits: int = 3, statistic: Callable[..., Any] = np.median) -> str:
    """Statistic and interval for the page, e.g. ``1.045 [1.020, 1.101]``."""
    middle, low, high = interval(values, statistic)
    if math.isnan(middle):
        return "not run"
    return f"{number(middle, digits)} [{number(low, digits)}, {number(high, digits)}]"


def rate_shown(flags: Sequence[bool]) -> str:
    """A rate for the page: so many of so many, and the interval in per cent."""
    if not flags:
        return "not run"
    _, low, high = wilson(sum(flags), len(flags))
    return f"{sum(flags)} of {len(flags)} [{100 * low:.0f}–{100 * high:.0f} %]"


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table for the page."""
    rows = [f"| {' | '.join(cells)} |" for cells in (header, *lines)]
    return "\n".join([rows[0], "|" + "---|" * len(header), *rows[1:]])


# -- rows -------------------------------------------------------------------------------------------------------------


def pick(rows: list[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    """Rows with the given values."""
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def lost(rows: list[dict[str, Any]], name: str, rivals: Sequence[str], *by: str) -> list[dict[str, Any]]:
    """Settings in which a rival is better than the default: the fields `by`, the rival, and both medians."""
    found = []
    for at in sorted({tuple(row[key] for key in by) for row in rows if row["method"] in rivals}):
        some = pick(rows, **dict(zip(by, at, strict=True)))
        ours = by_seed(pick(some, method="default"), name)
        for rival in rivals:
            theirs = by_seed(pick(some, method=rival), name)
            if better(theirs, ours):
                medians = {"theirs": median(list(theirs.values())), "ours": median(list(ours.values()))}
                found.append({**dict(zip(by, at, strict=True)), "rival": rival, **medians})
    return found


def column(rows: list[dict[str, Any]], name: str, **wanted: Any) -> list[float]:
    """One value of the rows with the given others."""
    return [row[name] for row in pick(rows, **wanted) if name in row]


def median(values: Sequence[float]) -> float:
    """Median; NaN of nothing."""
    return float(np.median(values)) if len(values) else math.nan


def verdict(*parts: bool | None) -> Any:
    """All parts hold: reproduced; none: not; some: partly; one not measured: not run."""
    if any(part is None for part in parts):
        return "not run"
    return "reproduced" if all(parts) else "partly" if any(parts) else "not"


def known(*values: float) -> bool:
    """Whether all numbers were measured."""
    return not any(math.isnan(value) for value in values)
