"""Rows of an SQL query: SQLite, DuckDB and PostgreSQL, read through a cursor and never as a whole."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sketchlearn.exceptions import InputError, Option, SourceError
from sketchlearn.optional import optional
from sketchlearn.sources.base import Batch, Part, Source, library_of, register
from sketchlearn.sources.columns import Layout, first_line, stream_of
from sketchlearn.sources.paths import Files, identity, register_format
from sketchlearn.sources.remote import is_remote
from sketchlearn.sources.selection import Selection

_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(\w+)", re.DOTALL)
_WRITING = {
    "ALTER", "ATTACH", "CALL", "COPY", "CREATE", "DELETE", "DETACH", "DO", "DROP", "EXECUTE", "EXPORT", "GRANT",
    "IMPORT", "INSERT", "INSTALL", "LOAD", "MERGE", "PRAGMA", "REINDEX", "REPLACE", "SET", "TRUNCATE", "UPDATE",
    "VACUUM",
}  # fmt: skip
_URL = re.compile(r"^(postgres(?:ql)?://\S+|duckdb:.*)$")


def _query(selection: Selection, place: str) -> str:
    if not selection.query:
        raise InputError(f"{place} is a database: say what to read with ", Option("query", "SELECT ..."))
    selection.refuse("a query: put the condition into its WHERE", "where")
    selection.refuse("a query", "dataset", "sample_weight")
    query = selection.query.strip().rstrip(";").rstrip()
    first = _FIRST_WORD.match(query)
    if first and first[1].upper() in _WRITING:
        raise SourceError(
            f"{place}: {first[1].upper()} is not a query: only SELECT and the like are run, nothing is written"
        )
    return query


def _here(files: Files, kind: str) -> str:
    """The one file of a database."""
    if len(files.paths) > 1:
        raise SourceError(f"query one {kind} file at a time")
    if is_remote(files.paths[0]):
        raise SourceError(f"{files.paths[0]}: a database must be a file of this machine: copy it, or export its rows")
    return files.paths[0]


# -- SQLite ----------------------------------------------------------------------------------------


@register_format("sqlite", ".db", ".sqlite", ".sqlite3", ".db3")
def open_sqlite(files: Files, selection: Selection) -> Source:
    """One SQLite file, opened for reading only."""
    path = _here(files, "SQLite")
    # a file that does not change gives the rows of one query in one order; its log may hold rows that it doesn't
    log = Path(path + "-wal")
    mark = identity(path) if not log.exists() or not log.stat().st_size else None
    return _sqlite(_SqliteFile(Path(path).resolve().as_uri() + "?mode=ro"), selection, path, mark)


@dataclass(frozen=True)
class _SqliteFile:
    """Connections to a file."""

    uri: str

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        with closing(sqlite3.connect(self.uri, uri=True, check_same_thread=False)) as connection:
            with suppress(sqlite3.Error):  # a file that is no database says so when it is queried
                connection.execute("PRAGMA query_only = ON").close()
                connection.execute("PRAGMA schema_version").close()
            connection.set_authorizer(_only_reading)
            yield connection


_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}


def _only_reading(action: int, what: str | None, name: str | None, *_: str | None) -> int:
    """What a query may do: read tables and call functions, but load no code."""
    reads = action in _READING or (action == sqlite3.SQLITE_FUNCTION and name not in ("load_extension", "writefile"))
    schema = action == sqlite3.SQLITE_PRAGMA and what == "schema_version" and name is None
    return sqlite3.SQLITE_OK if reads or schema else sqlite3.SQLITE_DENY


@register(rank=0)
def open_sqlite_connection(data: Any, selection: Selection) -> Source | None:
    """A ``sqlite3.Connection``; it must allow use from another thread."""
    if not isinstance(data, sqlite3.Connection):
        return None

    @contextmanager
    def connected() -> Iterator[Any]:
        before = data.execute("PRAGMA query_only").fetchone()[0]
        data.execute("PRAGMA query_only = ON").close()
        try:
            yield data
        finally:
            with suppress(sqlite3.ProgrammingError):  # it may be closed by now
                data.execute(f"PRAGMA query_only = {int(before)}").close()

    return _sqlite(connected, selection, "the SQLite connection", None)


def _sqlite(
    connected: Callable[[], AbstractContextManager[Any]], selection: Selection, place: str, mark: str | None
) -> Source:
    query = _query(selection, place)
    try:
        with connected() as connection:
            connection.execute("PRAGMA schema_version").close()  # reads the file: is it a database at all?
            connection.execute(f"EXPLAIN {query}").close()  # syntax errors in the user's words, nothing executed
            with closing(connection.execute(f"SELECT * FROM ({query}\n) LIMIT 0")) as cursor:
                # SQLite calls the second column x of a subquery x:1
                names = [re.sub(r":\d+$", "", c[0]) for c in cursor.description]
    except sqlite3.Error as error:
        raise SourceError(f"{place}: {error}") from None
    layout = Layout(names, selection, place)

    batches = _SqliteRows(connected, query, layout, names, place)
    grouped = layout.group is not None
    if mark is not None:
        return Source.of_parts([Part(Path(place).name, batches, None, mark)], layout.numbers, grouped)
    return Source(batches, names=layout.numbers, grouped=grouped)


@dataclass(frozen=True)
class _SqliteRows:
    """The rows of a query."""

    connected: Callable[[], AbstractContextManager[Any]]
    query: str
    layout: Layout
    names: list[str]
    place: str

    def __call__(self, size: int) -> Iterator[Batch]:
        try:
            with self.connected() as connection, closing(connection.execute(self.query)) as cursor:
                while rows := cursor.fetchmany(size):
                    yield self.layout.tuples(self.names, rows)
        except sqlite3.ProgrammingError as error:
            raise SourceError(f"{self.place}: {error}; open it with check_same_thread=False") from None
        except sqlite3.Error as error:
            raise SourceError(f"{self.place}: {error}") from None


# -- DuckDB ----------------------------------------------------------------------------------------


@register_format("duckdb", ".duckdb", ".ddb")
def open_duckdb(files: Files, selection: Selection) -> Source:
    """One DuckDB file, opened for reading only."""
    return _duckdb_path(_here(files, "DuckDB"), selection)


def _duckdb_path(path: str, selection: Selection) -> Source:
    duckdb = optional("duckdb", "duckdb", "a DuckDB query")

    @contextmanager
    def connected() -> Iterator[Any]:
        with duckdb.connect(path or ":memory:", read_only=bool(path)) as connection:
            yield connection

    return _duckdb(duckdb, connected, selection, path or "DuckDB")


@register(rank=0)
def open_duckdb_connection(data: Any, selection: Selection) -> Source | None:
    """A DuckDB connection, read through a cursor of its own."""
    if type(data).__name__ != "DuckDBPyConnection":
        return None
    duckdb = optional("duckdb", "duckdb", "a DuckDB query")

    @contextmanager
    def connected() -> Iterator[Any]:
        with closing(data.cursor()) as cursor:
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            try:
                yield cursor
            finally:
                with suppress(duckdb.Error):  # an error has ended it already
                    cursor.execute("ROLLBACK")

    return _duckdb(duckdb, connected, selection, "the DuckDB connection")


def _duckdb(
    duckdb: Any, connected: Callable[[], AbstractContextManager[Any]], selection: Selection, place: str
) -> Source:
    query = _query(selection, place)
    optional("pyarrow", "duckdb", "a DuckDB query")
    try:
        with connected() as connection:
            statements = connection.extract_statements(query)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise SourceError(f"{place}: give one query; only SELECT and the like are run, nothing is written")
            names = list(connection.sql(query).columns)
    except duckdb.Error as error:
        raise SourceError(f"{place}: {first_line(error)}") from None
    layout = Layout(names, selection, place)

    def batches(size: int) -> Iterator[Batch]:
        try:
            with connected() as connection:
                reader = connection.sql(query).to_arrow_reader(size)
                layout.check(reader.schema)
                yield from stream_of(layout, reader)
        except duckdb.Error as error:
            raise SourceError(f"{place}: {first_line(error)}") from None

    return Source(batches, names=layout.numbers, grouped=layout.group is not None)


# -- PostgreSQL ------------------------------------------------------------------------------------


@register(rank=0)
def open_url(data: Any, selection: Selection) -> Source | None:
    """``postgresql://user@host/database`` or ``duckdb:`` (in memory, e.g. to query Parquet files)."""
    if not isinstance(data, str) or not _URL.match(data):
        return None
    if data.startswith("duckdb:"):
        selection.refuse("a database URL", "format")
        return _duckdb_path(data.removeprefix("duckdb:"), selection)
    psycopg = optional("psycopg", "postgres", "a PostgreSQL query")
    selection.refuse("a database URL", "format")
    place = re.sub(r"//([^:/@]*):[^@]*@", r"//\1@", data)  # no passwords in messages

    @contextmanager
    def connected() -> Iterator[Any]:
        try:
            connection = psycopg.connect(data, connect_timeout=10)
        except psycopg.Error as error:
            raise SourceError(f"{place}: no connection: {first_line(error)}") from None
        try:
            connection.read_only = True
            yield connection
        finally:
            # even a transaction that is read-only can write large objects: nothing of it stays
            with suppress(psycopg.Error):
                connection.rollback()
            connection.close()

    return _postgres(psycopg, connected, selection, place)


@register(rank=0)
def open_postgres_connection(data: Any, selection: Selection) -> Source | None:
    """A psycopg connection, read through a server-side cursor."""
    if library_of(data) != "psycopg" or not hasattr(data, "cursor"):
        return None
    psycopg = optional("psycopg", "postgres", "a PostgreSQL query")

    @contextmanager
    def connected() -> Iterator[Any]:
        # inside a transaction of the caller's this is a savepoint: what the caller did stays, what the query did goes
        with data.transaction(force_rollback=True):
            data.execute("SET TRANSACTION READ ONLY")
            yield data

    return _postgres(psycopg, connected, selection, "the PostgreSQL connection")


def _postgres(
    psycopg: Any, connected: Callable[[], AbstractContextManager[Any]], selection: Selection, place: str
) -> Source:
    query = _query(selection, place)
    try:
        # binary results come by a protocol that takes one statement at a time: none can hide behind a closing bracket
        with connected() as connection, connection.cursor(binary=True) as cursor:
            cursor.execute(f"SELECT * FROM ({query}\n) AS q LIMIT 0")
            names = [c.name for c in cursor.description]
    except psycopg.Error as error:
        raise SourceError(f"{place}: {first_line(error)}") from None
    layout = Layout(names, selection, place)

    def batches(size: int) -> Iterator[Batch]:
        try:
            # binary: a real comes as the float it is and not as its shortest text
            with connected() as connection, connection.cursor("sketchlearn", binary=True) as cursor:
                cursor.itersize = size
                cursor.execute(query)
                while rows := cursor.fetchmany(size):
                    yield layout.tuples(names, rows)
        except psycopg.Error as error:
            raise SourceError(f"{place}: {first_line(error)}") from None

    return Source(batches, names=layout.numbers, grouped=layout.group is not None)
