"""Scripts of rsqldb: functions have RocketMQ Streams' meaning under their own names, and a division by zero is null."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from etl.expressions.library.catalogue import functions
from etl.rsql.script_names import TEMPLATES, library_name
from etl.sql.expressions import AGGREGATES
from etl.sql.statements import CreateFunction, CreateTable, CreateView, Insert, Statement
from etl.sql.table_options.rsql import RSQL, UNAVAILABLE

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

_SQL_NAMES = AGGREGATES | {"if", "case", "and", "or", "not", "in", "date", "timestamp", "true", "null", "cast", "filter", "get"}
"""Names that SQL has for something else than the function of scripts."""

_ROW_TIME = "rowtime"
"""The column of a view of a window that rsqldb gives it."""

_MAPS = ("str_to_map", "strtomap", "jsoncreate")
"""Functions that give a map, of which ``m['key']`` reads a value."""

_BUILT_IN = "org.apache.rocketmq.streams.script."
"""Beginning of the classes of functions that exist here without being declared."""

_CLASS = re.compile(r"(\w+?)(Function|Fuction|Funtion)?")
"""The name of such a class: mostly that of its function, and the word, which some misspell."""

_OF_CLASSES: Mapping[str, str] = {
    "unixtimestamp": "unix_timestamp",
    "jsoncreator": "json_create",
    "jsonvalue": "json_value",
    "lastday": "lastday",
    "currenttimestamp": "curstamp",
    "datetochar": "tochar",
    "greater": "great",
    "greateequals": "greateeq",
    "lessequals": "lesseq",
    "splitjsonarray": "json_array",
    "stringlength": "char_length",
}
"""Name of a class, in lower case without the word Function → its function, where it is another."""

_OF_CONSTANTS = ("pattern", "unit", "separator", "pattern_or_part", "pattern_or_count", "weekday", "charset", "group")
"""Arguments of functions that must be constants: a call with others has Spark's meaning."""


def is_built_in_class(target: str) -> bool:
    """Whether a class is one of RocketMQ Streams' own functions."""
    return target.startswith(_BUILT_IN)


def _function_of_class(target: str) -> str | None:
    """The function here that a class of RocketMQ Streams is."""
    found = _CLASS.fullmatch(target.rpartition(".")[2])
    name = found[1].lower() if found else ""
    name = _OF_CLASSES.get(name, name)
    return name if library_name(name, 1) or name in TEMPLATES or name in ("grok", "json_array") else None


def has_rsql_tables(statements: Sequence[Statement]) -> bool:
    """Whether tables of a script have rsqldb's types and options, and not only ours, and none Flink's."""
    tables = [{option.name: option.value for option in one.options} for one in statements if isinstance(one, CreateTable)]
    if any("connector" in options or "connector.type" in options for options in tables):
        return False
    return any(map(_has_rsql_names, tables))


def _has_rsql_names(options: Mapping[str, str]) -> bool:
    type_ = options.get("type", "")
    if type_ in UNAVAILABLE or type_ in ("print", "db", "rds", "es", "metaq") or "data_format" in options:
        return True
    camel_case = (name for name in options if name.lower() != name)
    return type_ in RSQL and any(name in RSQL[type_].options for name in camel_case)


def give_rsql_meaning(statements: Sequence[Statement]) -> None:
    """Change the calls and divisions of all statements in place."""
    _give_row_times(statements)
    declared = [one for one in statements if isinstance(one, CreateFunction)]
    own = {one.name.lower() for one in declared if not is_built_in_class(one.target)}
    others = {
        one.name.lower(): function
        for one in declared
        if is_built_in_class(one.target) and not library_name(one.name, 1) and (function := _function_of_class(one.target))
    }
    for root in expressions_of(statements):
        for node in list(root.walk()):
            _change(node, own, others)


def _give_row_times(statements: Sequence[Statement]) -> None:
    """Give views of windows the time of their rows as ``rowtime``, where a query that reads them has that column."""
    from sqlglot import exp

    views = {one.name.lower(): one.query for one in statements if isinstance(one, CreateView)}
    for reader in statements:
        query: Any = reader.query if isinstance(reader, CreateView | Insert) else None
        if query is None or not any(column.name.lower() == _ROW_TIME for column in query.find_all(exp.Column)):
            continue
        for table in query.find_all(exp.Table):
            view: Any = views.get(table.name.lower())
            window = _window_of(view) if view is not None and view is not query else None
            if window is not None and _ROW_TIME not in (str(one.alias_or_name).lower() for one in view.selects):
                arguments = [one.copy() for one in window.expressions]
                time = exp.Anonymous(this=f"{window.name.upper()}_ROWTIME", expressions=arguments)
                view.select(exp.alias_(time, _ROW_TIME), copy=False)


def _window_of(query: Any) -> Any:
    """The window in GROUP BY of a query; None for another."""
    from sqlglot import exp

    group = query.args.get("group") if isinstance(query, exp.Select) else None
    calls = (one for one in (group.expressions if group else ()) if isinstance(one, exp.Anonymous))
    return next((one for one in calls if str(one.name).upper() in ("TUMBLE", "HOP", "SESSION")), None)


def expressions_of(statements: Sequence[Statement]) -> Iterator[Node]:
    for statement in statements:
        if isinstance(statement, CreateTable):
            yield from (column.expression for column in statement.columns if column.expression is not None)
        elif isinstance(statement, CreateView | Insert):
            yield statement.query


def _change(node: Any, own: set[str], others: Mapping[str, str]) -> None:
    """Give a node its meaning: ``others`` are names that a script gives to functions of RocketMQ Streams."""
    from sqlglot import exp

    if isinstance(node, exp.Anonymous) and (function := others.get(str(node.name).lower())):
        node.set("this", function)

    if isinstance(node, exp.Div):
        divisor = node.expression
        node.set("expression", exp.Anonymous(this="nullif", expressions=[divisor.copy(), exp.Literal.number(0)]))
    if isinstance(node, exp.Bracket) and str(node.this.name).lower().removeprefix("rsql_") in _MAPS:
        node.replace(exp.Anonymous(this="rsql_item", expressions=[node.this, node.expressions[0]]))
    if isinstance(node, exp.Anonymous) and str(node.name).lower() not in own and (name := _library_name(node)):
        node.set("this", name)


def _library_name(call: Any) -> str | None:
    """The function of the table that a call means; None where SQL has another of that name."""
    from sqlglot import exp

    name, arguments = str(call.name).lower(), call.expressions
    found = None if name in _SQL_NAMES else library_name(name, len(arguments))
    if found is None:
        return None
    function = functions("rsql")[found]
    if len(arguments) < function.min_arguments or (
        function.max_arguments is not None and len(arguments) > function.max_arguments
    ):
        return None
    if function.max_arguments is None:
        return found if name != "concat_ws" or isinstance(arguments[0], exp.Literal) else None
    named = zip(function.parameters, arguments, strict=False)
    is_constant = all(isinstance(value, exp.Literal) for one, value in named if one.name in _OF_CONSTANTS)
    return found if is_constant else None
