"""What a verb says and writes: results, notes, exit codes, and files that are whole and replace nothing foreign."""

from __future__ import annotations

import errno
import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from pathlib import Path
from typing import Any

import typer

from sketchlearn.cli.wording import on_command_line
from sketchlearn.exceptions import DataWarning
from sketchlearn.words import one_line, printable


class Code(IntEnum):
    """Exit codes; scripts rely on them, docs/command-line.md lists them."""

    DONE = 0
    BUG = 1
    USAGE = 2
    UNREADABLE = 3
    DATA = 4
    SKETCH = 5
    OUTPUT = 6
    PACKAGE = 7
    DIFFERENT = 10
    INTERRUPTED = 130


class OutputError(Exception):
    """The result can't be written."""


def usage(text: str) -> typer.BadParameter:
    """An error about the arguments."""
    return typer.BadParameter(text)


def reason(error: OSError) -> str:
    """An error of the system in plain words."""
    known = {
        errno.EACCES: "permission denied; check who may read it",
        errno.ENOENT: "there is no such file",
        errno.ENOSPC: "the disk is full",
        errno.EFBIG: "the file would be larger than files may be here",
        errno.EISDIR: "is a folder, not a file",
        errno.ENOTDIR: "is inside something that is not a folder",
    }
    return known.get(error.errno or 0, error.strerror or str(error))


def note(text: str) -> None:
    """A line for people, on standard error."""
    typer.echo(printable(text), err=True)


def working(text: str) -> Any:
    """A context that shows on standard error, if that is a terminal, that something is going on."""
    from rich.console import Console

    return Console(stderr=True).status(text) if sys.stderr.isatty() else nullcontext()


def emit(facts: dict[str, Any], as_json: bool, text: str | None = None) -> None:
    """The result on standard output: JSON, or text (by default one fact per line)."""
    if as_json:
        typer.echo(json.dumps(facts, indent=2, default=str, allow_nan=False))
    elif text is not None:
        typer.echo(printable(text))
    else:
        width = max(map(len, facts))
        typer.echo("\n".join(f"{k:<{width}}  {one_line(v)}" for k, v in facts.items()))


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """What the library would warn of, as lines for people."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", DataWarning)
        yield
    for one in said:
        note(f"note: {on_command_line(one.message)}")


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Errors while writing a result say so."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: can't be written: {reason(error)}") from error


def check_output(path: str, *inputs: str | None, as_json: bool = False) -> None:
    """Refuse an output that can't be written, or would replace an input or a foreign file, before any work is done."""
    for given in {*inputs} - {None, "-"} if path != "-" and Path(path).exists() else ():
        if Path(str(given)).exists() and Path(path).samefile(str(given)):
            raise OutputError(f"{path} is an input of this command and would be overwritten; choose another output")
    if path == "-" and as_json:
        raise usage("-o - writes the result itself to standard output: leave out --json")
    if path == "-":
        if sys.stdout.isatty():
            raise usage("-o - writes bytes to standard output: redirect it to a file")
        return
    if not path:
        raise usage("-o needs the name of a file")
    target = Path(path)
    if target.is_dir():
        raise OutputError(f"{path} is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise OutputError(f"{path}: there is no folder {target.parent}")
    try:
        folder = target.resolve().parent
    except (RuntimeError, OSError):  # Python 3.13 has the second
        raise OutputError(f"{path}: is a link that leads to itself; remove it") from None
    if not folder.is_dir():
        raise OutputError(f"{path}: is a link into the folder {folder}, which isn't there")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"{path}: the folder {folder} can't be written to")
    if target.is_file() and not is_ours(target):
        whose = "was not written by sketchlearn" if target.suffix.lower() != ".csv" else "CSV doesn't tell who wrote it"
        raise OutputError(f"{path} exists and {whose}: choose another output, or remove it")


_PICTURES = (b"\x89PNG", b"%PDF", b"<?xml", b"\xff\xd8", b"RIFF")  # ours name their maker at the beginning or the end


def is_ours(path: Path) -> bool:
    """Whether a file may be replaced: empty, or a result of a command (sketch, table, map, model, page, picture)."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(4096)
        file.seek(max(0, size - 4096))
        tail = file.read(4096)
    if not head or head.startswith((b"\x89SKETCH\n", b"\x89SKPOINT")):
        return True
    if head.startswith(b"PAR1"):
        return _is_table(path)
    if head.startswith(_PICTURES):
        return b"sketchlearn" in head or b"sketchlearn" in tail
    if b'<meta name="generator" content="sketchlearn' in head:
        return True
    if not head.lstrip().startswith(b"{") or size > 2**28:
        return False
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and (
        str(content.get("format", "")).startswith("sketchlearn")
        or (isinstance(content.get("features"), dict) and "kind" in content["features"])
    )


def _is_table(path: Path) -> bool:
    """Whether a Parquet file says that it is a table of sketches or of predictions."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return False
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return False
    return any(key.startswith(b"sketchlearn") for key in metadata)


def write_bytes(path: str, data: bytes) -> None:
    """Write a result; see :func:`sketchlearn.files.whole`."""
    from sketchlearn import files

    with writing(path):
        if path == "-":
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            files.write(path, data)
