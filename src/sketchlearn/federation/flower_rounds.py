"""Secure aggregation over Flower: four questions to each node, and the noisy total of those that stay."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sketchlearn.features.base import FeatureMap
from sketchlearn.federation.http import Refusal
from sketchlearn.federation.rounds import STEPS, RoundStore
from sketchlearn.privacy import rounds
from sketchlearn.privacy.ledger import Ledger
from sketchlearn.privacy.rounds import Party, Terms
from sketchlearn.sketches import Sketch

STEP, FIELD = "step", "bytes"
Ask = Callable[[dict[int, bytes]], dict[int, bytes]]
"""Questions by node, and the answers that came."""


def aggregated(nodes: list[int], ask: Ask, terms: Terms) -> tuple[Sketch, tuple[int, ...], dict[int, str]]:
    """The noisy total, the nodes whose rows are in it, and what was wrong with answers of others.

    Who gives no answer to a question has left the round.
    """
    refused: dict[int, str] = {}
    store = RoundStore(":memory:", terms, holders=len(nodes), seconds=float("inf"))
    try:
        for name in STEPS[:-1]:
            asked = nodes if name == STEPS[0] else [int(holder) for holder in store.members(name)]
            state, questions = store.state(), {}
            for node in asked:
                own = {"inbox": store.inbox(str(node))} if name == "sums" else {}
                questions[node] = json.dumps({**state, **own, "step": name, "me": str(node)}).encode()
            for node, answer in ask(questions).items():
                try:
                    store.post(name, str(node), answer)
                except Refusal as refusal:
                    refused[node] = str(refusal)
            if store.step == name:
                store.end_step()
            if store.step == "failed":
                raise RuntimeError(store.problem)
        total = store.total
        assert total is not None
        return total, tuple(sorted(int(holder) for holder in store.contributors)), refused
    finally:
        store.close()


def answer(
    asked: Mapping[str, Any],
    kept: bytes,
    rows: Callable[[FeatureMap], Sketch],
    expected: Mapping[str, Any],
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> tuple[bytes, bytes]:
    """What a node answers to a question of a round, and what it keeps for the next one."""
    name = asked["step"]
    if name == "keys":
        terms = Terms.from_json(asked["terms"])
        terms.check(**expected)
        party = Party(terms, asked["me"])
        return json.dumps({"public": party.public}).encode(), json.dumps(party.to_json()).encode()
    if not kept:
        raise ValueError("this node is not in the round: it has sent no key")
    party = Party.from_json(json.loads(kept))
    if name == "pieces":
        sent = rounds.pack_pieces(party.join(asked["keys"]))
    elif name == "sums":
        inbox = {u: rounds.bytes_of(text) for u, text in asked["inbox"].items()}
        sent = rounds.pack_contribution(party.contribute(rows(party.terms.features), inbox, ledger, dataset))
    else:
        return rounds.pack_answers(party.unmask(asked["present"])), b""  # nothing is left to remember
    return sent, json.dumps(party.to_json()).encode()
