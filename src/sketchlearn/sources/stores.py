"""Arrays on disk: .npy files, HDF5 and Zarr.

A file holds arrays by name (a .npy file one without a name).  The rows are a 2-D array, a structured array whose
fields are the columns, or 1-D arrays of equal length side by side; weights, groups and conditions may also be about
1-D arrays next to a 2-D one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sketchlearn.arrays import AnyArray, as_real
from sketchlearn.exceptions import SourceError
from sketchlearn.optional import optional
from sketchlearn.sources.arrays import by_column, group_name, numbers_as_names, open_array, pick
from sketchlearn.sources.base import Batch, Part, Source, library_of, register
from sketchlearn.sources.columns import Layout
from sketchlearn.sources.paths import Files, identity, reading, register_format
from sketchlearn.sources.remote import RemoteArray, is_folder, is_remote, open_remote, zarr_store
from sketchlearn.sources.rows import Beside, of_rows, record_batch
from sketchlearn.sources.selection import Selection

_MOST_BYTES = 2**27  # of a block; chunks on disk may be larger
_Opened = Callable[[], AbstractContextManager[Mapping[str, Any]]]


class Shape(NamedTuple):
    """What is known about an array without reading it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def numeric(self) -> bool:
        return self.dtype.kind in "fiub"


@register_format("npy", ".npy")
def open_npy(files: Files, selection: Selection) -> Source:
    """Memory-mapped; one file is as fast as an array in memory."""
    selection.refuse(".npy files", "query", "dataset")
    maps = []
    for path in files.paths:
        with reading(path, "a .npy file"):
            try:
                array = RemoteArray(path, open_remote(path)) if is_remote(path) else _mapped(path)
            except ValueError as error:
                raise SourceError(f"{path}: can't be read as a .npy file: {error}") from None
            if not array.dtype.names:
                _checked(array, path)
            maps.append(array)
    if len(maps) == 1 and not is_remote(files.paths[0]):
        source = open_array(maps[0], replace(selection, format=None))
        assert source is not None
        # views of one map in this process; another process maps the file itself
        batches = _NpyFile(files.paths[0], replace(selection, format=None), source.batches)
        part = Part(files.short(files.paths[0]), batches, source.length, identity(files.paths[0]))
        return replace(source, parts=(part,))
    if selection.group_by is not None and not isinstance(selection.group_by, str | int):
        selection.refuse("several .npy files; group by a column, or sketch one file at a time", "group_by")
    return _of_files(
        files, [_Npy(path) for path in files.paths], [{"": Shape(a.shape, a.dtype)} for a in maps], selection
    )


@register_format("hdf5", ".h5", ".hdf5", ".hdf")
def open_hdf5(files: Files, selection: Selection) -> Source:
    """One 2-D or compound dataset, found by itself if there is only one, or 1-D datasets by name."""
    h5py = optional("h5py", "hdf5", "reading HDF5")
    selection.refuse("HDF5", "query")
    shapes = []
    for path in files.paths:
        found: dict[str, Shape] = {}
        with reading(path, "HDF5"), h5py.File(_hdf5_place(path), "r") as file:
            file.visititems(
                lambda n, o, f=found: f.update({n: Shape(o.shape, o.dtype)}) if getattr(o, "ndim", 0) else None
            )
        shapes.append(found)
    return _of_files(files, [_Hdf5(path) for path in files.paths], shapes, selection)


@register_format("zarr", ".zarr")
def open_zarr(files: Files, selection: Selection) -> Source:
    """One 2-D array, found by itself if there is only one, or 1-D arrays by name."""
    zarr = optional("zarr", "zarr", "reading Zarr")
    selection.refuse("Zarr", "query")
    opened: list[_Opened] = []
    shapes = []
    for path in files.paths:
        with reading(path, "Zarr"):
            store = zarr.open(_zarr_place(path), mode="r")
            if hasattr(store, "ndim"):
                selection.refuse("a Zarr store that is a single array", "dataset")
                arrays = {"": store}
            else:
                arrays = dict(store.arrays())
            shapes.append({n: Shape(a.shape, np.dtype(a.dtype)) for n, a in arrays.items()})
        opened.append(_Zarr(path))
    return _of_files(files, opened, shapes, selection)


@register(rank=0)
def open_stored_array(data: Any, selection: Selection) -> Source | None:
    """An h5py dataset or a Zarr array: read in slices, never as a whole."""
    if library_of(data) not in ("h5py", "zarr") or not hasattr(data, "ndim"):
        return None
    selection.refuse("an array on disk", "query", "format", "dataset")
    shape = Shape(data.shape, np.dtype(data.dtype))
    if not shape.dtype.names:
        _checked(shape, type(data).__name__)
    return _source({"": shape}, _Always({"": data}), selection, "the array")


def _of_files(files: Files, opened: list[_Opened], shapes: list[dict[str, Shape]], selection: Selection) -> Source:
    parts = []
    first: Source | None = None
    for path, opener, found in zip(files.paths, opened, shapes, strict=True):
        source = _source(found, opener, selection, path)
        first = first or source
        if source.names != first.names:
            raise ValueError(f"{path} and {files.paths[0]} have different columns: choose columns that all files have")
        mark = identity(path) if Path(path).is_file() or (is_remote(path) and not is_folder(path)) else None
        parts.append(Part(files.short(path), source.batches, source.length, mark))
    assert first is not None
    return Source.of_parts(parts, first.names, first.grouped)


def _source(shapes: dict[str, Shape], opened: _Opened, selection: Selection, place: str) -> Source:
    """The rows of one file."""
    main = _main(shapes, selection, place)
    if main is not None and not shapes[main].dtype.names:
        width = _checked(shapes[main], f"{place}/{main}".rstrip("/")).shape[1]
        chosen = numbers_as_names(selection, width)
        if not by_column(chosen):
            return _plain(main, shapes[main].shape[0], opened, selection, place)
        names = [str(i) for i in range(width)]
        beside = [n for n, s in shapes.items() if s.shape == shapes[main].shape[:1]]
        table = _columns_of(main, opened, chosen, [*names, *beside], place)
        source = of_rows(table, shapes[main].shape[0], chosen, place, [*names, *beside], optional=beside)
        return replace(source, names=None)
    if main is not None:
        names, rows = list(shapes[main].dtype.names or ()), shapes[main].shape[0]
    else:
        names, rows = _side_by_side(shapes, selection, place)
    table = _columns_of(main, opened, selection, names, place)
    return of_rows(table, rows, selection, place, names)


def _main(shapes: dict[str, Shape], selection: Selection, place: str) -> str | None:
    """The array that holds the rows; None if 1-D arrays side by side do."""
    wanted = selection.dataset
    if wanted is not None:
        wanted = wanted.strip("/")
        if wanted in shapes and (len(shapes[wanted].shape) == 2 or shapes[wanted].dtype.names):
            return wanted
        flat = _two_dimensional(shapes)
        hint = f"; {wanted!r} has one dimension, choose such arrays with columns" if wanted in shapes else ""
        raise ValueError(f"{place} has no two-dimensional dataset {wanted!r}; it has {', '.join(flat) or 'none'}{hint}")
    named = [c for c in selection.columns or () if isinstance(c, str) and c.strip("/") in shapes]
    if named and len(named) == len(selection.columns or ()):
        return None
    found = _two_dimensional(shapes) or [n for n, s in shapes.items() if s.dtype.names]
    if len(found) == 1:
        return found[0]
    flat = [n for n, s in shapes.items() if len(s.shape) == 1 and s.numeric]
    if not found and flat:
        return None
    raise ValueError(
        f"{place} has {len(found)} two-dimensional datasets"
        + (f" ({', '.join(found[:8])}): choose one with dataset=" if found else "")
    )


def _two_dimensional(shapes: dict[str, Shape]) -> list[str]:
    return sorted(n for n, s in shapes.items() if len(s.shape) == 2)


def _side_by_side(shapes: dict[str, Shape], selection: Selection, place: str) -> tuple[list[str], int]:
    """Names of the 1-D arrays that can be columns, and their length."""
    flat = {n: s.shape[0] for n, s in shapes.items() if len(s.shape) == 1 and not s.dtype.names}
    needed = [str(c).strip("/") for c in selection.columns or flat]
    for name in needed:
        if name in flat and flat[name] != flat[needed[0]]:
            raise ValueError(
                f"{place}: {needed[0]!r} has {flat[needed[0]]} rows and {name!r} has {flat[name]}: they can't be "
                "columns of one table; choose others with columns"
            )
    rows = flat[needed[0]] if needed and needed[0] in flat else 0
    return [n for n, length in flat.items() if length == rows], rows


def _columns_of(
    main: str | None, opened: _Opened, selection: Selection, names: list[str], place: str
) -> Callable[[int, int], Any]:
    """Rows `start` to `stop` of the columns that are needed."""
    group = group_name(selection)
    return _Columns(main, opened, Layout(names, replace(selection, group_by=group), place).needed, group, place)


@dataclass(frozen=True)
class _Columns:
    """Columns of arrays as Arrow tables."""

    main: str | None
    opened: _Opened
    needed: list[str]
    group: str | None
    place: str

    def __call__(self, start: int, stop: int) -> Any:
        with reading(self.place, "an array"), self.opened() as arrays:
            columns: dict[str, AnyArray] = {}
            block = None if self.main is None else np.asarray(arrays[self.main][start:stop])
            for name in self.needed:
                if block is not None and block.dtype.names:
                    columns[name] = block[name]
                elif block is not None and name.isdecimal() and int(name) < block.shape[1]:
                    columns[name] = block[:, int(name)]
                else:
                    columns[name] = np.asarray(arrays[name][start:stop])
            return record_batch(columns, self.group)


def _plain(main: str, rows: int, opened: _Opened, selection: Selection, place: str) -> Source:
    """A 2-D array of numbers, in slices."""
    chosen = replace(selection, sample_weight=None, group_by=None, user=None)
    batches = _Slices(main, opened, chosen, place, Beside.of(selection, rows))
    return Source(batches, rows, grouped=selection.group_by is not None)


@dataclass(frozen=True)
class _Slices:
    """Batches of a 2-D array on disk."""

    main: str
    opened: _Opened
    selection: Selection
    place: str
    beside: Beside

    def __call__(self, size: int) -> Iterator[Batch]:
        with reading(self.place, "an array"), self.opened() as arrays:
            for i, block in _blocks(arrays[self.main], size):
                for j in range(0, len(block), size):
                    rows = as_real(pick(block[j : j + size], self.selection), self.place, self.selection.dtype)
                    yield self.beside.joined(Batch(rows), i + j)


def _blocks(array: Any, size: int) -> Iterator[tuple[int, AnyArray]]:
    """Whole chunks where they are not too large: none is decompressed twice."""
    chunk = (getattr(array, "chunks", None) or (1,))[0]
    bytes_of_row = max(1, int(np.prod(array.shape[1:])) * np.dtype(array.dtype).itemsize)
    step = min(max(1, size // chunk) * chunk, max(1, _MOST_BYTES // bytes_of_row))
    for i in range(0, array.shape[0], step):
        yield i, np.asarray(array[i : i + step])


class _NpyFile:
    """Batches of one .npy file; where it is sent, the path goes and not the rows."""

    def __init__(self, path: str, selection: Selection, batches: Callable[[int], Iterator[Batch]] | None) -> None:
        self._path, self._selection, self._batches = path, selection, batches

    def __call__(self, size: int) -> Iterator[Batch]:
        if self._batches is None:
            source = open_array(_mapped(self._path), self._selection)
            assert source is not None
            self._batches = source.batches
        return self._batches(size)

    def __reduce__(self) -> tuple[Any, ...]:
        return _NpyFile, (self._path, self._selection, None)


@dataclass(frozen=True)
class _Always:
    """Arrays that are open."""

    arrays: Mapping[str, Any]

    @contextmanager
    def __call__(self) -> Iterator[Mapping[str, Any]]:
        yield self.arrays


@dataclass(frozen=True)
class _Npy:
    """The array of a .npy file."""

    path: str

    @contextmanager
    def __call__(self) -> Iterator[Mapping[str, Any]]:
        if is_remote(self.path):
            with open_remote(self.path) as file:
                yield {"": RemoteArray(self.path, file)}
        else:
            yield {"": _mapped(self.path)}


@dataclass(frozen=True)
class _Hdf5:
    """The datasets of a file."""

    path: str

    @contextmanager
    def __call__(self) -> Iterator[Mapping[str, Any]]:
        with optional("h5py", "hdf5", "reading HDF5").File(_hdf5_place(self.path), "r") as file:
            yield file


@dataclass(frozen=True)
class _Zarr:
    """The arrays of a store."""

    path: str

    @contextmanager
    def __call__(self) -> Iterator[Mapping[str, Any]]:
        store = optional("zarr", "zarr", "reading Zarr").open(_zarr_place(self.path), mode="r")
        yield {"": store} if hasattr(store, "ndim") else dict(store.arrays())


def _mapped(path: str) -> AnyArray:
    array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _hdf5_place(path: str) -> Any:
    return open_remote(path) if is_remote(path) else path


def _zarr_place(path: str) -> Any:
    return zarr_store(path) if is_remote(path) else path


def _checked(array: Any, place: str) -> Any:
    if len(array.shape) != 2:
        raise ValueError(f"{place} must have two dimensions (rows, columns), got shape {array.shape}")
    if np.dtype(array.dtype).kind not in "fiub":
        raise ValueError(f"{place} must hold real numbers, got dtype {array.dtype}")
    return array
