"""Options that several verbs take, declared once and added to the signature that the help is made from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from sketchlearn.cli.app import (
    Columns,
    Dataset,
    Decimal,
    Delimiter,
    Dtype,
    Encoding,
    Format,
    Query,
    Where,
    names_in,
)

_READING = {
    "columns": Columns, "where": Where, "query": Query, "dataset": Dataset, "format": Format, "dtype": Dtype,
    "delimiter": Delimiter, "decimal": Decimal, "encoding": Encoding,
}  # fmt: skip
TEXT = ("delimiter", "decimal", "encoding")
"""Options of :func:`reads` that are about text."""


def parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """An option, or with no default an argument or option that must be given."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def own_parameters(verb: Callable[..., Any]) -> list[inspect.Parameter]:
    """Those of a verb, as keywords."""
    named = inspect.Parameter.KEYWORD_ONLY
    return [each.replace(kind=named) for each in inspect.signature(verb, eval_str=True).parameters.values()]


def with_signature(made: Callable[..., None], like: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> Any:
    """A function under the name of a verb, with other parameters."""
    made.__signature__ = inspect.Signature(list(parameters))  # type: ignore[attr-defined]
    made.__annotations__ = {each.name: each.annotation for each in parameters}
    made.__name__, made.__doc__ = like.__name__, like.__doc__
    return made


def reads(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb that takes ``reading`` the options of reading rows, as a dict (a decorator)."""

    def made(**given: Any) -> None:
        reading = {name: given.pop(name) for name in _READING}
        verb(**given, reading=reading | {"columns": names_in(reading["columns"])})

    options = [parameter(name, kind, None) for name, kind in _READING.items()]
    own = ([each] if each.name != "reading" else options for each in own_parameters(verb))
    return with_signature(made, verb, [each for some in own for each in some])
