"""Row filters: a column, a comparison and a value."""

from __future__ import annotations

import re
from typing import Any, NamedTuple


class Condition(NamedTuple):
    """A row filter: column, comparison, value."""

    column: str
    operator: str
    value: Any


OPERATORS = ("==", "!=", "<=", ">=", "<", ">", "in", "not in")
_CONDITION = re.compile(r"""^\s*(?:"([^"]+)"|([^\s"<>=!]+))\s*(==|=|!=|<=|>=|<|>|not\s+in\b|in\b)\s*(.+?)\s*$""")


def parse_condition(value: Any) -> Condition:
    """A condition from a triple, or from text such as ``age >= 30`` or ``country in (DE, FR)``."""
    if isinstance(value, str):
        match = _CONDITION.match(value)
        if not match:
            raise ValueError(f"where={value!r}: write a column, one of {', '.join(OPERATORS)}, and a value")
        column = match[1] or match[2]
        operator = {"=": "=="}.get(match[3], re.sub(r"\s+", " ", match[3]))
        if operator.endswith("in") and not match[4].strip("()[] "):
            raise ValueError(f"where={value!r}: there are no values to compare with")
        if re.search(r"\s(and|or)\s", match[4], re.IGNORECASE) and match[4][0] not in "'\"([":
            raise ValueError(f"where={value!r}: give one condition each; all of them must hold")
        if operator.endswith("in"):
            return Condition(column, operator, [_literal(v) for v in match[4].strip("()[]").split(",")])
        return Condition(column, operator, _literal(match[4]))
    try:
        column, operator, content = value
    except (TypeError, ValueError):
        raise ValueError(f"where: a condition is (column, operator, value) or text, got {value!r}") from None
    operator = {"=": "=="}.get(operator, operator)
    if operator not in OPERATORS:
        raise ValueError(f"where: unknown operator {operator!r}; choose one of {', '.join(OPERATORS)}")
    return Condition(str(column), operator, content)


def _literal(text: str) -> Any:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
