"""Finds the types of structs that functions return, from the names and constants in the call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from etl.api import parse_type
from etl.expressions.bound_node import BoundNode
from etl.expressions.widening import NULL

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

STRUCT_FUNCTIONS = frozenset(("named_struct", "struct", "from_json", "from_csv", "from_xml"))
_MEMBER = re.compile(r"`?([\w@.\-]+)`?\s*:?\s+(.+)", re.DOTALL)


def find_struct_type(name: str, node: Node, args: Sequence[BoundNode]) -> pa.DataType:
    """Return the type of a call, ``null`` if its members are unknown."""
    if name.startswith("from_"):
        text = args[1].value if len(args) > 1 and args[1].is_literal else None
        return _parse_ddl(text) if isinstance(text, str) else NULL
    values = args[1::2] if name == "named_struct" else args
    names = [arg.value if arg.is_literal else None for arg in args[::2]] if name == "named_struct" else _member_names(node)
    if not names or len(names) != len(values) or not all(isinstance(name, str) for name in names):
        return NULL
    return pa.struct([(member, value.type) for member, value in zip(names, values, strict=True)])


def _member_names(node: Node) -> list[str]:
    """Return Spark's names for the members of ``struct(a, b AS c, b + 1)``: the given one, the column's, else ``col`` and the
    number."""
    parts = node.expressions
    if any(type(part).__name__ == "PropertyEQ" for part in parts):
        return []
    has_name = [type(part).__name__ in ("Column", "Dot", "Alias") for part in parts]
    return [
        part.output_name or part.name if named else f"col{at}"
        for at, (part, named) in enumerate(zip(parts, has_name, strict=True), 1)
    ]


def _parse_ddl(text: str) -> pa.DataType:
    """Return the type of a schema in DDL: ``a int, b array<string>``."""
    try:
        if re.match(r"\s*(?:struct|array|map)\s*<", text, re.IGNORECASE):
            return parse_type(text)
        members = [found for part in _split_at_commas(text) if (found := _MEMBER.fullmatch(part.strip()))]
        return pa.struct([(found[1], parse_type(found[2].strip())) for found in members]) if members else NULL
    except ValueError:
        return NULL


def _split_at_commas(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
