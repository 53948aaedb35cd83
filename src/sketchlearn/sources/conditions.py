"""Row filters: comparisons of columns with values, joined by and, or and not.

    condition := both ("or" both)*
    both      := one ("and" one)*
    one       := "not" one | "(" condition ")" | comparison
    comparison := column operator value | column ["not"] "between" value "and" value
                | column ["not"] "in" "(" value ("," value)* ")" | column "is" ["not"] "null"

Names and values that hold spaces or signs are put into quotes: double ones for names, any for values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from sketchlearn.exceptions import InputError, Option


class Condition(NamedTuple):
    """A row filter: column, comparison, value."""

    column: str
    operator: str
    value: Any


class Junction(NamedTuple):
    """Several filters joined: ``"and"``, ``"or"``, or ``"not"`` of one."""

    kind: str
    parts: tuple[Condition | Junction, ...]


Filter = Condition | Junction

OPERATORS = ("==", "!=", "<=", ">=", "<", ">", "in", "not in", "is null")
_CONDITION = re.compile(r"""^\s*(?:"([^"]+)"|([^\s"<>=!]+))\s*(==|=|!=|<=|>=|<|>|not\s+in\b|in\b)\s*(.+?)\s*$""")
_TOKEN = re.compile(
    r"""\s*(?:"([^"]*)"|'([^']*)'|(==|=|!=|<=|>=|<|>)|([()\[\],])|([^\s()\[\],<>=!'"][^\s()\[\],<>=!]*))"""
)
_JOINED = re.compile(r"\b(and|or|between|is)\b|^\s*not\b|^\s*\(", re.IGNORECASE)
_QUOTED = re.compile(r""""[^"]*"|'[^']*'""")


def parse_condition(value: Any) -> Filter:
    """A filter from a triple, or from text such as ``age >= 30 and not (country in (DE, FR) or day < 2024-03-01)``."""
    if isinstance(value, Condition | Junction):
        return value
    if isinstance(value, str):
        joined = _JOINED.search(_QUOTED.sub(lambda m: " " * len(m[0]), value))
        return _Parser(value).whole() if joined else _single(value)
    try:
        column, operator, content = value
    except (TypeError, ValueError):
        raise InputError(
            Option("where"), f": a condition is (column, operator, value) or text, got {value!r}"
        ) from None
    operator = {"=": "=="}.get(operator, operator)
    if operator not in OPERATORS:
        raise InputError(Option("where"), f": unknown operator {operator!r}; choose one of {', '.join(OPERATORS)}")
    return Condition(str(column), operator, content)


def columns_in(filters: Iterable[Filter]) -> list[str]:
    """Names of all columns that some filters look at."""
    out = []
    for item in filters:
        out += [item.column] if isinstance(item, Condition) else columns_in(item.parts)
    return out


def renamed(item: Filter, name: Callable[[str], str]) -> Filter:
    """An equal filter on columns of other names."""
    if isinstance(item, Condition):
        return item._replace(column=name(item.column))
    return item._replace(parts=tuple(renamed(part, name) for part in item.parts))


def _single(text: str) -> Condition:
    """One comparison: everything after the operator is the value, quoted or not."""
    match = _CONDITION.match(text)
    if not match or match[4][0] in "<>=!":
        raise InputError(Option("where", text), f": write a column, one of {', '.join(OPERATORS[:8])}, and a value")
    column = match[1] or match[2]
    operator = {"=": "=="}.get(match[3], re.sub(r"\s+", " ", match[3]))
    if not operator.endswith("in"):
        return Condition(column, operator, _literal(match[4]))
    if not match[4].strip("()[] "):
        raise InputError(Option("where", text), ": there are no values to compare with")
    return Condition(column, operator, [_literal(v) for v in match[4].strip("()[]").split(",")])


class _Token(NamedTuple):
    kind: str  # "name" or "text" (quoted), "operator", "sign", "word"
    text: str


class _Parser:
    """Text from left to right, with one token to look at."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._tokens: list[_Token] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._wrong(f"can't be read from {text[position:].strip()[:20]!r} on")
            index = match.lastindex or 1
            self._tokens.append(_Token(("name", "text", "operator", "sign", "word")[index - 1], match[index]))
            position = match.end()

    def whole(self) -> Filter:
        found = self._either()
        if self._at < len(self._tokens):
            raise self._wrong(f"unexpected text: {self._tokens[self._at].text!r}")
        return found

    def _wrong(self, text: str) -> ValueError:
        return InputError(
            Option("where", self._text),
            f": {text}; write it like 'age >= 30 and (country in (DE, FR) or day between 2024-03-01 and 2024-03-31)'",
        )

    def _is(self, *words: str) -> bool:
        """Whether the next tokens are these keywords or signs; they are taken if so."""
        some = self._tokens[self._at : self._at + len(words)]
        if len(some) < len(words):
            return False
        for token, word in zip(some, words, strict=True):
            if token.kind not in ("word", "sign") or token.text.lower() != word:
                return False
        self._at += len(words)
        return True

    def _either(self) -> Filter:
        parts = [self._both()]
        while self._is("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Junction("or", tuple(parts))

    def _both(self) -> Filter:
        parts = [self._one()]
        while self._is("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else Junction("and", tuple(parts))

    def _one(self) -> Filter:
        if self._is("not"):
            return Junction("not", (self._one(),))
        if self._is("("):
            found = self._either()
            if not self._is(")"):
                raise self._wrong("a parenthesis is not closed")
            return found
        return self._comparison()

    def _comparison(self) -> Filter:
        if self._at >= len(self._tokens) or self._tokens[self._at].kind not in ("name", "word"):
            raise self._wrong("a column is missing")
        column = self._tokens[self._at].text
        self._at += 1
        if self._is("is", "not", "null"):
            return Junction("not", (Condition(column, "is null", None),))
        if self._is("is", "null"):
            return Condition(column, "is null", None)
        negated = self._is("not")
        if self._is("between"):
            low = self._value()
            if not self._is("and"):
                raise self._wrong("between needs two values, joined by 'and'")
            found: Filter = Junction("and", (Condition(column, ">=", low), Condition(column, "<=", self._value())))
            return Junction("not", (found,)) if negated else found
        if self._is("in"):
            return Condition(column, "not in" if negated else "in", self._list())
        if negated or self._at >= len(self._tokens) or self._tokens[self._at].kind != "operator":
            raise self._wrong(f"there is no comparison after {column!r}")
        operator = self._tokens[self._at].text
        self._at += 1
        return Condition(column, {"=": "=="}.get(operator, operator), self._value())

    def _list(self) -> list[Any]:
        closing = ")" if self._is("(") else "]" if self._is("[") else None
        if closing is None:
            raise self._wrong("values after 'in' are written in parentheses")
        out = [self._value()]
        while self._is(","):
            out.append(self._value())
        if not self._is(closing):
            raise self._wrong("a parenthesis is not closed")
        return out

    def _value(self) -> Any:
        """A quoted text, or words up to the next keyword or sign."""
        words: list[str] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.kind in ("name", "text") and not words:
                self._at += 1
                return token.text
            if token.kind != "word" or token.text.lower() in ("and", "or"):
                break
            words.append(token.text)
            self._at += 1
        if not words:
            raise self._wrong("a value is missing")
        return _literal(" ".join(words))


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


# -- as expressions of Arrow -----------------------------------------------------------------------


def arrow_expression(filters: Sequence[Filter], schema: Any) -> Any:
    """Filters, all of which must hold, as one Arrow expression; text is a date where the column holds dates."""
    import operator
    from functools import reduce

    return reduce(operator.and_, (_expression(item, schema) for item in filters))


def _expression(item: Filter, schema: Any) -> Any:
    import operator
    from functools import reduce

    import pyarrow.compute as pc

    if isinstance(item, Junction):
        parts = [_expression(part, schema) for part in item.parts]
        if item.kind == "not":
            return ~parts[0]
        return reduce(operator.and_ if item.kind == "and" else operator.or_, parts)
    field = pc.field(item.column)
    if item.operator == "is null":
        return field.is_null()
    if item.operator in ("in", "not in"):
        found = field.isin([_fitting(v, item.column, schema) for v in item.value])
        return ~found if item.operator == "not in" else found
    value = _fitting(item.value, item.column, schema)
    compare = {
        "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
    }  # fmt: skip
    return compare[item.operator](field, value)


def _fitting(value: Any, column: str, schema: Any) -> Any:
    """Text as a date or a time, if the column holds such; ValueError for text if it holds numbers."""
    import datetime

    import pyarrow as pa

    kind = schema.field(column).type if column in schema.names else None
    if not isinstance(value, str) or kind is None:
        return value
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        raise InputError(Option("where"), f": column {column!r} holds numbers, and {value!r} is not a number")
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return value
    try:
        moment = datetime.datetime.fromisoformat(value.strip())
    except ValueError:
        raise InputError(
            Option("where"),
            f": column {column!r} holds dates, and {value!r} is not a date: write 2024-03-31 or 2024-03-31T12:00",
        ) from None
    if pa.types.is_date(kind):
        return moment.date() if moment.time() == datetime.time() and moment.tzinfo is None else moment
    if kind.tz is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return pa.scalar(moment).cast(kind)
