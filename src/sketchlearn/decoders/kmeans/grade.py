"""A grade for centres: by how much they cost more than the best on all rows, a bound on it, and where the cost sits.

What :mod:`~sketchlearn.decoders.kmeans.judges` say is added up to an estimate and an upper bound for nine in ten sets
of rows.  The factors are quantile regressions on many data sets (`benchmarks/graded.py` makes and tests them;
`docs/how-good.md` has the table).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.arrays import Array, Flags, Index
from sketchlearn.decoders.kmeans.judges import Opinions, opinions
from sketchlearn.decoders.kmeans.partition import Partition, nearest_centers
from sketchlearn.decoders.problem import Problem
from sketchlearn.decoders.steps.far import FarComponents
from sketchlearn.decoders.steps.overcomplete import Fitted
from sketchlearn.models.mixture import Mixture

PARTS = ("constant", "judges", "tails", "far", "coarse")
# Excess of the cost for one unit of each part, none negative: 50 % and 92 % quantiles of 853 cases of 392 data sets
# (benchmarks/results/graded.jsonl).  91 % of the cases of data sets that are left out are covered then.
ESTIMATE = (0.0014, 0.74, 1.03, 0.75, 0.66)
BOUND = (0.0062, 1.68, 5.24, 6.21, 8.03)
LONGEST, REACH = 0.9, 1.5  # share of the frequencies that are shorter, and radians that a cell should span there
MOST = 3.0  # excess that a part counts for at most: beyond, all are the same
_DRAWS = 8_000  # draws that say where the cost sits
_FEW, _MUCH = 0.01, 0.2  # share of the rows at most, and of their cost at least, that the verdict mentions
_MOSTLY = 0.8  # share of the cost of such rows that the columns hold in which they are said to be far
_APART, _OWN = 2.5, 0.5  # sums of two widths between clusters that are two; share of a cell that is a cluster's own
_ROWS, _SEEN = 20.0, 0.005  # rows of a cluster that the verdict mentions, and its share where fits are over-complete


@dataclass(frozen=True)
class Concentration:
    """Few rows that carry much of the cost: their shares of both, and the columns in which they are far."""

    rows: float
    cost: float
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Hidden:
    """A cluster that no centre shows: its share of the rows, and its place (normalised units)."""

    rows: float
    place: Array


@dataclass(frozen=True)
class Grade:
    """What is known of the cost of some centres.

    Attributes
    ----------
    excess, bound : float
        Estimated excess of the cost over the best on all rows, and what nine in ten stay below.
    parts : dict
        Share of each part in the bound.
    opinions : Opinions
        What the judges said.
    coarse : float
        What is known without judges, see :func:`coarseness`.
    variances : ndarray (d,)
        Of the columns.
    reach : float
        Standard deviations from the mean to the worst end of the box.
    concentration : Concentration or None
        Few rows with much of the cost.
    hidden : tuple of Hidden
        Clusters that no centre shows, the largest first.
    """

    excess: float
    bound: float
    parts: dict[str, float]
    opinions: Opinions
    coarse: float
    variances: Array
    reach: float
    concentration: Concentration | None
    hidden: tuple[Hidden, ...]

    @property
    def numbers(self) -> dict[str, float]:
        """For the trace."""
        out = {name: float(getattr(self.opinions, name)) for name in ("judges", "tails", "far")}
        return out | {"coarse": self.coarse, "excess": self.excess, "bound": self.bound}

    @property
    def words(self) -> str:
        """The grade in words."""
        largest = max(self.parts, key=lambda name: self.parts[name])
        return (
            f"{percent(self.excess)} more than the least cost (at most {percent(self.bound)}, with 90 % confidence); "
            f"largest part: {largest}"
        )


def graded(
    problem: Problem,
    fits: list[Fitted],
    mixture: Mixture,
    far: FarComponents | None,
    cells: Partition,
    criterion: str,
    explained: bool,
    sighted: bool,
    rng: np.random.Generator,
) -> Grade:
    """Ask the judges about some centres (arguments as for :func:`~sketchlearn.decoders.kmeans.judges.opinions`).

    The map of a sketch that a model explains is not too coarse.  Judges are refitted to half of the frequencies: where
    these have fewer numbers than centres and weights, any judge agrees, and there is no bound.
    """
    said = opinions(problem, fits, mixture, far, cells.centers, criterion, explained, sighted, rng)
    coarse = 0.0 if explained else coarseness(problem, cells, criterion)
    x = np.append(1.0, np.clip([said.judges, said.tails, said.far, coarse], 0.0, MOST))
    told = problem.size >= len(cells.centers) * (problem.dim + 1)
    shares = np.array(BOUND) * (x if told else np.where(np.array(PARTS) == "judges", MOST, x))
    excess = float(np.array(ESTIMATE) @ x)
    drawn = _Drawn.of(mixture, cells.centers, rng)
    least = max(_ROWS / problem.n, 0.0 if explained else _SEEN)
    variances, j = np.diag(mixture.covariance), said.far_column
    return Grade(
        excess=excess,
        bound=max(float(shares.sum()), excess),
        parts=dict(zip(PARTS[1:], shares[1:].tolist(), strict=True)),
        opinions=said,
        coarse=coarse,
        variances=variances,
        reach=float(abs(said.far_place - mixture.mean[j]) / np.sqrt(max(variances[j], 1e-300))),
        concentration=concentration(drawn, criterion == "medians"),
        hidden=hidden_clusters(drawn, mixture, len(cells.centers), least, [fit.state.k for fit in fits]),
    )


def coarseness(problem: Problem, cells: Partition, criterion: str) -> float:
    """One per cent for each time, squared, that cells are smaller than what the longest frequencies tell apart."""
    width = cells.cost / np.sqrt(problem.dim) if criterion == "medians" else np.sqrt(cells.cost / problem.dim)
    reach = float(np.quantile(problem.radii, LONGEST)) * width
    return 0.01 * max((REACH / max(reach, 1e-9)) ** 2 - 1.0, 0.0)


@dataclass(frozen=True)
class _Drawn:
    """Rows drawn from the mixture: weights, components, nearest centres, and how far they are in each column."""

    weights: Array
    component: Index
    nearest: Index
    apart: Array

    @classmethod
    def of(cls, mixture: Mixture, centers: Array, rng: np.random.Generator) -> _Drawn:
        x, w, component = mixture.weighted_points(_DRAWS, rng)
        nearest, _ = nearest_centers(x, centers)
        return cls(w / w.sum(), component, nearest, (x - centers[nearest]) ** 2)


def concentration(drawn: _Drawn, medians: bool) -> Concentration | None:
    """The few rows that carry most of the cost for their number."""
    apart = drawn.apart.sum(1)
    order = np.argsort(-apart)
    cost = drawn.weights * (np.sqrt(apart) if medians else apart)
    rows, carried = np.cumsum(drawn.weights[order]), np.cumsum(cost[order]) / max(float(cost.sum()), 1e-300)
    few = np.flatnonzero((rows <= _FEW) & (carried >= _MUCH))
    if not len(few):
        return None
    best = few[np.argmax(carried[few] * np.log(carried[few] / rows[few]))]
    top = order[: best + 1]
    along = drawn.weights[top] @ drawn.apart[top]
    most = np.argsort(-along)
    count = int(np.searchsorted(np.cumsum(along[most]), _MOSTLY * along.sum())) + 1
    return Concentration(float(rows[best]), float(carried[best]), tuple(map(int, most[:count])))


def hidden_clusters(drawn: _Drawn, mixture: Mixture, k: int, least: float, sizes: list[int]) -> tuple[Hidden, ...]:
    """Components apart from all others, of a share of at least `least`, that are the smaller part of their cells.

    An over-complete fit has such components by chance: two of the pooled fits (with `sizes`) must have them, or what is
    beyond.
    """
    fit = np.append(np.repeat(np.arange(len(sizes)), sizes), np.full(mixture.n_components - sum(sizes), len(sizes)))
    between = mixture.means[:, None] - mixture.means
    length = np.sqrt((between**2).sum(2))
    along = np.einsum("abi,aij,abj->ab", between, mixture.full_covariances(), between)
    width = np.sqrt(np.maximum(along, 0.0)) / np.maximum(length, 1e-300)
    label = _groups(length <= _APART * (width + width.T))
    count = int(label.max()) + 1
    cell = np.bincount(label[drawn.component] * k + drawn.nearest, drawn.weights, count * k).reshape(count, k)
    shown = (cell >= _OWN * np.maximum(cell.sum(0), 1e-300)).any(1)
    found = []
    for l in np.flatnonzero(~shown):
        weights, known = np.where(label == l, mixture.weights, 0.0), np.unique(fit[label == l])
        if weights.sum() >= least and (max(sizes) <= k or len(known) > 1 or known[0] == len(sizes)):
            found.append(Hidden(float(weights.sum()), weights @ mixture.means / weights.sum()))
    return tuple(sorted(found, key=lambda cluster: -cluster.rows))


def _groups(linked: Flags) -> Index:
    """Connected parts of a symmetric relation, numbered."""
    label = np.arange(len(linked))
    while True:
        least = np.where(linked, label, len(label)).min(1)
        if (least == label).all():
            return np.unique(label, return_inverse=True)[1]
        label = least


def percent(share: float) -> str:
    """A share in words."""
    return f"{100.0 * share:.2g} %" if share < 0.995 else f"{100.0 * share:.0f} %"
