"""Functions of SQL for a DuckDB connection: merge sketches, count rows, compare, predict.

They run in this process, called by DuckDB with vectors of values; the aggregate is DuckDB's own ``list`` followed by a
function of the list.  PostgreSQL has nothing like it for a client: there cells are bytes in a ``bytea`` column, and
merging happens where :class:`sketchlearn.Store` is (the query sends the selected cells over the wire).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.comparison import compare
from sketchlearn.optional import optional
from sketchlearn.sketches import Sketch, merge


def register_functions(connection: Any, **models: Any) -> Any:
    """Give a DuckDB connection functions of sketches.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        A connection; the functions live as long as it does.
    **models : fitted estimators or models
        Each becomes a function ``predict_<name>(list of numbers)``.

    Returns
    -------
    connection
        The same one, with

        - ``sketch_count(sketch)``: rows of a sketch (bytes of the .sketch format);
        - ``sketch_merge(list(sketch))``: the sketch of all rows;
        - ``sketch_distance(a, b)`` and ``sketch_p_value(a, b)``: of :func:`sketchlearn.compare`;
        - ``predict_<name>([x, y, ...])``: the label of a row.

    Examples
    --------
    >>> import duckdb, sketchlearn as sl
    >>> from sketchlearn.store.sql import register_functions
    >>> phi = sl.FourierFeatures.draw(dim=1, size=4, scale=1.0, seed=0)
    >>> c = register_functions(duckdb.connect())
    >>> _ = c.execute("CREATE TABLE days (sketch BLOB)")
    >>> for x in range(5):
    ...     _ = c.execute("INSERT INTO days VALUES (?)", [sl.sketch([[float(x)]], phi).to_bytes()])
    >>> c.execute("SELECT sketch_count(sketch_merge(list(sketch))) FROM days").fetchone()
    (5.0,)
    """
    optional("duckdb", "store", "functions of SQL")
    connection.create_function("sketch_count", _count, ["BLOB"], "DOUBLE")
    connection.create_function("sketch_merge", _merge, ["BLOB[]"], "BLOB")
    connection.create_function("sketch_distance", _distance, ["BLOB", "BLOB"], "DOUBLE")
    connection.create_function("sketch_p_value", _p_value, ["BLOB", "BLOB"], "DOUBLE")
    for name, model in models.items():

        def predict(row: list[float], chosen: Any = model) -> int:
            return int(chosen.predict(np.asarray([row], np.float64))[0])

        connection.create_function(f"predict_{name}", lambda row, f=predict: f(row), ["DOUBLE[]"], "BIGINT")
    return connection


def _count(data: bytes) -> float:
    return float(Sketch.from_bytes(data).count)


def _merge(parts: list[bytes]) -> bytes:
    return merge(Sketch.from_bytes(part) for part in parts).to_bytes()


def _distance(a: bytes, b: bytes) -> float:
    return compare(Sketch.from_bytes(a), Sketch.from_bytes(b)).distance


def _p_value(a: bytes, b: bytes) -> float:
    return compare(Sketch.from_bytes(a), Sketch.from_bytes(b)).p_value
