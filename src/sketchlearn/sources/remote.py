"""Files that are elsewhere: object stores and web servers, through the file systems of pyarrow and fsspec.

An address (``s3://bucket/day.parquet``) is all that a part of a source knows: wherever it is read, the file system is
made there, with the credentials of that machine.
"""

from __future__ import annotations

import functools
import os
import posixpath
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from sketchlearn.exceptions import MissingPackageError, SourceError
from sketchlearn.optional import optional

_ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)
_ARROW = {"s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss"}  # pyarrow's own; fsspec does for all others
_MAGIC = re.compile(r"[*?[]")


def is_remote(path: str) -> bool:
    """True for addresses, whatever their scheme."""
    return _ADDRESS.match(path) is not None


class Place(NamedTuple):
    """A file system of pyarrow, and the path of a file or folder in it."""

    system: Any
    path: str

    def info(self) -> Any:
        """What is there."""
        return self.system.get_file_info(self.path)


def place_of(address: str) -> Place:
    """Where an address leads."""
    found = _ADDRESS.match(address)
    assert found is not None
    scheme, authority, path = found[1].lower(), found[2], found[3]
    if scheme in _ARROW:
        system, base = _arrow_system(scheme, authority)
        return Place(system, posixpath.join(base, path.lstrip("/")) if base.strip("/") else path)
    system, plain = _fsspec_system(scheme, authority)
    return Place(system, plain._strip_protocol(address))


@functools.lru_cache(maxsize=32)
def _arrow_system(scheme: str, authority: str) -> tuple[Any, str]:
    optional("pyarrow", "files", f"reading {scheme}://")
    from pyarrow import fs

    address = f"{scheme}://{authority}"
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if scheme == "s3" and region:  # otherwise it is asked for over the net
        address += f"?region={quote(region)}"
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(address)
    except Exception as error:  # whatever the library of the store says
        raise SourceError(f"{scheme}://{authority}: {_first_line(error)}") from None
    return found


@functools.lru_cache(maxsize=32)
def _fsspec_system(scheme: str, authority: str) -> tuple[Any, Any]:
    fsspec = optional("fsspec", "remote", f"reading {scheme}://")
    from pyarrow import fs

    try:
        plain, _ = fsspec.core.url_to_fs(f"{scheme}://{authority}")
    except ImportError as error:
        raise MissingPackageError(f"reading {scheme}:// needs another package: {_first_line(error)}") from None
    except ValueError as error:
        raise SourceError(f"{scheme}://: addresses of this kind can't be read: {_first_line(error)}") from None
    return fs.PyFileSystem(fs.FSSpecHandler(plain)), plain


def open_remote(address: str) -> Any:
    """The file, open for reading at any place."""
    place = place_of(address)
    return place.system.open_input_file(place.path)


def open_remote_stream(address: str, compression: str | None) -> Any:
    """The file from its beginning, decompressed."""
    place = place_of(address)
    return place.system.open_input_stream(place.path, compression=compression)


def remote_identity(address: str) -> str | None:
    """Changes whenever the file does; None if the server doesn't tell."""
    place = place_of(address)
    info = place.info()
    mark = info.mtime_ns
    if mark is None and hasattr(place.system, "handler"):
        details = place.system.handler.fs.info(place.path)
        mark = next((details[key] for key in ("ETag", "etag", "mtime", "created") if details.get(key)), None)
    return None if mark is None else f"{address} {info.size} {str(mark).replace(' ', '_')}"


def find_remote(address: str) -> Iterator[str]:
    """The files that an address, a pattern or a folder stands for, in order."""
    found = _ADDRESS.match(address)
    assert found is not None
    root = f"{found[1]}://{found[2]}"
    if _MAGIC.search(found[3]) and found[1] not in ("http", "https"):
        start = found[3][: _MAGIC.search(found[3]).start()]  # type: ignore[union-attr]
        folder = root + start[: start.rfind("/") + 1]
        pattern = re.compile(_as_regex(address))
        matches = sorted(name for name in _listed(folder.rstrip("/")) if pattern.fullmatch(name))
        if not matches:
            raise FileNotFoundError(f"{address}: no file matches this pattern")
        yield from matches
        return
    kind = place_of(address).info().type.name
    if kind == "NotFound":
        raise FileNotFoundError(f"{address}: there is no such file")
    if kind == "Directory":
        hidden = re.compile(r"(^|/)[._]")
        inside = address.rstrip("/")
        yield from sorted(n for n in _listed(inside) if not hidden.search(n[len(inside) + 1 :]))
    else:
        yield address


def is_folder(address: str) -> bool:
    """True for folders; object stores have them where names have slashes."""
    if address.startswith(("http://", "https://")) or _MAGIC.search(address):
        return False
    return place_of(address).info().type.name == "Directory"


def _listed(folder: str) -> Iterator[str]:
    """All files below a folder."""
    from pyarrow import fs

    place = place_of(folder)
    start = place.path.rstrip("/")
    for info in place.system.get_file_info(fs.FileSelector(place.path or "/", allow_not_found=True, recursive=True)):
        if info.type == fs.FileType.File:
            yield f"{folder}/{info.path[len(start) :].lstrip('/')}"


def _as_regex(pattern: str) -> str:
    """A pattern with ``*``, ``**``, ``?`` and ``[...]`` as a regular expression for whole addresses."""
    pieces = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]+\])", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    out = []
    for piece in pieces:
        if piece.startswith("[") and piece.endswith("]") and len(piece) > 2:
            out.append(piece.replace("[!", "[^", 1))
        else:
            out.append(meaning.get(piece) or re.escape(piece))
    return "".join(out)


class RemoteArray:
    """A .npy file elsewhere, read in slices of rows.

    `address`: where it is. `file`: the file, open.
    """

    def __init__(self, address: str, file: Any) -> None:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        self.shape, columns_first, self.dtype = read(file)
        if columns_first and len(self.shape) > 1:
            raise SourceError(f"{address}: it is stored column by column; copy the file, or write it row by row")
        if self.dtype.hasobject:
            raise SourceError(f"{address}: can't be read as a .npy file: it holds Python objects")
        self._file, self._begin = file, file.tell()
        self._row = int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize

    def __getitem__(self, rows: slice) -> Any:
        start, stop, _ = rows.indices(self.shape[0])
        self._file.seek(self._begin + start * self._row)
        data = self._file.read((stop - start) * self._row)
        return np.frombuffer(data, self.dtype).reshape(-1, *self.shape[1:])


def zarr_store(address: str) -> Any:
    """A store of Zarr on a file system."""
    optional("fsspec", "remote", "reading Zarr elsewhere")
    from fsspec.implementations.arrow import ArrowFSWrapper
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
    from zarr.storage import FsspecStore

    place = place_of(address)

    class Wrapped(ArrowFSWrapper):  # type: ignore[misc]
        @property
        def fsid(self) -> str:  # the wrapper believes that every file system is a Hadoop cluster
            return f"{type(place.system).__name__} {id(place.system)}"

    plain = place.system.handler.fs if hasattr(place.system, "handler") else Wrapped(place.system)
    return FsspecStore(AsyncFileSystemWrapper(plain, asynchronous=True), path=place.path, read_only=True)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__
