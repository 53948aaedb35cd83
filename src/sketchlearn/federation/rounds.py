"""Secure aggregation over HTTP: an endpoint that learns the noisy total of all holders, and nothing else.

A round goes through steps.  In each of them every holder posts one message; a step ends when all have, or when its time
is over, and who is silent has left the round:

======== ============================= =================================
step     POST /round/STEP              what the holder needs for it
======== ============================= =================================
keys     its public key                the terms (GET /round)
pieces   sealed pieces of its secrets  the keys of all (GET /round)
sums     sums with noise under masks   its pieces (GET /round/inbox)
masks    pieces of masks               who has sent sums (GET /round)
done     nothing
======== ============================= =================================

The header ``Holder`` says whose message it is.  Messages are in one SQLite file, each in a transaction of its own, and
where a round stands follows from them: a server that was killed goes on.  A message that comes again with the same
bytes is answered as it was; with others it is refused.  When the total is known everything else is deleted.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from typing import Any
from urllib.parse import unquote

from sketchlearn.exceptions import SketchFileError
from sketchlearn.federation.http import Answered, Endpoint, Receive, Refusal, as_json
from sketchlearn.privacy import rounds, sharing
from sketchlearn.privacy.federated import unmasked
from sketchlearn.privacy.rounds import Terms
from sketchlearn.sketches import Sketch

STEPS = ("keys", "pieces", "sums", "masks", "done")
_LONGEST_NAME = 100
_MOST_HOLDERS = 1000
_TABLES = {"messages", "round"}


class RoundStore:
    """The messages of a round, and where it stands.

    `path`: an SQLite file, made if it isn't there; ``":memory:"`` for none. `terms`: what is agreed on; a file that is
    there has its own, which must be the same but for the nonce. `holders`: how many are expected: a step ends when all
    have posted. `seconds`: how long a step waits for those who are silent.
    """

    def __init__(self, path: str | PathLike[str], terms: Terms, *, holders: int, seconds: float) -> None:
        if not terms.honest <= holders < 2 * terms.honest or holders > _MOST_HOLDERS:
            raise ValueError(
                f"honest={terms.honest} must be more than half of the {holders} holders, and not more than all"
            )
        self.holders, self.seconds = holders, seconds
        self._lock = threading.RLock()
        self._file = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30.0)
        try:
            tables = {name for (name,) in self._file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if tables and tables != _TABLES:
                raise SketchFileError(f"{path}: is a database of something else; give a file that isn't there yet")
            self._file.execute("PRAGMA synchronous=FULL")
            self._file.execute("CREATE TABLE IF NOT EXISTS round (key TEXT PRIMARY KEY, value TEXT)")
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS messages (step TEXT, holder TEXT, body BLOB, PRIMARY KEY (step, holder))"
            )
            self._file.execute("INSERT OR IGNORE INTO round VALUES ('terms', ?)", [json.dumps(terms.to_json())])
            self._file.execute("INSERT OR IGNORE INTO round VALUES ('since', ?)", [repr(time.time())])
            self._file.execute("INSERT OR IGNORE INTO round VALUES ('step', 'keys')")
            self.terms = Terms.from_json(json.loads(self._value("terms") or ""))
            self.terms.check(
                features=terms.features, epsilon=terms.epsilon, delta=terms.delta, honest=terms.honest,
                records_per_user=terms.records_per_user,
            )  # fmt: skip
        except sqlite3.DatabaseError as error:
            self._file.close()
            raise SketchFileError(f"{path}: is not the file of a round ({error})") from None
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._file.close()

    # -- where it stands ---------------------------------------------------------------------

    def _value(self, key: str) -> str | None:
        row = self._file.execute("SELECT value FROM round WHERE key = ?", [key]).fetchone()
        return None if row is None else str(row[0])

    def _set(self, key: str, value: str) -> None:
        self._file.execute("INSERT OR REPLACE INTO round VALUES (?, ?)", [key, value])

    def posted(self, step: str) -> dict[str, bytes]:
        """Messages of a step, by holder."""
        found = self._file.execute("SELECT holder, body FROM messages WHERE step = ? ORDER BY holder", [step])
        return {str(holder): bytes(body) for holder, body in found}

    def members(self, step: str) -> list[str]:
        """Who may post in a step: whoever has posted in the one before; None of them is there for the first."""
        before = STEPS[STEPS.index(step) - 1]
        return sorted(self.posted(before))

    @property
    def step(self) -> str:
        """The step that is under way, ``"done"``, or ``"failed"``."""
        with self._lock:
            self._advance()
            return str(self._value("step"))

    @property
    def problem(self) -> str:
        """Why a round has failed."""
        return self._value("problem") or ""

    def _advance(self, late: bool = False) -> None:
        """End the step that is under way if everybody has posted or its time is over."""
        step = str(self._value("step"))
        if step in ("done", "failed"):
            return
        came = len(self.posted(step))
        expected = self.holders if step == "keys" else len(self.members(step))
        late = late or time.time() - float(self._value("since") or 0.0) > self.seconds
        enough = came >= self.terms.honest
        if came < expected and not late:
            return
        with self._transaction():
            if not enough:
                self._fail(f"{came} of {expected} holders came to the step {step!r}, {self.terms.honest} are needed")
                return
            if step == "masks":
                self._finish()
                return
            self._set("step", STEPS[STEPS.index(step) + 1])
            self._set("since", repr(time.time()))

    def end_step(self) -> str:
        """End the step that is under way for those who have posted nothing; the step that follows."""
        with self._lock:
            self._advance(late=True)
            return self.step

    def _fail(self, problem: str) -> None:
        self._set("step", "failed")
        self._set("problem", f"{problem}: the masks stay on, and nobody learns anything")
        self._file.execute("DELETE FROM messages")

    def _finish(self) -> None:
        """The total, from all messages, which are not needed any more."""
        joined, part = self.members("pieces"), self.members("sums")
        agreed = self.terms.round(joined)
        sent = [rounds.unpack_contribution(body, name, agreed.length) for name, body in self.posted("sums").items()]
        answers = {name: rounds.unpack_answers(body) for name, body in self.posted("masks").items()}
        total = unmasked(agreed, part, sent, answers)
        self._set("step", "done")
        self._set("total", rounds.text_of(total.to_bytes()))
        self._set("holders", json.dumps([c.holder for c in sent]))
        self._file.execute("DELETE FROM messages")

    def _transaction(self) -> _Transaction:
        return _Transaction(self._file)

    @property
    def total(self) -> Sketch | None:
        """The private sketch of the rows of all who sent sums, when the round is done."""
        with self._lock:
            self._advance()
            text = self._value("total")
            return None if text is None else Sketch.from_bytes(rounds.bytes_of(text))

    @property
    def contributors(self) -> list[str]:
        """Whose rows are in the total."""
        return list(json.loads(self._value("holders") or "[]"))

    def state(self) -> dict[str, Any]:
        """What holders ask for: the step, and what they need for it."""
        with self._lock:
            step = self.step
            out: dict[str, Any] = {"step": step, "terms": self.terms.to_json(), "problem": self.problem}
            if step not in ("keys", "done", "failed"):
                out["keys"] = {name: json.loads(body)["public"] for name, body in self.posted("keys").items()}
            if step == "masks":
                out["present"] = sorted(self.posted("sums"))
            if step == "done":
                out["holders"] = self.contributors
            return out

    def inbox(self, holder: str) -> dict[str, str]:
        """Sealed pieces for a holder, by sender."""
        with self._lock:
            found = {u: rounds.unpack_pieces(body) for u, body in self.posted("pieces").items() if u != holder}
            return {u: rounds.text_of(pieces[holder]) for u, pieces in found.items() if holder in pieces}

    # -- messages ----------------------------------------------------------------------------

    def post(self, step: str, holder: str, body: bytes) -> str:
        """Take a message; ``"taken"``, or ``"known"`` if it was taken before.  :class:`Refusal` for others."""
        with self._lock:
            known = self.posted(step).get(holder)
            if known is not None:
                if known != body:
                    raise Refusal(409, f"{holder!r} has posted other {step} in this round: every holder posts once")
                return "known"
            now = self.step
            if now == "done" and step == "masks" and holder in self.contributors:
                return "known"  # the others were enough, and its rows are in the total
            if now == "failed":
                raise Refusal(410, f"the round has failed: {self.problem}")
            if now != step:
                early = STEPS.index(step) > STEPS.index(now)
                raise Refusal(
                    425 if early else 410, f"the round is at the step {now!r}: too {'early' if early else 'late'}"
                )
            if step == "keys" and len(self.posted("keys")) >= self.holders:
                raise Refusal(410, f"all {self.holders} holders have joined already")
            if step != "keys" and holder not in self.members(step):
                raise Refusal(403, f"{holder!r} has left this round")
            try:
                self._check(step, holder, body)
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise Refusal(422, f"no message of this step: {error}") from None
            with self._transaction():
                self._file.execute("INSERT INTO messages VALUES (?, ?, ?)", [step, holder, body])
            self._advance()
            return "taken"

    def _check(self, step: str, holder: str, body: bytes) -> None:
        """ValueError for what is no message of this step; what is inside the masks nobody can check."""
        if step == "keys":
            value = json.loads(body)
            if not isinstance(value, dict) or set(value) != {"public"}:
                raise ValueError("not a public key")
            rounds.key_of(value["public"])
            return
        joined = self.members("pieces")
        if step == "pieces":
            found = rounds.unpack_pieces(body)
            if set(found) != set(joined) - {holder}:
                raise ValueError("pieces are for every other holder that has joined")
        elif step == "sums":
            rounds.unpack_contribution(body, holder, self.terms.round(joined).length)
        else:
            present, part = set(self.members("masks")), set(self.members("sums"))
            wanted = {(u, u) for u in present} | {(u, v) for u in part - present for v in present}
            found_pieces = rounds.unpack_answers(body)
            if set(found_pieces) != wanted or any(len(p) != sharing.PIECE for p in found_pieces.values()):
                raise ValueError("pieces are of the own masks of those present, and of masks with those who have left")


class _Transaction:
    """All or nothing, for one connection; inside another it is part of that."""

    def __init__(self, file: sqlite3.Connection) -> None:
        self._file, self._outer = file, file.in_transaction

    def __enter__(self) -> None:
        if not self._outer:
            self._file.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        if not self._outer:
            self._file.execute("COMMIT" if kind is None else "ROLLBACK")


class SecureRound(Endpoint):
    """An ASGI application for one round of secure aggregation.

    Run it with any ASGI server, in one process: ``uvicorn module:app``, or ``sketchlearn serve --secure``.  Holders
    take part with :func:`sketchlearn.federation.contribute`, or ``sketchlearn contribute``.

    Parameters
    ----------
    features : FeatureMap
        The map of all holders, chosen without looking at rows.
    path : path
        The SQLite file of the round.
    epsilon, delta : float
        What the total guarantees.
    holders : int
        How many are expected.
    honest : int
        The least number of holders that stay to the end and keep their noise secret: more than half. The others may
        leave.
    records_per_user : int
        How many rows one person may have, with all holders together.
    name : str
        For people.
    seconds : float
        How long a step waits for those who are silent.
    token, body_timeout
        As for :class:`Collector`.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.federation import SecureRound
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> app = SecureRound(phi, ":memory:", epsilon=1.0, delta=1e-6, holders=3, honest=2)
    >>> app.step, app.sketch
    ('keys', None)
    >>> app.close()
    """

    def __init__(
        self,
        features: Any,
        path: str | PathLike[str],
        *,
        epsilon: float,
        delta: float,
        holders: int,
        honest: int,
        records_per_user: int = 1,
        name: str = "",
        seconds: float = 60.0,
        token: str | None = None,
        body_timeout: float = 20.0,
    ) -> None:
        super().__init__(token, body_timeout)
        terms = Terms.new(
            features, epsilon, delta, honest=honest, records_per_user=records_per_user, name=name
        )  # fmt: skip
        self._store = RoundStore(path, terms, holders=holders, seconds=seconds)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="sketchlearn-round")
        entries = self._store.terms.round([str(i) for i in range(honest)]).length
        pieces = 2 * holders * (2 * sharing.PIECE * holders + _LONGEST_NAME + 100)
        self._limit = 1000 + max(12 * entries, pieces, 6 * holders * holders * (_LONGEST_NAME + sharing.PIECE))

    @property
    def step(self) -> str:
        """Where the round stands."""
        return self._store.step

    @property
    def sketch(self) -> Sketch | None:
        """The private total, when the round is done."""
        return self._store.total

    @property
    def contributors(self) -> list[str]:
        """Whose rows are in the total."""
        return self._store.contributors

    @property
    def problem(self) -> str:
        """Why the round has failed."""
        return self._store.problem

    def close(self) -> None:
        """Let go of the file."""
        self._worker.shutdown()
        self._store.close()

    async def _answer(self, method: str, path: str, headers: Mapping[bytes, bytes], receive: Receive) -> Answered:
        parts = [part for part in path.split("/") if part]
        self._check_token(headers)
        if parts in ([], ["round"]) and method == "GET":
            return 200, as_json(**await self._run(self._store.state)), "application/json"
        if parts == ["round", "inbox"] and method == "GET":
            holder = self._holder(headers)
            return 200, as_json(**await self._run(self._store.inbox, holder)), "application/json"
        if len(parts) == 2 and parts[0] == "round" and parts[1] in STEPS[:-1] and method == "POST":
            holder = self._holder(headers)
            body = await self._body(receive, self._limit, "message")
            status = await self._run(self._store.post, parts[1], holder, body)
            return 200 if status == "known" else 201, as_json(status=status), "application/json"
        raise Refusal(404, "there is nothing here: GET /round, GET /round/inbox, POST /round/{keys,pieces,sums,masks}")

    async def _run(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._worker, function, *arguments)

    def _holder(self, headers: Mapping[bytes, bytes]) -> str:
        found = unquote(headers.get(b"holder", b"").decode("latin-1"))
        if not 0 < len(found) <= _LONGEST_NAME or not found.isprintable():
            raise Refusal(400, f"a Holder of at most {_LONGEST_NAME} letters is needed, percent-encoded")
        return found
