"""``sketchlearn spectral``: cluster a graph, or rows through their nearest neighbours."""

from __future__ import annotations

import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sketchlearn.cli.options import Json, Seed, option, verb
from sketchlearn.cli.outputs import check_output, emit, usage, working, write_bytes, writing

_KINDS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv"}
_ROWS = 65536  # written at a time
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, EOFError, RuntimeError),  # (RuntimeError: versions and ciphers of archives)
    *(ValueError, KeyError, TypeError, IndexError, AttributeError),
)


@verb("spectral rows.parquet -k 5 -o model.json --labels labels.csv", "spectral graph.npz -k 5 -o model.json")
def spectral(
    data: Annotated[
        list[str],
        typer.Argument(help="Rows: files, globs, folders, a database URL or -. Or a graph: .npz of scipy.sparse."),
    ],
    k: Annotated[int, option("Number of clusters.", "-k", "--clusters", min=1)],
    output: Annotated[str, option("Where to write the model (JSON).", "-o", "--output")],
    labels: Annotated[str | None, option("Where to write the cluster of each row: .parquet or .csv.")] = None,
    nodes: Annotated[str | None, option("Where to write the embedded nodes: .parquet or .csv.")] = None,
    sketch: Annotated[str | None, option("Where to write the sketch of the embedded nodes.")] = None,
    neighbors: Annotated[
        int | None, option("Number of nearest rows to join each row with; 10 by default.", min=1)
    ] = None,
    method: Annotated[Literal["eigenvectors", "signals"], option("Coordinates of the nodes.")] = "eigenvectors",
    components: Annotated[
        int | None, option("Number of eigenvectors, by default one per cluster; or of signals.", min=1)
    ] = None,
    decoder: Annotated[
        Literal["auto", "rows"], option("Cluster a sketch of the embedded nodes, or all of them (rows).")
    ] = "auto",
    seed: Seed = 0,
    id_column: Annotated[str | None, option("Column to copy to the labels.", "--id")] = None,
    *,
    reading: dict[str, Any],
    as_json: Json = False,
) -> None:
    """Cluster the nodes of a graph by its eigenvectors. Rows are joined to their nearest neighbours.

    The whole graph must fit in memory. For many clusters, use --method signals --decoder rows.
    """
    if output == "-":
        raise usage("-o needs the name of a file")
    if id_column is not None and labels is None:
        raise usage("--id is copied to the labels: say where with --labels")
    tables = {path: _kind(path) for path in (labels, nodes) if path is not None}
    outputs = [path for path in (output, labels, nodes, sketch) if path is not None]
    for path in outputs:
        check_output(path, *data)
    if sketch is not None and decoder == "rows":
        raise usage("--decoder rows makes no sketch: leave out --sketch")
    if len({Path(path).resolve() for path in outputs}) < len(outputs):
        raise usage("two outputs have the same name")
    is_graph = any(Path(path).suffix.lower() == ".npz" for path in data)
    if is_graph:
        if len(data) > 1:
            raise usage("give only one file if it is a graph (.npz)")
        if id_column is not None or any(value is not None for value in reading.values()):
            raise usage("a graph (.npz) has no columns: leave out --id, --columns and other options of rows")
        if neighbors is not None:
            raise usage("--neighbors joins rows, and a graph (.npz) says which nodes are joined: leave it out")
    from sklearn.exceptions import ConvergenceWarning

    from sketchlearn.learn import CompressiveSpectralClustering

    with working("reading"):
        given, names = (_graph(data[0]), None) if is_graph else _rows(data, id_column, reading)
    estimator = CompressiveSpectralClustering(
        k,
        affinity="precomputed" if is_graph else "nearest_neighbors",
        n_neighbors=10 if neighbors is None else neighbors,
        method=method,
        n_components=components,
        decoder=decoder,
        random_state=seed,
    )
    with working(f"looking for {k} clusters"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the verdict says it
        found = estimator.fit(given)
    model = found.to_model()
    if labels is not None:
        table: dict[str, Any] = {} if id_column is None else {id_column: names}
        _table(labels, tables[labels], table | {"cluster": found.labels_})
    if nodes is not None:
        _table(nodes, tables[nodes], dict(zip(model.columns, found.embedding_.T, strict=True)))
    if sketch is not None:
        write_bytes(sketch, found.sketch_.to_bytes())
    write_bytes(output, model.to_json().encode())  # the last one: where it is, all are
    facts = {name: path for name, path in (("labels", labels), ("nodes", nodes), ("sketch", sketch)) if path}
    line = f"{output}: {model.headline}. {found.verdict_}"
    emit({"output": output, **facts, "task": model.task, **model.summary()}, as_json, line)


def _kind(path: str) -> str:
    kind = _KINDS.get(Path(path).suffix.lower())
    if kind is None:
        raise usage(f"{path}: tables are .parquet or .csv; give the output such a suffix")
    return kind


def _graph(path: str) -> Any:
    """A sparse matrix that ``scipy.sparse.save_npz`` wrote, with places that are within it."""
    import numpy as np
    from scipy.sparse import load_npz

    from sketchlearn.exceptions import SourceError

    try:
        found: Any = load_npz(path)
        if hasattr(found, "check_format"):
            found.check_format(full_check=True)  # compiled loops trust it
        graph = found.tocsr()
    except _BROKEN:
        raise SourceError(f"{path}: is not a sparse matrix written by scipy.sparse.save_npz") from None
    if not np.issubdtype(graph.dtype, np.number) or not np.isfinite(graph.data).all():
        raise SourceError(f"{path}: a graph has finite numbers as weights")
    return graph


def _rows(data: list[str], id_column: str | None, options: dict[str, Any]) -> tuple[Any, list[Any] | None]:
    """All rows, and a name for each of them if there is a column for that."""
    import numpy as np

    from sketchlearn.arrays import RowError
    from sketchlearn.sources import read

    given: Any = sys.stdin.buffer if data == ["-"] else data if len(data) > 1 else data[0]
    source = read(given, group_by=id_column, **options)
    reading = source.stream(_ROWS)
    parts, names, seen = [], [], 0
    try:
        for batch in reading:
            good = np.isfinite(batch.rows).all(1)
            if not good.all():
                row = seen + int(good.argmin())
                raise RowError("it holds NaN or infinity, leave such rows out with --where or clean the data", row)
            parts.append(batch.rows)
            seen += len(batch.rows)
            if id_column is not None:
                kept = np.array([*(batch.labels or ()), None], object)[:-1]
                names += kept[batch.groups].tolist()
    except RowError as error:
        raise error.placed(reading.place) from None
    finally:
        reading.close()
    if not parts:
        raise ValueError("there are no rows in the data")
    return np.concatenate(parts), names if id_column is not None else None


def _table(path: str, kind: str, columns: dict[str, Any]) -> None:
    """Write columns of as many rows."""
    from sketchlearn.files import whole
    from sketchlearn.learn.predictions import PredictionWriter

    with writing(path), whole(path) as file:
        writer = PredictionWriter(file, kind)
        for batch in _batches(columns):
            writer.write(batch)
        writer.close()


def _batches(columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    rows = len(next(iter(columns.values())))
    for i in range(0, rows, _ROWS):
        yield {name: values[i : i + _ROWS] for name, values in columns.items()}
