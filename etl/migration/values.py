"""Values of an imported pipeline: expressions with the type and the fields that they read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from etl.expressions.quoting import quoted, quoted_text

TEXT = "string"
WHOLE = "bigint"
NUMBER = "double"
TRUTH = "boolean"
TIME = "timestamp"
TEXTS = "array<string>"
NOTHING = "null"
"""Types of values: names of Spark SQL types, and ``null`` for a value that is always null."""

_WHOLES = ("int", WHOLE)
_NUMBERS = (*_WHOLES, "float", NUMBER)


@dataclass(frozen=True)
class Value:
    """An expression in Spark SQL."""

    sql: str
    type: str
    reads: frozenset[str] = frozenset()
    """Fields that it reads."""

    @property
    def is_null(self) -> bool:
        return self.type == NOTHING

    @property
    def is_literal(self) -> bool:
        """Whether it is one text, number or boolean."""
        return not self.reads and (self.sql[0] in "'-0123456789" or self in (TRUE, FALSE))

    @property
    def is_array(self) -> bool:
        return self.type.startswith("array<")

    @property
    def is_number(self) -> bool:
        return self.type in _NUMBERS


NULL = Value("null", NOTHING)
TRUE = Value("true", TRUTH)
FALSE = Value("false", TRUTH)


def field_value(name: str, type_: str) -> Value:
    return Value(quoted(name), type_, frozenset([name]))


def text_value(text: str) -> Value:
    return Value(quoted_text(text), TEXT)


def constant(value: object) -> Value:
    """The value of a scalar or a list of scalars of YAML or JSON."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, int):
        return Value(str(value), WHOLE)
    if isinstance(value, float):
        return Value(f"{value!r}D" if math.isfinite(value) else f"cast('{value}' as double)", NUMBER)
    if isinstance(value, list):
        return array_of([constant(one) for one in value])
    return text_value(str(value))


def array_of(items: Iterable[Value]) -> Value:
    """An array; of items with unlike types it is one of texts."""
    items = list(items)
    types = {one.type for one in items if not one.is_null}
    type_ = types.pop() if len(types) == 1 else TEXT
    return call("array", [as_type(one, type_) for one in items], f"array<{type_}>")


def call(function: str, arguments: Iterable[Value], type_: str) -> Value:
    arguments = list(arguments)
    return Value(f"{function}({', '.join(one.sql for one in arguments)})", type_, reads_of(arguments))


_MARK = "\x1f"
"""A character that separates the parts of a text for a moment: ASCII's unit separator."""


_REGEX_SIGNS = re.compile(r"[\\^$.|?*+()\[\]{}]")


def split_text(text: Value, pattern: str) -> Value:
    """The parts of a text between matches of a regular expression. ``split`` in Arrow takes literal separators only."""
    if not _REGEX_SIGNS.search(pattern):
        return call("split", [text, text_value(pattern)], TEXTS)
    marked = call("regexp_replace", [text, text_value(pattern), text_value(_MARK)], TEXT)
    return call("split", [marked, text_value(_MARK)], TEXTS)


def split_literal(text: Value, separator: str) -> Value:
    """The parts of a text between a separator."""
    return split_text(text, _REGEX_SIGNS.sub(r"\\\g<0>", separator))


def without_item(items: Value, item: str) -> Value:
    """A list of texts without those that are equal to one; null if none is left. ``array_remove`` has no Arrow form."""
    mark = quoted_text(_MARK)
    marked = f"concat({mark}, array_join({items.sql}, {quoted_text(_MARK * 2)}), {mark})"
    left = f"replace({marked}, {quoted_text(_MARK + item + _MARK)}, '')"
    ends = quoted_text("^" + _MARK + "|" + _MARK + "\\z")
    inner = f"nullif(regexp_replace({left}, {ends}, ''), '')"
    return Value(f"split({inner}, {quoted_text(_MARK * 2)})", TEXTS, items.reads)


def reads_of(values: Iterable[Value]) -> frozenset[str]:
    return frozenset().union(*(one.reads for one in values))


def as_type(value: Value, type_: str) -> Value:
    """The value in another type; null where it does not fit."""
    if value.type == type_ or value.is_null:
        return Value(value.sql, type_, value.reads) if value.is_null else value
    if type_.startswith("array<"):
        item = as_type(value, type_[6:-1])
        if not value.reads:
            return Value(f"array({item.sql})", type_)
        return Value(f"case when {item.sql} is not null then array({item.sql}) end", type_, value.reads)
    if value.is_array:
        joined = f"array_join({value.sql}, ', ')" if value.type == TEXTS else f"cast({value.sql} as string)"
        return Value(joined, TEXT, value.reads) if type_ == TEXT else as_type(Value(joined, TEXT, value.reads), type_)
    cast = "cast" if type_ == TEXT else "try_cast"
    return Value(f"{cast}({value.sql} as {type_})", type_, value.reads)


def of_each(function: Callable[[Value], Value], value: Value) -> Value:
    """The function of a value; of an array, the array of its results."""
    if not value.is_array:
        return function(value)
    made = function(Value("x", value.type[6:-1]))
    return Value(f"transform({value.sql}, x -> {made.sql})", f"array<{made.type}>", value.reads)


def common_type(one: str, other: str) -> str:
    """The type that holds values of both."""
    if NOTHING in (one, other) or one == other:
        return other if one == NOTHING else one
    if one.startswith("array<") or other.startswith("array<"):
        items = (name[6:-1] if name.startswith("array<") else name for name in (one, other))
        return f"array<{common_type(*items)}>"
    if {one, other} <= {*_WHOLES}:
        return WHOLE
    return NUMBER if {one, other} <= {*_NUMBERS} else TEXT


def choose(condition: Value | None, value: Value, other: Value) -> Value:
    """The value where the condition is true, else the other; both in their common type. No condition is always true."""
    if condition is None or condition == TRUE:
        return value
    if condition == FALSE:
        return other
    if condition.sql == f"{other.sql} is not null":
        other = NULL
    type_ = common_type(value.type, other.type)
    first, second = as_type(value, type_), as_type(other, type_)
    rest = "" if other.is_null else f" else {second.sql}"
    return Value(f"case when {condition.sql} then {first.sql}{rest} end", type_, reads_of([condition, first, second]))


def both(one: Value | None, other: Value | None) -> Value | None:
    """Both conditions; None is always true, and what is always true is None."""
    one, other = (None if x == TRUE else x for x in (one, other))
    if one is None or other is None:
        return one or other
    if FALSE in (one, other):
        return FALSE
    return Value(f"{_enclosed(one)} and {_enclosed(other)}", TRUTH, reads_of([one, other]))


def either(one: Value, other: Value) -> Value:
    if TRUE in (one, other):
        return TRUE
    if one == FALSE:
        return other
    if other == FALSE:
        return one
    return Value(f"{_enclosed(one)} or {_enclosed(other)}", TRUTH, reads_of([one, other]))


def negation(value: Value) -> Value:
    """The opposite; null counts as false."""
    if value in (TRUE, FALSE):
        return FALSE if value == TRUE else TRUE
    if value.sql.endswith(" is null") and " " not in value.sql[:-8]:
        return Value(value.sql[:-8] + " is not null", TRUTH, value.reads)
    if inner := _negated(value.sql):
        return Value(f"coalesce({inner}, false)", TRUTH, value.reads)
    return Value(f"not coalesce({value.sql}, false)", TRUTH, value.reads)


_BEGIN, _END = "not coalesce(", ", false)"


def _negated(sql: str) -> str:
    """What a whole expression is the negation of, as `negation` writes it; empty if it is none."""
    if not (sql.startswith(_BEGIN) and sql.endswith(_END)):
        return ""
    inner = sql[len(_BEGIN) : -len(_END)]
    depth = 0
    for character in re.sub(r"'(?:[^'\\]|\\.)*'", "", inner):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return ""
    return inner


def is_null(value: Value) -> Value:
    """Whether a value is missing."""
    if value.is_literal:
        return FALSE
    return TRUE if value.is_null else Value(f"{value.sql} is null", TRUTH, value.reads)


def _enclosed(value: Value) -> str:
    return f"({value.sql})" if " and " in value.sql or " or " in value.sql else value.sql
