"""The application: verbs found by themselves, one-line errors, exit codes."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib.abc import InspectLoader
from typing import Annotated, Any

import typer

import sketchlearn
from sketchlearn.cli.help import Verbs, examples, plain
from sketchlearn.cli.options import Debug, State, add_verbs, option
from sketchlearn.cli.outputs import Code, OutputError, note, reason
from sketchlearn.cli.wording import about_arguments, about_option, on_command_line
from sketchlearn.exceptions import (
    DataWarning,
    IncompatibleSketchError,
    LedgerFileError,
    MissingPackageError,
    ModelFileError,
    SketchFileError,
    SourceError,
    UnsuitableMapError,
)
from sketchlearn.files import LockedError, WriteError, is_full
from sketchlearn.words import one_line, printable


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
    def top(version: Annotated[bool, option("Print the version.", "--version")] = False, debug: Debug = False) -> None:
        if version:
            typer.echo(f"sketchlearn {sketchlearn.__version__}")
            raise typer.Exit

    from sketchlearn.cli import verbs

    for name in sorted(m.name for m in pkgutil.iter_modules(verbs.__path__)):
        module = f"{verbs.__name__}.{name}"
        if verb is None or verb == name:
            add_verbs(app, importlib.import_module(module))
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
    State.debug = False
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
        if State.debug:
            traceback.print_exc()
        return _say(*_explained(error))


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """A warning as a note; with --debug those of other packages as Python shows them."""
    if issubclass(category, DataWarning):
        note(f"note: {on_command_line(message)}")
    elif State.debug:
        typer.echo(warnings.formatwarning(message, category, filename, lineno), err=True, nl=False)
    else:
        note(f"note: {one_line(message)}")


def _explained(error: Exception) -> tuple[str, Code]:
    """What went wrong, in one line, and the exit code."""
    if hasattr(error, "format_message"):  # what typer says about arguments
        own = (
            str(getattr(error, "message", "")) if getattr(error, "param", None) is None else ""
        )  # ours name the option
        return about_arguments(error) or own or error.format_message(), Code.USAGE
    text = " ".join(on_command_line(error).split())
    if about_option(error):
        return text, Code.USAGE
    if is_full(error) and not isinstance(error, OutputError | WriteError):  # a store, a reader's temporary file
        return text if "disk is full" in text else f"{text}: the disk is full", Code.OUTPUT
    if isinstance(error, MissingPackageError):
        return text, Code.PACKAGE
    if isinstance(error, SketchFileError | IncompatibleSketchError | ModelFileError | UnsuitableMapError):
        return text, Code.SKETCH
    if isinstance(error, WriteError) and error.errno:
        return f"{os.fsdecode(error.filename)}: can't be written: {reason(error)}", Code.OUTPUT
    if isinstance(error, OutputError | LockedError | WriteError):
        return text, Code.OUTPUT
    if isinstance(error, SourceError | LedgerFileError):
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
