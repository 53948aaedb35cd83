"""Sketches of several holders put together without a trusted middleman: integer sums under pairwise masks.

Two ways to a private sketch of the union:

- Every holder releases its own: ``privatize`` at home, then :func:`sketchlearn.privacy.combine` with
  ``users="disjoint"``.  Needs no protocol; the variance of the noise grows with the number of holders.
- The holders add a part of the noise each, hide their sums by masks that cancel, and send them to an aggregator that
  learns the noisy total alone.  The variance is that of one release, times (holders / honest holders).

Masks are integers modulo 2**64, drawn by each pair of holders from a secret they share; one adds what the other
subtracts.  A masked vector is uniform, whatever is behind it.  Integer sums lose nothing by that: it is why the sums
of a sketch fit secure aggregation as they are.  Agreeing on secrets, and holders who leave half way, are the business
of a protocol (Bonawitz et al. 2017); :func:`shared_secrets` stands in for it in simulations.

Noise in parts.  The sum of h independent discrete Gaussians of variance ``s**2 / h`` differs from one of variance
``s**2`` by a factor of at most ``exp(10 sum_k exp(-2 pi**2 (s**2 / h) k / (k + 1)))`` per entry (Kairouz, Liu and
Steinke, "The distributed discrete Gaussian mechanism", 2021), which is 1 to a hundred digits at the scale of our sums.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sketchlearn.features.base import FeatureMap
from sketchlearn.privacy import noise
from sketchlearn.privacy.mechanism import Mechanism, choose_mechanism, rescaled, stacked
from sketchlearn.privacy.release import check_sketch, released
from sketchlearn.privacy.sensitivity import Bounds, row_bounds
from sketchlearn.sketches.value import Sketch, check_same_features

Masked = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Round:
    """One aggregation: what all holders agree on before anybody looks at a row.

    Make one with :meth:`agreed`.

    Attributes
    ----------
    features : FeatureMap
        The map of all holders.
    bounds : Bounds
        What one row can add.
    mechanism : Mechanism
        Noise of the total.
    relation : str
        Which datasets are neighbours.
    records_per_user : int
        How many rows one person may have, with all holders together.
    holders, honest : int
        How many take part, and how many of them at least add their noise and keep it to themselves.
    name : str
        Different for each aggregation, so that no mask is used twice.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.privacy.federated import Round, aggregate, shared_secrets
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> agreed = Round.agreed(phi, epsilon=1.0, delta=1e-6, holders=2, honest=2, name="monday")
    >>> keys = shared_secrets(["north", "south"])
    >>> sketches = {name: sl.sketch(np.zeros((5000, 1)), phi) for name in keys}
    >>> sent = [agreed.contribution(sketches[name], name, keys[name]) for name in keys]
    >>> total = aggregate(agreed, sent)
    >>> total.privacy.epsilon, bool(abs(total.count - 10_000) < 100)
    (1.0, True)
    """

    features: FeatureMap
    bounds: Bounds
    mechanism: Mechanism
    relation: str
    records_per_user: int
    holders: int
    honest: int
    name: str

    @classmethod
    def agreed(
        cls,
        features: FeatureMap,
        epsilon: float,
        delta: float,
        *,
        holders: int,
        honest: int,
        name: str,
        relation: str = "add-remove",
        records_per_user: int = 1,
    ) -> Round:
        """The round with a guarantee, for a map that was chosen without looking at rows."""
        if not 1 <= honest <= holders:
            raise ValueError(f"honest must be between 1 and the {holders} holders, got {honest}")
        if relation != "add-remove":
            raise ValueError("a public number of rows is not part of the protocol: use relation='add-remove'")
        bounds = row_bounds(features)
        chosen = choose_mechanism(bounds, features.size, epsilon, delta, relation, records_per_user, "gaussian")
        if chosen.scale / math.sqrt(honest) < 8.0:
            raise ValueError("the noise of one holder is too small for the bound on sums of discrete Gaussians")
        return cls(features, bounds, chosen, relation, records_per_user, holders, honest, name)

    def contribution(self, sketch: Sketch, me: str, keys: Mapping[str, bytes]) -> Masked:
        """What a holder sends: its sums and its number of rows, with its part of the noise, under its masks."""
        check_sketch(sketch, self.relation)
        check_same_features(Sketch.empty(self.features), sketch)
        if len(keys) != self.holders - 1 or me in keys:
            raise ValueError(
                f"{me!r} needs a secret with each of the other {self.holders - 1} holders, has {len(keys)}"
            )
        values = stacked(sketch.sums, sketch.weight, self.bounds, self.mechanism)
        noisy = noise.add_gaussian(values, self.mechanism.scale / math.sqrt(self.honest))
        return masked(noisy, me, keys, self.name)


def masked(values: npt.NDArray[np.int64], me: str, keys: Mapping[str, bytes], round_name: str) -> Masked:
    """Integers plus masks that cancel when all holders' vectors are added, modulo 2**64."""
    out = values.astype(np.uint64)
    for other, key in keys.items():
        first, second = sorted([me, other])
        text = b"\x00".join([b"sketchlearn mask", key, round_name.encode(), first.encode(), second.encode()])
        mask = np.frombuffer(hashlib.shake_256(text).digest(8 * len(out)), "<u8")
        out = out + mask if me == first else out - mask  # both wrap around
    return out


def total(contributions: Iterable[Masked]) -> npt.NDArray[np.int64]:
    """The sum of all contributions: masks are gone, and with them modulo 2**64."""
    parts = list(contributions)
    return np.asarray(np.sum(parts, axis=0, dtype=np.uint64)).astype(np.int64)


def aggregate(agreed: Round, contributions: Sequence[Masked]) -> Sketch:
    """The private sketch of the rows of all holders, from what they sent."""
    if len(contributions) != agreed.holders:
        raise ValueError(
            f"{len(contributions)} contributions of {agreed.holders} holders: the masks of the rest stay on"
        )
    chosen = agreed.mechanism
    sums, rows = rescaled(total(contributions), agreed.features.sums_shape, agreed.bounds, chosen)
    grown = replace(chosen, scale=chosen.scale * math.sqrt(agreed.holders / agreed.honest))
    details = {"composition": "distributed noise", "parts": agreed.holders, "honest": agreed.honest}
    return released(
        agreed.features, sums, rows, grown, agreed.bounds, agreed.relation, agreed.records_per_user,
        "agreed on by the holders", details,
    )  # fmt: skip


def shared_secrets(names: Sequence[str]) -> dict[str, dict[str, bytes]]:
    """A secret for each pair of holders, as a key agreement would leave them: for simulations."""
    keys: dict[str, dict[str, bytes]] = {name: {} for name in names}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            keys[a][b] = keys[b][a] = secrets.token_bytes(32)
    return keys
