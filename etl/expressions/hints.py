"""Hints: what the user most likely meant, from the syntax tree around a mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import Schema, closest, nearest
from etl.expressions.library import catalogue

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlglot.expressions import Expr as Node

COMPARISONS = frozenset(("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NullSafeEQ"))
_BESIDE_TEXTS = COMPARISONS | {"In", "Like", "ILike", "RegexpLike", "Between"}
_NOTHING = frozenset(("none", "nil", "undefined", "nan"))

_OTHER_NAMES = {
    "downcase": "lower", "lowercase": "lower", "to_lower": "lower", "tolower": "lower", "tolowercase": "lower",
    "upcase": "upper", "uppercase": "upper", "to_upper": "upper", "toupper": "upper", "touppercase": "upper",
    "strip": "trim", "strip_whitespace": "trim", "strlen": "length", "string_length": "length", "includes": "contains",
    "has": "contains", "match": "regexp_like", "matches": "regexp_like", "re_match": "regexp_like", "regex_match": "regexp_like",
    "regexp_matches": "regexp_like", "regex_replace": "regexp_replace", "gsub": "regexp_replace", "re_replace": "regexp_replace",
    "iff": "if", "iif": "if", "cidrmatch": "ip_in", "cidr_match": "ip_in", "ip_cidr_contains": "ip_in",
    "ipv4_is_in_range": "ip_in",
    "to_int": "int", "toint": "int", "to_string": "string", "tostring": "string", "str": "string", "to_float": "double",
    "todouble": "double", "to_bool": "boolean", "tobool": "boolean", "long": "bigint", "text": "string",
    "parse_timestamp": "to_timestamp",
    "strptime": "to_timestamp", "format_timestamp": "date_format", "strftime": "date_format", "parse_regex": "regexp_extract",
    "starts_with": "startswith", "ends_with": "endswith", "indexof": "instr", "index_of": "instr", "strpos": "instr",
    "exists": "is not null", "defined": "is not null", "is_null": "isnull", "is_not_null": "isnotnull", "isempty": "= ''",
    "ifelse": "if", "array_length": "array_size", "list_contains": "array_contains", "mapcontains": "map_contains_key",
}  # fmt: skip
"""Functions of other languages → Spark's, lower case."""


def field_hint(name: str, node: Node, names: Collection[str], schema: Schema) -> str | None:
    """What to write for a field that does not exist."""
    members = [other for other in names if other.lower().startswith(f"{name.lower()}.")]
    if members:
        return f"its members are fields: {', '.join(members[:5])}"
    if name.lower() in _NOTHING:
        return "write null: x is null, x is not null"
    rest = name.partition(".")[2]
    near = f"did you mean {rest!r}?" if rest in names else nearest(name, names)
    if _beside_text(node, schema):
        quotes = f"a text needs quotes: '{name}'"
        return f"{near} {quotes}" if near else quotes
    return near or (f"fields here: {', '.join(list(names)[:20])}" if names else None)


def _beside_text(node: Node, schema: Schema) -> bool:
    """Whether the node is compared with a text field."""
    parent = node.parent
    if parent is None or type(parent).__name__ not in _BESIDE_TEXTS or "." in node.sql():
        return False
    others = [part for part in parent.iter_expressions() if part is not node and type(part).__name__ == "Column"]
    return any(_type(part, schema) == pa.string() for part in others)


def _type(column: Node, schema: Schema) -> pa.DataType | None:
    name = ".".join(part.name for part in getattr(column, "parts", ()))
    return schema.field(name).type if name in schema.names else None


def function_hint(
    name: str, names: Collection[str], prefixed: Collection[str] = (), scripts: Mapping[str, str] | None = None
) -> str | None:
    """Spark's function that has this name in other languages, or the one with the nearest name.

    ``prefixed``: functions that have this name in scripts; ``scripts``: all names in scripts → the functions.
    """
    why = catalogue.unsupported_functions().get(name)
    if why is not None:
        return f"Flink has it; here {why}"
    if prefixed:
        return f"in expressions of YAML it is {' or '.join(repr(one) for one in prefixed)}"
    other = _OTHER_NAMES.get(name)
    if other is not None and other.isidentifier():
        return f"Spark's name is {other!r}" if other != "ip_in" else "that is 'ip_in' here: ip_in(address, '10.0.0.0/8')"
    if other is not None:
        return f"write x {other}"
    near, in_scripts = closest(name, names), closest(name, scripts or ())
    if scripts is None or in_scripts is None or _likeness(name, near) + _CLEARLY > _likeness(name, in_scripts):
        return nearest(name, names)
    return f"did you mean {in_scripts!r} in a SQL script, {scripts[in_scripts]!r} in expressions of YAML?"


_CLEARLY = 0.1
"""By how much a name of scripts must be more like a word than one of expressions."""


def _likeness(name: str, other: str | None) -> float:
    """From 0 to 1."""
    from difflib import SequenceMatcher

    return 0.0 if other is None else SequenceMatcher(None, name, other).ratio()


def method_hint(node: Node, names: Collection[str]) -> str | None:
    """``level.startswith('x')`` → ``startswith(level, 'x')``; None for other nodes."""
    call = node.expression if type(node).__name__ == "Dot" else None
    if call is None or type(call).__name__ != "Anonymous":
        return None
    name = str(call.this).lower()
    given = ", ".join([node.this.sql(dialect="spark"), *(part.sql(dialect="spark") for part in call.expressions)])
    known = _OTHER_NAMES.get(name, name)
    return f"write a function call: {known if known in names else name}({given})"


def joined_conditions(node: Node) -> Node | None:
    """The ``||`` between two comparisons: ``a = 1 || b = 2`` compares ``a`` with what ``1 || b = 2`` gives."""
    if type(node).__name__ not in COMPARISONS:
        return None
    sides = (node.this, node.expression)
    if not any(type(side).__name__ in COMPARISONS for side in sides):
        return None
    parts = [*sides, *(part for side in sides if type(side).__name__ in COMPARISONS for part in (side.this, side.expression))]
    return next((part for part in parts if type(part).__name__ == "DPipe"), None)


def chain_hint(node: Node) -> str | None:
    """How to write the range ``1 < n < 5``; None for other nodes."""
    inner = node.this if type(node).__name__ in COMPARISONS else None
    if inner is None or type(inner).__name__ not in _SIGNS:
        return None
    left, middle, right = inner.this, inner.expression, node.expression
    shown = [part.sql(dialect="spark") for part in (left, middle, middle, right)]
    return "two comparisons: {} {} {} and {} {} {}".format(
        shown[0], _SIGNS[type(inner).__name__], shown[1], shown[2], _SIGNS.get(type(node).__name__, "="), shown[3]
    )


_SIGNS = {"LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}


def lone_text(node: Node) -> str | None:
    """How to write ``level = 'a' or 'b'``; None for other nodes."""
    parent = node.parent
    if type(node).__name__ != "Literal" or not node.args.get("is_string") or parent is None:
        return None
    compared = next((part for part in parent.flatten() if type(part).__name__ == "EQ"), None)
    if type(parent).__name__ != "Or" or compared is None:
        return "a text is not a condition: compare it with a field"
    shown = [part.sql(dialect="spark") for part in (compared.this, compared.expression, node)]
    return f"write {shown[0]} in ({shown[1]}, {shown[2]})"
