"""Messages of the library in the words of the command line: parameters become options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Any

from sketchlearn.exceptions import Advice, Option
from sketchlearn.words import listed

_FLAGS = {
    "bounds": "bounds (--lower and --upper)",
    "encoder": "--encode",
    "force": "--force",
    "n_components": "-k",
    "on_invalid": "--skip-invalid",
    "public_map": "--public-map",
    "restart": "--restart",
    "standardize": "--standardize",
}
"""Options that say all by being there."""


def on_command_line(message: Any) -> str:
    """A message as the command line says it.

    Examples
    --------
    >>> from sketchlearn.cli.wording import on_command_line
    >>> from sketchlearn.exceptions import InputError, Option
    >>> on_command_line(InputError("leave them out with ", Option("on_invalid", "skip")))
    'leave them out with --skip-invalid'
    >>> on_command_line(InputError("read ", Option("columns", ["a", "b"])))
    'read -c a,b'
    """
    if not isinstance(message, Advice):
        return str(message)
    return joined(message.parts)


def joined(parts: Iterable[Any]) -> str:
    """The parts of a message as one text."""
    return "".join(_flag(part) if isinstance(part, Option) else str(part) for part in parts)


def about_option(error: Exception) -> bool:
    """Whether an error is about the value of an option: it begins with it."""
    return isinstance(error, Advice) and isinstance(error.parts[0], Option)


def about_choices(error: Any) -> str:
    """What typer says of a value that is none of the choices of an option, in our words; empty for other errors."""
    found = re.search(r"'(.*)' is not one of (.+?)\.?$", str(getattr(error, "message", "")))
    parameter = getattr(error, "param", None)
    if found is None or parameter is None:
        return ""
    flag = next(iter(parameter.opts), parameter.name)
    return f"{flag} {found[1]}: choose one of {found[2].replace(chr(39), '')}"


def _flag(option: Option) -> str:
    if option.name in _FLAGS:
        return _FLAGS[option.name]
    flag = "-c" if option.name == "columns" else "--" + option.name.replace("_", "-")
    if option.value is None:
        return flag
    if isinstance(option.value, list):
        return f"{flag} {shlex.quote(listed(option.value))}"
    return f"{flag} {shlex.quote(str(option.value))}"
