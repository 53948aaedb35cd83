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
    "replace": "--replace",
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


def about_arguments(error: Any) -> str:
    """What typer says of a misspelt option, a value that is none of the choices, or no number, in our words.

    Empty for other errors.
    """
    said, parameter = str(getattr(error, "message", "")), getattr(error, "param", None)
    near = getattr(error, "possibilities", None)
    if near:
        return f"{said.rstrip('.')}; did you mean {' or '.join(sorted(near))}?"
    if parameter is None:
        return ""
    flag = max(parameter.opts, key=len, default=parameter.name)
    if found := re.search(r"'(.*)' is not one of (.+?)\.?$", said):
        return f"{flag} {found[1]}: choose one of {found[2].replace(chr(39), '')}"
    names = " or ".join(reversed(parameter.opts))
    if type(error).__name__ == "MissingParameter":
        asked = str(getattr(parameter, "help", "") or "").rstrip(".")
        name = parameter.metavar if parameter.param_type_name == "argument" else names
        return f"{name} is missing{': ' * bool(asked)}{asked[:1].lower()}{asked[1:]}"
    if found := re.search(r"(greater|less) than or equal to (\S+)", said):
        return f"{names} must be at {'least' if found[1] == 'greater' else 'most'} {found[2]}"
    if found := re.search(r"valid (integer|number)|not a valid (int|float)", said):
        return f"{flag}: give a {'whole ' if (found[1] or found[2]).startswith('int') else ''}number"
    return ""


def _flag(option: Option) -> str:
    if option.name in _FLAGS:
        return _FLAGS[option.name]
    flag = "-c" if option.name == "columns" else "--" + option.name.replace("_", "-")
    if option.value is None:
        return flag
    if isinstance(option.value, list):
        return f"{flag} {shlex.quote(listed(option.value))}"
    return f"{flag} {shlex.quote(str(option.value))}"
