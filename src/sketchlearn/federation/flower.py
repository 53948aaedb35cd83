"""Sketches over Flower: clients sketch their own rows, the server adds up exact integers and learns.

One message to each node and one back, of a few kilobytes: there are no rounds and no weights of models.  A node that
doesn't answer is not in the sum, and the sum is exactly that of the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sketchlearn.exceptions import SketchFileError
from sketchlearn.features.base import FeatureMap
from sketchlearn.federation.store import Submission, with_sketch
from sketchlearn.optional import optional
from sketchlearn.sketches import Sketch
from sketchlearn.sketching import sketch as sketch_rows

_RECIPE, _SKETCH, _FIELD = "recipe", "sketch", "bytes"


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


def client_app(rows: Callable[[Any], Any], *, release: Callable[[Sketch], Sketch] | None = None, **options: Any) -> Any:
    """A ``ClientApp`` that answers with the sketch of its own rows.

    Parameters
    ----------
    rows : callable
        From Flower's context of this node to its rows, or anything else that :func:`sketchlearn.sketch` can read.
    release : callable, optional
        What the sketch goes through before it leaves the node, such as noise.
    **options
        Of :func:`sketchlearn.sketch`: columns, on_invalid, ...
    """
    optional("flwr", "flower", "a federation with Flower")
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query()  # type: ignore[untyped-decorator]
    def answer(message: Any, context: Any) -> Any:
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
    """
    optional("flwr", "flower", "a federation with Flower")
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Any, context: Any) -> None:
        finish(collect(grid, features, fewest=fewest, timeout=timeout, users=users))

    return app


def collect(
    grid: Any, features: FeatureMap, *, fewest: int = 1, timeout: float | None = 600.0, users: str | None = None
) -> Collected:
    """Ask all nodes of a grid for their sketches, and add them up; for a ``ServerApp`` of your own."""
    end = time.monotonic() + (float("inf") if timeout is None else timeout)
    while len(nodes := sorted(grid.get_node_ids())) < fewest:
        if time.monotonic() > end:
            raise RuntimeError(f"{len(nodes)} nodes are there, {fewest} are needed")
        time.sleep(0.2)
    recipe = Sketch.empty(features).to_bytes()
    questions = [_message({_RECIPE: recipe}, node=node) for node in nodes]
    return added_up(features, nodes, grid.send_and_receive(questions, timeout=timeout), fewest, users)


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


def _message(values: dict[str, bytes], *, node: int | None = None, reply_to: Any = None) -> Any:
    from flwr.app import ConfigRecord, Message, RecordDict

    content = RecordDict({name: ConfigRecord({_FIELD: data}) for name, data in values.items()})
    if reply_to is not None:
        return Message(content, reply_to=reply_to)
    return Message(content, dst_node_id=node, message_type="query")
