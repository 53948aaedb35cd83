"""What an endpoint keeps: the sum of all sketches and the keys of those that are in it, in one SQLite file.

Both change in one transaction: after a crash a sketch is in the sum if and only if its key is there, so that a client
that got no answer can send it again.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from os import PathLike
from typing import NamedTuple

from sketchlearn.exceptions import IncompatibleSketchError, SketchFileError
from sketchlearn.features.base import FeatureMap
from sketchlearn.privacy.composition import combine
from sketchlearn.sketches import Sketch

_SKIPPED = 2**62


class Answer(StrEnum):
    """What became of a submission."""

    ADDED = "added"
    DUPLICATE = "duplicate"
    REUSED = "reused"
    REFUSED = "refused"


class Submission(NamedTuple):
    """A sketch on its way into the sum.

    Attributes
    ----------
    key : bytes
        Digest of the key that its sender gave it.
    body : bytes
        Digest of its bytes.
    sketch : Sketch
        The sketch.
    """

    key: bytes
    body: bytes
    sketch: Sketch

    @classmethod
    def of(cls, key: str, data: bytes, features: FeatureMap, most_rows: int | None = None) -> Submission:
        """Checked; ``SketchFileError`` if the bytes are no sketch, ``ValueError`` if it is not one to add."""
        sketch = Sketch.from_bytes(data)
        theirs = sketch.features
        if theirs.fingerprint != features.fingerprint or theirs != features:
            raise IncompatibleSketchError(f"another feature map: {features.difference(theirs)}")
        if most_rows is not None and sketch.count > most_rows:
            raise ValueError(f"{sketch.count:,} rows are more than one sketch may have ({most_rows:,})")
        if sketch.skipped > _SKIPPED:
            raise ValueError("nobody has skipped so many rows")
        # nothing of theirs but numbers: neither their map nor fields that this version doesn't know
        plain = replace(sketch, features=features, extra={})
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
        self._file = sqlite3.connect(path, check_same_thread=False)
        problem = _foreign(self._file)
        if problem:
            self._file.close()
            raise SketchFileError(f"{path}: {problem}; give a file that isn't there yet")
        self._file.execute("PRAGMA journal_mode=WAL")
        self._file.execute("PRAGMA synchronous=FULL")  # an answer is a promise
        with self._file:
            self._file.execute("CREATE TABLE IF NOT EXISTS keys (key BLOB PRIMARY KEY, body BLOB) WITHOUT ROWID")
            self._file.execute("CREATE TABLE IF NOT EXISTS total (id INTEGER PRIMARY KEY CHECK (id = 1), sketch BLOB)")
        found = self._file.execute("SELECT sketch FROM total").fetchone()
        self._total = Sketch.empty(features) if found is None else Sketch.from_bytes(found[0])
        if self._total.features != features:
            self._file.close()
            raise IncompatibleSketchError(
                f"{path}: its sketches have another feature map: {features.difference(self._total.features)}"
            )
        self._count = self._file.execute("SELECT count(*) FROM keys").fetchone()[0]

    @property
    def sketch(self) -> Sketch:
        """The sum of all that was added."""
        return self._total

    @property
    def submissions(self) -> int:
        """How many sketches are in it."""
        return int(self._count)

    def add(self, submissions: Iterable[Submission]) -> list[Answer]:
        """Add some in one transaction; each once, however often it comes."""
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
            with self._file:
                self._file.executemany("INSERT INTO keys VALUES (?, ?)", new.items())
                self._file.execute("INSERT OR REPLACE INTO total VALUES (1, ?)", (total.to_bytes(),))
            self._total, self._count = total, self._count + len(new)
        return answers

    def _known(self, key: bytes) -> bytes | None:
        row = self._file.execute("SELECT body FROM keys WHERE key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def with_sketch(total: Sketch, sketch: Sketch, users: str | None) -> Sketch:
    """The sum of both; of private sketches with what they promise together, if `users` says who is behind them."""
    if sketch.privacy is None or total.is_empty:
        return total + sketch
    if users is None:
        raise ValueError(
            "what private sketches promise together depends on whether somebody is behind two of them: say "
            "users='disjoint' or 'same'"
        )
    return combine([total, sketch], users)


def _foreign(file: sqlite3.Connection) -> str | None:
    """What is wrong with a file that was made for something else; nothing is written to find out."""
    try:
        tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError as error:
        return f"is not the store of an endpoint ({error})"
    return "is a database of something else" if tables and tables != {"keys", "total"} else None


def digest(data: bytes) -> bytes:
    """What is kept of keys and bodies."""
    return hashlib.sha256(data).digest()
