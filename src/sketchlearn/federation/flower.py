"""Sketches over Flower: clients sketch their own rows, the server adds up exact integers and learns.

One message to each node and one back, of a few kilobytes: there are no rounds and no weights of models.  A node that
doesn't answer is not in the sum, and the sum is exactly that of the others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sketchlearn.exceptions import SketchFileError
from sketchlearn.features.base import FeatureMap
from sketchlearn.federation.flower_rounds import FIELD, STEP, aggregated
from sketchlearn.federation.flower_rounds import answer as round_answer
from sketchlearn.federation.store import Submission, with_sketch
from sketchlearn.optional import optional
from sketchlearn.privacy.ledger import Ledger
from sketchlearn.privacy.rounds import Terms
from sketchlearn.sketches import Sketch
from sketchlearn.sketching import sketch as sketch_rows

_RECIPE, _SKETCH, _FIELD = "recipe", "sketch", FIELD
_STATE = "sketchlearn round"


@dataclass(frozen=True)
class Collected:
    """What came back.

    Attributes
    ----------
    sketch : Sketch
        The sum of all sketches that came.
    nodes : tuple of int
        Nodes whose rows are in it.
    missing : tuple of int
        Nodes that were asked and did not answer, or said that they can't.
    refused : dict
        From nodes to what is wrong with what they sent.
    """

    sketch: Sketch
    nodes: tuple[int, ...]
    missing: tuple[int, ...]
    refused: Mapping[int, str]


def client_app(
    rows: Callable[[Any], Any],
    *,
    release: Callable[[Sketch], Sketch] | None = None,
    terms: Mapping[str, Any] | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    **options: Any,
) -> Any:
    """A ``ClientApp`` that answers with the sketch of its own rows.

    Parameters
    ----------
    rows : callable
        From Flower's context of this node to its rows, or anything else that :func:`sketchlearn.sketch` can read.
    release : callable, optional
        What the sketch goes through before it leaves the node, such as noise.
    terms : mapping, optional
        What was agreed on for secure rounds (`epsilon`, `delta`, `honest`): others are refused, and so is every
        question that is not part of one.
    ledger, dataset : optional
        Where a secure round is charged before anything is sent.
    **options
        Of :func:`sketchlearn.sketch`: columns, on_invalid, ...
    """
    optional("flwr", "flower", "a federation with Flower")
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query()  # type: ignore[untyped-decorator]
    def answer(message: Any, context: Any) -> Any:
        if STEP in message.content:
            if release is not None:
                raise ValueError("in a secure round the noise is part of the protocol: leave out release=")
            asked = json.loads(message.content[STEP][FIELD])
            kept = context.state[_STATE][FIELD] if _STATE in context.state else b""
            reply, left = round_answer(
                asked, kept, lambda phi: sketch_rows(rows(context), phi, progress=False, **options), terms or {},
                ledger, dataset,
            )  # fmt: skip
            context.state[_STATE] = _record(left)
            return _message({STEP: reply}, reply_to=message)
        if terms is not None:
            raise ValueError("this node takes part in secure rounds only")
        features = Sketch.from_bytes(message.content[_RECIPE][_FIELD]).features
        made = sketch_rows(rows(context), features, progress=False, **options)
        sent = made if release is None else release(made)
        assert isinstance(sent, Sketch)
        return _message({_SKETCH: sent.to_bytes()}, reply_to=message)

    return app


def server_app(
    features: FeatureMap,
    finish: Callable[[Collected], None],
    *,
    fewest: int = 1,
    timeout: float | None = 600.0,
    users: str | None = None,
    secure: Mapping[str, Any] | None = None,
) -> Any:
    """A ``ServerApp`` that asks all nodes once, adds up what they send, and hands it on.

    Parameters
    ----------
    features : FeatureMap
        The map; its recipe goes to the nodes.
    finish : callable
        Gets what was collected: learn from it, save it.
    fewest : int
        So many nodes must be there before anybody is asked, and so many must answer.
    timeout : float, optional
        Seconds to wait for answers.
    users : {"disjoint", "same"}, optional
        For nodes that release their sketches themselves: whether one person can be at several nodes, see
        :func:`sketchlearn.privacy.combine`.
    secure : mapping, optional
        Secure aggregation instead, with these arguments of :func:`secure_collect`: `epsilon`, `delta` and `honest`.
    """
    optional("flwr", "flower", "a federation with Flower")
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Any, context: Any) -> None:
        if secure is not None:
            finish(secure_collect(grid, features, fewest=fewest, timeout=timeout, **secure))
        else:
            finish(collect(grid, features, fewest=fewest, timeout=timeout, users=users))

    return app


def collect(
    grid: Any, features: FeatureMap, *, fewest: int = 1, timeout: float | None = 600.0, users: str | None = None
) -> Collected:
    """Ask all nodes of a grid for their sketches, and add them up; for a ``ServerApp`` of your own."""
    nodes = _nodes(grid, fewest, timeout)
    recipe = Sketch.empty(features).to_bytes()
    questions = [_message({_RECIPE: recipe}, node=node) for node in nodes]
    return added_up(features, nodes, grid.send_and_receive(questions, timeout=timeout), fewest, users)


def secure_collect(
    grid: Any,
    features: FeatureMap,
    *,
    epsilon: float,
    delta: float,
    honest: int,
    records_per_user: int = 1,
    fewest: int = 1,
    timeout: float | None = 600.0,
) -> Collected:
    """One round of secure aggregation over a grid: the noisy total of the nodes, and nothing of any of them.

    Four questions to each node; who gives no answer to one of them has left.  Nodes keep what they need in their
    context.

    Parameters
    ----------
    grid : Grid
        Flower's.
    features : FeatureMap
        The map, chosen without looking at rows.
    epsilon, delta, honest, records_per_user
        As for :class:`sketchlearn.federation.SecureRound`.
    fewest : int
        So many nodes must be there before anybody is asked.
    timeout : float, optional
        Seconds that each question waits for answers.
    """
    nodes = _nodes(grid, max(fewest, honest), timeout)
    terms = Terms.new(features, epsilon, delta, honest=honest, records_per_user=records_per_user)

    def ask(questions: dict[int, bytes]) -> dict[int, bytes]:
        messages = [_message({STEP: data}, node=node) for node, data in questions.items()]
        found = {}
        for reply in grid.send_and_receive(messages, timeout=timeout):
            node = reply.metadata.src_node_id
            if node in questions and not reply.has_error() and STEP in reply.content:
                found[node] = bytes(reply.content[STEP][FIELD])
        return found

    total, here, refused = aggregated(nodes, ask, terms)
    missing = tuple(node for node in nodes if node not in here and node not in refused)
    return Collected(total, here, missing, refused)


def _nodes(grid: Any, fewest: int, timeout: float | None) -> list[int]:
    """The nodes of a grid, when there are enough."""
    end = time.monotonic() + (float("inf") if timeout is None else timeout)
    while len(nodes := sorted(grid.get_node_ids())) < fewest:
        if time.monotonic() > end:
            raise RuntimeError(f"{len(nodes)} nodes are there, {fewest} are needed")
        time.sleep(0.2)
    return nodes


def added_up(
    features: FeatureMap, nodes: Iterable[int], replies: Iterable[Any], fewest: int = 1, users: str | None = None
) -> Collected:
    """The sum of what came back, each node once."""
    asked, total, seen, refused = set(nodes), Sketch.empty(features), dict[int, bytes](), dict[int, str]()
    for reply in replies:
        node = reply.metadata.src_node_id
        if node not in asked or node in seen or reply.has_error():
            continue
        try:
            data = bytes(reply.content[_SKETCH][_FIELD])
            total = with_sketch(total, Submission.of(str(node), data, features, private=True).sketch, users)
        except (SketchFileError, ValueError, OverflowError, KeyError) as error:
            refused[node] = str(error)
            continue
        seen[node] = data
    if len(seen) < fewest:
        raise RuntimeError(f"{len(seen)} nodes have answered, {fewest} are needed")
    missing = tuple(sorted(asked - seen.keys() - refused.keys()))
    return Collected(total, tuple(sorted(seen)), missing, refused)


def _record(data: bytes) -> Any:
    from flwr.app import ConfigRecord

    return ConfigRecord({_FIELD: data})


def _message(values: dict[str, bytes], *, node: int | None = None, reply_to: Any = None) -> Any:
    from flwr.app import Message, RecordDict

    content = RecordDict({name: _record(data) for name, data in values.items()})
    if reply_to is not None:
        return Message(content, reply_to=reply_to)
    return Message(content, dst_node_id=node, message_type="query")
