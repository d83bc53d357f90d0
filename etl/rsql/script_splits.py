"""Functions of scripts that make several events, or several fields, of one field."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from etl.expressions.quoting import quoted_text
from etl.rsql.problems import SourceError
from etl.rsql.script_expressions import name_of, spark_text
from etl.rsql.script_steps import NEEDS_FIELDS, Change, StepList, arguments_of
from etl.rsql.script_tree import Call, Constant, Expression


def members_of(type_: pa.DataType | None) -> dict[str, pa.DataType]:
    """The members of the objects in an array."""
    if type_ is None or not pa.types.is_list(type_) or not pa.types.is_struct(type_.value_type):
        return {}
    return {field.name: field.type for field in type_.value_type}


def split_field(steps: StepList, name: str, at: int) -> None:
    scope = steps.scope
    type_ = scope.type_of(name)
    if type_ is None or not pa.types.is_list(type_):
        hint = "a JSON text needs a step json before it, which declares the field as array<struct<…>>"
        raise SourceError("unknown-field", f"{name!r} is no array", at, hint)
    steps.add({"type": "unnest", "field": name})
    members = members_of(type_)
    if not members:
        scope.replace(name, {name: type_.value_type})
        return
    clashing = [one for one in members if scope.has(one) and one != name]
    if clashing:
        steps.add({"type": "drop", "fields": clashing})
        scope.drop(clashing)
    steps.add({"type": "rename", "fields": {f"{name}.{one}": one for one in members}})
    scope.replace(name, members)


def split_array(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    [name] = (name_of(one) for one in arguments_of(call, 1, 1))
    if not steps.scope.is_known:
        raise SourceError("unknown-field", NEEDS_FIELDS, call.at, "use the step script, or a step unnest")
    split_field(steps, name, call.at)


def cut(separator: Callable[[tuple[Expression, ...]], str], first: int) -> Change:
    """A field cut into named fields."""

    def run(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
        arguments = [one for one in arguments_of(call, first) if not (isinstance(one, Constant) and isinstance(one.value, bool))]
        if len(arguments) <= first:
            hint = "name the fields: split(field,'|','a','b'); for an event of each piece use split() and a step unnest"
            raise SourceError("wrong-arguments", f"{call.name} without names gives fields that are not known", call.at, hint)
        field, sign = name_of(arguments[0]), separator(tuple(arguments))
        text = steps.scope.text(field, call.at)
        names = [name_of(one) for one in arguments[first:]]
        for number, name in enumerate(names):
            if name != field:
                steps.scope.reads.add(field)
                steps.set(name, f"rsql_splitindex({text}, {quoted_text(sign)}, {number})")
        if field not in names:
            steps.add({"type": "drop", "fields": [field]})
            steps.scope.drop([field])

    return Change(run)


def text_argument(arguments: tuple[Expression, ...]) -> str:
    sign = arguments[1]
    if not isinstance(sign, Constant) or not isinstance(sign.value, str) or not sign.value:
        raise SourceError("wrong-arguments", "the separator is a text in quotes", sign.at)
    return sign.value


def character_argument(arguments: tuple[Expression, ...]) -> str:
    code = arguments[1]
    try:
        return chr(int(str(code.value if isinstance(code, Constant) else "")))
    except (ValueError, OverflowError) as error:
        raise SourceError("wrong-arguments", "the code of a character is expected", code.at) from error


def by_groups(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    field, pattern, *names = arguments_of(call, 3)
    text, expression = steps.scope.text(name_of(field), call.at), spark_text(pattern, steps.scope)
    for number, name in enumerate(names, 1):
        steps.scope.reads.add(name_of(field))
        steps.set(name_of(name), f"rsql_regexgroupindex({text}, {expression}, {number})")


def grok(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    field, pattern = arguments_of(call, 2, 2)
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise SourceError("wrong-arguments", "the pattern is a text in quotes", pattern.at)
    step = {"type": "grok", "field": name_of(field), "patterns": [pattern.value], "on_error": "keep", "keep_field": True}
    steps.scope.text(name_of(field), field.at)
    steps.add(step | {"pattern_set": "legacy"} | ({"pattern_definitions": dict(steps.patterns)} if steps.patterns else {}))


def add_pattern(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    name, pattern = arguments_of(call, 2, 2)
    steps.patterns[name_of(name)] = name_of(pattern)


def take_last(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    """``max(rows,'n')``: the value, and the array without the rows that have it."""
    rows, key = arguments_of(call, 2, 2)
    name = name_of(rows)
    text, member = steps.scope.text(name, call.at), spark_text(key, steps.scope)
    if target is not None:
        steps.set(target, f"rsql_max({text}, {member})")
    steps.scope.reads.add(name)
    steps.add({"type": "set", "fields": {name: f"rsql_without_max({text}, {member})"}})
