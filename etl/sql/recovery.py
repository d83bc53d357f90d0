"""Scripts with mistakes: each one is taken out of its statement, so that it does not hide the mistakes in the rest."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from etl.sql.columns import reported_columns
from etl.sql.compiled import CompiledScript, UnusedViews, plain_name
from etl.sql.functions.rsql_dialect import has_rsql_tables
from etl.sql.reading import read_script
from etl.sql.script import PartialScript, ScriptCompiler
from etl.sql.statements import CreateFunction, CreateTable, CreateView, Insert, Option, Script, ScriptError, Statement, start

_MAX_ROUNDS = 12
"""Maximum number of mistakes found in one statement; each costs a compilation of the script."""

_MEANT = re.compile(r"is '(.+)' meant\?")
"""The hint with the name that is probably meant."""

_Key = tuple[str, str, int]
"""Code, message and position of an error, by which equal ones are one."""

_UNKNOWN = "unknown"
"""The name of a column in place of what is wrong."""

_OF_NAMES = frozenset({"unknown-field", "unknown-name", "unknown-function", "ambiguous-column", "wrong-columns"})
"""Codes of errors that no other column causes."""

_CHOICES = frozenset({"connector", "connector.type", "type"})
"""Options that decide which others there are."""

_NOT_RUN = {
    "own": {"type": "file", "path": "{}"},
    "rsql": {"type": "file", "filePath": "{}"},
    "flink": {"connector": "filesystem", "path": "{}", "format": "json"},
}
"""Options of a table of some name that is not read or written, in the three dialects."""


def check_script(text: str, compiler: ScriptCompiler) -> CompiledScript:
    """Compile a script; one with errors to the value of all that is right in it, for the checks of the pipeline, and with the
    errors that were behind the first ones of each statement. The value of one with errors cannot run."""
    compiled = compiler.compile(read_script(text))
    if not compiled.errors:
        return _with_views(text, compiler, compiled)
    try:
        return _with_views(text, compiler, _Recovery(read_script(text), compiler, compiled).result())
    except RecursionError:  # of copying a statement that is nested too deeply
        compiled.value["sinks"] = {}
        return compiled


def _with_views(text: str, compiler: ScriptCompiler, compiled: CompiledScript) -> CompiledScript:
    """With all mistakes of views that no query reads, as warnings: they are found as if each view was printed."""
    views = compiled.unused_views
    if views is None or not views.wrong:
        return compiled
    first = compiler.compile(_printed(read_script(text), views))
    if not first.errors:
        return compiled
    rest = _Recovery(_printed(read_script(text), views), compiler, first).result()
    known = {_key(one) for one in compiled.errors}
    inside = (one for one in rest.errors if any(begin <= one.at < end for begin, end in views.spans))
    compiled.warnings = _distinct([*compiled.warnings, *(one for one in inside if _key(one) not in known)])
    if rest.value.get("sinks"):
        dropped = {name: {"type": "discard", "from": sink["from"]} for name, sink in rest.value["sinks"].items()}
        compiled.unused_views = replace(views, value={**rest.value, "sinks": dropped}, locations=rest.locations)
    return compiled


def _printed(script: Script, views: UnusedViews) -> Script:
    """The script with a query of each of these views in place of its own queries."""
    from sqlglot import exp

    begins = {begin for begin, _ in views.spans}
    statements: list[Statement] = [one for one in script.statements if not isinstance(one, Insert)]
    for view in [one for one in statements if isinstance(one, CreateView) and one.at in begins]:
        query = exp.select("*").from_(exp.to_table(view.name))
        for node in query.walk():
            node.meta["start"] = view.at
        statements.append(Insert(None, view.at, (), query))
    return replace(script, statements=statements)


class _Recovery:
    """The rest of one script, round by round: each takes the first mistake out of every statement."""

    def __init__(self, script: Script, compiler: ScriptCompiler, first: CompiledScript) -> None:
        self._script = script
        self._statements = self._script.statements
        self._declared = deepcopy(self._statements)
        self._compiler = compiler
        self._first = first
        self._without: set[int] = set()
        """Numbers of statements that are left out."""
        self._not_run: set[int] = set()
        """Numbers of tables whose options are replaced."""
        self._unknown: set[str] = set()
        """Names, in lower case, of tables of which nothing is known."""
        self._changed: set[int] = set()
        """Numbers of statements in which something is replaced."""
        self._replaced: set[int] = set()
        """Numbers of statements with columns in place of unknown ones."""
        self._renamed: set[int] = set()
        """Numbers of those whose columns may have other names than those that are meant."""
        self._reported: set[int] = set()
        """Characters at which a reported column stands, or one in place of what is wrong."""
        self._mended: set[_Key] = set()
        """Errors that are taken out in this round: several statements can have one, of a table that all read."""
        self._mended_before: set[_Key] = set()

    def result(self) -> CompiledScript:
        """The compiled rest, with all errors."""
        compiled, errors, uncertain = self._first, [*self._first.errors], set[int]()
        self._declare_unknown(self._script.unread)
        for _ in range(_MAX_ROUNDS):
            failed = {number: one for number, one in compiled.failed.items() if number not in self._without}
            if compiled is not self._first:
                errors += [one for number, one in failed.items() if number not in uncertain and self._is_certain(number, one)]
            if not failed and not (compiled is self._first and self._unknown):
                break
            owners = self._owners()
            for number, error in failed.items():
                self._mend(number, error, owners)
            self._leave_out_uncertain()
            self._mended_before |= self._mended
            self._mended = set()
            compiled = self._compile()
            uncertain = self._uncertain()
        else:
            compiled.value["sinks"] = {}
        compiled.errors, compiled.warnings = _distinct(errors), _distinct([*self._first.warnings, *compiled.warnings])
        compiled.unused_views = self._first.unused_views
        names = {
            plain_name(one.name)
            for at, one in enumerate(self._statements)
            if at in self._not_run and isinstance(one, CreateTable)
        }
        names |= {plain_name(name) for name in self._unknown}
        compiled.incomplete = {(family, name) for family in ("sources", "sinks", "tables") for name in names}
        return compiled

    def _compile(self) -> CompiledScript:
        """Compile what is left, behind declarations of the unknown tables."""
        unknown = [CreateTable(name, -1, (), None, (), (), _options("own", name)) for name in sorted(self._unknown)]
        script = Script(self._script.text, [*unknown, *deepcopy(self._statements)], unread=self._script.unread)
        rest = PartialScript(self._declared, {number + len(unknown) for number in self._without})
        with reported_columns(self._reported):
            compiled = self._compiler.compile(script, rest)
        compiled.failed = {number - len(unknown): error for number, error in compiled.failed.items() if number >= len(unknown)}
        return compiled

    def _is_certain(self, number: int, error: ScriptError) -> bool:
        """Whether an error is none that the replaced columns of its statement can cause."""
        if "is neither in GROUP BY" in str(error):
            return number not in self._changed
        return number not in self._replaced or error.code in _OF_NAMES

    def _uncertain(self) -> set[int]:
        """Numbers of statements that read tables of which nothing is known: further errors in them may be consequences."""
        from sqlglot import exp

        names, found = set(self._unknown), set[int]()
        for number, one in enumerate(self._statements):
            if not isinstance(one, CreateView | Insert):
                continue
            is_of_unknown = bool(_tables(one) & names)
            if is_of_unknown or (number in self._renamed and len(list(one.query.find_all(exp.Select))) > 1):
                found.add(number)
            if is_of_unknown or number in self._renamed:
                names |= {one.name.lower()} if isinstance(one, CreateView) else set()
        return found

    def _leave_out_uncertain(self) -> None:
        """Leave out statements whose columns cannot be told apart, because nothing is known of tables that they read."""
        from sqlglot import exp

        for number in self._uncertain():
            one = self._statements[number]
            assert isinstance(one, CreateView | Insert)
            if one.query.find(exp.Join) or any(
                item.is_star for select in one.query.find_all(exp.Select) for item in select.selects
            ):
                self._without.add(number)

    def _declare_unknown(self, names: Collection[str]) -> None:
        declared = {one.name.lower() for one in self._statements if isinstance(one, CreateTable | CreateView)}
        self._unknown |= {*names} - declared

    # ── One mistake ───────────────────────────────────────────────────────────────────────────

    def _owners(self) -> dict[int, int]:
        """Character of the script → the number of the first statement that has errors there."""
        numbered = reversed([*enumerate(self._statements)])
        return {at: number for number, one in numbered for at in _positions(one)}

    def _mend(self, number: int, error: ScriptError, owners: Mapping[int, int]) -> None:
        """Take an error out of the statement that has it, or leave out the statement of this number, which needs it."""
        failed, key = self._statements[number], _key(error)
        if key in self._mended:
            return
        owner = owners.get(error.at, number)
        one = self._statements[owner]
        is_mended = False
        if isinstance(failed, CreateFunction):
            self._remove_calls(failed.name)
        elif error.name:
            is_mended = self._name_table(owner, error)
        elif isinstance(one, CreateTable):
            is_mended = self._mend_table(owner, one, error)
        elif isinstance(one, CreateView | Insert):
            is_mended = self._mend_node(one.query, error, owner)
        if is_mended and key not in self._mended_before:
            self._mended.add(key)
            self._changed |= {number, owner}
        else:
            self._without.add(number)

    def _name_table(self, number: int, error: ScriptError) -> bool:
        """Read or write the table that is meant in place of an unknown one, or one of which nothing is known."""
        from sqlglot import exp

        one, meant = self._statements[number], _meant(error)
        if not isinstance(one, CreateView | Insert):
            return False
        if isinstance(one, CreateView) and one.name == meant:
            meant = None
        if meant is None:
            self._declare_unknown([error.name])
        elif isinstance(one, Insert) and (one.table or "").lower() == error.name:
            self._statements[number] = replace(one, table=meant)
        for node in one.query.find_all(exp.Table) if meant is not None else ():
            if node.name.lower() == error.name:
                if not node.alias:
                    node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
                node.set("this", exp.to_identifier(meant, quoted=True))
        return True

    def _mend_table(self, number: int, table: CreateTable, error: ScriptError) -> bool:
        """Give an option the name that is meant, or the table options that stand for the right ones."""
        option = next((one for one in table.options if error.at in (one.at, one.value_at)), None)
        if error.code in ("unknown-option", "invalid-value") and option is not None and option.name not in _CHOICES:
            name, others = _meant(error), [one for one in table.options if one is not option]
            if name is not None and error.code == "invalid-value":
                others.append(replace(option, value=name))
            elif name is not None and all(one.name != name for one in others):
                others.append(replace(option, name=name))
            self._statements[number] = replace(table, options=tuple(others))
            return True
        if option is None and error.at != table.at:
            return any(self._mend_node(node, error, number) for node in _nodes(table))
        if number in self._not_run:
            return False
        self._not_run.add(number)
        columns = tuple(replace(one, metadata=None, is_virtual=False) for one in table.columns)
        self._statements[number] = replace(table, columns=columns, options=_options(_dialect(table, self._declared), table.name))
        return True

    def _remove_calls(self, name: str) -> None:
        """Replace the calls of a function that cannot be declared."""
        from sqlglot import exp

        for one in self._statements:
            for node in _nodes(one):
                for call in list(node.find_all(exp.Anonymous)):
                    if str(call.name).lower() == name.lower():
                        call.replace(self._unknown_column(start(call)))

    def _mend_node(self, root: Any, error: ScriptError, number: int) -> bool:
        """Replace the column, the item of SELECT or the condition at which an error is. Returns whether that is possible."""
        from sqlglot import exp

        column = next((one for one in root.find_all(exp.Column) if start(one) == error.at), None)
        if error.code == "unknown-field" and column is not None:
            self._replace_column(root, column, _meant(error), number)
            return True
        if error.code == "wrong-columns":
            return False
        for item in (one for select in root.find_all(exp.Select) for one in select.expressions):
            if error.at in _starts(item) and not any(item.find_all(exp.AggFunc, exp.Window, exp.Select)):
                item.replace(exp.alias_(self._unknown_column(error.at), item.output_name or "unknown", quoted=True))
                return True
        for clause in root.find_all(exp.Where, exp.Having):
            for part in clause.this.flatten() if isinstance(clause.this, exp.And) else [clause.this]:
                if error.at in _starts(part) and part.name != _UNKNOWN:
                    part.replace(self._unknown_column(error.at))
                    return True
        return False

    def _replace_column(self, root: Any, column: Any, meant: str | None, number: int) -> None:
        """Replace an unknown column, and equal ones, by the one that is meant, or by one that takes its place."""
        from sqlglot import exp

        key, table = column.sql(), column.table.lower()
        same = [one for one in root.find_all(exp.Column) if one.sql() == key]
        if meant is not None and meant.lower() != column.name.lower():
            for one in same:
                one.set("this", exp.to_identifier(meant, quoted=True))
            return
        if table and all(one.alias_or_name.lower() != table for one in root.find_all(exp.Table, exp.Subquery)):
            same = [one for one in root.find_all(exp.Column) if one.table.lower() == table]
        self._reported |= {start(one) for one in same}
        self._replaced.add(number)
        if any(isinstance(one.parent, exp.Select) for one in same):
            self._renamed.add(number)

    def _unknown_column(self, at: int) -> Any:
        from sqlglot import exp

        self._reported.add(at)
        node = exp.column(_UNKNOWN)
        node.meta["start"] = node.this.meta["start"] = at
        return node


def _meant(error: ScriptError) -> str | None:
    """The name that the hint of an error suggests."""
    found = _MEANT.fullmatch(error.hint or "")
    return found[1] if found else None


def _options(dialect: str, table: str) -> tuple[Option, ...]:
    return tuple(Option(name, value.format(plain_name(table)), -1, -1) for name, value in _NOT_RUN[dialect].items())


def _dialect(table: CreateTable, declared: Sequence[Statement]) -> str:
    """Whose names the options of a table probably have."""
    if any(one.name.startswith("connector") for one in table.options):
        return "flink"
    return "rsql" if has_rsql_tables(declared) else "own"


def _distinct(errors: Iterable[ScriptError]) -> list[ScriptError]:
    """Errors and warnings without repetitions, in their order."""
    return list({_key(one): one for one in reversed(list(errors))}.values())[::-1]


def _key(error: ScriptError) -> _Key:
    return error.code, str(error), error.at


def _nodes(statement: Statement) -> Iterator[Any]:
    """The expressions and queries of a statement."""
    match statement:
        case CreateTable():
            for column in statement.columns:
                yield from (node for node in (column.type, column.expression) if node is not None)
            if statement.watermark is not None:
                yield statement.watermark.expression
        case CreateView() | Insert():
            yield statement.query


def _positions(statement: Statement) -> set[int]:
    """The characters of a script at which errors of a statement can be."""
    found = {part.meta["start"] for node in _nodes(statement) for part in node.walk() if "start" in part.meta}
    if isinstance(statement, CreateTable):
        found |= {at for one in statement.options for at in (one.at, one.value_at)}
        found |= {one.at for one in statement.columns} | ({statement.watermark.at} if statement.watermark else set())
    if isinstance(statement, CreateTable | CreateView | CreateFunction | Insert):
        found.add(statement.at)
    return found


def _tables(statement: CreateView | Insert) -> set[str]:
    """The names of tables that a statement reads or writes, in lower case."""
    from sqlglot import exp

    written = {(statement.table or "").lower()} if isinstance(statement, Insert) else set()
    return written | {node.name.lower() for node in statement.query.find_all(exp.Table)}


def _starts(node: Any) -> set[int]:
    return {part.meta["start"] for part in node.walk() if "start" in part.meta}
