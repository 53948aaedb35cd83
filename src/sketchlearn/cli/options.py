"""Options that several verbs take, declared once; verbs, and what all of them have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Annotated, Any, Literal, get_args

import typer

from sketchlearn.cli.help import Commands, FileFormat, examples
from sketchlearn.cli.inputs import names_in
from sketchlearn.cli.outputs import usage


class State:
    """Whether errors are shown with their tracebacks, by this run of a command."""

    debug = False


def _debug(value: bool) -> bool:
    State.debug = State.debug or value
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


def _decoding_engine(context: typer.Context, engine: str) -> str:
    """Let decoders use a device until the command ends."""
    if engine != "cpu":
        from sketchlearn.decoders.device import decoding_engine  # loads the decoders

        context.with_resource(decoding_engine(engine))
    return engine


def option(text: str, *names: str, **more: Any) -> Any:
    """An option with its help; its name is that of the parameter, if none is given."""
    return typer.Option(*names, help=text, **more)


ALPHA = "Probability of any false alarm (exit code 10 without a change) in this run of the command."
MinEffect = Annotated[
    float,
    option("Smaller effects raise no alarm: 0.3 leaves out small changes, 0.5 all but large ones.", "--min-effect"),
]
Json = Annotated[bool, option("Print the result as JSON.", "--json")]
Debug = Annotated[bool, option("Show the traceback of an error.", "--debug", callback=_debug, is_eager=True)]
Budget = Annotated[
    float | None,
    option("Seconds of CPU that decoding may take; by default 60, or 0.1 per component.", "--budget", callback=_budget),
]
DecodingEngine = Annotated[
    Literal["cpu", "gpu"],
    option("Where to search; gpu is faster from about a hundred clusters on.", "--engine", callback=_decoding_engine),
]
Output = Annotated[str, option("File to write; - for standard output.", "--output", "-o")]
Columns = Annotated[
    list[str] | None, option("Columns to read (names, or numbers for arrays), separated by commas.", "--columns", "-c")
]
Where = Annotated[
    list[str] | None, option("Condition on rows, e.g. 'age >= 30 and day < 2024-03-01'; repeatable.", "--where")
]
Encode = Annotated[bool, option("Fill missing numbers and turn categories into indicator columns.", "--encode")]
Missing = Annotated[
    Literal["mean", "median", "error", "em", "pairs"] | None,
    option(
        "What to do with missing numbers. With --encode: mean (the default), median or error. For pca, regression, "
        "cca and nmf: em, to learn what an EM on the rows would, or pairs, from the pairs of entries that are there.",
        "--missing",
    ),
]
Query = Annotated[str | None, option("SQL query that returns the rows.", "--query")]
Dataset = Annotated[str | None, option("Array inside an HDF5 file or a Zarr group.", "--dataset")]
Format = Annotated[FileFormat | None, option("File format, if the suffix doesn't show it.", "--format")]
Dtype = Annotated[Literal["float32", "float64"] | None, option("Read numbers with this precision.", "--dtype")]
Delimiter = Annotated[str | None, option("Column separator of CSV files, e.g. ';' or tab.", "--delimiter")]
Decimal = Annotated[str | None, option("Decimal sign in CSV files: . or ,", "--decimal")]
Encoding = Annotated[str | None, option("Encoding of CSV files, e.g. latin-1; by default UTF-8.", "--encoding")]
Seed = Annotated[int, option("Seed, for repeatable results.", "--seed", min=0, max=2**32 - 1)]
_READING = {
    "columns": Columns, "where": Where, "query": Query, "dataset": Dataset, "format": Format, "dtype": Dtype,
    "delimiter": Delimiter, "decimal": Decimal, "encoding": Encoding,
}  # fmt: skip
TEXT = ("delimiter", "decimal", "encoding")
"""Options of reading rows that are about text."""


def parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """An option, or with no default an argument or option that must be given."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def own_parameters(run: Callable[..., Any]) -> list[inspect.Parameter]:
    """Those of a function, as keywords; a switch without a name of its own can be set, but not unset."""
    found = []
    for each in inspect.signature(run, eval_str=True).parameters.values():
        kind, *options = get_args(each.annotation) or (None,)
        if kind is bool and options[0].default is ... and not options[0].param_decls:
            options[0].param_decls = ("--" + each.name.replace("_", "-"),)
        found.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    return found


def with_signature(made: Callable[..., None], like: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> Any:
    """A function under the name of another, with other parameters."""
    made.__signature__ = inspect.Signature(list(parameters))  # type: ignore[attr-defined]
    made.__annotations__ = {each.name: each.annotation for each in parameters}
    made.__name__, made.__doc__, made.__module__ = like.__name__, like.__doc__, like.__module__
    return made


def verb(*shown: str, name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a verb of a function in ``verbs/``, with examples (a decorator); its name is that of the function.

    A verb that takes ``reading`` gets the options of reading rows, as a dict; all of them get ``--debug``.
    """

    def made(run: Callable[..., None]) -> Callable[..., None]:
        own = own_parameters(run)
        reads = any(each.name == "reading" for each in own)

        def command(**given: Any) -> None:
            del given["debug"]
            if reads:
                reading = {option: given.pop(option) for option in _READING}
                given["reading"] = reading | {"columns": names_in(reading["columns"])}
            run(**given)

        options = [parameter(option, kind, None) for option, kind in _READING.items()]
        every = [each for one in own for each in (options if one.name == "reading" else [one])]
        command = with_signature(command, run, [*every, parameter("debug", Debug, False)])
        command.verb = name or run.__name__.rstrip("_"), shown  # type: ignore[attr-defined]
        return command

    return made


def add_verbs(app: typer.Typer, module: ModuleType) -> None:
    """Add the verbs of a module, as one group under the name of the module if it has a text ``GROUP``."""
    if hasattr(module, "GROUP"):
        group = typer.Typer(cls=Commands, help=module.GROUP, no_args_is_help=True, rich_markup_mode=None)
        app.add_typer(group, name=module.__name__.rpartition(".")[2])
        app = group
    for made in vars(module).values():
        if hasattr(made, "verb"):
            name, shown = made.verb
            app.command(name, epilog=examples(*shown))(made)
