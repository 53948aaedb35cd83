"""``sketchlearn serve``: run an HTTP endpoint that adds up sketches from many people."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Literal

import typer

from sketchlearn.cli.inputs import read_features
from sketchlearn.cli.options import option, verb
from sketchlearn.cli.outputs import check_output, note, usage, write_bytes

_LAST = 1.0  # second that a server stays when a round is over


@verb("serve map.json --store sums.db -o total.sketch")
def serve(
    sketch: Annotated[str, typer.Argument(help="Feature map for all clients: a file from 'design', or a sketch.")],
    store: Annotated[str, option("SQLite file with the sum and the keys.", "--store", "-s")],
    output: Annotated[str | None, option("Write the sum to this file when the server stops.", "--output", "-o")] = None,
    host: Annotated[str, option("Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, option("Port to listen on.")] = 8000,
    most_rows: Annotated[int | None, option("Largest number of rows in one sketch.")] = None,
    until: Annotated[datetime | None, option("Stop accepting at this time (local clock).")] = None,
    users: Annotated[
        Literal["disjoint", "same"] | None,
        option("For sketches that clients made private: disjoint if nobody is in two, otherwise same."),
    ] = None,
    secure: Annotated[bool, option("One round of secure aggregation: only the noisy total is learned.")] = False,
    holders: Annotated[int | None, option("With --secure: how many participants are expected.")] = None,
    honest: Annotated[
        int | None, option("With --secure: how many of them are sure to stay to the end; more than half.")
    ] = None,
    epsilon: Annotated[float | None, option("With --secure: epsilon of the total.")] = None,
    delta: Annotated[float, option("With --secure: delta of the total.")] = 0.0,
    records_per_user: Annotated[
        int, option("With --secure: the largest number of rows of one person, with all participants together.")
    ] = 1,
    seconds: Annotated[
        float, option("With --secure: how long each step waits for participants that don't answer.")
    ] = 60.0,
) -> None:
    """Accept sketches with POST /sketches and add each one once.

    Clients send an Idempotency-Key with every sketch. They get the feature map at GET /recipe. If the variable
    SKETCHLEARN_TOKEN is set, they must send it as Authorization: Bearer. GET /health says whether the store can be
    read. GET /sum returns the sum so far to clients that send SKETCHLEARN_READ_TOKEN. Several servers may share a
    store. SIGTERM and Ctrl-C stop the server after the current requests; then the output is written.

    With --secure, participants run 'sketchlearn contribute', and the server stops when the total is known.
    """
    from sketchlearn.federation import Collector, SecureRound
    from sketchlearn.optional import optional

    uvicorn = optional("uvicorn", "server", "an HTTP endpoint")
    if output is not None:
        check_output(output, sketch, store)
    features = read_features(sketch)
    if secure:
        if holders is None or honest is None or epsilon is None or output is None or not delta > 0:
            raise usage("--secure needs --holders, --honest, --epsilon, --delta and --output")
        if most_rows is not None or until is not None or users is not None:
            raise usage("--most-rows, --until and --users are not for --secure")
        app = SecureRound(
            features, store, epsilon=epsilon, delta=delta, holders=holders, honest=honest, seconds=seconds,
            records_per_user=records_per_user, token=os.environ.get("SKETCHLEARN_TOKEN"),
        )  # fmt: skip
        note(f"http://{host}:{port}/round is a round of {holders} holders with the map {features.fingerprint}")
        _serve_round(uvicorn, app, host, port, output)
        return
    collector = Collector(
        features, store, token=os.environ.get("SKETCHLEARN_TOKEN"),
        read_token=os.environ.get("SKETCHLEARN_READ_TOKEN"), most_rows=most_rows,
        until=None if until is None else until.timestamp(), users=users,
    )  # fmt: skip
    note(f"http://{host}:{port}/sketches takes sketches of the map {features.fingerprint}")
    try:
        with _until_terminated():
            uvicorn.run(collector, host=host, port=port, log_level="warning", ws="none")
    finally:
        total = collector.sketch
        note(f"{total.count:,} rows in {collector.submissions:,} sketches")
        collector.close()
        if output is not None and not total.is_empty:
            write_bytes(output, total.to_bytes())


def _serve_round(uvicorn: Any, app: Any, host: str, port: int, output: str) -> None:
    """Serve until the total is known, or the round has failed; write the total."""
    server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning", ws="none"))

    def watch() -> None:
        while not server.should_exit:
            if app.step in ("done", "failed"):
                time.sleep(_LAST)  # whoever asks once more gets an answer
                server.should_exit = True
            time.sleep(0.1)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        with _until_terminated():
            server.run()
    finally:
        server.should_exit = True
        watching.join()
        total, names, problem, step = app.sketch, app.contributors, app.problem, app.step
        app.close()
    if total is None:
        raise ValueError(problem or f"stopped at the step {step!r}: run the same command again to go on")
    note(f"{len(names)} holders are in the total: {', '.join(names)}")
    write_bytes(output, total.to_bytes())


class _TerminatedError(Exception):
    """The process was asked to end."""


@contextmanager
def _until_terminated() -> Iterator[None]:
    """A block that SIGTERM or SIGHUP ends as if it were done, so that what follows it still happens.

    The server ends its requests and then sends itself the signal again, whose default is to end the process at once.
    """

    def terminated(*_: object) -> None:
        raise _TerminatedError

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, terminated)}
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:  # nohup
        before[hangup] = signal.signal(hangup, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    except _TerminatedError:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
