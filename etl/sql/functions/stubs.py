"""Functions in Java that a script calls → a Python file with a function to fill in for each."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from etl.sql.functions.rsql_dialect import expressions_of, is_built_in_class
from etl.sql.statements import CreateFunction, CreateTable, Insert, Script, Statement

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "LONG"), "int"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "float"),
    "BOOLEAN": "bool",
    **dict.fromkeys(("BINARY", "VARBINARY"), "bytes"),
}
"""Types of columns → of Python; any other is a text."""


@dataclass(frozen=True)
class JavaFunction:
    """A function in Java, as the script calls it."""

    name: str
    target: str
    parameters: tuple[tuple[str, str], ...]
    """Names and types."""
    result: str
    row: tuple[str, ...] | None = None
    """The columns of a table function."""
    is_aggregate: bool = False

    @property
    def python_name(self) -> str:
        """Its name in Python."""
        return self.name.lower()

    def code(self) -> str:
        """The function in Python: whoever fills it in replaces its last line."""
        parameters = ", ".join(f"{name}: {type_} | None" for name, type_ in self.parameters)
        raised = f'    raise NotImplementedError("write what {self.target} computes")\n'
        if self.is_aggregate:
            return self._aggregate_code(parameters, raised)
        if self.row is None:
            return f'def {self.python_name}({parameters}) -> {self.result}:\n    """{self.target} of Java."""\n{raised}'
        row = f"{self.python_name.title().replace('_', '')}Row"
        members = "".join(f"    {name}: str\n" for name in self.row)
        function = f'def {self.python_name}({parameters}) -> Iterator[{row}]:\n    """{self.target} of Java."""\n{raised}'
        return f'class {row}(TypedDict):\n    """A row of {self.python_name}()."""\n\n{members}\n\n{function}'

    def _aggregate_code(self, parameters: str, raised: str) -> str:
        state = f"{self.python_name.title().replace('_', '')}State"
        signatures = (
            f"create(self) -> {state}",
            f"add(self, state: {state}, {parameters}) -> {state}",
            f"merge(self, a: {state}, b: {state}) -> {state}",
            f"finish(self, state: {state}) -> {self.result} | None",
        )
        methods = "\n\n".join(f"    def {one}:\n    {raised}".rstrip("\n") for one in signatures)
        members = f'    """What {self.python_name} keeps of a group."""\n\n    total: float\n    count: int\n'
        return (
            f'class {state}(NamedTuple):\n{members}\n\nclass {self.python_name}:\n    """{self.target} of Java."""\n\n{methods}\n'
        )


def java_functions(script: Script) -> list[JavaFunction]:
    """The functions in Java that the queries of a script call, in the order of their declarations."""
    declared = {
        one.name.lower(): one
        for one in script.statements
        if isinstance(one, CreateFunction) and one.language != "PYTHON" and not one.file and not is_built_in_class(one.target)
    }
    calls = {name: list(_calls(script.statements, name)) for name in declared}
    types = _column_types(script.statements)
    return [_function(one, calls[name], types, script.statements) for name, one in declared.items() if calls[name]]


def stub_file(functions: Sequence[JavaFunction], *, is_new: bool) -> str:
    """The text of the file, or what is added to one that exists."""
    has_rows = any(one.row is not None for one in functions)
    typed = [name for name, has in (("NamedTuple", any(one.is_aggregate for one in functions)), ("TypedDict", has_rows)) if has]
    iterator = "from collections.abc import Iterator\n" if has_rows else ""
    imports = f"{iterator}from typing import {', '.join(typed)}\n\n\n" if typed else ""
    about = '"""Functions of a script that were written in Java."""\n\n' if is_new else "\n\n"
    return about + imports + ("" if imports or not is_new else "\n") + "\n\n".join(one.code() for one in functions)


def missing_functions(functions: Sequence[JavaFunction], text: str) -> list[JavaFunction]:
    """Those that the Python file with this text does not have, under their name or in lower case."""
    return [
        one for one in functions if not re.search(rf"^(async )?(def|class) ({one.name}|{one.python_name})\b", text, re.MULTILINE)
    ]


def _calls(statements: Sequence[Statement], name: str) -> Iterator[Node]:
    from sqlglot import exp

    for root in expressions_of(statements):
        yield from (node for node in root.find_all(exp.Anonymous) if str(node.name).lower() == name)


def _column_types(statements: Sequence[Statement]) -> Mapping[str, str]:
    """Columns of all tables, in lower case → the types of their values in Python."""
    tables = (one for one in statements if isinstance(one, CreateTable))
    columns = (column for table in tables for column in table.columns if column.type is not None)
    return {column.name.lower(): _python_type(column.type) for column in columns}


def _python_type(type_: Any) -> str:
    return _TYPES.get(type_.sql(dialect="spark").upper().split("(")[0].split("<")[0], "str")


def _function(
    statement: CreateFunction, calls: list[Node], types: Mapping[str, str], statements: Sequence[Statement]
) -> JavaFunction:
    longest: Any = max(calls, key=lambda call: len(call.expressions))
    parameters = tuple(_parameter(number, one, types) for number, one in enumerate(longest.expressions, 1))
    names = [name for name, _ in parameters]
    if len(set(names)) < len(names):
        parameters = tuple((f"{name}{number}", type_) for number, (name, type_) in enumerate(parameters, 1))
    row = next((found for found in map(_row, calls) if found is not None), None)
    result = next((found for call in calls if (found := _target_type(call, statements))), "str")
    is_aggregate = row is None and len(parameters) == 1 and any(map(_is_aggregate, calls))
    return JavaFunction(statement.name, statement.target, parameters, result, row, is_aggregate)


def _is_aggregate(call: Any) -> bool:
    """Whether a call in the list of a SELECT with GROUP BY, or in its HAVING, has columns that are not keys of the groups."""
    from sqlglot import exp

    select, inside = call.find_ancestor(exp.Select), call.find_ancestor(exp.AggFunc, exp.Where, exp.Group)
    group = select.args.get("group") if select is not None else None
    if group is None or (inside is not None and inside.find_ancestor(exp.Select) is select):
        return False
    keys = {one.sql() for one in group.expressions}
    columns = [one for value in call.expressions for one in value.find_all(exp.Column)]
    return bool(columns) and call.sql() not in keys and any(one.sql() not in keys for one in columns)


def _parameter(number: int, value: Any, types: Mapping[str, str]) -> tuple[str, str]:
    from sqlglot import exp

    if isinstance(value, exp.Column) and value.name.isidentifier():
        name = value.name.lower()
        return (f"{name}_" if keyword.iskeyword(name) else name), types.get(name, "str")
    is_whole = isinstance(value, exp.Literal) and not value.is_string and value.name.isdecimal()
    return f"value{number}", "int" if is_whole else "str"


def _row(call: Any) -> tuple[str, ...] | None:
    """The columns that ``LATERAL TABLE(f(x)) AS t (a, b)`` names; None for a call that gives a value."""
    from sqlglot import exp

    lateral = call.find_ancestor(exp.Lateral, exp.TableFromRows)
    if lateral is None:
        return None
    alias = lateral.args.get("alias")
    names = [column.name for column in (alias.args.get("columns") or [])] if alias is not None else []
    return tuple(name for name in names if name.isidentifier() and not keyword.iskeyword(name)) or ("value",)


def _target_type(call: Any, statements: Sequence[Statement]) -> str | None:
    """The type of the column into which INSERT writes the value of a call."""
    tables = {one.name.lower(): one for one in statements if isinstance(one, CreateTable)}
    for insert in statements:
        table = tables.get((insert.table or "").lower()) if isinstance(insert, Insert) else None
        selects = list(getattr(insert.query, "selects", ())) if isinstance(insert, Insert) else []
        columns = [one for one in table.columns if one.type is not None] if table else []
        for select, column in zip(selects, columns, strict=False):
            if select.unalias() is call:
                return _python_type(column.type)
    return None
