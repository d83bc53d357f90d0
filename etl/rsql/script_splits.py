"""Functions of scripts that make several events, or several fields, of one field."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pyarrow as pa

from etl.expressions.quoting import quoted, quoted_text
from etl.rsql.problems import SourceError
from etl.rsql.script_expressions import name_of, spark_text
from etl.rsql.script_steps import NEEDS_FIELDS, CallCompiler, StepList, arguments_of
from etl.rsql.script_tree import Constant, Expression, FunctionCall

MAX_PIECES = 100
"""Pieces of a text that get a field ``name0``, ``name1`` … of their own, if the field is declared."""


def members_of(type_: pa.DataType | None) -> dict[str, pa.DataType]:
    """The members of the objects in an array."""
    if type_ is None or not pa.types.is_list(type_) or not pa.types.is_struct(type_.value_type):
        return {}
    return {field.name: field.type for field in type_.value_type}


def split_field(steps: StepList, name: str, at: int) -> None:
    scope = steps.scope
    type_ = scope.type_of(name)
    if type_ is not None and pa.types.is_string(type_) and (declared := scope.undefined()):
        _split_text(steps, name, declared, at)
        return
    if type_ is None or not pa.types.is_list(type_):
        hint = f"of a JSON text: {NAME_THEM}, or put a step json before, which declares the field as array<struct<…>>"
        raise SourceError("unknown-field", f"{name!r} is not an array", at, hint)
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


NAME_THEM = "name them in the option fields of the step script"


def _convert(text: str, type_: str) -> str:
    return text if type_ == "string" else f"try_cast({text} as {type_})"


def _split_text(steps: StepList, name: str, declared: Mapping[str, str], at: int) -> None:
    """An event for each object in a JSON text, with the declared members."""
    scope = steps.scope
    rows = f"rsql_json_rows({scope.text(name, at)}, {', '.join(map(quoted_text, declared))})"
    steps.add({"type": "set", "fields": {name: rows}})
    steps.add({"type": "unnest", "field": name})
    members = {one: quoted(f"{name}.c{number}") for number, one in enumerate(declared, 1)}
    values = {one: _convert(member, declared[one]) for one, member in members.items()}
    steps.add({"type": "set", "fields": values})
    dropped = [f"{name}.c{number}" for number in range(1, len(declared) + 1)]
    steps.add({"type": "drop", "fields": dropped})
    scope.drop([name])
    scope.add(declared)


def spread_text(steps: StepList, call: FunctionCall, name: str, *, keep: bool) -> None:
    """The declared members of a JSON text as fields."""
    scope = steps.scope
    declared = scope.undefined()
    if not scope.has(name) or not declared:
        hint = f"of a JSON text: {NAME_THEM}, or put a step json before, with field: {name}" if scope.has(name) else None
        raise SourceError("unknown-field", f"{name!r} is not an object whose members are fields", call.at, hint)
    text = scope.text(name, call.at)
    for member, type_ in declared.items():
        scope.reads.add(name)
        steps.set(member, _convert(f"rsql_item(rsql_json({text}), {quoted_text(member)})", type_))
    if not keep and name not in declared:
        steps.add({"type": "drop", "fields": [name]})
        scope.drop([name])


def by_pairs(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
    """``parse_express(field,' ')``: the declared keys of ``key=value`` pairs; a value ends where the next pair begins."""
    field, separator = arguments_of(call, 2, 2)
    name, scope = name_of(field), steps.scope
    delimiter = text_argument((field, separator))
    declared = scope.undefined()
    if not declared:
        hint = f"{NAME_THEM}, or use the step key_value"
        raise SourceError("unknown-function", f"{call.name} gives fields that are not known before the run", call.at, hint)
    text, end = scope.text(name, call.at), re.escape(delimiter)
    for key, type_ in declared.items():
        pattern = f'(?s)(?:^|{end}){re.escape(key)}=(.*?)(?:{end}[^="{re.escape(delimiter[0])}]*=.*)?$'
        scope.reads.add(name)
        steps.set(key, _convert(f"rsql_regexgroupindex({text}, {quoted_text(pattern)}, 1)", type_))
    if name not in declared:
        steps.add({"type": "drop", "fields": [name]})
        scope.drop([name])


def split_array(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
    [name] = (name_of(one) for one in arguments_of(call, 1, 1))
    if not steps.scope.is_known:
        raise SourceError("unknown-field", NEEDS_FIELDS, call.at, "use the step script, or a step unnest")
    split_field(steps, name, call.at)


def cut(separator: Callable[[tuple[Expression, ...]], str], first: int) -> CallCompiler:
    """A field cut into named fields."""

    def run(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
        arguments = [one for one in arguments_of(call, first) if not (isinstance(one, Constant) and isinstance(one.value, bool))]
        field = name_of(arguments[0])
        names = [name_of(one) for one in arguments[first:]]
        numbered = {f"{field}{number}": number for number in range(len(names), MAX_PIECES)}
        names += [one if one in declared else "" for one in numbered] if (declared := steps.scope.undefined()) else []
        if not any(names):
            hint = f"name the fields: split({field},'|','a','b'); for an event of each piece use split() and a step unnest"
            raise SourceError("wrong-arguments", f"{call.name} without names gives fields that are not known", call.at, hint)
        delimiter = separator(tuple(arguments))
        text = steps.scope.text(field, call.at)
        for number, name in enumerate(names):
            if name and name != field:
                steps.scope.reads.add(field)
                steps.set(name, f"rsql_splitindex({text}, {quoted_text(delimiter)}, {number})")
        if field not in names:
            steps.add({"type": "drop", "fields": [field]})
            steps.scope.drop([field])

    return CallCompiler(run)


def text_argument(arguments: tuple[Expression, ...]) -> str:
    delimiter = arguments[1]
    if not isinstance(delimiter, Constant) or not isinstance(delimiter.value, str) or not delimiter.value:
        raise SourceError("wrong-arguments", "the separator is a text in quotes", delimiter.at)
    return delimiter.value


def character_argument(arguments: tuple[Expression, ...]) -> str:
    code = arguments[1]
    try:
        found = chr(int(str(code.value if isinstance(code, Constant) else "")))
        found.encode()  # a half of a pair is not a character
    except (ValueError, OverflowError) as error:
        raise SourceError("wrong-arguments", "the code of a character is expected", code.at) from error
    return found


def by_groups(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
    field, pattern, *names = arguments_of(call, 3)
    text, expression = steps.scope.text(name_of(field), call.at), spark_text(pattern, steps.scope)
    for number, name in enumerate(names, 1):
        steps.scope.reads.add(name_of(field))
        steps.set(name_of(name), f"rsql_regexgroupindex({text}, {expression}, {number})")


def grok(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
    field, pattern = arguments_of(call, 2, 2)
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise SourceError("wrong-arguments", "the pattern is a text in quotes", pattern.at)
    step = {"type": "grok", "field": name_of(field), "patterns": [pattern.value], "on_error": "keep", "keep_field": True}
    steps.scope.text(name_of(field), field.at)
    steps.add(step | {"pattern_set": "legacy"} | ({"pattern_definitions": dict(steps.patterns)} if steps.patterns else {}))


def add_pattern(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
    name, pattern = arguments_of(call, 2, 2)
    steps.patterns[name_of(name)] = name_of(pattern)


def take_last(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
    """``max(rows,'n')``: the value, and the array without the rows that have it."""
    rows, key = arguments_of(call, 2, 2)
    name = name_of(rows)
    text, member = steps.scope.text(name, call.at), spark_text(key, steps.scope)
    if target is not None:
        steps.set(target, f"rsql_max({text}, {member})")
    steps.scope.reads.add(name)
    steps.add({"type": "set", "fields": {name: f"rsql_without_max({text}, {member})"}})
