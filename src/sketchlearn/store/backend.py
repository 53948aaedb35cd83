"""Where a store is kept: what DuckDB and PostgreSQL must do for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sketchlearn.exceptions import SketchFileError
from sketchlearn.store import schema
from sketchlearn.store.cells import Cells

BATCH = 4096  # cells read at a time: some tens of megabytes


class Session(ABC):
    """An open transaction."""

    @abstractmethod
    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement with ``?`` for values, and return its rows."""

    @abstractmethod
    def cells(self, condition: str, values: Sequence[Any]) -> Iterator[Cells]:
        """Cells that meet a condition, in batches."""

    @abstractmethod
    def append(self, dataset: int, cells: Cells) -> None:
        """Add cells."""

    def one(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """The first value of the first row, or None."""
        rows = self.rows(statement, values)
        return rows[0][0] if rows else None

    def number(self) -> int:
        """A number that nothing else in the store has."""
        return int(self.one("SELECT nextval('store_ids')"))


class Backend(ABC):
    """A database that holds a store."""

    place: str
    """What messages call it; no password."""
    noise_type = "BYTEA"
    """Type of columns of bytes that can't be compressed."""

    @abstractmethod
    def _session(self, write: bool) -> Any:
        """A context manager that gives a session, commits at its end and rolls back on any error."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open."""

    @abstractmethod
    def tables(self, session: Session) -> set[str]:
        """Names of the tables that are there."""

    @abstractmethod
    def size(self) -> int:
        """Bytes that the store takes."""

    @contextmanager
    def session(self, write: bool = False) -> Iterator[Session]:
        """One transaction: everything or nothing; readers see one state."""
        with self._session(write) as session:
            yield session

    def prepare(self, session: Session) -> None:
        """Make the tables if they aren't there; refuse a database of something else or of another version."""
        there = self.tables(session)
        if not there & schema.NAMES:
            for statement in schema.TABLES:
                session.rows(statement.replace("{noise}", self.noise_type))
            session.rows("INSERT INTO store VALUES ('version', ?)", [schema.VERSION])
            self.tune(session)
            return
        self.check(session, there)

    def check(self, session: Session, there: set[str] | None = None) -> None:
        """Refuse a database that holds no store, or one of another version."""
        there = self.tables(session) if there is None else there
        if not there >= schema.NAMES:
            raise SketchFileError(f"{self.place}: a database, but not a store of sketches")
        version = session.one("SELECT value FROM store WHERE key = 'version'")
        if version != schema.VERSION:
            raise SketchFileError(
                f"{self.place}: a store of version {version}; this library reads version {schema.VERSION}"
            )

    def tune(self, session: Session) -> None:
        """Settings of a new store that only this database has."""
        return
