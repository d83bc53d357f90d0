"""Functions whose arguments are not a plain list, arrays, maps and rows, literals with an escape."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from etl.sql.functions.intervals import interval_value, is_interval, shifted_time
from etl.sql.functions.typed_nodes import call, sql_type, typed, unwrapped
from etl.sql.statements import ScriptError, start


def rewrite_trim(node: Any, written: Any) -> Any:
    characters = node.args.get("expression")
    if characters is None:
        return node
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "btrim")
    return call(f"flink_{name}", node.this, characters)


def rewrite_substring(node: Any, written: Any) -> Any:
    return substring_call(*(node.args[name] for name in ("this", "start", "length") if node.args.get(name) is not None))


def substring_call(*arguments: Any) -> Any:
    """Spark's function where the position is at least 1 and the length no negative number."""
    numbers = [one.this if type(one).__name__ == "Literal" and not one.is_string else None for one in arguments[1:]]
    is_plain = numbers and None not in numbers and str(numbers[0]) != "0" and len(arguments) <= 3
    return typed(call("substring" if is_plain else "flink_substring", *arguments), "string")


def rewrite_position(node: Any, written: Any) -> Any:
    more = [node.args["position"]] if node.args.get("position") is not None else []
    return call("flink_locate", node.args["substr"], node.this, *more)


def rewrite_overlay(node: Any, written: Any) -> Any:
    names = ("this", "expression", "from_", "for_")
    return call("flink_overlay", *(node.args[name] for name in names if node.args.get(name) is not None))


def rewrite_extract(node: Any, written: Any) -> Any:
    if is_interval(node.expression):
        return typed(call("flink_interval_part", written.this.name.lower(), interval_value(node.expression)), "bigint")
    return typed(call("flink_extract", written.this.name.lower(), node.expression), "bigint")


def rewrite_rounding(name: str) -> Callable[[Any, Any], Any]:
    def rewrite(node: Any, written: Any) -> Any:
        unit = node.args.get("to")
        if unit is None:
            return typed(call(f"flink_{name}", unwrapped(node.this)), sql_type(node.this))
        return typed(call(f"flink_{name}", node.this, unit.name.lower()), sql_type(node.this), node.this.meta.get("precision"))

    return rewrite


def rewrite_overlaps(node: Any, written: Any) -> Any:
    ends = []
    for pair in (written.this, written.expression):
        parts = node.this.expressions if pair is written.this else node.expression.expressions
        first, last = parts
        ends += [first, shifted_time(first.copy(), last, 1) if type(last).__name__ == "Interval" else last]
    return call("flink_overlaps", *ends)


def rewrite_bracket(node: Any, written: Any) -> Any:
    """``ARRAY[…]``, ``MAP[…]``, and elements, which are counted from 1."""
    if getattr(written.this, "name", "").upper() == "MAP" and type(written.this).__name__ == "Column":
        return call("flink_map", *node.expressions)
    index = node.expressions[0]
    if len(node.expressions) != 1:
        return node
    if (type(index).__name__ == "Literal" and not index.is_string and int(index.this) < 1) or type(index).__name__ == "Neg":
        raise ScriptError("wrong-arguments", "elements of an array are counted from 1", start(written))
    return call("flink_element_at", node.this, index)


def rewrite_array(node: Any, written: Any) -> Any:
    return call("flink_array", *node.expressions)


def rewrite_row(node: Any, written: Any) -> Any:
    return call("flink_row", *node.expressions)


def rewrite_bytes(node: Any, written: Any) -> Any:
    return typed(call("unhex", node.this), "binary")


def rewrite_unicode_text(node: Any, written: Any) -> Any:
    from sqlglot import exp

    text = re.sub(r"\\(\\|[0-9A-Fa-f]{4}|\+[0-9A-Fa-f]{6})", lambda found: _character(found[1]), str(node.this))
    return exp.Literal.string(text)


def _character(code: str) -> str:
    return code if code == "\\" else chr(int(code.lstrip("+"), 16))


def rewrite_current_time(name: str) -> Callable[[Any, Any], Any]:
    return lambda node, written: typed(call(f"flink_{name}"), "date" if name == "current_date" else "timestamp")
