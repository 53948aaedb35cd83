"""Sketches of several holders put together without a trusted middleman: integer sums under masks.

Two ways to a private sketch of the union:

- Every holder releases its own: ``privatize`` at home, then :func:`sketchlearn.privacy.combine` with
  ``users="disjoint"``.  Needs no protocol; the variance of the noise grows with the number of holders.
- The holders add a part of the noise each, hide their sums by masks that cancel, and send them to an aggregator that
  learns the noisy total alone.  The variance is that of one release, times (holders that answer / honest holders).

The protocol is that of Bonawitz et al. ("Practical secure aggregation for privacy-preserving machine learning", 2017)
with keys that each pair of holders has from elsewhere:

1. :meth:`Holder.pieces`: every holder sends every other one, through the aggregator and sealed, pieces of the seeds
   of its masks, any `honest` of which give a seed back.
2. :meth:`Holder.contribution`: its sums with its part of the noise, plus a mask with each other holder (one adds what
   the other subtracts), plus a mask of its own.  All modulo 2**64: what is sent is uniform, whatever is behind it.
3. :meth:`Holder.unmasking`: told who has sent something, every holder gives its pieces of the own masks of those, and
   of the masks between them and those who have left.  It answers once: nobody ever gets both kinds for one holder.

Up to ``holders - honest`` may leave, before the second step or before the third, and the total is that of all who did
the second.  The aggregator is taken to follow the protocol and to be curious; it may know what fewer than half of the
holders know.

Noise in parts.  The sum of h independent discrete Gaussians of variance ``s**2 / h`` differs from one of variance
``s**2`` by a factor of at most ``exp(10 sum_k exp(-2 pi**2 (s**2 / h) k / (k + 1)))`` per entry (Kairouz, Liu and
Steinke, "The distributed discrete Gaussian mechanism", 2021), which is 1 to a hundred digits at the scale of our sums.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sketchlearn.features.base import FeatureMap
from sketchlearn.privacy import noise, sharing
from sketchlearn.privacy.mechanism import Mechanism, choose_mechanism, rescaled, stacked
from sketchlearn.privacy.release import check_sketch, released, warn_if_weak
from sketchlearn.privacy.sensitivity import Bounds, row_bounds
from sketchlearn.sketches.value import Sketch, check_same_features

Masked = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Round:
    """One aggregation: what all holders agree on before anybody looks at a row.

    Make one with :meth:`agreed`; every one has masks of its own, whatever its name, and is used once.

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
    holders : tuple of str
        Who takes part.
    honest : int
        The least number of holders that answer and keep their noise secret.
    name : str
        For people.
    nonce : str
        Random: no two rounds have the same, so that no mask is used twice.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.privacy.federated import Round, aggregate
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> agreed = Round.agreed(phi, epsilon=1.0, delta=1e-6, holders=["a", "b", "c"], honest=2, name="monday")
    >>> sketches = {name: sl.sketch(np.zeros((5000, 1)), phi) for name in agreed.holders}
    >>> total = aggregate(agreed, sketches, leaving=["b"])  # all holders in one place, to try it
    >>> total.privacy.epsilon, bool(abs(total.count - 10_000) < 100)
    (1.0, True)
    """

    features: FeatureMap
    bounds: Bounds
    mechanism: Mechanism
    relation: str
    records_per_user: int
    holders: tuple[str, ...]
    honest: int
    name: str
    nonce: str

    @classmethod
    def agreed(
        cls,
        features: FeatureMap,
        epsilon: float,
        delta: float,
        *,
        holders: Sequence[str],
        honest: int,
        name: str = "",
        relation: str = "add-remove",
        records_per_user: int = 1,
    ) -> Round:
        """The round with a guarantee, for a map that was chosen without looking at rows.

        Parameters
        ----------
        features : FeatureMap
            The map of all holders.
        epsilon, delta : float
            What the total guarantees.
        holders : sequence of str
            Names of those who take part.
        honest : int
            The least number of holders that answer and keep their noise secret: more than half. The others may leave.
        name : str
            For people.
        relation, records_per_user
            As in :func:`sketchlearn.privatize`.
        """
        names = tuple(sorted(holders))
        if len(set(names)) != len(names):
            raise ValueError("two holders have the same name")
        if not len(names) / 2 < honest <= len(names):
            raise ValueError(
                f"honest must be more than half of the {len(names)} holders and not more than all, got {honest}"
            )
        if relation != "add-remove":
            raise ValueError("a public number of rows is not part of the protocol: use relation='add-remove'")
        bounds = row_bounds(features)
        chosen = choose_mechanism(bounds, features.size, epsilon, delta, relation, records_per_user, "gaussian")
        if chosen.scale / math.sqrt(honest) < 8.0:
            raise ValueError("the noise of one holder is too small for the bound on sums of discrete Gaussians")
        nonce = secrets.token_hex(16)
        return cls(features, bounds, chosen, relation, records_per_user, names, honest, name, nonce)

    @property
    def length(self) -> int:
        """Numbers in a contribution."""
        return int(np.prod(self.features.sums_shape)) + 1


@dataclass(frozen=True)
class Contribution:
    """What a holder sends in the second step.

    `holder`: who. `values`: sums and number of rows, with noise, under masks. `source`: where the noise comes from: a
    seed is never lost on the way.
    """

    holder: str
    values: Masked
    source: str


class Holder:
    """One holder's part of a round: what it has to remember between the steps.

    Parameters
    ----------
    agreed : Round
        The round.
    me : str
        Name of this holder.
    keys : mapping of str to bytes
        A secret of at least 16 bytes with each other holder, known to the two of them only.
    """

    def __init__(self, agreed: Round, me: str, keys: Mapping[str, bytes]) -> None:
        others = set(agreed.holders) - {me}
        if me not in agreed.holders or set(keys) != others or any(len(key) < 16 for key in keys.values()):
            raise ValueError(
                f"{me!r} needs a secret of 16 bytes or more with each of the other {len(agreed.holders) - 1} holders, "
                f"and with nobody else"
            )
        self.round, self.me = agreed, me
        self._seeds = {v: sharing.derived(key, "mask", agreed.nonce) for v, key in keys.items()}
        self._seals = {v: sharing.derived(key, "seal", agreed.nonce) for v, key in keys.items()}
        self._own = secrets.token_bytes(sharing.SECRET)
        self._held: dict[str, dict[str, bytes]] = {}
        self._sent = self._answered = False

    def to_json(self) -> dict[str, Any]:
        """What is remembered between the steps besides the keys, as values of JSON; secret like the rows."""
        held = {u: {v: piece.hex() for v, piece in pieces.items()} for u, pieces in self._held.items()}
        return {"own": self._own.hex(), "held": held, "sent": self._sent, "answered": self._answered}

    def resume(self, value: Mapping[str, Any]) -> None:
        """Go on where :meth:`to_json` was made."""
        self._own = bytes.fromhex(value["own"])
        self._held = {u: {v: bytes.fromhex(p) for v, p in pieces.items()} for u, pieces in value["held"].items()}
        self._sent, self._answered = bool(value["sent"]), bool(value["answered"])

    def pieces(self) -> dict[str, bytes]:
        """The first step: a sealed message for each other holder."""
        agreed = self.round
        at = sharing.places(agreed.holders)
        split = {
            who: sharing.split(seed, len(at), agreed.honest)
            for who, seed in [(self.me, self._own), *sorted(self._seeds.items())]
        }
        self._held[self.me] = {who: parts[at[self.me] - 1] for who, parts in split.items()}
        messages = {}
        for v in self._seals:
            text = b"".join(split[who][at[v] - 1] for who in agreed.holders)
            messages[v] = sharing.sealed(self._seal_to(self.me, v), text)
        return messages

    def _seal_to(self, sender: str, receiver: str) -> bytes:
        other = receiver if sender == self.me else sender
        return sharing.derived(self._seals[other], "from", sender)

    def contribution(self, sketch: Sketch, received: Mapping[str, bytes]) -> Contribution:
        """The second step: sums and number of rows, with a part of the noise, under masks.

        Parameters
        ----------
        sketch : Sketch
            Exact sums of this holder's rows.
        received : mapping of str to bytes
            What the others sent in the first step; who is not there takes no part.
        """
        agreed = self.round
        if self._sent:
            raise ValueError("a round is used once: agree on another one for another contribution")
        check_sketch(sketch, agreed.relation, agreed.records_per_user)
        check_same_features(Sketch.empty(agreed.features), sketch)
        if self.me not in self._held:
            raise ValueError("the first step comes first: pieces()")
        for v, message in received.items():
            text = sharing.opened(self._seal_to(v, self.me), message)
            parts = [text[i : i + sharing.PIECE] for i in range(0, len(text), sharing.PIECE)]
            self._held[v] = dict(zip(agreed.holders, parts, strict=True))
        if len(self._held) < agreed.honest:
            raise ValueError(f"{len(self._held)} holders are there, {agreed.honest} are needed")
        self._sent = True
        values = stacked(sketch.sums, sketch.weight, agreed.bounds, agreed.mechanism)
        noisy = noise.add_gaussian(values, agreed.mechanism.scale / math.sqrt(agreed.honest))
        out = noisy.astype(np.uint64) + _mask(self._own, len(noisy))
        for v in self._held:
            if v != self.me:
                out = _toward(out, self.me, v, _mask(self._seeds[v], len(noisy)))
        return Contribution(self.me, out, noise.generator())

    def unmasking(self, present: Collection[str]) -> dict[tuple[str, str], bytes]:
        """The third step: pieces of own masks of those who are present, and of masks with those who have left.

        The keys are (whose secret, with whom); of an own mask both are the same.
        """
        agreed, here = self.round, set(present)
        if self._answered:
            raise ValueError("pieces are given once: a second answer could take the masks off one holder alone")
        if not here <= set(self._held) or self.me not in here or len(here) < agreed.honest:
            raise ValueError(
                f"{len(here)} of {len(self._held)} holders are said to be present, this one "
                f"{'not ' if self.me not in here else ''}among them; {agreed.honest} are needed"
            )
        self._answered = True
        found = {(u, u): self._held[u][u] for u in here}
        for u in set(self._held) - here:
            found |= {(u, v): self._held[u][v] for v in here}
        return found


def _mask(seed: bytes, length: int) -> Masked:
    return np.frombuffer(hashlib.shake_256(b"sketchlearn mask" + seed).digest(8 * length), "<u8").astype(np.uint64)


def _toward(values: Masked, me: str, other: str, mask: Masked) -> Masked:
    """With the mask between two holders: one adds what the other subtracts; both wrap around."""
    return values + mask if me < other else values - mask


def unmasked(
    agreed: Round,
    taking_part: Collection[str],
    contributions: Iterable[Contribution],
    answers: Mapping[str, Mapping[tuple[str, str], bytes]],
) -> Sketch:
    """The private sketch of the rows of all who contributed: what the aggregator computes in the end.

    Parameters
    ----------
    agreed : Round
        The round.
    taking_part : collection of str
        Whose pieces were handed on in the first step.
    contributions : iterable of Contribution
        What came in the second step.
    answers : mapping of str to mapping
        What came in the third, by holder.
    """
    came = {c.holder: c for c in contributions}
    if not set(came) <= set(taking_part):
        raise ValueError("a holder contributed without taking part in the first step")
    if len(came) < agreed.honest or len(answers) < agreed.honest:
        raise ValueError(
            f"{len(came)} contributions and {len(answers)} answers of {len(agreed.holders)} holders, {agreed.honest} "
            "are needed: the masks stay on"
        )
    at = sharing.places(agreed.holders)
    total = np.zeros(agreed.length, np.uint64)
    for c in came.values():
        if c.values.shape != total.shape or c.values.dtype != np.uint64:
            raise ValueError(f"what {c.holder!r} sent is no contribution to this round")
        total += c.values

    def secret(owner: str, other: str) -> bytes:
        pieces = {at[v]: answer[owner, other] for v, answer in answers.items()}
        return sharing.joined(dict(list(pieces.items())[: agreed.honest]))

    for u in came:
        total -= _mask(secret(u, u), len(total))
    for u in set(taking_part) - set(came):
        for v in came:  # what v has added for u, taken off
            total = _toward(total, u, v, _mask(secret(u, v), len(total)))
    chosen = agreed.mechanism
    sums, rows = rescaled(total.astype(np.int64), agreed.features.sums_shape, agreed.bounds, chosen)
    grown = replace(chosen, scale=chosen.scale * math.sqrt(len(came) / agreed.honest))
    details = {
        "composition": "distributed noise", "parts": len(came), "holders": len(agreed.holders), "honest": agreed.honest,
        "noise": "; ".join(dict.fromkeys(c.source for c in came.values())),
    }  # fmt: skip
    made = released(
        agreed.features, sums, rows, grown, agreed.bounds, agreed.relation, agreed.records_per_user,
        "agreed on by the holders", details,
    )  # fmt: skip
    warn_if_weak(chosen.epsilon, chosen.delta, made.count)
    return made


def aggregate(
    agreed: Round,
    sketches: Mapping[str, Sketch],
    *,
    leaving: Collection[str] = (),
    silent: Collection[str] = (),
    keys: Mapping[str, Mapping[str, bytes]] | None = None,
) -> Sketch:
    """All steps of a round in one place, to try it; some are `leaving` after the first step, some `silent` later."""
    known = shared_secrets(agreed.holders) if keys is None else keys
    holders = {name: Holder(agreed, name, known[name]) for name in agreed.holders}
    posted = {name: holder.pieces() for name, holder in holders.items()}
    there = [name for name in agreed.holders if name not in set(leaving)]
    sent = [
        holders[v].contribution(sketches[v], {u: box[v] for u, box in posted.items() if u != v}) for v in there
    ]  # fmt: skip
    answers = {v: holders[v].unmasking(there) for v in there if v not in set(silent)}
    return unmasked(agreed, agreed.holders, sent, answers)


def shared_secrets(names: Iterable[str]) -> dict[str, dict[str, bytes]]:
    """A secret for each pair of holders, as a key agreement would leave them: for simulations."""
    listed = list(names)
    keys: dict[str, dict[str, bytes]] = {name: {} for name in listed}
    for i, a in enumerate(listed):
        for b in listed[i + 1 :]:
            keys[a][b] = keys[b][a] = secrets.token_bytes(32)
    return keys
