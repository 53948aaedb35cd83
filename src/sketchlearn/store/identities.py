"""Clusters that keep their identity over time: matched from one period to the next, with births and deaths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.arrays import Array
from sketchlearn.sketches import Sketch

_REACH = 0.5  # of the distance to the next other centre, within which a centre is the same cluster


@dataclass(frozen=True)
class Clusters:
    """Clusters of one period.

    `period`: its beginning. `identities`: numbers that a cluster keeps as long as it lives. `centers`: their centres,
    (k, dim). `weights`: shares of the rows, (k,). `born`, `died`: clusters that were not there in the period before,
    and those that are not there any more.
    """

    period: str
    identities: tuple[int, ...]
    centers: Array
    weights: Array
    born: tuple[int, ...]
    died: tuple[int, ...]


def follow(sketches: Mapping[str, Sketch], n_clusters: int | None, *, random_state: int = 0) -> list[Clusters]:
    """Decode the clusters of each sketch of a sequence and match them with those before.

    Parameters
    ----------
    sketches : mapping of str to Sketch
        In the order of time.
    n_clusters : int or None
        How many there are in each; None: the number of the first sketch is chosen from 1 to 12, and that of each
        later one from those next to the number before.
    random_state : int
        For the decoder.

    Returns
    -------
    list of Clusters

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.store.identities import follow
    >>> rng = np.random.default_rng(0)
    >>> phi = sl.FourierFeatures.draw(dim=2, size=60, scale=3.0, seed=0)
    >>> at = lambda day: np.array([[-6.0, day], [6.0, -day]])
    >>> days = {str(d): sl.sketch(at(d)[rng.integers(0, 2, 2000)] + rng.normal(size=(2000, 2)), phi) for d in range(3)}
    >>> found = follow(days, 2)
    >>> [c.identities == found[0].identities or set(c.identities) == {0, 1} for c in found], found[-1].born
    ([True, True, True], ())
    """
    out: list[Clusters] = []
    fresh = 0
    for period, sketch in sketches.items():
        centers, weights = _decoded(sketch, n_clusters, out[-1].centers if out else None, random_state)
        identities = [-1] * len(centers)
        if out:
            for new, old in matched(out[-1].centers, centers):
                identities[new] = out[-1].identities[old]
        born = []
        for i, number in enumerate(identities):
            if number < 0:
                identities[i] = fresh
                born.append(fresh)
                fresh += 1
        died = sorted(set(out[-1].identities) - set(identities)) if out else []
        out.append(Clusters(period, tuple(identities), centers, weights, tuple(born) if out else (), tuple(died)))
    return out


def matched(before: Array, after: Array) -> list[tuple[int, int]]:
    """Pairs (new, old) of centres that are the same cluster: the cheapest assignment, within reach.

    A pair is within reach if its distance is below half the distance from the old centre to the next other centre,
    before and after.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.store.identities import matched
    >>> matched(np.array([[0.0], [10.0]]), np.array([[10.5], [0.2], [30.0]]))
    [(0, 1), (1, 0)]
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    if not len(before) or not len(after):
        return []
    distances = cdist(after, before)
    apart = cdist(before, before) + np.diag(np.full(len(before), np.inf))
    reach = _REACH * apart.min(axis=1)
    if len(before) == 1:
        reach = np.full(1, np.inf)
    capped = np.minimum(distances, 4.0 * reach[None, :]) if np.isfinite(reach).all() else distances
    new, old = linear_sum_assignment(capped)
    pairs = zip(new.tolist(), old.tolist(), strict=True)
    return [(i, j) for i, j in pairs if distances[i, j] < reach[j]]


def _decoded(sketch: Sketch, k: int | None, before: Array | None, random_state: int) -> tuple[Array, Array]:
    """Centres and shares; the decoding begins with the centres before."""
    from sketchlearn.learn import CompressiveKMeans

    if k is None:
        from sketchlearn.decoders import sweep

        choices = range(1, 13) if before is None else range(max(1, len(before) - 1), len(before) + 2)
        k = sweep(sketch, choices, random_state=random_state).recommended
    model: Any = CompressiveKMeans(k, start=before, random_state=random_state).fit_sketch(sketch)
    return np.asarray(model.cluster_centers_, np.float64), np.asarray(model.weights_, np.float64)
