"""An HTTP endpoint to which anybody can send sketches: an ASGI application without a framework.

``POST /sketches`` with the bytes of a sketch and an ``Idempotency-Key`` adds it to the sum, once.  Submissions that
come together are written together, so that durable answers to many clients cost few writes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from typing import NamedTuple

from sketchlearn.exceptions import IncompatibleSketchError, SketchFileError
from sketchlearn.features.base import FeatureMap
from sketchlearn.federation.http import Answered, Endpoint, Receive, Refusal, as_json, check_token
from sketchlearn.federation.store import Answer, Store, Submission
from sketchlearn.privacy.composition import USERS
from sketchlearn.sketches import Sketch

_HEADROOM = 2**15  # bytes by which the header of a sketch may be longer than that of an empty one
_LONGEST_KEY = 200
_WORDS = {
    Answer.ADDED: (201, "added"),
    Answer.DUPLICATE: (200, "this sketch was added before"),
    Answer.REUSED: (422, "another sketch was sent with this key"),
    Answer.REFUSED: (422, "it can't be added: out of range, or private and exact sketches together"),
}

_PLACES = {"/sketches": "POST", "/recipe": "GET", "/sum": "GET", "/health": "GET", "/": "GET"}


class _Waiting(NamedTuple):
    submission: Submission
    answer: asyncio.Future[Answer]


class Collector(Endpoint):
    """An ASGI application that adds up the sketches that are sent to it.

    It keeps the sum and digests of the keys, nothing else.  Run it with any ASGI server:
    ``uvicorn module:app``, or ``sketchlearn serve``.  Several processes may serve one file.

    Parameters
    ----------
    features : FeatureMap
        The map of all sketches; clients get it at ``GET /recipe``, as an empty sketch.
    path : path
        The SQLite file of the sum; see :class:`Store`.
    token : str, optional
        What clients must send as ``Authorization: Bearer ...``.
    read_token : str, optional
        What readers of the sum must send for ``GET /sum``; without it the sum is not shown.  ``GET /health`` answers
        everybody whether the store can be read.
    most_rows : int, optional
        Rows that one sketch may have at most, skipped ones included.
    most_noise : float
        Largest variance of known noise (:meth:`~sketchlearn.Sketch.with_noise`) in one sketch. By default none is
        allowed, because sums under noise can't be checked.
    until : float, optional
        Seconds since 1970 after which submissions are closed.
    users : {"disjoint", "same"}, optional
        For private sketches: whether one person can be in several of them, see :func:`sketchlearn.privacy.combine`.
        Without this, private sketches are refused.
    body_timeout : float
        Seconds that a client has to send its sketch.
    most_at_once : int
        The largest number of submissions in memory at the same time. Others are asked to try again.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.federation import Collector
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> app = Collector(phi, ":memory:")
    >>> app.sketch.count
    0
    >>> app.close()
    """

    def __init__(
        self,
        features: FeatureMap,
        path: str | PathLike[str],
        *,
        token: str | None = None,
        read_token: str | None = None,
        most_rows: int | None = None,
        most_noise: float = 0.0,
        until: float | None = None,
        users: str | None = None,
        body_timeout: float = 20.0,
        most_at_once: int = 512,
    ) -> None:
        if users is not None and users not in USERS:
            raise ValueError(f"users={users!r}: choose one of {', '.join(USERS)}")
        super().__init__(token, body_timeout)
        self._features, self._store, self._users = features, Store(path, features, users), users
        self._read_token = read_token
        self._most_rows, self._most_noise, self._until = most_rows, most_noise, until
        self._most_at_once = most_at_once
        self._recipe = Sketch.empty(features).to_bytes()
        self._limit = len(self._recipe) + _HEADROOM  # the length of a sketch depends on its map alone
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="sketchlearn-store")
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None
        self._inside = 0

    @property
    def sketch(self) -> Sketch:
        """The sum of all that was sent."""
        return self._store.sketch

    @property
    def submissions(self) -> int:
        """How many sketches are in it."""
        return self._store.submissions

    def close(self) -> None:
        """Let go of the file."""
        self._worker.shutdown()
        self._store.close()

    async def _ending(self) -> None:
        if self._writing is not None:
            await self._writing

    async def _answer(self, method: str, path: str, headers: Mapping[bytes, bytes], receive: Receive) -> Answered:
        place = path.rstrip("/") or "/"
        allowed = _PLACES.get(place)
        if allowed is None:
            shown = ", ".join(f"{method} {name}" for name, method in _PLACES.items())
            raise Refusal(404, f"there is nothing here: {shown}")
        if method != allowed:
            raise Refusal(405, f"only {allowed} is allowed here", allow=allowed)
        loop = asyncio.get_running_loop()
        if place == "/health":  # without a token: a load balancer has none, and learns nothing else
            await loop.run_in_executor(self._worker, lambda: self.submissions)
            return 200, as_json(status="ok"), "application/json"
        if place == "/sum":  # whoever sends sketches may not see those of others: the sum has a token of its own
            if self._read_token is None:
                raise Refusal(403, "the sum is not shown here: the server was started without a token for readers")
            check_token(self._read_token, headers)
            total = await loop.run_in_executor(self._worker, lambda: self.sketch)
            return 200, total.to_bytes(), "application/octet-stream"
        self._check_token(headers)
        if path.startswith("/recipe"):
            return 200, self._recipe, "application/octet-stream"
        if allowed == "GET":
            # not in the loop that serves everybody: another process may be writing
            sketches = await loop.run_in_executor(self._worker, lambda: self.submissions)
            state = {"fingerprint": self._features.fingerprint, "sketches": sketches, "open": self._open()}
            return 200, as_json(**state), "application/json"
        if not self._open():
            raise Refusal(410, "submissions are closed")
        if self._inside >= self._most_at_once:
            raise Refusal(503, "too many requests: try again", **{"retry-after": "1"})
        self._inside += 1
        try:
            status, text = await self._submit(headers, receive)
        finally:
            self._inside -= 1
        return status, as_json(status=text), "application/json"

    def _open(self) -> bool:
        return self._until is None or time.time() < self._until

    async def _submit(self, headers: Mapping[bytes, bytes], receive: Receive) -> tuple[int, str]:
        key = headers.get(b"idempotency-key", b"").decode("latin-1")
        if not 0 < len(key) <= _LONGEST_KEY:
            raise Refusal(400, f"an Idempotency-Key of at most {_LONGEST_KEY} letters is needed")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > self._limit:
            raise Refusal(413, f"a sketch of this map has at most {self._limit} bytes")
        data = await self._body(receive, self._limit, "sketch of this map")
        loop = asyncio.get_running_loop()
        try:
            made = await loop.run_in_executor(
                self._worker,
                Submission.of,
                key,
                data,
                self._features,
                self._most_rows,
                self._most_noise,
                self._users is not None,
            )
        except SketchFileError as error:
            raise Refusal(422, str(error)) from None
        except IncompatibleSketchError as error:
            raise Refusal(409, str(error)) from None
        except (ValueError, OverflowError) as error:
            raise Refusal(422, str(error)) from None
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append(_Waiting(made, answer))
        if self._writing is None or self._writing.done():
            self._writing = loop.create_task(self._write())
        return _WORDS[await answer]

    async def _write(self) -> None:
        """Add all that wait, and those that came meanwhile."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                answers = await loop.run_in_executor(self._worker, self._store.add, [w.submission for w in batch])
            except Exception as error:  # the disk is full, say: nobody was promised anything
                for waiting in batch:
                    if not waiting.answer.done():
                        waiting.answer.set_exception(Refusal(503, f"it could not be kept: {error}"))
                continue
            for waiting, answer in zip(batch, answers, strict=True):
                if not waiting.answer.done():
                    waiting.answer.set_result(answer)
