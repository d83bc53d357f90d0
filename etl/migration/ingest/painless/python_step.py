"""Scripts and conditions of Painless that expressions cannot say → steps ``python``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from etl.migration.draft import Draft
from etl.migration.ingest.painless.python_code import PythonCode
from etl.migration.ingest.painless.tree import (
    Assignment,
    Binary,
    FieldPath,
    ForEach,
    If,
    Literal,
    Return,
    Statement,
    Try,
    While,
)
from etl.migration.values import TRUTH, Value, field_value


def add_python_step(
    draft: Draft, statements: Sequence[Statement], params: Mapping[str, Any], condition: str | None, failed: str | None
) -> None:
    """Add a function with the statements and the step that calls it, where the field ``condition`` is true.

    ``failed``: the field that says where it failed, in place of an error. Raises NoCounterpartError.
    """
    name = f"script_{len(draft.functions) + 1}"
    code = PythonCode(draft, params)
    draft.functions[name] = code.write(name, statements, condition, failed)
    read = sorted({*code.read, *code.given, *([condition] if condition else [])} & {*draft.types})
    types = dict(code.given)
    draft.add({"type": "python", "function": name, "read": read, "fields": types}, types)


def python_condition(draft: Draft, statements: Sequence[Statement]) -> Value:
    """The field that says where a condition is true; where it fails, it is false. Raises NoCounterpartError."""
    name = draft.new_temporary("when")
    add_python_step(draft, _setting(statements, name), {}, None, draft.new_temporary("failed"))
    return field_value(name, TRUTH)


def _setting(statements: Sequence[Statement], name: str) -> tuple[Statement, ...]:
    """The statements with a field that is set where they return a value."""
    found: list[Statement] = []
    for one in statements:
        match one:
            case Return(value) if value is not None:
                found += [Assignment(FieldPath((name,)), "=", Binary("==", value, Literal(True))), Return(None)]
            case If(condition, then, other):
                found.append(If(condition, _setting(then, name), _setting(other, name)))
            case ForEach() | While():
                found.append(replace(one, body=_setting(one.body, name)))
            case Try(body, handler):
                found.append(Try(_setting(body, name), _setting(handler, name)))
            case _:
                found.append(one)
    return tuple(found)
