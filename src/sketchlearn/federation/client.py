"""A holder's side of secure aggregation over HTTP; nothing but the standard library."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from sketchlearn.features.base import FeatureMap
from sketchlearn.privacy import rounds
from sketchlearn.privacy.ledger import Ledger
from sketchlearn.privacy.release import check_ledger
from sketchlearn.privacy.rounds import Party, Terms
from sketchlearn.sketches import Sketch

_ANSWER = 2**28  # bytes of an answer that are read


class RoundError(RuntimeError):
    """A round that ended without this holder, or with nobody.

    Examples
    --------
    >>> from sketchlearn.federation import RoundError
    >>> issubclass(RoundError, RuntimeError)
    True
    """


def contribute(
    url: str,
    name: str,
    rows: Sketch | Callable[[FeatureMap], Sketch],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    features: FeatureMap | None = None,
    honest: int | None = None,
    token: str | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    poll: float = 0.5,
    timeout: float = 3600.0,
) -> Terms:
    """Take part in a round of secure aggregation, from the first step to the last.

    Parameters
    ----------
    url : str
        Of the endpoint: ``https://host/``.
    name : str
        Of this holder; no other one has it.
    rows : Sketch or callable
        The exact sketch of this holder's rows, or a function that makes it with the map of the round.
    epsilon, delta, features, honest : optional
        What was agreed on: a round with other terms is refused.
    token : str, optional
        What the endpoint asks for.
    ledger, dataset : optional
        Where the guarantee is charged before anything is sent.
    poll : float
        Seconds between two questions how far the round is.
    timeout : float
        Seconds after which a holder gives up.

    Returns
    -------
    Terms
        Of the round that was completed; :class:`RoundError` if it was not.
    """
    check_ledger(ledger, dataset)
    server = _Server(url, name, token, poll, time.monotonic() + timeout)
    terms = Terms.from_json(server.ask("round")["terms"])
    terms.check(epsilon=epsilon, delta=delta, features=features, honest=honest)
    sketch = rows if isinstance(rows, Sketch) else rows(terms.features)
    party = Party(terms, name)
    server.post("keys", json.dumps({"public": party.public}).encode())
    state = server.wait("pieces")
    server.post("pieces", rounds.pack_pieces(party.join(state["keys"])))
    server.wait("sums")
    inbox = {u: rounds.bytes_of(text) for u, text in server.ask("round/inbox").items()}
    server.post("sums", rounds.pack_contribution(party.contribute(sketch, inbox, ledger, dataset)))
    state = server.wait("masks")
    server.post("masks", rounds.pack_answers(party.unmask(state["present"])))
    return terms


class _Server:
    """The endpoint as a holder sees it: what gets no answer is sent again, the same bytes."""

    def __init__(self, url: str, name: str, token: str | None, poll: float, until: float) -> None:
        self._url, self.name, self._poll, self._until = url.rstrip("/"), name, poll, until
        self._headers = {"Holder": quote(name)}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is not the address of an endpoint: it must start with http:// or https://")

    def ask(self, path: str) -> Any:
        """An answer as values of JSON."""
        return json.loads(self._request(path, None))

    def post(self, step: str, body: bytes) -> None:
        """Send the message of a step."""
        self._request(f"round/{step}", body)

    def wait(self, step: str) -> dict[str, Any]:
        """Ask until the round has come to a step."""
        while True:
            state: dict[str, Any] = self.ask("round")
            if state["step"] == "failed":
                raise RoundError(f"the round has failed: {state['problem']}")
            if state["step"] == step:
                return state
            if state["step"] == "done" or _after(state["step"], step):
                raise RoundError(f"the round is at the step {state['step']!r}: it continued without this holder")
            self._pause()

    def _request(self, path: str, body: bytes | None) -> bytes:
        while True:
            request = Request(f"{self._url}/{path}", data=body, headers=self._headers)
            try:
                with urlopen(request, timeout=60.0) as answer:
                    return bytes(answer.read(_ANSWER))
            except HTTPError as error:
                if error.code not in (425, 502, 503, 504):
                    raise RoundError(f"{error.code}: {_said(error)}") from None
            except (URLError, TimeoutError, ConnectionError) as error:
                if time.monotonic() > self._until:
                    raise RoundError(f"no answer from {self._url}: {error}") from None
            self._pause()

    def _pause(self) -> None:
        if time.monotonic() > self._until:
            raise RoundError("the round took too long")
        time.sleep(self._poll)


def _after(now: str, step: str) -> bool:
    from sketchlearn.federation.rounds import STEPS

    return STEPS.index(now) > STEPS.index(step)


def _said(error: HTTPError) -> str:
    """What the endpoint has said."""
    try:
        return str(json.loads(error.read(10_000))["status"])
    except (ValueError, KeyError, TypeError):
        return str(error.reason)
