"""What endpoints have in common: an ASGI application without a framework, tokens, bodies of bounded length, errors."""

from __future__ import annotations

import asyncio
import hmac
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Answered = tuple[int, bytes, str]
"""Status, body and type of an answer."""


class Refusal(Exception):
    """An answer that is not what was hoped for."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status, self.text, self.headers = status, text, headers


class Endpoint(ABC):
    """An ASGI application whose answers are made by :meth:`_answer`.

    Parameters
    ----------
    token : str, optional
        What clients must send as ``Authorization: Bearer ...``.
    body_timeout : float
        Seconds that a client has to send a body.
    """

    def __init__(self, token: str | None, body_timeout: float) -> None:
        self._token, self._timeout = token, body_timeout

    @abstractmethod
    async def _answer(self, method: str, path: str, headers: Mapping[bytes, bytes], receive: Receive) -> Answered:
        """The answer to a request; :class:`Refusal` for one that is refused."""

    async def _ending(self) -> None:
        """Finish what is under way; the server stops."""
        return

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            return
        headers = {bytes(k).lower(): bytes(v) for k, v in scope["headers"]}
        try:
            status, body, kind = await self._answer(scope["method"], scope["path"], headers, receive)
            more: dict[str, str] = {}
        except Refusal as refusal:
            status, kind, more = refusal.status, "application/json", refusal.headers
            body = as_json(status=refusal.text)
            if status in (408, 413, 503):
                more = {**more, "connection": "close"}  # what it goes on to send is not wanted
        lines = {"content-type": kind, "content-length": str(len(body)), **more}
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(k.encode(), v.encode()) for k, v in lines.items()],
            }
        )
        await send({"type": "http.response.body", "body": body})

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self._ending()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _check_token(self, headers: Mapping[bytes, bytes]) -> None:
        if self._token is not None:
            check_token(self._token, headers)

    async def _body(self, receive: Receive, limit: int, what: str) -> bytes:
        """The body of a request."""
        try:
            return await asyncio.wait_for(self._pieces(receive, limit, what), self._timeout)
        except TimeoutError:
            raise Refusal(408, f"the {what} did not come within {self._timeout:g} seconds") from None

    async def _pieces(self, receive: Receive, limit: int, what: str) -> bytes:
        pieces, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refusal(400, "the client went away")
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > limit:
                raise Refusal(413, f"a {what} has at most {limit} bytes")
            if not message.get("more_body"):
                return b"".join(pieces)


def check_token(token: str, headers: Mapping[bytes, bytes]) -> None:
    """Refuse a request without this token."""
    if not hmac.compare_digest(headers.get(b"authorization", b""), b"Bearer " + token.encode()):
        raise Refusal(401, "the token is missing or wrong", **{"www-authenticate": "Bearer"})


def as_json(**values: Any) -> bytes:
    """Values as the body of an answer."""
    return json.dumps(values).encode()
