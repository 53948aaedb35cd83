"""Paths, globs, folders and open files: which files, in which order, of which format."""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import url2pathname

from sketchlearn.arrays import RowError
from sketchlearn.exceptions import DataWarning, InputError, MissingPackageError, Option, SourceError, warn
from sketchlearn.files import WriteError, is_full
from sketchlearn.sources.base import Batch, Source, register
from sketchlearn.sources.columns import first_line
from sketchlearn.sources.remote import find_remote, is_folder, is_remote, remote_identity
from sketchlearn.sources.selection import Selection

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}
_BEGINNINGS = {
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow IPC",
    b"\x89HDF": "HDF5",
    b"\x93NUMPY": "a .npy file",
    b"SQLite format 3": "an SQLite database",
    b"\x1f\x8b": "compressed with gzip (.gz)",
    b"BZh": "compressed with bzip2 (.bz2)",
    b"\x28\xb5\x2f\xfd": "compressed with zstd (.zst)",
    b"\xfd7zXZ": "compressed with xz (.xz)",
    b"PK\x03\x04": "a zip archive (or a workbook)",
    b"\xff\xfe": "in UTF-16: ",
    b"\xfe\xff": "in UTF-16: ",
    b"\x89SKETCH": "a sketch and not data",
}


class Files(NamedTuple):
    """Files of one format in the order in which they are read, and the folder they were found under."""

    paths: tuple[str, ...]
    root: str | None = None

    def short(self, path: str) -> str:
        """What messages call a file: its path below the folder that all files have in common."""
        if len(self.paths) == 1:
            return Path(path).name
        if is_remote(path):
            return path[len(posixpath.commonpath([posixpath.dirname(p) for p in self.paths])) :].lstrip("/")
        common = os.path.commonpath([os.path.abspath(Path(p).parent) for p in self.paths])  # noqa: PTH100
        return os.path.relpath(path, common)


Reader = Callable[[Files, Selection], Source]


class Format(NamedTuple):
    """A file format: its name, the suffixes that tell it, and how it is read."""

    name: str
    suffixes: tuple[str, ...]
    read: Reader
    read_stream: Callable[[Any, Selection], Source] | None = None


FORMATS: dict[str, Format] = {}


def register_format(
    name: str, *suffixes: str, stream: Callable[[Any, Selection], Source] | None = None
) -> Callable[[Reader], Reader]:
    """Add a file format; `stream` reads it from an open binary file that can't seek."""

    def add(reader: Reader) -> Reader:
        FORMATS[name] = Format(name, suffixes, reader, stream)
        return reader

    return add


@register(rank=1)
def open_path(data: Any, selection: Selection) -> Source | None:
    """A path, a glob, a folder, or a list of paths."""
    if isinstance(data, str | PathLike):
        given = [os.fspath(data)]
    elif isinstance(data, list | tuple) and data and all(isinstance(v, str | PathLike) for v in data):
        given = [os.fspath(v) for v in data]
    else:
        return None
    selection.refuse("files; put the weights in a column and use weight_column", "sample_weight")
    if not all(isinstance(v, str) for v in given):
        raise TypeError("paths must be text, not bytes")
    given = [str(Path(v).expanduser()) if v.startswith("~") else v for v in given]
    files = find_files(given, selection.format)
    pipes = []
    for path in files.paths:
        if is_remote(path):
            continue
        if not Path(path).exists():
            raise FileNotFoundError(f"{path}: there is no such file (a link that leads nowhere)")
        if not (Path(path).is_file() or Path(path).is_dir()):
            pipes.append(path)
    if pipes:
        return _open_pipe(pipes[0], files, selection)
    return FORMATS[format_of(files.paths, selection.format)].read(files, selection)


def _open_pipe(path: str, files: Files, selection: Selection) -> Source | None:
    """A named pipe or a device: it can be read once."""
    if len(files.paths) > 1:
        raise SourceError(f"{path} is a pipe or a device: read it alone")
    chosen = replace(selection, format=format_of(files.paths, selection.format))
    file = Path(path).open("rb")  # noqa: SIM115
    try:
        source = open_binary_file(file, chosen)
        assert source is not None
    except BaseException:
        file.close()
        raise
    stream = source.batches

    def batches(size: int) -> Iterator[Batch]:
        with file:
            yield from stream(size)

    return replace(source, batches=batches)


@register(rank=1)
def open_binary_file(data: Any, selection: Selection) -> Source | None:
    """A binary file that is open for reading, such as ``sys.stdin.buffer``."""
    if not (hasattr(data, "read") and hasattr(data, "readable")):
        return None
    selection.refuse("an open file", "sample_weight", "query", "dataset")
    streams = [f.name for f in FORMATS.values() if f.read_stream]
    if selection.format is None:
        raise InputError("an open file has no suffix: give ", Option("format"), f", one of {', '.join(streams)}")
    chosen = FORMATS.get(selection.format)
    if chosen is None or chosen.read_stream is None:
        raise InputError(
            Option("format", selection.format), f" can't be read from a stream; choose one of {', '.join(streams)}"
        )
    return chosen.read_stream(data, selection)


def find_files(given: list[str], format: str | None = None) -> Files:
    """The files that paths, globs and folders stand for, in a fixed order."""
    if format is not None and format not in FORMATS:
        raise InputError(Option("format", format), f" is not known; choose one of {', '.join(FORMATS)}")
    found: list[str] = []
    root = None
    for text in given:
        if text.startswith("file://"):
            text = url2pathname(text.removeprefix("file://"))
        if is_remote(text):
            with reading(text, "a file elsewhere"):
                folder = is_folder(text)
                root = text if folder else root
                found += [text] if folder and (_is_store(text) or format == "zarr") else _wanted(text, folder, format)
        elif Path(text).is_dir():
            root = text
            found += [text] if _is_store(text) or format == "zarr" else _below(text, format)
        elif Path(text).exists():
            found.append(text)
        elif glob.has_magic(text):
            matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207
            if not matches:
                raise FileNotFoundError(f"{text}: no file matches this pattern")
            for match in matches:
                found += _below(match, format) if Path(match).is_dir() and not _is_store(match) else [match]
        else:
            raise FileNotFoundError(f"{text}: there is no such file")
    return Files(_each_once(found), root)


def _each_once(found: list[str]) -> tuple[str, ...]:
    """Every file once, whatever names it was found by; a name that is no link comes before one that is."""
    names: dict[object, list[str]] = {}
    for path in found:
        names.setdefault(_file_of(path), []).append(path)
    kept = []
    for same in names.values():
        kept.append(next((path for path in same if is_remote(path) or not Path(path).is_symlink()), same[0]))
        if len(same) > 1:
            others = list(dict.fromkeys(path for path in same if path != kept[-1]))
            what = f"{' and '.join([kept[-1], *others[:3]])} are one file" if others else f"{kept[-1]} is listed twice"
            warn(f"{what}: its rows are read once", DataWarning)
    return tuple(kept)


def _file_of(path: str) -> object:
    """Tells files apart by what they are, not by their names."""
    if is_remote(path):
        return path
    try:
        status = Path(path).stat()
    except OSError:  # said later, in plain words
        return path
    return (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(path)


def _wanted(address: str, folder: bool, format: str | None) -> list[str]:
    """Files at an address; of a folder, those that are data."""
    found = [name for name in find_remote(address) if not folder or format is not None or _format_by_suffix(name)]
    if not found:
        raise FileNotFoundError(f"{address}: there are no data files in this folder")
    return found


def format_of(paths: tuple[str, ...], format: str | None = None) -> str:
    """The format of some files from their suffixes; they must agree."""
    if format is not None:
        return format
    names = {path: _format_by_suffix(path) for path in paths}
    for path, name in names.items():
        if name is None:
            raise SourceError(
                f"{path}: the suffix doesn't show the format; give ", Option("format"), f", one of {', '.join(FORMATS)}"
            )
    kinds = sorted({str(name) for name in names.values()})
    if len(kinds) > 1:
        raise SourceError(f"the files are of different formats ({', '.join(kinds)}): read one format at a time")
    return kinds[0]


def _format_by_suffix(path: str) -> str | None:
    name = path.lower().rstrip("/")
    for compression in COMPRESSIONS:
        name = name.removesuffix(compression)
    return next((f.name for f in FORMATS.values() if name.endswith(f.suffixes)), None)


def _is_store(path: str) -> bool:
    """A folder that is one array store and not a folder of files."""
    if is_remote(path):
        return path.rstrip("/").endswith(".zarr")
    return path.rstrip("/").endswith(".zarr") or any(
        (Path(path) / name).exists() for name in ("zarr.json", ".zarray", ".zgroup")
    )


def _below(folder: str, format: str | None) -> list[str]:
    """Data files below a folder; names that start with a dot or an underscore are not data."""
    found = []

    def refuse(error: OSError) -> None:
        raise error

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "_")))
        for name in names:
            if not name.startswith((".", "_")) and (format is not None or _format_by_suffix(name)):
                found.append(str(Path(place) / name))
    if not found:
        raise FileNotFoundError(f"{folder}: there are no data files in this folder")
    return sorted(found)


def refuse_binary(start: bytes, place: str) -> None:
    """Say what a file is that can't be text."""
    for beginning, kind in _BEGINNINGS.items():
        if start.startswith(beginning):
            cure = ("give ", Option("encoding", "utf-16")) if "UTF-16" in kind else (" and needs that suffix",)
            raise SourceError(f"{place}: can't be read as text: it is {kind}", *cure)


def identity(path: str) -> str | None:
    """Changes whenever the file does; None if that can't be known."""
    if is_remote(path):
        return remote_identity(path)
    status = Path(path).stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def stream_name(file: Any) -> str:
    """What messages call an open file."""
    name = getattr(file, "name", None)
    return name if isinstance(name, str) and not name.startswith("<") else "the stream"


@contextmanager
def reading(place: str, kind: str) -> Iterator[None]:
    """Whatever a foreign reader raises becomes a :class:`SourceError` that names the file."""
    try:
        yield
    except (SourceError, MissingPackageError, FileNotFoundError, PermissionError, IsADirectoryError, WriteError):
        raise
    except Exception as error:
        if type(error) in (ValueError, InputError, RowError):  # our own words about the values
            raise
        if is_full(error):  # of a temporary folder, say
            raise SourceError(f"{place}: can't be read: the disk is full ({first_line(error)})") from error
        raise SourceError(f"{place}: can't be read as {kind}: {first_line(error)}") from error
