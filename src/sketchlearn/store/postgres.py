"""A store in PostgreSQL: many writers at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from sketchlearn.exceptions import SourceError
from sketchlearn.optional import optional
from sketchlearn.store import schema
from sketchlearn.store.backend import BATCH, Backend, Session
from sketchlearn.store.cells import Cells, moments, times
from sketchlearn.store.packing import Packed

_TYPES = (
    "int4", "int8", "int8", "int4", "int4", "int8", "int4", "text", "int8", "float8", "text", "bytea", "bytea",
)  # fmt: skip
_WRITING = 0x736B6574  # number of the lock that every writing transaction holds


class PostgresSession(Session):
    """A transaction of PostgreSQL."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement."""
        cursor = self.connection.execute(statement.replace("?", "%s"), list(values) if values else None)
        return cursor.fetchall() if cursor.description else []

    def cells(self, condition: str, values: Sequence[Any]) -> Iterator[Cells]:
        """Cells in batches, binary."""
        columns = ", ".join(schema.CELL_COLUMNS[1:])
        statement = f"SELECT {columns} FROM cells WHERE {condition}".replace("?", "%s")
        with self.connection.cursor("cells", binary=True) as cursor:
            cursor.itersize = BATCH
            cursor.execute(statement, list(values))
            while rows := cursor.fetchmany(BATCH):
                yield _cells(rows)

    def append(self, dataset: int, cells: Cells) -> None:
        """Add cells with COPY."""
        boxes = np.ascontiguousarray(cells.box, "<f8").reshape(len(cells), -1)
        columns = zip(
            [dataset] * len(cells), moments(cells.start), moments(cells.stop), cells.label.tolist(),
            cells.source.tolist(), cells.weight.tolist(), cells.weight_bits.tolist(), cells.squared,
            cells.skipped.tolist(), cells.noise.tolist(), cells.privacy, (line.tobytes() for line in boxes),
            cells.sums.strings(), strict=True,
        )  # fmt: skip
        names = ", ".join(schema.CELL_COLUMNS)
        with (
            self.connection.cursor() as cursor,
            cursor.copy(f"COPY cells ({names}) FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(_TYPES)
            for row in columns:
                copy.write_row(row)


def _cells(rows: list[tuple[Any, ...]]) -> Cells:
    start, stop, label, source, weight, bits, squared, skipped, noise, privacy, box, sums = zip(*rows, strict=True)
    return Cells(
        start=times(start), stop=times(stop), label=np.array(label, np.int64), source=np.array(source, np.int64),
        weight=np.array(weight, np.int64), weight_bits=np.array(bits, np.int64), squared=list(squared),
        skipped=np.array(skipped, np.int64), noise=np.array(noise, np.float64), privacy=list(privacy),
        box=np.frombuffer(b"".join(box), "<f8").reshape(len(rows), 2, -1), sums=Packed.of(list(sums)),
    )  # fmt: skip


class PostgresBackend(Backend):
    """A database of a PostgreSQL server.

    `url`: ``postgresql://user@host/database``; the tables are in the schema that the user finds first.
    """

    def __init__(self, url: str) -> None:
        self.psycopg = optional("psycopg", "store", "a store in PostgreSQL")
        self.url = url
        self.place = re.sub(r"(//[^:/@]*):[^@/]*@", r"\1@", url)

    @contextmanager
    def _session(self, write: bool) -> Iterator[Session]:
        try:
            connection = self.psycopg.connect(self.url)
        except self.psycopg.OperationalError as error:
            reason = (str(error).strip().splitlines() or ["no answer"])[0]
            raise SourceError(f"{self.place}: no connection ({reason})") from None
        with connection:  # commits, or rolls back on any error
            if not write:
                connection.read_only = True
                connection.isolation_level = self.psycopg.IsolationLevel.REPEATABLE_READ
            else:
                # a roll-up reads cells and then puts others in their place: no other writer may come between
                connection.execute(f"SELECT pg_advisory_xact_lock({_WRITING})")
            yield PostgresSession(connection)

    def close(self) -> None:
        """Nothing stays open."""

    def tables(self, session: Session) -> set[str]:
        """Tables of the first schema of the search path."""
        return {n for (n,) in session.rows("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")}

    def tune(self, session: Session) -> None:
        """Sums are noise in their lower bytes: nothing is gained by compressing them again."""
        for column in ("sums", "box"):
            session.rows(f"ALTER TABLE cells ALTER COLUMN {column} SET STORAGE EXTERNAL")
        session.rows("CREATE INDEX cells_by_time ON cells (dataset, start)")
        session.rows("CREATE INDEX cells_by_source ON cells (dataset, source)")

    def size(self) -> int:
        """Bytes of the tables, their indices and the long values."""
        with self.session() as session:
            total = "SELECT sum(pg_total_relation_size(quote_ident(tablename)::regclass))::bigint"
            names = ", ".join(f"'{name}'" for name in sorted(schema.NAMES))
            statement = f"{total} FROM pg_tables WHERE schemaname = current_schema() AND tablename IN ({names})"
            return int(session.one(statement))
