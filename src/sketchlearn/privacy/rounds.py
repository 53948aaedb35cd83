"""One round of secure aggregation as messages: what is agreed on, and a holder that joins, contributes and unmasks.

The steps are those of :mod:`sketchlearn.privacy.federated`, with one before them: every holder shows a public key
(Diffie and Hellman 1976, in the 2048-bit group of RFC 3526), so that each pair has a secret that the aggregator does
not know.  Whoever shows a key is one of the round; whoever is silent later has left it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sketchlearn.features.base import FeatureMap
from sketchlearn.privacy import noise
from sketchlearn.privacy.composition import Spent
from sketchlearn.privacy.federated import Contribution, Holder, Round
from sketchlearn.privacy.ledger import Ledger
from sketchlearn.privacy.release import charge
from sketchlearn.sketches.value import Sketch

PRIME = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B"
    "302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5AE9F24117C4B1FE6"
    "49286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB9ED529077096966D"
    "670C354E4ABC9804F1746C08CA18217C32905E462E36CE3BE39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718"
    "3995497CEA956AE515D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFF",
    16,
)
"""Of RFC 3526, group 14; powers of 2 are the group."""
_SECRET_BITS = 256  # RFC 7919 asks for 225 in a group of this size
Answers = dict[tuple[str, str], bytes]


def text_of(data: bytes) -> str:
    """Bytes as text for JSON."""
    return base64.b64encode(data).decode()


def bytes_of(text: Any) -> bytes:
    """Inverse of :func:`text_of`; ValueError for anything else."""
    if not isinstance(text, str):
        raise ValueError("not bytes as text")
    return base64.b64decode(text, validate=True)


@dataclass(frozen=True)
class Terms:
    """What everybody agrees on before a round.

    Attributes
    ----------
    features : FeatureMap
        The map of all holders, chosen without looking at rows.
    epsilon, delta : float
        What the total guarantees.
    honest : int
        The least number of holders that stay to the end and keep their noise secret: more than half of those that join.
    records_per_user : int
        How many rows one person may have, with all holders together.
    name : str
        For people.
    nonce : str
        Random: no two rounds have the same.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.privacy.rounds import Terms
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> terms = Terms.new(phi, epsilon=1.0, delta=1e-6, honest=2)
    >>> Terms.from_json(terms.to_json()) == terms
    True
    """

    features: FeatureMap
    epsilon: float
    delta: float
    honest: int
    records_per_user: int = 1
    name: str = ""
    nonce: str = ""

    @classmethod
    def new(
        cls, features: FeatureMap, epsilon: float, delta: float, *, honest: int, records_per_user: int = 1,
        name: str = "",
    ) -> Terms:  # fmt: skip
        """Terms of a new round, checked."""
        made = cls(
            features, float(epsilon), float(delta), int(honest), int(records_per_user), name, secrets.token_hex(16)
        )
        made.round([str(i) for i in range(made.honest)])
        return made

    def round(self, holders: Collection[str]) -> Round:
        """The round of these holders."""
        found = Round.agreed(
            self.features, self.epsilon, self.delta, holders=sorted(holders), honest=self.honest, name=self.name,
            records_per_user=self.records_per_user,
        )  # fmt: skip
        return replace(found, nonce=self.nonce)

    def to_json(self) -> dict[str, Any]:
        """As values of JSON."""
        own = {k: getattr(self, k) for k in ("epsilon", "delta", "honest", "records_per_user", "name", "nonce")}
        return {"map": text_of(Sketch.empty(self.features).to_bytes()), **own}

    @classmethod
    def from_json(cls, value: Any) -> Terms:
        """Inverse of :meth:`to_json`; ValueError for anything else."""
        if not isinstance(value, dict) or not {"map", "epsilon", "delta", "honest", "nonce"} <= set(value):
            raise ValueError("not the terms of a round")
        made = cls(
            Sketch.from_bytes(bytes_of(value["map"])).features, float(value["epsilon"]), float(value["delta"]),
            int(value["honest"]), int(value.get("records_per_user", 1)), str(value.get("name", "")),
            str(value["nonce"]),
        )  # fmt: skip
        if len(made.nonce) < 32:
            raise ValueError("the nonce of a round is too short")
        return made

    def check(self, **expected: Any) -> None:
        """Refuse terms that are not what was expected of them; None stands for anything."""
        for name, value in expected.items():
            found = getattr(self, name)
            if value is not None and found != value:
                what = self.features.difference(value) if name == "features" else f"{name}={found!r}, not {value!r}"
                raise ValueError(f"the round has other terms than were agreed on: {what}")


class Party:
    """A holder in a round that comes as messages.

    Parameters
    ----------
    terms : Terms
        Of the round.
    me : str
        Name of this holder.

    Examples
    --------
    >>> import numpy as np, sketchlearn as sl
    >>> from sketchlearn.privacy.federated import unmasked
    >>> from sketchlearn.privacy.rounds import Party, Terms
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> terms = Terms.new(phi, epsilon=1.0, delta=1e-6, honest=2)
    >>> parties = {name: Party(terms, name) for name in "abc"}
    >>> keys = {name: party.public for name, party in parties.items()}
    >>> posted = {name: party.join(keys) for name, party in parties.items()}
    >>> s = sl.sketch(np.zeros((5000, 1)), phi)
    >>> here = ["a", "c"]  # b has left
    >>> sent = [parties[v].contribute(s, {u: box[v] for u, box in posted.items() if u != v}) for v in here]
    >>> answers = {v: parties[v].unmask(here) for v in here}
    >>> total = unmasked(terms.round(keys), list(keys), sent, answers)
    >>> bool(abs(total.count - 10_000) < 100)
    True
    """

    def __init__(self, terms: Terms, me: str) -> None:
        self.terms, self.me = terms, me
        self._secret = secrets.randbits(_SECRET_BITS) | (1 << (_SECRET_BITS - 1))
        self._holder: Holder | None = None
        self._publics: dict[str, str] = {}
        self._public = ""

    def to_json(self) -> dict[str, Any]:
        """All that this holder has to remember between the steps, as values of JSON; secret like the rows."""
        out: dict[str, Any] = {"terms": self.terms.to_json(), "me": self.me, "secret": f"{self._secret:x}"}
        if self._holder is not None:
            out |= {"keys": self._publics, "holder": self._holder.to_json()}
        return out

    @classmethod
    def from_json(cls, value: Any) -> Party:
        """Inverse of :meth:`to_json`."""
        made = cls(Terms.from_json(value["terms"]), value["me"])
        made._secret = int(value["secret"], 16)
        if "holder" in value:
            made._join(value["keys"]).resume(value["holder"])
        return made

    @property
    def public(self) -> str:
        """The public key."""
        self._public = self._public or f"{pow(2, self._secret, PRIME):x}"
        return self._public

    def join(self, publics: Mapping[str, str]) -> dict[str, bytes]:
        """After everybody has shown a key: sealed pieces for each other holder."""
        if self._holder is not None:
            raise ValueError("a holder joins a round once: its masks are meant for one set of holders")
        return self._join(publics).pieces()

    def _join(self, publics: Mapping[str, str]) -> Holder:
        if publics.get(self.me) != self.public:
            raise ValueError(f"{self.me!r} is not in this round with its own key: somebody else may have the name")
        keys = {}
        for name, public in publics.items():
            if name != self.me:
                shared = pow(key_of(public), self._secret, PRIME).to_bytes(256, "big")
                both = "\n".join([self.terms.nonce, *sorted((public, self.public))])
                keys[name] = hashlib.sha256(both.encode() + shared).digest()
        self._publics = dict(publics)
        self._holder = Holder(self.terms.round(publics), self.me, keys)
        return self._holder

    def contribute(
        self, sketch: Sketch, received: Mapping[str, bytes], ledger: Ledger | None = None, dataset: str | None = None
    ) -> Contribution:
        """Sums with a part of the noise, under masks; the guarantee of the total is charged to this holder's ledger."""
        if self._holder is None:
            raise ValueError("join() comes first")
        chosen = self._holder.round.mechanism
        spent = Spent(chosen.epsilon, chosen.delta, chosen.rho, margin=chosen.spent.margin)
        what = f"a part in round {self.terms.name or self.terms.nonce[:8]} of {len(self._holder.round.holders)} holders"
        noise.ready()
        charge(ledger, dataset, [(what, spent)], "add-remove", self.terms.records_per_user)
        return self._holder.contribution(sketch, received)

    def unmask(self, present: Collection[str]) -> Answers:
        """Pieces that take the masks off the total of those who are present."""
        if self._holder is None:
            raise ValueError("join() comes first")
        return self._holder.unmasking(present)


def key_of(public: Any) -> int:
    """A public key as a number; ValueError for what is none."""
    if not isinstance(public, str) or len(public) > 512:
        raise ValueError("a public key is a number in hexadecimal digits")
    number = int(public, 16)
    if not 2 <= number <= PRIME - 2:
        raise ValueError("a public key is a number of the group")
    return number


# -- as JSON ---------------------------------------------------------------------------------------


def pack_pieces(pieces: Mapping[str, bytes]) -> bytes:
    """Sealed pieces by receiver."""
    return json.dumps({name: text_of(data) for name, data in pieces.items()}).encode()


def unpack_pieces(data: bytes) -> dict[str, bytes]:
    """Inverse of :func:`pack_pieces`."""
    value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError("not pieces by holder")
    return {str(name): bytes_of(text) for name, text in value.items()}


def pack_contribution(sent: Contribution) -> bytes:
    """A contribution."""
    values = sent.values.astype("<u8").tobytes()
    return json.dumps({"values": text_of(values), "source": sent.source}).encode()


def unpack_contribution(data: bytes, holder: str, length: int) -> Contribution:
    """Inverse of :func:`pack_contribution`."""
    value = json.loads(data)
    if not isinstance(value, dict) or set(value) != {"values", "source"} or not isinstance(value["source"], str):
        raise ValueError("not a contribution")
    raw = bytes_of(value["values"])
    if len(raw) != 8 * length or len(value["source"]) > 200:
        raise ValueError(f"a contribution to this round has {length} numbers")
    return Contribution(holder, np.frombuffer(raw, "<u8").astype(np.uint64), value["source"])


def pack_answers(answers: Answers) -> bytes:
    """Pieces by whose secret they are of, and with whom."""
    return json.dumps([[u, v, text_of(piece)] for (u, v), piece in answers.items()]).encode()


def unpack_answers(data: bytes) -> Answers:
    """Inverse of :func:`pack_answers`."""
    value = json.loads(data)
    if not isinstance(value, list) or not all(isinstance(item, list) and len(item) == 3 for item in value):
        raise ValueError("not pieces of masks")
    return {(str(u), str(v)): bytes_of(piece) for u, v, piece in value}
