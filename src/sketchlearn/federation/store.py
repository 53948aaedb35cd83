"""What an endpoint keeps: the sum of all sketches and the keys of those that are in it, in one SQLite file.

Both change in one transaction: after a crash a sketch is in the sum if and only if its key is there, so that a client
that got no answer can send it again.  The sum is read in the transaction that writes it, so that several processes
(workers of one server, or an old and a new one during a restart) can share a file.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from os import PathLike
from typing import NamedTuple

from sketchlearn.exceptions import IncompatibleSketchError, SketchFileError
from sketchlearn.features.base import FeatureMap
from sketchlearn.privacy.composition import combine
from sketchlearn.sketches import Sketch, file
from sketchlearn.sketches.weights import WEIGHT_BITS

_PATIENCE = 30.0  # seconds to wait for another process that writes; a write takes milliseconds
_MOST_ROWS = 2**40  # rows that one sketch may have if nobody says: what exact sums can hold


class Answer(StrEnum):
    """What became of a submission."""

    ADDED = "added"
    DUPLICATE = "duplicate"
    REUSED = "reused"
    REFUSED = "refused"


class Submission(NamedTuple):
    """A sketch on its way into the sum.

    `key`: digest of the key that its sender gave it. `body`: digest of its bytes. `sketch`: the sketch.
    """

    key: bytes
    body: bytes
    sketch: Sketch

    @classmethod
    def of(
        cls,
        key: str,
        data: bytes,
        features: FeatureMap,
        most_rows: int | None = None,
        most_noise: float = 0.0,
        private: bool = False,
    ) -> Submission:
        """Checked; ``SketchFileError`` if the bytes are no sketch, ``ValueError`` if it is not one to add.

        Private sketches are taken if `private` says so: their sums can only be checked up to the noise they claim.
        """
        sketch = Sketch.from_bytes(data)
        theirs = sketch.features
        if theirs.fingerprint != features.fingerprint or theirs != features:
            raise IncompatibleSketchError(f"another feature map: {features.difference(theirs)}")
        most = _MOST_ROWS if most_rows is None else most_rows
        if sketch.count + sketch.skipped > most:
            raise ValueError(f"{sketch.count + sketch.skipped:,} rows are more than one sketch may have ({most:,})")
        if sketch.weight_bits > WEIGHT_BITS:
            raise ValueError(f"its weights are finer than 2**-{WEIGHT_BITS}: a pass over rows can't produce them")
        if sketch.privacy is not None and not private:
            raise ValueError(
                "this sketch is private: the server takes private sketches only if users= says whether one person can "
                "be in two of them"
            )
        if sketch.noise > most_noise:
            raise ValueError(
                f"noise of variance {sketch.noise:.3g} is more than one sketch may carry ({most_noise:.3g}): sums "
                "under noise can't be checked"
            )
        # nothing of theirs but numbers: neither their map, nor a record of parts, nor fields that are not known here
        plain = replace(sketch, features=features, extra={}, parts=None)
        return cls(digest(key.encode()), digest(data), plain)


class Store:
    """The sum of sketches, in a file.

    Parameters
    ----------
    path : path
        An SQLite file, made if it isn't there; ``":memory:"`` for none.
    features : FeatureMap
        The map of all sketches.

    Examples
    --------
    >>> import sketchlearn as sl
    >>> from sketchlearn.federation import Store
    >>> from sketchlearn.federation.store import Submission
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> data = sl.sketch([[1.0], [2.0]], phi).to_bytes()
    >>> store = Store(":memory:", phi)
    >>> [str(a) for a in store.add([Submission.of("tuesday", data, phi)] * 2)]
    ['added', 'duplicate']
    >>> store.sketch.count, store.submissions
    (2, 1)
    >>> store.close()
    """

    def __init__(self, path: str | PathLike[str], features: FeatureMap, users: str | None = None) -> None:
        self._features, self._users = features, users
        self._file = sqlite3.connect(path, timeout=_PATIENCE, check_same_thread=False, isolation_level=None)
        self._lock = threading.RLock()  # a connection has one transaction, whichever thread asks
        self._seen = -1
        try:
            problem = _foreign(self._file)
            if problem:
                raise SketchFileError(f"{path}: {problem}; give a file that isn't there yet")
            _write_ahead(self._file)
            self._file.execute("PRAGMA synchronous=FULL")  # an answer is a promise
            with self._transaction():
                self._file.execute("CREATE TABLE IF NOT EXISTS keys (key BLOB PRIMARY KEY, body BLOB) WITHOUT ROWID")
                self._file.execute(
                    "CREATE TABLE IF NOT EXISTS total (id INTEGER PRIMARY KEY CHECK (id = 1), sketch BLOB)"
                )
                empty = Sketch.empty(features).to_bytes()  # from now on the file belongs to this map
                self._file.execute("INSERT OR IGNORE INTO total VALUES (1, ?)", (empty,))
            self._total, self._count = self._read()
            if self._total.features != features:
                raise IncompatibleSketchError(
                    f"{path}: its sketches have another feature map: {features.difference(self._total.features)}"
                )
        except BaseException:
            self._file.close()
            raise

    @property
    def sketch(self) -> Sketch:
        """The sum of all that was added, by this process or another."""
        with self._lock:
            self._refresh()
            return self._total

    @property
    def submissions(self) -> int:
        """How many sketches are in it."""
        with self._lock:
            self._refresh()
            return self._count

    def add(self, submissions: Iterable[Submission]) -> list[Answer]:
        """Add some in one transaction; each once, however often it comes."""
        with self._transaction():
            self._refresh()
            total, answers, new = self._total, [], dict[bytes, bytes]()
            for key, body, sketch in submissions:
                known = new.get(key) or self._known(key)
                if known is not None:
                    answers.append(Answer.DUPLICATE if known == body else Answer.REUSED)
                    continue
                try:
                    total = with_sketch(total, sketch, self._users)
                except (ValueError, OverflowError):  # out of range, or private and exact ones together
                    answers.append(Answer.REFUSED)
                    continue
                new[key] = body
                answers.append(Answer.ADDED)
            if new:
                self._file.executemany("INSERT INTO keys VALUES (?, ?)", new.items())
                self._file.execute("INSERT OR REPLACE INTO total VALUES (1, ?)", (total.to_bytes(),))
            count = self._count + len(new)
        self._total, self._count = total, count  # not before the transaction has ended well
        return answers

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Alone with the file, among threads and processes: what is read here is still so when it is written."""
        with self._lock:
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._file.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # some errors have rolled it back already
                    self._file.execute("ROLLBACK")
                raise

    def _refresh(self) -> None:
        """Read sum and count again if another connection has written since."""
        seen = self._file.execute("PRAGMA data_version").fetchone()[0]
        if seen != self._seen:
            self._total, self._count = self._read()
            self._seen = seen

    def _read(self) -> tuple[Sketch, int]:
        sketch, count = self._file.execute("SELECT sketch, (SELECT count(*) FROM keys) FROM total").fetchone()
        return file.decode(sketch, "its sum", like=self._features), int(count)

    def _known(self, key: bytes) -> bytes | None:
        row = self._file.execute("SELECT body FROM keys WHERE key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._file.close()


def with_sketch(total: Sketch, sketch: Sketch, users: str | None) -> Sketch:
    """The sum of both; of private sketches with what they promise together, if `users` says who is behind them."""
    if sketch.privacy is None or total.is_empty:
        return total + sketch
    if users is None:
        raise ValueError(
            "the guarantee of a sum of private sketches depends on whether one person can be in two of them: say "
            "users='disjoint' or 'same'"
        )
    return combine([total, sketch], users)


def _write_ahead(base: sqlite3.Connection) -> None:
    """Let SQLite write a log first; the change of mode doesn't wait for other processes by itself."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            base.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def _foreign(base: sqlite3.Connection) -> str | None:
    """What is wrong with a file that was made for something else; nothing is written to find out."""
    try:
        tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError as error:
        return f"is not the store of an endpoint ({error})"
    return "is a database of something else" if tables and tables != {"keys", "total"} else None


def digest(data: bytes) -> bytes:
    """What is kept of keys and bodies."""
    return hashlib.sha256(data).digest()
