"""Scripts → the value of a pipeline file, with the location of every part in the script."""

from __future__ import annotations

import sys
from collections.abc import Container, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from etl.catalogue import Catalogue
from etl.sql.compiled import CompiledScript, UnusedViews, drop_unused_columns, plain_name
from etl.sql.expressions import quoted
from etl.sql.functions.calls import has_function
from etl.sql.functions.intervals import INTERVAL_TYPES
from etl.sql.functions.own_functions import JAVA_FUNCTIONS, declare, is_foreign, no_functions
from etl.sql.functions.pattern_checks import noted_patterns
from etl.sql.functions.rsql_dialect import give_rsql_meaning, has_rsql_tables, is_built_in_class
from etl.sql.functions.script_dialect import dialect_of
from etl.sql.hints import with_options
from etl.sql.queries import Queries
from etl.sql.reading import read_script
from etl.sql.relation import StepText, Target
from etl.sql.settings import add_idle, apply_setting, fire_delays, reset_setting
from etl.sql.shared_steps import share_equal_steps
from etl.sql.statements import (
    CreateFunction,
    CreateTable,
    CreateView,
    Drop,
    Insert,
    Reset,
    Script,
    ScriptError,
    SetOption,
    Statement,
)
from etl.sql.table_options.options import read_options
from etl.sql.table_options.partitions import partition_steps, partition_warning
from etl.sql.tables import declared_columns, sink_options

_RESULT = "result"
"""Name of the sink of a query without INSERT."""


def compile_script(text: str, catalogue: Catalogue, folder: Path | None = None, java_functions: str = "") -> CompiledScript:
    """Compile all statements; errors are collected, one for each statement. ``folder``: that of the script, for its functions.
    ``java_functions``: the file with functions in place of those in Java, where the script names none."""
    return ScriptCompiler(catalogue, folder or Path(), java_functions).compile(read_script(text))


@dataclass(frozen=True)
class PartialScript:
    """How a script is compiled without its mistakes."""

    declared: Sequence[Statement]
    """The statements as they are in the script, whose tables decide its dialect."""
    without: Container[int]
    """Numbers of the statements that are left out."""


@dataclass(frozen=True)
class ScriptCompiler:
    """Compiles scripts with the components of a catalogue and the functions of a folder."""

    catalogue: Catalogue
    folder: Path
    java_functions: str = ""

    def compile(self, script: Script, rest: PartialScript | None = None) -> CompiledScript:
        """Compile the statements, whose expressions change. ``rest``: that they are those of a script without its mistakes."""
        declared = rest.declared if rest else script.statements
        named = [one.option.value for one in declared if isinstance(one, SetOption) and one.option.name == JAVA_FUNCTIONS]
        functions = no_functions(named[-1] if named else self.java_functions)
        with functions, dialect_of(declared), noted_patterns() as patterns:
            if has_rsql_tables(declared):
                give_rsql_meaning(script.statements)
            compiled = self._compile(script, rest)
        compiled.warnings += patterns
        return compiled

    def _compile(self, script: Script, rest: PartialScript | None) -> CompiledScript:
        compiler = _Compiler(self.catalogue, self.folder)
        compiled = compiler.compiled
        compiled.errors += script.errors
        compiled.warnings += script.warnings
        for number, statement in enumerate(script.statements):
            if rest and number in rest.without:
                continue
            try:
                compiler.add(statement)
            except ScriptError as error:
                compiled.failed[number] = error
            except RecursionError:
                at = getattr(statement, "at", 0)
                compiled.failed[number] = ScriptError("sql-syntax", "the statement is nested too deeply", at)
        if not rest and not any(isinstance(one, Drop) for one in script.statements):  # a view may be of a table that was dropped
            mistakes = compiler.unused_view_mistakes(script.statements)
            compiled.warnings += [one for one in mistakes if one.name not in script.unread]
        compiled.errors += (
            one for one in compiled.failed.values() if one.code != "unknown-name" or one.name not in script.unread
        )
        compiled.warnings += [] if rest else _unused_classes(script)  # a call may be what was taken out
        if not rest and not compiled.errors and not compiled.value["sinks"]:
            _report_no_query(script, compiled, self.catalogue)
        add_idle(compiled)
        if not compiled.errors:
            share_equal_steps(compiled)
            drop_unused_columns(compiled.value)
        compiled.value = {key: value for key, value in compiled.value.items() if value or key in ("sources", "streams", "sinks")}
        return compiled


def _unused_classes(script: Script) -> list[ScriptError]:
    """A warning for each function in Java that no query calls."""
    classes = [one for one in script.statements if isinstance(one, CreateFunction) and is_foreign(one.name)]
    if not classes:
        return []
    from etl.sql.functions.stubs import java_functions

    called = {one.name for one in java_functions(script)}
    return [
        ScriptError(
            "no-effect",
            f"{one.name!r} is the class {one.target!r} of Java, which does not run here; no query calls it",
            one.at,
            "leave the statement out",
        )
        for one in classes
        if one.name not in called and not is_built_in_class(one.target) and not has_function(one.name)
    ]


def _report_no_query(script: Script, compiled: CompiledScript, catalogue: Catalogue) -> None:
    """A script that only declares has nothing to run: a warning, if what it declares is right; an empty one is an error."""
    declared = [one for one in script.statements if isinstance(one, CreateTable | CreateView | CreateFunction)]
    hint = "INSERT INTO table SELECT …, or a SELECT, which prints its rows; `etl explain` needs no EXPLAIN"
    if not declared:
        compiled.errors.append(ScriptError("missing-sink", "the script has no query", 0, hint))
        return
    for table in declared:
        if isinstance(table, CreateTable):
            error, warnings = _declaration_problems(table, catalogue)
            compiled.errors += [error] if error else []
            compiled.warnings += warnings
    message = "the script has no query: it declares only, and there is nothing to run"
    compiled.warnings.append(ScriptError("missing-sink", message, declared[-1].at, hint))
    compiled.declares_only = True


def _declaration_problems(table: CreateTable, catalogue: Catalogue) -> tuple[ScriptError | None, list[ScriptError]]:
    """What is wrong with the options of a table that no query uses: nothing, if it can be a source, a sink or a look-up table."""
    errors = []
    for family in ("source", "sink", "table"):
        try:
            return None, read_options(table, family, catalogue).warnings
        except ScriptError as error:
            errors.append(error)
    return errors[0], []


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
            case Reset():
                self._queries.settings = reset_setting(statement, self._queries.settings, self.compiled)
            case Drop():
                self._queries.tables.drop(statement)
            case CreateFunction():
                self._declare_function(statement)
            case Insert():
                self._insert(statement)

    def unused_view_mistakes(self, statements: Sequence[Statement]) -> list[ScriptError]:
        """The errors of views that no query reads, which do not run. Called last: caches get sources that the value lacks."""
        found: list[ScriptError] = []
        sinks: dict[str, Any] = {}
        views = self._queries.unused_views()
        value = deepcopy(self.compiled.value) if views else self.compiled.value
        locations, warnings = dict(self.compiled.locations), list(self.compiled.warnings)
        for view in views:
            try:
                for name in self._queries.check_view(view).inputs:
                    sinks[f"{name}_dropped"] = {"type": "discard", "from": name}
            except (ScriptError, RecursionError) as error:
                found += [error] if isinstance(error, ScriptError) else []
        if sinks or found:
            starts = [at for one in statements if isinstance(at := getattr(one, "at", None), int)]
            spans = [(view.at, min((at for at in starts if at > view.at), default=sys.maxsize)) for view in views]
            unused = {**self.compiled.value, "sinks": sinks}
            self.compiled.unused_views = UnusedViews(unused, self.compiled.locations, spans, wrong=bool(found))
        self.compiled.value, self.compiled.locations, self.compiled.warnings = value, locations, warnings
        return found

    def _declare_function(self, statement: CreateFunction) -> None:
        entry = declare(statement, self._folder)
        if entry is None and not is_built_in_class(statement.target) and has_function(statement.name):
            message = f"{statement.name!r} is the function of this name here, not the class {statement.target!r}"
            self.compiled.warnings.append(ScriptError("no-effect", message, statement.at, "declare it under another name"))
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
            partitioned_by=statement.partitioned_by or other.partitioned_by,
            options=(*(option for option in other.options if option.name not in own), *statement.options),
        )

    def _set(self, statement: SetOption) -> None:
        self._queries.settings = apply_setting(statement.option, self._queries.settings, self.compiled)

    def _insert(self, insert: Insert) -> None:
        table = self._queries.tables.table(insert.table, insert.at) if insert.table else None
        table = with_options(table, insert.options) if table else None
        options = read_options(table, "sink", self._catalogue) if table else None
        if table and (warning := partition_warning(table)):
            self.compiled.warnings.append(warning)
        constants = partition_steps(table, insert) if table else []
        targets = self._targets(table, insert) if table and table.columns else None
        if options and table and options.kind == "rsql" and not insert.columns and _has_names_of(insert.query, table):
            targets = None  # rsqldb writes the columns of the query under their names
        settings = self._queries.settings
        emit = insert.emit or (() if insert.emits_changes else fire_delays(settings))
        self._queries.settings = replace(settings, emit=emit, emits_changes=insert.emits_changes)
        try:
            relation = self._queries.query(insert.query, targets)
        finally:
            self._queries.settings = settings
        if settings.is_batch and relation.changes_at is not None:
            relation = relation.then(StepText({"type": "over_all"}, insert.at), changes_at=None)
        relation = relation.then(*constants)
        texts = {one.field: f"flink_interval_text({quoted(one.field)})" for one in relation.columns if one.type in INTERVAL_TYPES}
        if texts:
            relation = relation.then(StepText({"type": "set", "fields": texts}, insert.at))
        name = plain_name(insert.table) if insert.table else _RESULT
        relation = self.compiled.as_stream(relation, f"{name}_rows", insert.at)
        if name not in self.compiled.value["sinks"]:
            if table and options:
                self.compiled.add_component(("sinks", name), options, table, sink_options(table, options))
            else:
                self.compiled.value["sinks"][name] = {"type": "console"}
                self.compiled.locations["sinks", name] = insert.at, insert.at
        inputs = self._written.setdefault(name, [])
        inputs.append(self.compiled.other_input(relation.inputs[0], inputs, insert.at))
        self.compiled.value["sinks"][name] = {"from": inputs if len(inputs) > 1 else inputs[0]} | {
            key: value for key, value in self.compiled.value["sinks"][name].items() if key != "from"
        }
        self.compiled.locations["sinks", name, "from"] = insert.at, insert.at

    @staticmethod
    def _targets(table: CreateTable, insert: Insert) -> list[Target]:
        columns = {column.name.lower(): column for column in declared_columns(table)}
        if not insert.columns:
            constants = {one.name.lower() for one in insert.partition}
            return [Target(one.name, one.type) for name, one in columns.items() if name not in constants]
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
