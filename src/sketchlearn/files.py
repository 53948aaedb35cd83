"""Files that are either complete or not there, and one writer at a time.

Everything that the library writes to a file goes through :func:`whole` or :func:`write`.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, cast

from sketchlearn.exceptions import SketchFileError

try:
    import fcntl
except ImportError:  # not on this platform: nothing is locked there
    fcntl = None  # type: ignore[assignment]

_STALE = 60.0  # seconds after which a temporary file that nobody holds was left by a process that died
_SEAL = "checksum"
_FULL = {errno.ENOSPC, errno.EFBIG, *([errno.EDQUOT] if hasattr(errno, "EDQUOT") else [])}
_FULL_WORDS = ("no space left on device", "disk is full")  # of readers and databases that give no number
_UNABLE = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}  # folders on some networks


class LockedError(OSError):
    """Another process works on the file."""


class WriteError(OSError):
    """A file can't be written.

    Examples
    --------
    >>> from sketchlearn.files import WriteError, write
    >>> try:
    ...     write("/no/such/folder/x", b"1")
    ... except WriteError as error:
    ...     print(error.filename)
    /no/such/folder/x
    """


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, is that a disk has no space left.

    Examples
    --------
    >>> from sketchlearn.files import is_full
    >>> is_full(OSError(28, "No space left on device")), is_full(OSError(2, "No such file or directory"))
    (True, False)
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        if any(words in str(error).lower() for words in _FULL_WORDS):
            return True
        error = error.__cause__ or error.__context__
    return False


def write(path: str | PathLike[str], data: bytes) -> None:
    """Write bytes to a file so that it is either complete or not there."""
    with whole(path) as out:
        out.write(data)


def followed(path: str | PathLike[str]) -> Path:
    """The file that a symbolic link leads to, whether it is there or not; any other path as it is.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sketchlearn.files import followed
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     link = pathlib.Path(folder) / "latest.sketch"
    ...     link.symlink_to("monday.sketch")
    ...     print(followed(link).name)
    monday.sketch
    """
    target = Path(path)
    if not target.is_symlink():
        return target
    end = Path(os.path.realpath(target))
    if end.is_symlink():
        raise WriteError(errno.ELOOP, "is a link that leads to itself", str(path))
    return end


@contextmanager
def whole(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """An open file that takes its name when all is written; if that fails, it never does.

    A symbolic link stays one, and the file that it leads to is replaced.  Of several names of one file (hard links)
    only the given one gets the new content.  Pipes and devices are written to as they are.  What goes wrong in writing
    is a :class:`WriteError` with the path.
    """
    target = followed(path)
    if target.exists() and not target.is_file():
        with _failing(path):
            handle = os.open(target, os.O_WRONLY)
        with _opened(handle, path) as out:
            yield out
        return
    with _failing(path):
        _sweep(target)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        with _opened(handle, path) as out:
            _try_lock(handle)  # tells a file that is being written from one that was left
            yield out
            out.flush()
            with _failing(path):
                os.fsync(handle)
                os.chmod(temporary, _mode(target))  # noqa: PTH101
                os.replace(temporary, target)  # noqa: PTH105
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


@contextmanager
def _failing(path: str | PathLike[str]) -> Iterator[None]:
    """What goes wrong is about the file that is being written."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        folder = Path(path).parent
        why = f"there is no folder {folder}" if error.errno == errno.ENOENT and not folder.is_dir() else error.strerror
        raise WriteError(error.errno, why or str(error), os.fspath(path)) from error


class _Raw(io.FileIO):
    """An open file whose errors say that they are about writing, and which file it was to be."""

    def __init__(self, handle: int, path: str | PathLike[str]) -> None:
        super().__init__(handle, "wb")
        self._path = path

    def write(self, data: Any) -> int:
        with _failing(self._path):
            return super().write(data)


@contextmanager
def _opened(handle: int, path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """A buffered file for a handle, which is closed in the end."""
    out = io.BufferedWriter(_Raw(handle, path))
    try:
        yield cast(BinaryIO, out)
        out.flush()
    finally:
        with suppress(OSError):  # what is left in the buffer after an error can't be written either
            out.close()


def _sync_folder(folder: Path) -> None:
    """Make a new name durable, where a folder can be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _mode(target: Path) -> int:
    """Who may read a file: as before, if it was there."""
    with suppress(OSError):
        return target.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _sweep(target: Path) -> None:
    """Remove what processes that were killed while writing this file have left."""
    if fcntl is None:
        return
    for left in target.parent.glob(f".{escape(target.name)}.*.tmp"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime < _STALE:
                continue
            with left.open("rb") as file:
                if _try_lock(file.fileno()):
                    left.unlink()


def _try_lock(handle: int) -> bool:
    """Lock an open file; False if somebody else has, True also where files can't be locked."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _UNABLE
    return True


@contextmanager
def locked(path: str | PathLike[str], wait: float = 60.0) -> Iterator[None]:
    """Nobody else who asks for the same file gets it meanwhile, in this process or another on this machine.

    The lock is a small file next to it, which is gone afterwards; one that a killed process left locks nothing.

    `path`: the file that is to be read, changed and written; it need not exist. `wait`: seconds to wait for somebody
    else to finish before :class:`LockedError`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sketchlearn.files import LockedError, locked
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with locked(pathlib.Path(folder) / "all.sketch"):
    ...         try:
    ...             with locked(pathlib.Path(folder) / "all.sketch", wait=0):
    ...                 pass
    ...         except LockedError:
    ...             print("somebody else has it")
    somebody else has it
    """
    target = Path(os.path.realpath(path))
    lock = target.parent / f".{target.name}.lock"
    handle = _held(lock, time.monotonic() + wait)
    if handle is None:
        raise LockedError(
            f"{path}: is locked: another run writes to it{_holder(lock)}; nothing was changed; run this again when the "
            "other run is done"
        )
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()  # before it is let go, so that nobody else can have it meanwhile
        os.close(handle)


def _held(lock: Path, end: float) -> int | None:
    """The lock file, open and locked; None if it was not to be had before the end."""
    pause = 0.005
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        if _try_lock(handle):
            try:
                mine = os.path.samestat(os.fstat(handle), os.stat(lock))  # noqa: PTH116
            except FileNotFoundError:
                mine = False  # the one before removed it while this one waited
            if mine:
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
                return handle
            os.close(handle)
            continue
        os.close(handle)
        if time.monotonic() >= end:
            return None
        time.sleep(pause)
        pause = min(2 * pause, 0.2)


def _holder(lock: Path) -> str:
    with suppress(OSError, ValueError):
        return f" (process {int(lock.read_text())})"
    return ""


def sealed(facts: dict[str, Any]) -> dict[str, Any]:
    """An object of JSON with a checksum of its values, so that text in which a digit changed is refused.

    Examples
    --------
    >>> from sketchlearn.files import check_seal, sealed
    >>> check_seal(sealed({"a": 1}))
    >>> check_seal({"a": 1})  # written by hand
    """
    return {**facts, _SEAL: _seal(facts)}


def check_seal(facts: dict[str, Any]) -> None:
    """Refuse an object whose checksum doesn't match; one without a checksum is fine."""
    if _SEAL in facts and facts[_SEAL] != _seal({k: v for k, v in facts.items() if k != _SEAL}):
        raise SketchFileError(
            f"damaged or changed: the checksum doesn't match (if it was changed on purpose, remove the field {_SEAL!r})"
        )


def _seal(facts: dict[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
