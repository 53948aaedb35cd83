"""``sketchlearn serve``: run an HTTP endpoint that adds up sketches from many people."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Literal

import typer

from sketchlearn.cli.app import Debug, check_output, note, read_features, write_bytes
from sketchlearn.cli.help import examples


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("serve", epilog=examples("serve map.json --store sums.db -o total.sketch"))
    def serve(
        sketch: Annotated[str, typer.Argument(help="Feature map for all clients: a file from 'design', or a sketch.")],
        store: Annotated[str, typer.Option("--store", "-s", help="SQLite file with the sum and the keys.")],
        output: Annotated[
            str | None, typer.Option("--output", "-o", help="Write the sum to this file when the server stops.")
        ] = None,
        host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
        port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
        most_rows: Annotated[int | None, typer.Option(help="Largest number of rows in one sketch.")] = None,
        until: Annotated[datetime | None, typer.Option(help="Accept nothing after this time (local clock).")] = None,
        users: Annotated[
            Literal["disjoint", "same"] | None,
            typer.Option(help="For sketches that clients made private: disjoint if nobody is in two, otherwise same."),
        ] = None,
        debug: Debug = False,
    ) -> None:
        """Accept sketches with POST /sketches and add each one once.

        Clients send an Idempotency-Key with every sketch, and get the feature map at GET /recipe.  If the variable
        SKETCHLEARN_TOKEN is set, they must send it as Authorization: Bearer.  GET /health says whether the store can be
        read.  GET /sum is the sum so far, for those who send SKETCHLEARN_READ_TOKEN.  Servers may share a store.
        SIGTERM and Ctrl-C end it after the requests that are under way; the output is written then.
        """
        from sketchlearn.federation import Collector
        from sketchlearn.optional import optional

        uvicorn = optional("uvicorn", "server", "an HTTP endpoint")
        if output is not None:
            check_output(output, sketch, store)
        features = read_features(sketch)
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
