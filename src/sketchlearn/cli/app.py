"""The application: verbs found by themselves, one-line errors, exit codes."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
import os
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from importlib.abc import InspectLoader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import sketchlearn
from sketchlearn.cli.help import FileFormat, Verbs, examples, plain
from sketchlearn.cli.outputs import OutputError, check_output, reason, usage, write_bytes, writing
from sketchlearn.cli.wording import about_choices, about_option, on_command_line
from sketchlearn.exceptions import (
    DataWarning,
    IncompatibleSketchError,
    MissingPackageError,
    ModelFileError,
    SketchFileError,
    SourceError,
)
from sketchlearn.files import LockedError, WriteError, is_full
from sketchlearn.limits import check, memory_limit, read_json
from sketchlearn.words import one_line, printable

if TYPE_CHECKING:
    from sketchlearn.features.base import FeatureMap
    from sketchlearn.models import Model
    from sketchlearn.sketches import Sketch


__all__ = [
    "ALPHA",
    "Code",
    "Columns",
    "Dataset",
    "Debug",
    "Decimal",
    "Delimiter",
    "Dtype",
    "Encode",
    "Encoding",
    "Format",
    "Json",
    "Missing",
    "Output",
    "OutputError",
    "Query",
    "Where",
    "check_output",
    "emit",
    "features_in",
    "head_of",
    "is_table",
    "labelled_sketches",
    "make_app",
    "names_in",
    "note",
    "numbers_in",
    "printable",
    "read_features",
    "read_group",
    "read_input",
    "read_model",
    "read_sketch",
    "reason",
    "run",
    "usage",
    "warnings_as_notes",
    "working",
    "write_bytes",
    "writing",
]


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


_MOST = 1000  # numbers of components in a sweep


class _State:
    debug = False


def _debug(value: bool) -> bool:
    _State.debug = _State.debug or value
    return value


def _budget(context: typer.Context, seconds: float | None) -> float | None:
    """Hold decoders to a budget until the command ends."""
    if seconds is not None:
        from sketchlearn.decoders.budget import decoding_budget  # loads the decoders

        try:
            context.with_resource(decoding_budget(seconds))
        except ValueError as error:
            raise usage(f"--budget: {error}") from None
    return seconds


ALPHA = "Probability of any false alarm (exit code 10 without a change) in this run of the command."
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_debug, is_eager=True)]
Budget = Annotated[
    float | None,
    typer.Option("--budget", help="Seconds of CPU that decoding may take; 60 by default.", callback=_budget),
]
Output = Annotated[str, typer.Option("--output", "-o", help="File to write; - for standard output.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", "-c", help="Columns to read (names, or numbers for arrays), separated by commas."),
]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", help="Condition on rows, e.g. 'age >= 30 and day < 2024-03-01'; repeatable."),
]
Encode = Annotated[
    bool, typer.Option("--encode", help="Fill missing numbers and turn categories into indicator columns.")
]
Missing = Annotated[
    Literal["mean", "median", "error"],
    typer.Option("--missing", help="With --encode: what replaces missing numbers."),
]
Query = Annotated[str | None, typer.Option("--query", help="SQL query that returns the rows.")]
Dataset = Annotated[str | None, typer.Option("--dataset", help="Array inside an HDF5 file or a Zarr group.")]
Format = Annotated[FileFormat | None, typer.Option("--format", help="File format, if the suffix doesn't tell.")]
Dtype = Annotated[
    Literal["float32", "float64"] | None, typer.Option("--dtype", help="Read numbers with this precision.")
]
Delimiter = Annotated[str | None, typer.Option("--delimiter", help="Column separator of CSV files, e.g. ';' or tab.")]
Decimal = Annotated[str | None, typer.Option("--decimal", help="Decimal sign in CSV files: . or ,")]
Encoding = Annotated[
    str | None, typer.Option("--encoding", help="Encoding of CSV files, e.g. latin-1; by default UTF-8.")
]


def make_app(verb: str | None = None) -> typer.Typer:
    """The application with every verb in ``verbs/``.

    With a `verb` only that one is loaded, and the others are there by name and summary: what they need takes time to
    import, and help has no use for it.
    """
    app = typer.Typer(
        name="sketchlearn",
        cls=Verbs,
        epilog=examples("demo", "sketch 'data/*.parquet' -o all.sketch", "learn kmeans all.sketch -k 10 -o model.json"),
        help="Turn a table into a small sketch, and learn from the sketch alone.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help: what draws boxes takes longer to import than everything else
    )

    @app.callback(invoke_without_command=True)
    def top(
        version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
        debug: Debug = False,
    ) -> None:
        if version:
            typer.echo(f"sketchlearn {sketchlearn.__version__}")
            raise typer.Exit

    from sketchlearn.cli import verbs

    for name in sorted(m.name for m in pkgutil.iter_modules(verbs.__path__)):
        module = f"{verbs.__name__}.{name}"
        if verb is None or verb == name:
            importlib.import_module(module).register(app)
        else:
            app.command(name, help=_summary(module))(lambda: None)
    return app


def _summary(module: str) -> str:
    """What the first line of a verb's file says about it, without running the file."""
    spec = importlib.util.find_spec(module)
    source = spec.loader.get_source(module) if spec and isinstance(spec.loader, InspectLoader) else None
    line = (source or "").partition("\n")[0].strip('"').rstrip(".")
    text = line.partition(": ")[2] or line
    return text[:1].upper() + text[1:] + "."


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; every error is one line on standard error and an exit code."""
    _State.debug = False
    given = sys.argv[1:] if arguments is None else list(arguments)
    completing = any(name.endswith("_COMPLETE") for name in os.environ)
    verb = next((word for word in given if not word.startswith("-")), "")
    command: Any = typer.main.get_command(make_app(None if completing else verb))
    plain(command)
    name = "sketchlearn"
    if not given or (given == [verb] and hasattr(command.commands.get(verb), "commands")):
        given = [*given, "--help"]  # there is nothing to do yet
    if given == [verb, "--help"] and verb in command.commands:
        # without the options before the verb, which would be parsed first: what does it takes longer than all the rest
        command, given, name = command.commands[verb], ["--help"], f"{name} {verb}"
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            result = command.main(args=given, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
        return int(result) if isinstance(result, int) else Code.DONE
    except typer.Exit as error:
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted", Code.INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads any more: not an error
        return Code.DONE
    except Exception as error:
        if hasattr(error, "format_message") and not error.format_message():
            return Code.USAGE  # nothing was asked for, and the help has been shown
        if _State.debug:
            traceback.print_exc()
        return _say(*_explained(error))


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """A warning as a note; with --debug those of other packages as Python shows them."""
    if issubclass(category, DataWarning):
        note(f"note: {on_command_line(message)}")
    elif _State.debug:
        typer.echo(warnings.formatwarning(message, category, filename, lineno), err=True, nl=False)
    else:
        note(f"note: {one_line(message)}")


def _explained(error: Exception) -> tuple[str, Code]:
    """What went wrong, in one line, and the exit code."""
    if hasattr(error, "format_message"):  # what typer says about arguments
        own = (
            str(getattr(error, "message", "")) if getattr(error, "param", None) is None else ""
        )  # ours name the option
        return about_choices(error) or own or error.format_message(), Code.USAGE
    text = " ".join(on_command_line(error).split())
    if about_option(error):
        return text, Code.USAGE
    if is_full(error) and not isinstance(error, OutputError | WriteError):  # a store, a reader's temporary file
        return text if "disk is full" in text else f"{text}: the disk is full", Code.OUTPUT
    if isinstance(error, MissingPackageError):
        return text, Code.PACKAGE
    if isinstance(error, SketchFileError | IncompatibleSketchError | ModelFileError):
        return text, Code.SKETCH
    if isinstance(error, WriteError) and error.errno:
        return f"{os.fsdecode(error.filename)}: can't be written: {reason(error)}", Code.OUTPUT
    if isinstance(error, OutputError | LockedError | WriteError):
        return text, Code.OUTPUT
    if isinstance(error, SourceError):
        return text, Code.UNREADABLE
    if isinstance(error, OSError):
        if error.filename and error.strerror:
            text = f"{os.fsdecode(error.filename)}: {reason(error)}"
        return text, Code.UNREADABLE
    if isinstance(error, ValueError | OverflowError | TypeError | KeyError | MemoryError):
        return (str(error.args[0]) if isinstance(error, KeyError) and error.args else text) or type(
            error
        ).__name__, Code.DATA
    return f"internal error, please report it (--debug shows where): {type(error).__name__}: {text}", Code.BUG


def _say(text: str, code: Code) -> Code:
    typer.echo(f"sketchlearn: {printable(text)}", err=True)
    return code


# -- what verbs share ------------------------------------------------------------------------------


def note(text: str) -> None:
    """A line for people, on standard error."""
    typer.echo(printable(text), err=True)


def working(text: str) -> Any:
    """A context that shows on standard error, if that is a terminal, that something is going on."""
    from rich.console import Console

    return Console(stderr=True).status(text) if sys.stderr.isatty() else nullcontext()


def emit(facts: dict[str, Any], as_json: bool, text: str | None = None) -> None:
    """The result on standard output: JSON, or text (by default one fact a line)."""
    if as_json:
        typer.echo(json.dumps(facts, indent=2, default=str, allow_nan=False))
    elif text is not None:
        typer.echo(printable(text))
    else:
        width = max(map(len, facts))
        typer.echo("\n".join(f"{k:<{width}}  {one_line(v)}" for k, v in facts.items()))


def names_in(columns: list[str] | None, option: str = "--columns") -> list[str] | None:
    """Column names from repeated, comma-separated options."""
    if not columns:
        return None
    # a name that holds a comma is put into double quotes
    names = [name.strip() for row in csv.reader(columns, skipinitialspace=True) for name in row]
    if not names or not all(names):
        raise usage(f"{option} {','.join(columns)!r} has an empty name")
    return names


def numbers_in(text: str) -> list[int]:
    """Numbers of components: ``2:12`` (both ends) or ``2,4,8``."""
    try:
        if ":" in text:
            low, high = (int(part) for part in text.split(":"))
            numbers = list(range(low, min(high, low + _MOST) + 1))
        else:
            numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1 or len(numbers) > _MOST:
        raise usage(f"{text!r}: write numbers of components as 2:12 or 2,4,8, at most {_MOST}")
    return numbers


def is_table(path: str) -> bool:
    """Whether a file is a table of sketches (or other Parquet), by its first bytes."""
    if path == "-" or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(4) == b"PAR1"


def head_of(path: str, length: int = 16) -> bytes:
    """The first bytes of a file: what it is can be told without reading it."""
    with Path(path).open("rb") as file:
        return file.read(length)


def read_input() -> bytes:
    """All of standard input, up to the limit."""
    data = sys.stdin.buffer.read(memory_limit() // 2 + 1)
    check(2 * len(data), "standard input")
    return data


def read_sketch(path: str) -> Sketch:
    """A sketch from a file, or from standard input for ``-``."""
    if path == "-":
        return sketchlearn.Sketch.from_bytes(read_input())
    if is_table(path):
        raise SketchFileError(
            f"{path} is Parquet, not a sketch: for a table of groups, run 'sketchlearn merge {path} -o x.sketch'; "
            f"for rows, 'sketchlearn sketch {path} -o x.sketch'"
        )
    from sketchlearn.sketches.file import load

    return load(path)


def read_group(path: str, name: str) -> Sketch:
    """One group of a table of sketches, by its name in words."""
    table = sketchlearn.SketchTable.load(path)
    chosen = {str(label): label for label in table}
    if name not in chosen:
        some = ", ".join(list(chosen)[:5]) + (", ..." if len(chosen) > 5 else "")
        raise ValueError(f"{path} has no group {name!r}; it has {len(chosen)}: {some}")
    return table[chosen[name]]


def labelled_sketches(paths: Sequence[str]) -> Any:
    """Some sketches by the names of their files, or a table of groups as it is."""
    if len(paths) == 1 and is_table(paths[0]):
        return sketchlearn.SketchTable.load(paths[0])
    if list(paths).count("-") > 1:
        raise usage("standard input (-) can be read only once")
    names = [Path(path).stem for path in paths]
    names = names if len(set(names)) == len(names) else list(paths)
    return dict(zip(names, map(read_sketch, paths), strict=True))


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """What the library would warn of, as lines for people."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", DataWarning)
        yield
    for one in said:
        note(f"note: {on_command_line(one.message)}")


def read_model(path: str) -> Model:
    """A model that `learn` wrote, from a file or from standard input for ``-``."""
    from sketchlearn.models import Model
    from sketchlearn.sketches.file import MAGIC

    if path == "-":
        return Model.from_json(read_input(), "standard input")
    if head_of(path).startswith(MAGIC):
        hint = f"learn one first, e.g. 'sketchlearn learn kmeans {path} -k 5 -o model.json'"
        raise ModelFileError(f"{path}: not a model but a sketch: {hint}")
    return Model.load(path)


def read_features(path: str) -> FeatureMap:
    """A feature map from a file that `design` wrote, or the one of a sketch."""
    from sketchlearn.sketches.file import MAGIC, load

    return load(path).features if head_of(path).startswith(MAGIC) else features_in(read_json(path), path)


def features_in(data: bytes, path: str) -> FeatureMap:
    """The feature map that `design` wrote; `path` is for error messages."""
    from sketchlearn.models.loading import features_in as found_in

    return found_in(data, path)
