"""LATERAL TABLE(…) and UNNEST → steps that make events of parts of one, or fields of a text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from etl.sql.columns import SqlColumn
from etl.sql.expressions import call_name, spark_text
from etl.sql.functions.own_functions import own_function, refuse_foreign
from etl.sql.relation import Relation, StepText
from etl.sql.statements import ScriptError, start
from etl.udf.declaration import UserFunction


def lateral_rows(relation: Relation, node: Any, *, is_left: bool) -> Relation:
    """The rows with those of a table function beside them. ``is_left``: also rows for which it gives none. Raises ScriptError."""
    from sqlglot import exp

    alias = node.args.get("alias")
    qualifier = alias.name if alias is not None else None
    names = [column.name for column in (alias.args.get("columns") or [])] if alias is not None else []
    if isinstance(node, exp.Unnest):
        array = spark_text(node.expressions[0], relation.scope)
        offset = node.args.get("offset")
        position = offset.name if isinstance(offset, exp.Expr) else "ordinality" if offset else None
        return _unnest(relation, array, names or ["value"], qualifier, is_left, start(node), position)
    call = _call(node.this)
    name, arguments = call_name(call), call.expressions
    own = own_function(name)
    if own is not None and not own.is_broken:
        return _rows_of(relation, own, spark_text(call, relation.scope), names, qualifier, is_left, start(call))
    if name in ("string_split", "split", "explode", "unnest"):
        first = spark_text(arguments[0], relation.scope)
        if len(arguments) > 1:
            first = f"split({first}, concat('\\\\Q', {spark_text(arguments[1], relation.scope)}, '\\\\E'))"
        return _unnest(relation, first, names or ["value"], qualifier, is_left, start(call))
    if name == "json_array" and len(arguments) > 2:
        return _json_rows(relation, call, names, qualifier, is_left)
    if name == "grok" and len(arguments) == 2 and isinstance(arguments[1], exp.Literal):
        return _match(relation, arguments, names, qualifier, is_left, start(call))
    refuse_foreign(name, start(call))
    raise ScriptError(
        "unsupported-sql",
        f"there is no table function {call_name(call) or node.sql(dialect='spark')!r}",
        start(call),
        "STRING_SPLIT, UNNEST, JSON_ARRAY or GROK",
    )


def _rows_of(
    relation: Relation,
    function: UserFunction,
    text: str,
    names: list[str],
    qualifier: str | None,
    is_left: bool,
    at: int,
) -> Relation:
    """The rows that a function of the user gives: a column for each member of its rows, or one for single values."""
    import pyarrow as pa

    if not pa.types.is_list(function.result):
        message = f"{function.name}() gives one value for a row, and no rows"
        raise ScriptError("unsupported-sql", message, at, "a table function returns Iterator[…]")
    row = function.result.value_type
    members = [member.name for member in row] if pa.types.is_struct(row) else []
    if not members:
        return _unnest(relation, text, names or ["value"], qualifier, is_left, at)
    if names and len(names) != len(members):
        raise ScriptError("wrong-columns", f"{function.name}() gives {len(members)} columns, not {len(names)}", at)
    field = _free(relation, f"{function.name}_row")
    unnest = {"type": "unnest", "field": field, **({"empty": "keep"} if is_left else {})}
    columns = tuple(
        SqlColumn(name, f"{field}.{member}", qualifier=qualifier) for name, member in zip(names or members, members, strict=True)
    )
    steps = StepText({"type": "set", "fields": {field: text}}, at), StepText(unnest, at)
    return relation.then(*steps, scope=replace(relation.scope, columns=(*relation.columns, *columns)), is_exact=False)


def _json_rows(relation: Relation, call: Any, names: list[str], qualifier: str | None, is_left: bool) -> Relation:
    """rsqldb's ``JSON_ARRAY(text, 'a', 'b')``: a row for each object of an array, with a column for each name, all texts."""
    _, text, *members = call.expressions  # the first says what becomes of null in the function JSON_ARRAY
    keys = [one.name for one in members]
    if names and len(names) != len(keys):
        raise ScriptError(
            "wrong-columns", f"JSON_ARRAY names {len(keys)} members, and here are {len(names)} columns", start(call)
        )
    field = _free(relation, "json_row")
    arguments = ", ".join(spark_text(one, relation.scope) for one in (text, *members))
    set_rows = StepText({"type": "set", "fields": {field: f"rsql_json_rows({arguments})"}}, start(call))
    unnest = StepText({"type": "unnest", "field": field, **({"empty": "keep"} if is_left else {})}, start(call))
    columns = (
        SqlColumn(name, f"{field}.c{number}", "string", qualifier=qualifier) for number, name in enumerate(names or keys, 1)
    )
    scope = replace(relation.scope, columns=(*relation.columns, *columns))
    return relation.then(set_rows, unnest, scope=scope, is_exact=False)


def _call(node: Any) -> Any:
    """``f(x)`` of ``TABLE(f(x))``."""
    if call_name(node) == "table" and node.expressions:
        return node.expressions[0]
    return node.this if node.key == "tablefromrows" else node


def _unnest(
    relation: Relation, array: str, names: list[str], qualifier: str | None, is_left: bool, at: int, position: str | None = None
) -> Relation:
    """An event for each element; of a map, or an array of rows, with a column for each of its members."""
    field = _free(relation, names[0] if len(names) == 1 else "element")
    options: dict[str, Any] = {"type": "unnest", "field": field}
    if position:
        options["position"] = _free(relation, position)
    if is_left:
        options["empty"] = "keep"
    elements = array if len(names) == 1 and array.startswith("split(") else f"flink_unnest({array}, {len(names)})"
    steps = [StepText({"type": "set", "fields": {field: elements}}, at), StepText(options, at)]
    added = [SqlColumn(names[0], field, qualifier=qualifier)]
    if len(names) > 1:
        added = [SqlColumn(name, f"{field}.c{number}", qualifier=qualifier) for number, name in enumerate(names, 1)]
    if position:
        counted = StepText(
            {"type": "set", "fields": {options["position"]: f"CAST({options['position']} + 1 AS INT)"}}, at
        )  # SQL counts from 1
        steps.append(counted)
        added.append(SqlColumn(position, options["position"], "int", qualifier=qualifier))
    scope = replace(relation.scope, columns=(*relation.columns, *added))
    return relation.then(*steps, scope=scope, is_exact=False)


def _match(relation: Relation, arguments: list[Any], names: list[str], qualifier: str | None, is_left: bool, at: int) -> Relation:
    text = _free(relation, "grok_text")
    set_text = StepText({"type": "set", "fields": {text: spark_text(arguments[0], relation.scope)}}, at)
    options = {"type": "grok", "field": text, "patterns": [arguments[1].name], "on_error": "keep" if is_left else "drop"}
    columns = tuple(SqlColumn(name, name, qualifier=qualifier) for name in names)
    return relation.then(
        set_text, StepText(options, at), scope=replace(relation.scope, columns=(*relation.columns, *columns)), is_exact=False
    )


def _free(relation: Relation, name: str) -> str:
    taken = {column.field for column in relation.columns}
    return name if name not in taken else next(one for number in range(2, 10_000) if (one := f"{name}_{number}") not in taken)
