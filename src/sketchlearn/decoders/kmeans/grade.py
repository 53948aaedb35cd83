"""A grade for centres: by how much they cost more than the best on all rows, a bound on it, and where the cost sits.

What :mod:`~sketchlearn.decoders.kmeans.judges` say is added up to an estimate and to a bound that holds for nine in ten
sets of rows.  The factors are quantile regressions on many data sets (`benchmarks/graded.py` makes and tests them;
`docs/how-good.md` has the table).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.decoders.kmeans.judges import Opinions, opinions
from sketchlearn.decoders.kmeans.partition import Partition, squared_distances
from sketchlearn.decoders.problem import Array, Problem
from sketchlearn.decoders.steps.overcomplete import Fitted
from sketchlearn.models.mixture import Mixture

ENOUGH = 10.0  # features per number of the centres from which on a sketch is not scarce
PARTS = ("constant", "fits", "group", "tails", "far", "scarce")
# Excess of the cost for one unit of each part, and for the constant: 50 % and 90 % quantiles, none negative.
ESTIMATE = (0.0005, 1.23, 0.0, 0.0, 1.23, 0.0)
BOUND = (0.0026, 2.47, 0.5, 0.35, 7.8, 1.18)
MOST = 3.0  # excess that a part counts for at most: beyond, all are the same
_TOP = 20_000  # draws that say where the cost sits
_FEW, _MUCH = 0.01, 0.2  # share of the rows at most, and of their cost at least, that is worth a word
_APART, _OWN = 4.0, 0.5  # widths between clusters that are two; share of a cell that makes it a cluster's own


@dataclass(frozen=True)
class Concentration:
    """Few rows that carry much of the cost: their shares of both, and the column in which they are farthest."""

    rows: float
    cost: float
    column: int


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
    scarce : float
        One hundredth for each time that the sketch is smaller than it should be.
    concentration : Concentration or None
        Few rows with much of the cost.
    hidden : tuple of Hidden
        Clusters that no centre shows, the largest first.
    """

    excess: float
    bound: float
    parts: dict[str, float]
    opinions: Opinions
    scarce: float
    concentration: Concentration | None
    hidden: tuple[Hidden, ...]

    @property
    def numbers(self) -> dict[str, float]:
        """For the trace."""
        said = self.opinions
        names = ("fits", "halves", "group", "tails", "far")
        out = {name: float(getattr(said, name)) for name in names}
        return out | {"scarce": self.scarce, "excess": self.excess, "bound": self.bound}

    @property
    def words(self) -> str:
        """The grade in words."""
        largest = max(self.parts, key=lambda name: self.parts[name])
        return f"{percent(self.excess)} above the best (90 %: at most {percent(self.bound)}); most of it: {largest}"


def graded(
    problem: Problem,
    fits: list[Fitted],
    mixture: Mixture,
    beyond: Mixture | None,
    cells: Partition,
    criterion: str,
    certified: bool,
    rng: np.random.Generator,
) -> Grade:
    """Ask the judges about some centres (arguments as for :func:`~sketchlearn.decoders.kmeans.judges.opinions`).

    A sketch that determines the model, `certified`, is not scarce, however few features it has.
    """
    said = opinions(problem, fits, mixture, beyond, cells.centers, criterion, rng)
    scarce = 0.0 if certified else 0.01 * max(ENOUGH * cells.centers.size / problem.size - 1.0, 0.0)
    x = np.array([0.5 * (said.fits + said.halves), said.group, said.tails, said.far, scarce])
    x = np.append(1.0, np.clip(x, 0.0, MOST))
    shares = np.array(BOUND) * x
    excess = float(np.array(ESTIMATE) @ x)
    return Grade(
        excess=excess,
        bound=max(float(shares.sum()), excess),
        parts=dict(zip(PARTS[1:], shares[1:].tolist(), strict=True)),
        opinions=said,
        scarce=scarce,
        concentration=concentration(mixture, cells.centers, rng),
        hidden=hidden_clusters(mixture, cells.centers),
    )


def concentration(mixture: Mixture, centers: Array, rng: np.random.Generator) -> Concentration | None:
    """The few rows that carry most of the cost for their number."""
    x, w, _ = mixture.weighted_points(_TOP, rng)
    apart = squared_distances(x, centers)
    nearest = apart.argmin(1)
    cost = w * apart[np.arange(len(x)), nearest]
    order = np.argsort(-apart[np.arange(len(x)), nearest])
    rows, carried = np.cumsum(w[order]) / w.sum(), np.cumsum(cost[order]) / max(float(cost.sum()), 1e-300)
    few = np.flatnonzero((rows <= _FEW) & (carried >= _MUCH))
    if not len(few):
        return None
    best = few[np.argmax(carried[few] * np.log(carried[few] / rows[few]))]
    top = order[: best + 1]
    column = int((w[top] @ (x[top] - centers[nearest[top]]) ** 2).argmax())
    return Concentration(float(rows[best]), float(carried[best]), column)


def hidden_clusters(mixture: Mixture, centers: Array) -> tuple[Hidden, ...]:
    """Components far from all others that are the smaller part of the cell of their centre."""
    kept = mixture.weights > 0.0
    mixture = Mixture(mixture.weights[kept], mixture.means[kept], mixture.covariances[kept])
    widths = np.sqrt(np.maximum(mixture.variances() / mixture.dim, 1e-300))
    between = np.sqrt(squared_distances(mixture.means, mixture.means))
    linked = between <= _APART * np.maximum(widths[:, None], widths)
    label = _groups(linked)
    owner = squared_distances(mixture.means, centers).argmin(1)
    cells = np.bincount(owner, mixture.weights, len(centers))
    found = []
    for l in range(label.max() + 1):
        mine = label == l
        share = float(mixture.weights[mine].sum())
        held = np.bincount(owner[mine], mixture.weights[mine], len(centers))
        if (held < _OWN * np.maximum(cells, 1e-300)).all():
            found.append(Hidden(share, np.average(mixture.means[mine], axis=0, weights=mixture.weights[mine])))
    return tuple(sorted(found, key=lambda cluster: -cluster.rows))


def _groups(linked: Array) -> Array:
    """Connected parts of a symmetric relation, numbered."""
    label = np.arange(len(linked))
    while True:
        least = np.where(linked, label, len(label)).min(1)
        if (least == label).all():
            return np.unique(label, return_inverse=True)[1]
        label = least


def percent(share: float) -> str:
    """A share in words."""
    return f"{100.0 * share:.2g} %" if share < 1.0 else f"{100.0 * share:.0f} %"
