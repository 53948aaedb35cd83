"""A store in a DuckDB file: one process writes at a time, others wait for it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sketchlearn.exceptions import SketchFileError
from sketchlearn.files import LockedError
from sketchlearn.optional import optional
from sketchlearn.store import schema
from sketchlearn.store.backend import BATCH, Backend, Session
from sketchlearn.store.cells import MISSING, Cells, times
from sketchlearn.store.packing import Packed

_ROW_GROUP = 2048  # cells: an append rewrites the last row group, so it must not be large
_PAUSE = 0.05  # seconds between two attempts to open a file that another process has open
_guards: dict[str, threading.RLock] = {}


class DuckSession(Session):
    """A transaction of DuckDB."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement."""
        return self.connection.execute(statement, list(values)).fetchall()

    def cells(self, condition: str, values: Sequence[Any]) -> Iterator[Cells]:
        """Cells as Arrow batches."""
        columns = ", ".join(schema.CELL_COLUMNS[1:])
        found = self.connection.sql(f"SELECT {columns} FROM cells WHERE {condition}", params=list(values))
        for batch in found.to_arrow_reader(BATCH):
            if batch.num_rows:
                yield _cells(batch)

    def append(self, dataset: int, cells: Cells) -> None:
        """Add cells through Arrow."""
        pa = optional("pyarrow", "store", "a store of sketches")
        n = len(cells)
        box = np.ascontiguousarray(cells.box, "<f8").reshape(n, -1)
        table = pa.table(
            {
                "dataset": pa.array(np.full(n, dataset, np.int32)),
                "start": pa.array(cells.start, mask=cells.start == MISSING),
                "stop": pa.array(cells.stop, mask=cells.stop == MISSING),
                "label": pa.array(cells.label.astype(np.int32)),
                "source": pa.array(np.ascontiguousarray(cells.source).astype(np.int32)),
                "weight": pa.array(cells.weight),
                "weight_bits": pa.array(cells.weight_bits.astype(np.int32)),
                "squared": pa.array(cells.squared, pa.string()),
                "skipped": pa.array(cells.skipped),
                "noise": pa.array(cells.noise),
                "privacy": pa.array(cells.privacy, pa.string()),
                "box": _binary(pa, np.frombuffer(box.tobytes(), np.uint8), np.arange(n + 1) * (8 * box.shape[1])),
                "sums": _binary(pa, cells.sums.data, cells.sums.offsets),
            }
        )
        self.connection.register("added_cells", table)
        try:
            self.connection.execute("INSERT INTO cells SELECT * FROM added_cells")
        finally:
            self.connection.unregister("added_cells")


def _binary(pa: Any, data: Any, offsets: Any) -> Any:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int64)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _packed(pa: Any, column: Any) -> Packed:
    column = column.cast(pa.large_binary())
    buffers, n = column.buffers(), len(column)
    offsets = np.frombuffer(buffers[1], np.int64, n + 1, offset=8 * column.offset)
    data = np.frombuffer(buffers[2], np.uint8)[offsets[0] : offsets[-1]]
    return Packed(data, offsets - offsets[0])


def _cells(batch: Any) -> Cells:
    pa = optional("pyarrow", "store", "a store of sketches")

    def ints(name: str) -> Any:
        return batch.column(name).cast(pa.int64()).to_numpy(zero_copy_only=False)

    def moments_of(name: str) -> Any:
        column = batch.column(name)
        return ints(name) if not column.null_count else times(column.to_pylist())

    def texts(name: str) -> list[str | None]:
        column = batch.column(name)
        return [None] * len(column) if column.null_count == len(column) else column.to_pylist()

    n = batch.num_rows
    box = np.frombuffer(_packed(pa, batch.column("box")).data.tobytes(), "<f8").reshape(n, 2, -1)
    return Cells(
        start=moments_of("start"), stop=moments_of("stop"), label=ints("label"), source=ints("source"),
        weight=ints("weight"), weight_bits=ints("weight_bits"), squared=texts("squared"), skipped=ints("skipped"),
        noise=batch.column("noise").to_numpy(zero_copy_only=False), privacy=texts("privacy"), box=box,
        sums=_packed(pa, batch.column("sums")),
    )  # fmt: skip


class DuckBackend(Backend):
    """A DuckDB file, opened for each transaction: between them other processes can have it.

    `path`: the file, made if it isn't there; ``":memory:"`` for none. `wait`: seconds to wait for another process that
    has the file open.
    """

    noise_type = "BYTEA USING COMPRESSION uncompressed"  # trying to compress them takes six times longer than writing

    def __init__(self, path: str, wait: float = 60.0) -> None:
        self.duckdb = optional("duckdb", "store", "a store of sketches")
        self.place, self.wait = path, wait
        self._memory = self.duckdb.connect(":memory:") if path == ":memory:" else None
        self._guard = (
            threading.RLock()
            if self._memory is not None
            else _guards.setdefault(os.path.realpath(path), threading.RLock())
        )

    @contextmanager
    def _session(self, write: bool) -> Iterator[Session]:
        with self._guard:
            connection = self._memory.cursor() if self._memory is not None else self._opened(write)
            try:
                connection.execute("BEGIN")
                try:
                    yield DuckSession(connection)
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
            finally:
                connection.close()

    def _opened(self, write: bool) -> Any:
        """A connection to the file; waits while another process has it."""
        if not write and not Path(self.place).exists():
            raise FileNotFoundError(2, "there is no store", self.place)
        end = time.monotonic() + self.wait
        mode = f"ROW_GROUP_SIZE {_ROW_GROUP}" if write else "READ_ONLY"
        while True:
            connection = self.duckdb.connect(":memory:")
            try:
                quoted = self.place.replace("'", "''")
                connection.execute(f"ATTACH '{quoted}' AS sketches ({mode})")
                connection.execute("USE sketches")
                return connection
            except self.duckdb.Error as error:
                connection.close()
                text = str(error)
                if "lock" not in text.lower():
                    raise SketchFileError(f"{self.place}: not a DuckDB file ({text.splitlines()[0]})") from None
                if time.monotonic() > end:
                    raise LockedError(
                        f"{self.place}: another process works on this store; it was not done after {self.wait:.0f} "
                        "seconds (a DuckDB file has one writer at a time, PostgreSQL has many)"
                    ) from None
                time.sleep(_PAUSE)

    def close(self) -> None:
        """Let go of a store in memory."""
        if self._memory is not None:
            self._memory.close()

    def tables(self, session: Session) -> set[str]:
        """Tables of the file."""
        found = session.rows("SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()")
        return {name for (name,) in found}

    def size(self) -> int:
        """Bytes of the file and of its log."""
        files = [Path(self.place), Path(self.place + ".wal")]
        return sum(file.stat().st_size for file in files if file.exists())
