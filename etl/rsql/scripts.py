"""Scripts → steps: assignments and functions that change the event, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from etl.expressions.quoting import quoted
from etl.rsql.problems import SourceError, first_of
from etl.rsql.script_changes import CHANGES, ENDS, NO_EFFECT, WITHOUT_EFFECT
from etl.rsql.script_expressions import condition_text, spark_text
from etl.rsql.script_parser import parse_expression, parse_script
from etl.rsql.script_scope import ScriptScope
from etl.rsql.script_steps import StepList
from etl.rsql.script_tree import (
    Assignment,
    BareWord,
    Constant,
    Expression,
    FunctionCall,
    IfStatement,
    Statement,
)

MAX_STATEMENTS = 10_000
"""Statements of a script, those of for_field() for each field: with this number lint takes a second."""

_FLAG = "_if"
"""Prefix of the fields that hold conditions while their branches run."""


def convert_script(
    text: str, fields: Mapping[str, pa.DataType] | None = None, declared: Mapping[str, str] | None = None
) -> tuple[list[dict[str, Any]], ScriptScope]:
    """The steps of a script as a pipeline file has them, and the fields they leave. Raises SourceError with all of its errors.

    Without ``fields`` every name is that of a field, and what depends on the event's fields is an error. ``declared``: fields
    that functions give whose names only the run shows, with their types.
    """
    compiler = _Compiler(ScriptScope(fields, declared))
    statements, errors = parse_script(text)
    compiler.run(statements, None)
    if errors := [*errors, *compiler.errors]:
        raise first_of(errors)
    return compiler.steps.finished(), compiler.scope


def condition_of(text: str, at: int) -> str:
    """A condition of a script's expression. Raises SourceError with positions counted from ``at``."""
    try:
        return condition_text(parse_expression(text), ScriptScope())
    except SourceError as error:
        raise SourceError(error.code, str(error), at, error.hint) from error


def _for_field(statement: Statement, name: str) -> Statement:
    """A statement with a field's name and value in place of ``iterator.key`` and ``iterator.value``."""
    if isinstance(statement, Assignment):
        return replace(statement, value=_value_for_field(statement.value, name))
    if isinstance(statement, IfStatement):
        raise SourceError("unsupported-script", "if cannot stand in a script for each field", statement.at)
    return replace(statement, arguments=tuple(_value_for_field(one, name) for one in statement.arguments))


def _value_for_field(node: Expression, name: str) -> Expression:
    if isinstance(node, BareWord):
        return (
            Constant(name, node.at)
            if node.name == "iterator.key"
            else BareWord(name, node.at)
            if node.name == "iterator.value"
            else node
        )
    if isinstance(node, FunctionCall):
        return replace(node, arguments=tuple(_value_for_field(one, name) for one in node.arguments))
    return node


class _Compiler:
    """Compiles statements; inside a branch of ``if`` values are set where its flag is true."""

    def __init__(self, scope: ScriptScope) -> None:
        self.scope = scope
        self.steps = StepList(scope)
        self._flags = 0
        self._count = 0
        self.errors: list[SourceError] = []
        """Errors of statements so far."""

    def run(self, statements: Sequence[Statement], flag: str | None) -> None:
        for statement in statements:
            self._count += 1
            if self._count > MAX_STATEMENTS:
                self.errors.append(SourceError("file-too-large", f"more than {MAX_STATEMENTS:,} statements", statement.at))
                break
            try:
                if self._ends(statement, flag):
                    break
            except SourceError as error:
                self.errors.append(error)

    def _ends(self, statement: Statement, flag: str | None) -> bool:
        """Carry out a statement; whether the script ends there. Raises SourceError."""
        if isinstance(statement, IfStatement):
            self._if(statement, flag)
        elif isinstance(statement, Assignment):
            self._assign(statement, flag)
        else:
            return self._call(statement, None, flag)
        return False

    def _assign(self, statement: Assignment, flag: str | None) -> None:
        value = statement.value
        if isinstance(value, FunctionCall) and value.name.lower() in CHANGES and self._changes(value):
            self._call(value, statement.field, flag)
            return
        self.scope.reads.clear()
        self._set(statement.field, spark_text(value, self.scope), flag)

    def _changes(self, call: FunctionCall) -> bool:
        """Whether a call changes the event: ``get(a)`` and ``copy(a)`` with one argument only give a value."""
        return not (call.name.lower() in ("copyfield", "copy") and len(call.arguments) == 1)

    def _set(self, field: str, text: str, flag: str | None) -> None:
        if flag is not None:
            other = quoted(field) if self.scope.has(field) and self.scope.is_known else "null"
            text = f"case when {quoted(flag)} then {text} else {other} end"
            self.scope.reads |= {flag, field}
        self.steps.set(field, text)

    def _call(self, call: FunctionCall, target: str | None, flag: str | None) -> bool:
        """Carry out a call that is a statement; whether the script ends there."""
        name = call.name.lower()
        if name in NO_EFFECT:
            return False
        if name in WITHOUT_EFFECT:
            self.scope.warnings.setdefault(f"{call.name} has no effect: {WITHOUT_EFFECT[name]}", call.at)
            return False
        if name in ("for_field", "forfield"):
            self._for_each_field(call, flag)
            return False
        if name in ENDS:
            self.steps.add({"type": "filter", "where": "false" if flag is None else f"not {quoted(flag)}"})
            return flag is None
        change = CHANGES.get(name)
        if change is None or not self._changes(call):
            spark_text(call, self.scope)  # it gives a value, which nothing takes
            return False
        if flag is not None and not change.in_branch:
            raise SourceError("unsupported-script", f"{call.name} cannot stand in a branch of if", call.at, "use two streams")
        change.run(self.steps, call, target, flag)
        return False

    def _for_each_field(self, call: FunctionCall, flag: str | None) -> None:
        """Run a script once for each field: ``iterator.key`` is its name, ``iterator.value`` its value."""
        script = call.arguments[0] if len(call.arguments) == 1 else call
        if not self.scope.is_known or not isinstance(script, Constant) or not isinstance(script.value, str):
            raise SourceError("unsupported-script", f"{call.name} takes a script in quotes", call.at, "use the step script")
        statements, errors = parse_script(script.value)
        if errors:
            error = first_of(errors)
            raise SourceError(error.code, str(error), script.at + 1 + error.at, error.hint)
        for name in [one for one in self.scope.names if not one.startswith("_")]:
            self.run([_for_field(one, name) for one in statements], flag)

    def _if(self, statement: IfStatement, flag: str | None) -> None:
        """A value for each branch, or conditions as fields, which no statement of a branch can change."""
        if flag is None and (self._is_one_value(statement) or self._is_filter(statement)):
            return
        taken: list[str] = []
        for branch in statement.branches:
            parts = [f"not {quoted(one)}" for one in taken]
            parts += [quoted(flag)] if flag else []
            if branch.condition is not None:
                parts.insert(0, condition_text(branch.condition, self.scope))
            self._flags += 1
            name = f"{_FLAG}{self._flags}"
            self.scope.reads |= {*taken, *([flag] if flag else [])}
            self.steps.set(name, " and ".join(parts) or "true")
            taken.append(name)
        for name, branch in zip(taken, statement.branches, strict=True):
            self.run(branch.statements, name)
        self.steps.add({"type": "drop", "fields": taken})
        self.scope.drop(taken)

    def _is_filter(self, statement: IfStatement) -> bool:
        """Whether a condition only drops events; then they are filtered here."""
        [first, *others] = statement.branches
        body = first.statements
        if others or len(body) != 1 or not isinstance(body[0], FunctionCall) or body[0].name.lower() not in ENDS:
            return False
        assert first.condition is not None
        self.steps.add({"type": "filter", "where": f"not {condition_text(first.condition, self.scope)}"})
        return True

    def _is_one_value(self, statement: IfStatement) -> bool:
        """Whether all branches set one field only; then it is set here."""
        bodies = [branch.statements for branch in statement.branches]
        if any(len(body) != 1 or not isinstance(body[0], Assignment) for body in bodies):
            return False
        values = [body[0] for body in bodies if isinstance(body[0], Assignment)]
        if len({value.field for value in values}) != 1:
            return False
        if any(isinstance(value.value, FunctionCall) and value.value.name.lower() in CHANGES for value in values):
            return False
        self.scope.reads.clear()
        field, text, other = values[0].field, "case", ""
        for branch, value in zip(statement.branches, values, strict=True):
            given = spark_text(value.value, self.scope)
            if branch.condition is None:
                other = f" else {given}"
            else:
                text += f" when {condition_text(branch.condition, self.scope)} then {given}"
        if not other and self.scope.is_known and self.scope.has(field):
            self.scope.reads.add(field)
            other = f" else {quoted(field)}"
        self.steps.set(field, f"{text}{other} end")
        return True
