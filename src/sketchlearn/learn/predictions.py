"""What a model says about the rows of any source, batch by batch, in their order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from sketchlearn.arrays import AnyArray, RowError
from sketchlearn.models.base import Model
from sketchlearn.optional import optional
from sketchlearn.sources import Batch, Selection, Source, open_source
from sketchlearn.threads import single_blas_thread

_ROWS = 2**16  # of a batch
_GROUP = 2**20  # rows of a row group that is written
_MARK = {b"sketchlearn": b"predictions"}  # tells a file of ours, which may be replaced


def predictions(
    model: Model, data: Any, *, proba: bool = False, id_column: str | int | None = None, **options: Any
) -> Iterator[dict[str, Any]]:
    """Batches of predictions for the rows of any source, in their order and with bounded memory.

    `model`: of any task that predicts: clusters, mixtures, principal components, regressions. `data`: rows, as for
    :func:`sketchlearn.read`. `proba`: probabilities of the components too, of models that have them. `id_column`: A
    column that is carried along. `**options`: of :func:`sketchlearn.read`: `columns`, `where`, `query` and others.

    Yields arrays by name; rows with NaN or infinity are masked: the order of the rows is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchlearn.models import ClusterModel
    >>> from sketchlearn.learn.predictions import predictions
    >>> model = ClusterModel(rows=10, columns=("x",), centers=np.array([[0.0], [4.0]]), weights=np.array([0.5, 0.5]))
    >>> [batch["cluster"].tolist() for batch in predictions(model, np.array([[3.0], [np.nan]]))]
    [[1, None]]
    """
    names, projection = model.inputs if model.named else None, model.projection
    if projection is not None:
        names = projection.columns
    source = open_source(data, Selection.of(group_by=id_column, expected=names, encoder=model.encoder, **options))
    if projection is not None:
        if names is not None and source.names is not None and source.names != names:
            raise ValueError(f"the model needs the columns {', '.join(names[:8])}, ... in this order")
        source = source.map(projection, projection.names)
    return _labelled(model, source, proba, None if id_column is None else str(id_column))


def _labelled(model: Model, source: Source, proba: bool, name: str | None) -> Iterator[dict[str, Any]]:
    reading = source.stream(_ROWS)
    workers = min(4, os.cpu_count() or 1)
    waiting: deque[Future[dict[str, Any]]] = deque()
    with single_blas_thread, ThreadPoolExecutor(workers) as pool:  # one thread per batch is enough
        try:
            for batch in reading:
                _check_width(model, source, batch)
                waiting.append(pool.submit(_answers, model, batch, proba, name))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except RowError as error:
            raise error.placed(reading.place) from None
        finally:
            for future in waiting:
                future.cancel()
            reading.close()


def _check_width(model: Model, source: Source, batch: Batch) -> None:
    have, want = batch.rows.shape[1], len(model.inputs)
    if have != want:
        raise ValueError(f"the model needs {want} columns, the data has {have}: choose as many with columns")
    if model.named and source.names is not None and len(source.names) == have and source.names != model.inputs:
        raise ValueError(
            f"the model needs the columns {', '.join(model.inputs[:8])} in this order, got "
            f"{', '.join(source.names[:8])}"
        )


def _answers(model: Model, batch: Batch, proba: bool, name: str | None) -> dict[str, Any]:
    rows = np.asarray(batch.rows, np.float64)
    # a sum is finite where all entries are, but for the rare overflow: looked at closely only then
    with np.errstate(invalid="ignore", over="ignore"):
        good = np.isfinite(rows.sum(1))
    if not good.all():
        good = np.isfinite(rows).all(1)
    found: dict[str, Any] = {}
    if name is not None:
        labels = np.array([*(batch.labels or ()), None], object)[:-1]
        found[name] = labels[batch.groups].tolist()
    safe = rows if good.all() else np.where(good[:, None], rows, 0.0)
    for key, values in model.answers(safe, proba).items():
        # of a column that is carried along and is predicted too, both are wanted
        found[f"predicted {key}" if key in found else key] = values if good.all() else np.ma.array(values, mask=~good)
    return found


def arrow_table(found: dict[str, Any]) -> Any:
    """A batch of predictions as an Arrow table; what is masked is null."""
    pa = optional("pyarrow", "files", "a table of predictions")
    return pa.table({name: _arrow_array(pa, values) for name, values in found.items()})


def _arrow_array(pa: Any, values: AnyArray | list[Any]) -> Any:
    if isinstance(values, np.ma.MaskedArray):
        return pa.array(np.ma.getdata(values), mask=np.ma.getmaskarray(values))
    return pa.array(values)


class PredictionWriter:
    """Writes batches of predictions to an open binary file, as Parquet or CSV.

    `file`: open for writing. `kind`: format.
    """

    def __init__(self, file: Any, kind: str) -> None:
        self.rows = self.invalid = 0
        self._file, self._kind = file, kind
        self._writer: Any = None
        self._waiting: list[Any] = []

    def write(self, found: dict[str, Any]) -> None:
        """Add a batch."""
        table = arrow_table(found)
        self.rows += table.num_rows
        self.invalid += table.column(table.num_columns - 1).null_count
        if self._writer is None:
            self._open(table.schema)
        self._waiting.append(table)
        if sum(t.num_rows for t in self._waiting) >= _GROUP:
            self._flush()

    def close(self) -> None:
        """Write what is left; a file without rows is an error, for its columns are not known."""
        if self._writer is None:
            raise ValueError("there are no rows to predict for")
        self._flush()
        self._writer.close()

    def _open(self, schema: Any) -> None:
        import pyarrow.csv as csv
        import pyarrow.parquet as pq

        if self._kind == "csv":
            self._writer = csv.CSVWriter(self._file, schema, write_options=csv.WriteOptions(quoting_style="needed"))
        else:
            self._writer = pq.ParquetWriter(self._file, schema.with_metadata(_MARK))
        self._schema = schema

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting:
            # an identifier may be whole numbers in one batch and nulls in the next
            tables = [t.cast(self._schema) for t in self._waiting]
            table = pa.concat_tables(tables).combine_chunks()
            self._writer.write_table(table.replace_schema_metadata(_MARK if self._kind == "parquet" else None))
            self._waiting = []
