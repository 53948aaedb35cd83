"""Arrays on disk: .npy files, HDF5 and Zarr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sketchlearn.exceptions import SourceError
from sketchlearn.optional import optional
from sketchlearn.sources.arrays import open_array, pick
from sketchlearn.sources.base import Batch, Part, Selection, Source, as_real, register
from sketchlearn.sources.paths import Files, identity, reading, register_format


@register_format("npy", ".npy")
def open_npy(files: Files, selection: Selection) -> Source:
    """Memory-mapped; one file is as fast as an array in memory."""
    selection.refuse(".npy files", "query", "dataset", "weight_column", "where")
    maps = []
    for path in files.paths:
        with reading(path, "a .npy file"):
            try:
                array = np.load(path, mmap_mode="r", allow_pickle=False)
            except ValueError as error:
                raise SourceError(f"{path}: can't be read as a .npy file: {error}") from None
            maps.append(_checked(array, path))
    if len(maps) == 1:
        source = open_array(maps[0], Selection(**{**vars(selection), "format": None}))
        assert source is not None
        part = Part(Path(files.paths[0]).name, source.batches, source.length, identity(files.paths[0]))
        return Source(source.batches, source.length, True, source.release, labels=source.labels, parts=(part,))
    selection.refuse("several .npy files", "group_by")
    return Source.of_parts(
        [
            Part(Path(path).name, _slices(_opened(array), selection, path), len(array), identity(path))
            for path, array in zip(files.paths, maps, strict=True)
        ]
    )


@register_format("hdf5", ".h5", ".hdf5", ".hdf")
def open_hdf5(files: Files, selection: Selection) -> Source:
    """One 2-D dataset, found by itself if there is only one."""
    h5py = optional("h5py", "hdf5", "reading HDF5")
    selection.refuse("HDF5", "query", "weight_column", "group_by", "where")
    parts = []
    for path in files.paths:
        with reading(path, "HDF5"), h5py.File(path, "r") as file:
            tables: list[str] = []
            file.visititems(lambda n, o, t=tables: t.append(n) if getattr(o, "ndim", 0) == 2 else None)
            name = _the_one(tables, selection.dataset, path)
            rows = len(_checked(file[name], f"{path}/{name}"))
        parts.append(Part(Path(path).name, _slices(_hdf5(h5py, path, name), selection, path), rows, identity(path)))
    return Source.of_parts(parts)


@register_format("zarr", ".zarr")
def open_zarr(files: Files, selection: Selection) -> Source:
    """One 2-D array, found by itself if there is only one."""
    zarr = optional("zarr", "zarr", "reading Zarr")
    selection.refuse("Zarr", "query", "weight_column", "group_by", "where")
    parts = []
    for path in files.paths:
        with reading(path, "Zarr"):
            store = zarr.open(path, mode="r")
            if hasattr(store, "ndim"):
                selection.refuse("a Zarr store that is a single array", "dataset")
                array = store
            else:
                names = sorted(n for n, a in store.arrays() if a.ndim == 2)
                array = store[_the_one(names, selection.dataset, path)]
            rows = _checked(array, path).shape[0]
        parts.append(Part(Path(path).name, _slices(_opened(array), selection, path), rows))
    return Source.of_parts(parts)


@register(rank=0)
def open_stored_array(data: Any, selection: Selection) -> Source | None:
    """An h5py dataset or a Zarr array: read in slices, never as a whole."""
    if type(data).__module__.partition(".")[0] not in ("h5py", "zarr") or not hasattr(data, "ndim"):
        return None
    selection.refuse(
        "an array on disk", "query", "weight_column", "group_by", "where", "format", "dataset", "sample_weight"
    )
    array = _checked(data, type(data).__name__)
    return Source.of_parts([Part("", _slices(_opened(array), selection, "the array"), array.shape[0])])


def _opened(array: Any) -> Callable[[], AbstractContextManager[Any]]:
    @contextmanager
    def opened() -> Iterator[Any]:
        yield array

    return opened


def _hdf5(h5py: Any, path: str, name: str) -> Callable[[], AbstractContextManager[Any]]:
    @contextmanager
    def opened() -> Iterator[Any]:
        with h5py.File(path, "r") as file:
            yield file[name]

    return opened


def _slices(
    opened: Callable[[], AbstractContextManager[Any]], selection: Selection, place: str
) -> Callable[[int], Iterator[Batch]]:
    def batches(size: int) -> Iterator[Batch]:
        with reading(place, "an array"), opened() as array:
            chunk = (getattr(array, "chunks", None) or (1,))[0]
            step = max(1, size // chunk) * chunk  # whole chunks: none is decompressed twice
            for i in range(0, array.shape[0], step):
                yield Batch(as_real(pick(np.asarray(array[i : i + step]), selection), place, selection.dtype))

    return batches


def _checked(array: Any, place: str) -> Any:
    if array.ndim != 2:
        raise ValueError(f"{place} must have two dimensions (rows, columns), got shape {array.shape}")
    if np.dtype(array.dtype).kind not in "fiub":
        raise ValueError(f"{place} must hold real numbers, got dtype {array.dtype}")
    return array


def _the_one(names: list[str], wanted: str | None, path: str) -> str:
    if wanted is not None:
        if wanted.strip("/") not in names:
            raise ValueError(f"{path} has no two-dimensional dataset {wanted!r}; it has {', '.join(names) or 'none'}")
        return wanted.strip("/")
    if len(names) != 1:
        raise ValueError(
            f"{path} has {len(names)} two-dimensional datasets"
            + (f" ({', '.join(names[:8])}): choose one with dataset=" if names else "")
        )
    return names[0]
