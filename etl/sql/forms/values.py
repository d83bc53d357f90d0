"""``VALUES`` and queries without FROM → the source `inline`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from etl.sql.columns import Scope, SqlColumn, spark_type
from etl.sql.compiled import CompiledScript
from etl.sql.expressions import full_type, spark_text
from etl.sql.relation import Relation, StepText
from etl.sql.statements import ScriptError, start

MAX_ROWS = 10_000
"""Rows of a VALUES; more belong into a file."""
_ROW = "row_number"
"""Field with the number of a row, where values are computed."""
_NUMBERS = ("int", "bigint", "decimal", "double")

Constant = tuple[Any, str | None]
"""A value and its type, None for NULL without one."""


def values_relation(compiled: CompiledScript, node: Any, names: Sequence[str] = ()) -> Relation:
    """The rows of ``VALUES (…), (…)``; ``names``: its columns, if there are as many. Raises ScriptError."""
    rows = [_cells(row) for row in node.expressions]
    at = start(node) or (start(node.expressions[0]) if node.expressions else 0)
    width = len(rows[0]) if rows else 0
    if not width or any(len(row) != width for row in rows):
        raise ScriptError("wrong-columns", "the rows of VALUES have different numbers of columns", at)
    if len(rows) > MAX_ROWS:
        raise ScriptError("file-too-large", f"VALUES has more than {MAX_ROWS:,} rows", at, "read them from a file")
    names = names if len(names) == width else [f"EXPR_{number}" for number in range(width)]
    fields: dict[str, str] = {}
    given: list[dict[str, Any]] = [{} for _ in rows]
    computed: dict[str, str] = {}
    for name, cells in zip(names, zip(*rows, strict=True), strict=True):
        literals = [_literal(cell) for cell in cells]
        type_ = _common_type([one[1] for one in literals if one is not None]) if None not in literals else None
        if type_ is None:
            computed[name] = _by_row([spark_text(cell, Scope(())) for cell in cells])
            continue
        fields[name] = type_
        for row, literal in zip(given, literals, strict=True):
            if literal is not None and literal[0] is not None:
                row[name] = literal[0]
    if computed:
        fields[_ROW] = "int"
        for number, row in enumerate(given):
            row[_ROW] = number
    source = _add_source(compiled, fields, given, at)
    numbers = Scope((SqlColumn(_ROW, _ROW, "int"),))
    types = fields | {name: full_type(None, text, numbers) for name, text in computed.items()}
    columns = tuple(SqlColumn(name, name, types.get(name)) for name in names)
    relation = Relation((source,), (), Scope(columns))
    if not computed:
        return relation
    values = {name: computed.get(name) or name for name in names}
    return relation.then(StepText({"type": "select", "fields": values}, at))


def single_row(compiled: CompiledScript, at: int) -> Relation:
    """One row without columns, for a query without FROM."""
    return Relation((_add_source(compiled, {_ROW: "int"}, [{_ROW: 0}], at),), (), Scope(()), is_exact=False)


def _cells(row: Any) -> list[Any]:
    from sqlglot import exp

    return list(row.expressions) if isinstance(row, exp.Tuple) else [row]


def _by_row(texts: Sequence[str]) -> str:
    if len(set(texts)) == 1:
        return texts[0]
    return f"CASE {_ROW} {' '.join(f'WHEN {number} THEN {text}' for number, text in enumerate(texts))} END"


def _add_source(compiled: CompiledScript, fields: dict[str, str], rows: list[dict[str, Any]], at: int) -> str:
    source = {"type": "inline", "fields": fields, "rows": rows}
    for name, other in compiled.value["sources"].items():
        if other == source:  # a script often has the same rows several times, and each source is read by itself
            return str(name)
    name = compiled.free_name("values")
    compiled.value["sources"][name] = source
    compiled.locations["sources", name] = at, at
    return name


def _literal(node: Any) -> Constant | None:
    """The value that an expression writes, None for one that must be computed."""
    from sqlglot import exp

    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Null):
        return None, None
    if isinstance(node, exp.Boolean):
        return bool(node.this), "boolean"
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(f"-{node.this.name}")
    if isinstance(node, exp.Literal):
        return (node.name, "string") if node.is_string else _number(node.name)
    return _cast(node) if isinstance(node, exp.Cast) else None


def _number(text: str) -> Constant | None:
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text), "int" if abs(int(text)) < 2**31 else "bigint"
    if found := re.fullmatch(r"-?(\d{0,18})\.(\d{0,18})", text):
        digits, scale = found[1].lstrip("0"), len(found[2])
        return text, f"decimal({max(1, len(digits) + scale)},{scale})"
    return (text, "double") if re.fullmatch(r"-?[\d.]+[eE][+-]?\d+", text) else None


def _cast(node: Any) -> Constant | None:
    """``CAST(1.5 AS DOUBLE)``, ``TIMESTAMP '…'``: the value under its type, where nothing is to be computed."""
    inner = _literal(node.this)
    if inner is None:
        return None
    value, written = inner
    type_ = spark_type(node.args["to"])
    family = type_.split("(")[0]
    if any(one in type_ for one in "<"):
        return None
    if value is None or family == written:
        return value, type_
    if family in ("timestamp", "date") and written == "string" and re.fullmatch(r"\d{4}-\d\d-\d\d.*", value):
        return value, type_
    if family in ("double", "float") and written is not None and written.split("(")[0] in _NUMBERS:
        return value, type_
    return (value, type_) if family in ("bigint", "int") and written in ("int", "bigint") and _fits(value, family) else None


def _fits(value: int, family: str) -> bool:
    return abs(value) < (2**31 if family == "int" else 2**63)


def _common_type(types: Sequence[str | None]) -> str | None:
    """The type that all values of a column have; None where they must be cast."""
    found = dict.fromkeys(one for one in types if one is not None)
    if len(found) < 2:
        return next(iter(found), "string")
    families = {one.split("(")[0] for one in found}
    if not families <= set(_NUMBERS):
        return None
    if "double" in families:
        return "double"
    if "decimal" not in families:
        return "bigint"
    digits = {"int": (10, 0), "bigint": (19, 0)}
    sizes = [digits.get(one) or tuple(map(int, re.findall(r"\d+", one))) for one in found]
    scale = max(size[1] for size in sizes)
    return f"decimal({max(size[0] - size[1] for size in sizes) + scale},{scale})"
