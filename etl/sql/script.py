"""Scripts → the value of a pipeline file, with the location of every part in the script."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from etl.catalogue import Catalogue
from etl.sql.compiled import CompiledScript, drop_unused_columns, plain_name
from etl.sql.functions.own_functions import declare, no_functions
from etl.sql.functions.rsql_dialect import give_rsql_meaning, has_rsql_tables
from etl.sql.functions.script_dialect import dialect_of
from etl.sql.queries import Queries
from etl.sql.reading import read_script
from etl.sql.relation import StepText, Target
from etl.sql.settings import add_idle, apply_setting
from etl.sql.shared_steps import share_equal_steps
from etl.sql.statements import CreateFunction, CreateTable, CreateView, Insert, Script, ScriptError, SetOption, Statement
from etl.sql.table_options.options import read_options
from etl.sql.tables import declared_columns, sink_options

_RESULT = "result"
"""Name of the sink of a query without INSERT."""


def compile_script(text: str, catalogue: Catalogue, folder: Path | None = None) -> CompiledScript:
    """Compile all statements; errors are collected, one for each statement. ``folder``: that of the script, for its functions."""
    script = read_script(text)
    with no_functions(), dialect_of(script.statements):
        return _compile(script, catalogue, folder or Path())


def _compile(script: Script, catalogue: Catalogue, folder: Path) -> CompiledScript:
    compiler = _Compiler(catalogue, folder)
    compiler.compiled.errors += script.errors
    if has_rsql_tables(script.statements):
        give_rsql_meaning(script.statements)
    for statement in script.statements:
        try:
            compiler.add(statement)
        except ScriptError as error:
            compiler.compiled.errors.append(error)
        except RecursionError:
            compiler.compiled.errors.append(
                ScriptError("sql-syntax", "the statement is nested too deeply", getattr(statement, "at", 0))
            )
    if not compiler.compiled.errors and not compiler.compiled.value["sinks"]:
        compiler.compiled.errors.append(
            ScriptError(
                "missing-sink",
                "the script has no query",
                0,
                "INSERT INTO table SELECT …, or a SELECT, which prints its rows; `etl explain` needs no EXPLAIN",
            )
        )
    compiled = compiler.compiled
    add_idle(compiled)
    if not compiled.errors:
        share_equal_steps(compiled)
        drop_unused_columns(compiled.value)
    compiled.value = {key: value for key, value in compiled.value.items() if value or key in ("sources", "streams", "sinks")}
    return compiled


class _Compiler:
    """Carries out statements one after the other."""

    def __init__(self, catalogue: Catalogue, folder: Path) -> None:
        self.compiled = CompiledScript()
        self._folder = folder
        self._catalogue = catalogue
        self._queries = Queries(self.compiled, catalogue)
        self._written: dict[str, list[str]] = {}

    def add(self, statement: Statement) -> None:
        """Carry out one statement. Raises ScriptError."""
        match statement:
            case CreateTable():
                self._queries.tables.declare(self._with_likeness(statement) if statement.like else statement)
            case CreateView():
                self._queries.tables.declare(statement)
            case SetOption():
                self._set(statement)
            case CreateFunction():
                self._declare_function(statement)
            case Insert():
                self._insert(statement)

    def _declare_function(self, statement: CreateFunction) -> None:
        entry = declare(statement, self._folder)
        if entry is not None:
            path = ("functions", statement.name)
            self.compiled.value.setdefault("functions", {})[statement.name] = entry
            for part in (path, *((*path, key) for key in entry)):
                self.compiled.locations[part] = statement.at, statement.at

    def _with_likeness(self, statement: CreateTable) -> CreateTable:
        assert statement.like is not None
        other = self._queries.tables.table(statement.like, statement.at)
        own = {option.name for option in statement.options}
        return replace(
            statement,
            columns=(*other.columns, *statement.columns),
            watermark=statement.watermark or other.watermark,
            primary_key=statement.primary_key or other.primary_key,
            options=(*(option for option in other.options if option.name not in own), *statement.options),
        )

    def _set(self, statement: SetOption) -> None:
        self._queries.settings = apply_setting(statement.option, self._queries.settings, self.compiled)

    def _insert(self, insert: Insert) -> None:
        table = self._queries.tables.table(insert.table, insert.at) if insert.table else None
        options = read_options(table, "sink", self._catalogue) if table else None
        targets = self._targets(table, insert) if table and table.columns else None
        if options and table and options.kind == "rsql" and not insert.columns and _has_names_of(insert.query, table):
            targets = None  # rsqldb writes the columns of the query under their names
        settings = self._queries.settings
        self._queries.settings = replace(settings, emit=insert.emit, emits_changes=insert.emits_changes)
        try:
            relation = self._queries.query(insert.query, targets)
        finally:
            self._queries.settings = settings
        if settings.is_batch and relation.changes_at is not None:
            relation = relation.then(StepText({"type": "over_all"}, insert.at), changes_at=None)
        name = plain_name(insert.table) if insert.table else _RESULT
        relation = self.compiled.as_stream(relation, f"{name}_rows", insert.at)
        if name not in self.compiled.value["sinks"]:
            if table and options:
                self.compiled.add_component(("sinks", name), options, table, sink_options(table, options))
            else:
                self.compiled.value["sinks"][name] = {"type": "console"}
                self.compiled.locations["sinks", name] = insert.at, insert.at
        inputs = self._written.setdefault(name, [])
        inputs.append(relation.inputs[0])
        self.compiled.value["sinks"][name] = {"from": inputs if len(inputs) > 1 else inputs[0]} | {
            key: value for key, value in self.compiled.value["sinks"][name].items() if key != "from"
        }
        self.compiled.locations["sinks", name, "from"] = insert.at, insert.at

    @staticmethod
    def _targets(table: CreateTable, insert: Insert) -> list[Target]:
        columns = {column.name.lower(): column for column in declared_columns(table)}
        if not insert.columns:
            return [Target(column.name, column.type) for column in columns.values()]
        unknown = next((name for name in insert.columns if name.lower() not in columns), None)
        if unknown is not None:
            near = get_close_matches(unknown, [column.name for column in columns.values()], 1)
            raise ScriptError(
                "unknown-field",
                f"{table.name!r} has no column {unknown!r}",
                insert.at,
                f"is {near[0]!r} meant?" if near else None,
            )
        return [Target(columns[name.lower()].name, columns[name.lower()].type) for name in insert.columns]


def _has_names_of(query: Any, table: CreateTable) -> bool:
    """Whether the columns of a query have names of the table's columns, each once; they may, if they are not listed."""
    while getattr(query, "left", None) is not None and query.key in ("union", "except", "intersect"):
        query = query.left
    names = [str(one.alias_or_name).lower() for one in getattr(query, "selects", ())]
    columns = {column.name.lower() for column in table.columns}
    if "*" in names or len(names) != len(columns):
        return True
    return len(set(names)) == len(names) and columns.issuperset(names)
