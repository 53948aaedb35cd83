"""How help looks: verbs in groups, examples below the options, choices that are listed and completed."""

from __future__ import annotations

import importlib
import pkgutil
from difflib import get_close_matches
from typing import Any, Literal, get_args

from typer.core import TyperGroup

SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("demo", "profile", "design", "sketch", "info"),
    "Learn": ("sweep", "learn", "predict", "synthesize", "spectral"),
    "Add and remove": ("merge", "subtract", "store", "serve", "contribute"),
    "Compare": ("compare", "drift", "independence", "verify"),
    "Show": ("report", "plot"),
    "Publish privately": ("privatize", "ledger"),
    "Other": ("warmup",),
}
"""The verbs by what they are for; one that is missing here is shown under Other."""

Task = Literal[
    "kmeans", "kmedians", "gmm", "stable", "monitoring", "pca", "regression", "cca", "nmf", "classifier", "ica",
    "dictionary", "subspaces", "anomaly", "columns",
]  # fmt: skip
Covariance = Literal["full", "tied", "diag", "spherical"]
Decoder = Literal[
    "auto", "tuning-free", "clompr", "clomp", "splitting", "cl-amp", "sketch-and-shift", "sliding-frank-wolfe", "adcg",
    "thresholding", "particle-flow",
]  # fmt: skip
FileFormat = Literal["parquet", "csv", "tsv", "arrow", "jsonl", "npy", "hdf5", "zarr", "sqlite", "duckdb"]


def examples(*lines: str) -> str:
    """The end of a help text: commands that can be copied, as they are.

    Examples
    --------
    >>> from sketchlearn.cli.help import examples
    >>> print(examples("info all.sketch").replace("\\b", ""))
    <BLANKLINE>
    Examples:
      sketchlearn info all.sketch
    """
    return "\n".join(["\b", "Examples:", *(f"  sketchlearn {line}" for line in lines)])


def plain(command: Any) -> None:
    """Name values in help by words instead of Python's types: ``TEXT``, ``NUMBER`` or the choices.

    Older versions of typer do that themselves; their parameters have no ``type_descriptor``.
    """
    for child in getattr(command, "commands", {}).values():
        plain(child)
    for each in command.params:
        kind = getattr(each, "type_descriptor", None)
        if kind is None or each.metavar is not None:
            continue
        if each.param_type_name == "argument":
            each.metavar = each.name.upper()
            each.display_type_rich = lambda ctx: ""
        elif not kind.is_choice and not kind.is_datetime:
            each.metavar = "NUMBER" if kind.is_ranged or kind.annotation in (int, float) else "TEXT"
            each._get_number_range_help_str = lambda: None  # what is out of range gets an error that says so


class Commands(TyperGroup):
    """The commands of a verb, each with its whole summary."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command; where there is none of this name, nor of a similar one, the error lists all."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as raised:
            error: Any = raised
            said = str(getattr(error, "message", ""))
            if said.startswith("No such command") and "mean" not in said:
                first = next(iter(self.commands))
                error.message = (
                    f"{ctx.info_name} {args[0]}: a command must come first ({', '.join(self.commands)}), e.g. "
                    f"'{ctx.command_path} {first} {args[0]}'"
                )
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write them in their order."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(200)) for name, each in self.commands.items()])


def _commands_of_groups() -> dict[str, str]:
    """The commands that come after a verb, as ``{"kmeans": "learn kmeans", ...}``; it loads all verbs."""
    from sketchlearn.cli import verbs

    found: dict[str, str] = {}
    for name in sorted(module.name for module in pkgutil.iter_modules(verbs.__path__)):
        module = importlib.import_module(f"{verbs.__name__}.{name}")
        if hasattr(module, "GROUP"):
            made = (each.verb[0] for each in vars(module).values() if hasattr(each, "verb"))
            found |= {command: f"{name} {command}" for command in made}
    return found


def _elsewhere(name: str, guess: bool) -> str:
    """Where a command is that is none by itself, or one of a similar name, in words; empty if nowhere."""
    known = {"kmedians": "learn kmeans --medians", **_commands_of_groups()}
    if name in get_args(Task) and name not in known:
        return f"'{name}' is a task of 'design' and 'sketch': write --task {name}"
    near = [name] if name in known else get_close_matches(name, known, 1, 0.8) if guess else []
    return f"No such command '{name}'. Did you mean 'sketchlearn {known[near[0]]}'?" if near else ""


class Verbs(TyperGroup):
    """The verbs in groups, each with its whole summary."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command; a name that belongs to another verb, like that of a task, leads there."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as raised:
            error: Any = raised
            said = str(getattr(error, "message", ""))
            if said.startswith("No such command"):
                error.message = _elsewhere(args[0], "Did you mean" not in said) or said
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section for each group."""
        listed = [name for names in SECTIONS.values() for name in names]
        rest = tuple(name for name in self.list_commands(ctx) if name not in listed)
        for title, names in SECTIONS.items():
            shown = names + rest if title == "Other" else names
            rows = [(name, self.commands[name].get_short_help_str(200)) for name in shown if name in self.commands]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
