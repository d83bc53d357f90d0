"""Functions of scripts that change the event: they set, drop, rename or split fields, or drop the event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from etl.expressions.quoting import quoted, quoted_text
from etl.rsql.problems import SourceError
from etl.rsql.script_expressions import constant_or_field, name_of, spark_text
from etl.rsql.script_scope import ScriptScope
from etl.rsql.script_tree import Call, Constant, Expression, Pair

_NOW = "current_timestamp()"
_NEEDS_FIELDS = "the fields of the event are not known here"


class StepList:
    """The steps so far. Values that do not depend on each other are set in one step."""

    def __init__(self, scope: ScriptScope) -> None:
        self.scope = scope
        self.patterns: dict[str, str] = {}
        """Patterns that the script adds for grok."""
        self._steps: list[dict[str, Any]] = []

    def set(self, field: str, text: str) -> None:
        """Set a field; the scope knows which fields the text reads."""
        last = self._steps[-1] if self._steps and self._steps[-1]["type"] == "set" else None
        given = last["fields"] if last else {}
        if last is None or field in given or self.scope.reads & given.keys():
            given = {}
            self._steps.append({"type": "set", "fields": given})
        given[field] = text
        self.scope.add([field])
        self.scope.reads.clear()

    def add(self, step: dict[str, Any]) -> None:
        self._steps.append(step)
        self.scope.reads.clear()

    def finished(self) -> list[dict[str, Any]]:
        return self._steps


@dataclass(frozen=True)
class Change:
    """How a call changes the event: ``run(steps, call, target, flag)``; ``target`` takes the value that it gives, too."""

    run: Callable[[StepList, Call, str | None, str | None], None]
    in_branch: bool = False
    """Whether it may stand in a branch of ``if``, whose flag is then a condition of its values."""


def _arguments(call: Call, least: int, most: int | None = None) -> tuple[Expression, ...]:
    """The arguments. Raises SourceError for another number."""
    count = len(call.arguments)
    if count < least or (most is not None and count > most):
        counts = str(least) if most == least else f"{least} to {most}" if most is not None else f"{least} or more"
        raise SourceError("wrong-arguments", f"{call.name} takes {counts} arguments, not {count}", call.at)
    return call.arguments


def _set(steps: StepList, field: str, text: str, target: str | None, flag: str | None) -> None:
    """Set a field, where the flag of the branch is true, and the target of an assignment."""
    scope = steps.scope
    if flag is not None:
        other = quoted(field) if scope.is_known and scope.has(field) else "null"
        text = f"case when {quoted(flag)} then {text} else {other} end"
        scope.reads |= {flag, field}
    steps.set(field, text)
    if target is not None and target != field:
        scope.reads.add(field)
        steps.set(target, quoted(field))


def _setting(value: Callable[[StepList, tuple[Expression, ...]], str], least: int, most: int | None = None) -> Change:
    """A call whose first argument names the field that it sets."""

    def run(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
        arguments = _arguments(call, least, least if most is None else most)
        _set(steps, name_of(arguments[0]), value(steps, arguments), target, flag)

    return Change(run, in_branch=True)


def _value(steps: StepList, arguments: tuple[Expression, ...]) -> str:
    return spark_text(arguments[1], steps.scope)


def _constant_value(steps: StepList, arguments: tuple[Expression, ...]) -> str:
    return constant_or_field(arguments[1], steps.scope)


def _of_function(name: str) -> Callable[[StepList, tuple[Expression, ...]], str]:
    return lambda steps, arguments: f"{name}({spark_text(arguments[1], steps.scope)})"


def _by_equality(steps: StepList, arguments: tuple[Expression, ...]) -> str:
    _, field, compared, yes, no = arguments
    others = [constant_or_field(one, steps.scope) for one in (compared, yes, no)]
    return f"case when rsql_equal({spark_text(field, steps.scope)}, {others[0]}) then {others[1]} else {others[2]} end"


def _of_group(steps: StepList, arguments: tuple[Expression, ...]) -> str:
    """``extra(new,field,pattern)`` and ``extraByGroup(new,field,pattern,group)``."""
    given = ", ".join(spark_text(one, steps.scope) for one in arguments[1:])
    return f"{'rsql_regexgroup' if len(arguments) == 3 else 'rsql_regexgroupindex'}({given})"


def _random(steps: StepList, arguments: tuple[Expression, ...]) -> str:
    return f"left(replace(uuid(), '-', ''), cast({spark_text(arguments[1], steps.scope)} as int))"


def _in_place(function: str, least: int = 2) -> Change:
    """A call that sets its first argument to a function of it."""

    def run(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
        first, *others = _arguments(call, least)
        if isinstance(first, Constant) and function.startswith("rsql_json"):
            _set_nothing(steps, target)
            return
        name = name_of(first)
        given = [steps.scope.text(name, call.at)]
        for one in others:
            given += (
                [_named(one.name), spark_text(one.value, steps.scope)]
                if isinstance(one, Pair)
                else [spark_text(one, steps.scope)]
            )
        _set(steps, name, f"{function}({', '.join(given)})", target, flag)

    return Change(run, in_branch=True)


def _named(node: Expression) -> str:
    return quoted_text(name_of(node))


def _set_nothing(steps: StepList, target: str | None) -> None:
    if target is not None:
        steps.set(target, "null")


# ── Fields ────────────────────────────────────────────────────────────────────────────────────────


def _rename(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    new, old = (name_of(one) for one in _arguments(call, 2, 2))
    scope = steps.scope
    if scope.is_known and not scope.has(old) and not scope.members(old):
        scope.warn_missing(old, call.at)
        return
    if scope.is_known and scope.has(new):
        steps.add({"type": "drop", "fields": [new]})
    steps.add({"type": "rename", "fields": {old: new}})
    scope.rename({old: new} | {one: f"{new}{one[len(old) :]}" for one in scope.members(old)})


def _remove(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    names = [name_of(one) for one in _arguments(call, 1)]
    scope = steps.scope
    if target is not None:
        steps.set(target, scope.text(names[0], call.at))
    found = [one for name in names for one in ([name] if scope.has(name) else scope.members(name))]
    for name in names:
        if scope.is_known and not scope.has(name) and not scope.members(name):
            scope.warn_missing(name, call.at)
    if found:
        steps.add({"type": "drop", "fields": found})
        scope.drop(found)


def _retain(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    names = [name_of(one) for one in _arguments(call, 1)]
    scope = steps.scope
    for name in names:
        if not scope.has(name) and not scope.members(name):
            steps.set(name, "cast(null as string)")
    kept = [one for name in names for one in ([name] if scope.has(name) else scope.members(name))]
    steps.add({"type": "keep", "fields": kept})
    scope.drop([name for name in scope.names if name not in kept])


def _spread(*, keep: bool) -> Change:
    """The members of an object as fields of the event; ``keep``: the object stays, too."""

    def run(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
        names = [name_of(one) for one in _arguments(call, 1, 2)]
        scope, prefix = steps.scope, ".".join(names)
        if not scope.is_known:
            raise SourceError("unknown-field", _NEEDS_FIELDS, call.at, "use the step script, or rename the fields one by one")
        members = scope.members(prefix)
        if not members:
            hint = f"a JSON text: put a step json before, with field: {prefix}" if scope.has(prefix) else None
            raise SourceError("unknown-field", f"{prefix!r} is no object whose members are fields", call.at, hint)
        shorter = {one: one[len(prefix) + 1 :] for one in members}
        clashing = [name for name in shorter.values() if scope.has(name)]
        if clashing and not keep:
            steps.add({"type": "drop", "fields": clashing})
            scope.drop(clashing)
        if keep:
            for one, name in shorter.items():
                steps.set(name, scope.text(one, call.at))
        else:
            steps.add({"type": "rename", "fields": shorter})
            scope.rename(shorter)

    return Change(run)


def _flatten_all(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    """``spread_json()``: the last part of each name, and an event for each element of an array of objects."""
    scope = steps.scope
    if not scope.is_known:
        raise SourceError("unknown-field", _NEEDS_FIELDS, call.at, "use the step script")
    for name in scope.names:
        if _members_of(scope.type_of(name)):
            _split_field(steps, name, call.at)
    names = {one: one.rsplit(".", 1)[-1] for one in scope.names if "." in one}
    if len(set(names.values())) < len(names) or any(scope.has(one) for one in names.values()):
        raise SourceError("unsupported-script", "two fields would have one name", call.at, "rename the fields one by one")
    if names:
        steps.add({"type": "rename", "fields": names})
        scope.rename(names)


def _receive_time(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    steps.set("sys_receive_time", f"date_format({_NOW}, 'yyyy-MM-dd HH:mm:ss')")
    steps.set("sys_receive_timestamp", f"unix_millis({_NOW})")


# ── Several events, several fields ────────────────────────────────────────────────────────────────


def _members_of(type_: pa.DataType | None) -> dict[str, pa.DataType]:
    """The members of the objects in an array."""
    if type_ is None or not pa.types.is_list(type_) or not pa.types.is_struct(type_.value_type):
        return {}
    return {field.name: field.type for field in type_.value_type}


def _split_field(steps: StepList, name: str, at: int) -> None:
    scope = steps.scope
    type_ = scope.type_of(name)
    if type_ is None or not pa.types.is_list(type_):
        hint = "a JSON text needs a step json before it, which declares the field as array<struct<…>>"
        raise SourceError("unknown-field", f"{name!r} is no array", at, hint)
    steps.add({"type": "unnest", "field": name})
    members = _members_of(type_)
    if not members:
        scope.replace(name, {name: type_.value_type})
        return
    clashing = [one for one in members if scope.has(one) and one != name]
    if clashing:
        steps.add({"type": "drop", "fields": clashing})
        scope.drop(clashing)
    steps.add({"type": "rename", "fields": {f"{name}.{one}": one for one in members}})
    scope.replace(name, members)


def _split_array(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    [name] = (name_of(one) for one in _arguments(call, 1, 1))
    if not steps.scope.is_known:
        raise SourceError("unknown-field", _NEEDS_FIELDS, call.at, "use the step script, or a step unnest")
    _split_field(steps, name, call.at)


def _cut(separator: Callable[[tuple[Expression, ...]], str], first: int) -> Change:
    """A field cut into named fields."""

    def run(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
        arguments = [one for one in _arguments(call, first) if not (isinstance(one, Constant) and isinstance(one.value, bool))]
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


def _text_argument(arguments: tuple[Expression, ...]) -> str:
    sign = arguments[1]
    if not isinstance(sign, Constant) or not isinstance(sign.value, str) or not sign.value:
        raise SourceError("wrong-arguments", "the separator is a text in quotes", sign.at)
    return sign.value


def _character_argument(arguments: tuple[Expression, ...]) -> str:
    code = arguments[1]
    try:
        return chr(int(str(code.value if isinstance(code, Constant) else "")))
    except (ValueError, OverflowError) as error:
        raise SourceError("wrong-arguments", "the code of a character is expected", code.at) from error


def _by_groups(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    field, pattern, *names = _arguments(call, 3)
    text, expression = steps.scope.text(name_of(field), call.at), spark_text(pattern, steps.scope)
    for number, name in enumerate(names, 1):
        steps.scope.reads.add(name_of(field))
        steps.set(name_of(name), f"rsql_regexgroupindex({text}, {expression}, {number})")


def _grok(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    field, pattern = _arguments(call, 2, 2)
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise SourceError("wrong-arguments", "the pattern is a text in quotes", pattern.at)
    step = {"type": "grok", "field": name_of(field), "patterns": [pattern.value], "on_error": "keep", "keep_field": True}
    steps.scope.text(name_of(field), field.at)
    steps.add(step | {"pattern_set": "legacy"} | ({"pattern_definitions": dict(steps.patterns)} if steps.patterns else {}))


def _add_pattern(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    name, pattern = _arguments(call, 2, 2)
    steps.patterns[name_of(name)] = name_of(pattern)


def _take_last(steps: StepList, call: Call, target: str | None, flag: str | None) -> None:
    """``max(rows,'n')``: the value, and the array without the rows that have it."""
    rows, key = _arguments(call, 2, 2)
    name = name_of(rows)
    text, member = steps.scope.text(name, call.at), spark_text(key, steps.scope)
    if target is not None:
        steps.set(target, f"rsql_max({text}, {member})")
    steps.scope.reads.add(name)
    steps.add({"type": "set", "fields": {name: f"rsql_without_max({text}, {member})"}})


_DROPS = Change(_remove)

CHANGES: Mapping[str, Change] = {
    **dict.fromkeys(("newfield", "addfield"), _setting(_value, 2)),
    **dict.fromkeys(("copyfield", "copy"), _setting(_value, 2)),
    **dict.fromkeys(("addconstant", "constant"), _setting(_constant_value, 2)),
    "addbyequal": _setting(_by_equality, 5),
    "addbyip2long": _setting(_of_function("rsql_ip2long"), 2),
    "timelong2string": _setting(_of_function("rsql_tochar"), 2),
    "extra": _setting(_of_group, 3),
    "extrabygroup": _setting(_of_group, 4),
    **dict.fromkeys(("addrandomid", "addrandom"), _setting(_random, 2)),
    **dict.fromkeys(("addreceivetime", "addnow"), Change(_receive_time)),
    **dict.fromkeys(("dateformat", "modifyformat"), _in_place("rsql_format")),
    **dict.fromkeys(("jsonadd", "json_add"), _in_place("rsql_jsonadd")),
    **dict.fromkeys(("jsonremove", "json_remove"), _in_place("rsql_jsonremove")),
    **dict.fromkeys(("val", "const"), _in_place("rsql_val", 1)),
    "backet": _in_place("rsql_backet", 1),
    **dict.fromkeys(("rename", "rn"), Change(_rename)),
    **dict.fromkeys(("rm", "removefield", "delete", "del"), _DROPS),
    **dict.fromkeys(("retainfield", "retain"), Change(_retain)),
    **dict.fromkeys(("expandfield", "expand_json", "jsonexpand", "json_expand"), _spread(keep=False)),
    **dict.fromkeys(("json_merge", "jsonmerge"), _spread(keep=True)),
    **dict.fromkeys(("spread_json", "autojson"), Change(_flatten_all)),
    **dict.fromkeys(("splitarray", "split_array"), Change(_split_array)),
    **dict.fromkeys(("split", "paserbysplit", "string_split"), _cut(_text_argument, 2)),
    "paserbycomma": _cut(lambda arguments: ",", 1),
    "paserbyasciisplit": _cut(_character_argument, 2),
    "paserbyregex": Change(_by_groups),
    "grok": Change(_grok),
    **dict.fromkeys(("add_grok", "addgrok"), Change(_add_pattern)),
    "max": Change(_take_last),
}
"""Functions, in lower case, that change the event."""

ENDS = ("break", "return", "breakloop", "returnloop")
"""Functions that drop the event."""

NO_EFFECT = (
    *("start_if", "start_if_true_false", "end_if", "end_if_true_false"),
    *("copy_msg", "orig_msg", "close_split_mode", "closesplitmodel", "echo"),
)
"""Functions that leave the event as it is when nothing takes their value."""

WITHOUT_EFFECT: Mapping[str, str] = {
    **dict.fromkeys(
        ("setheader", "header_value"), "messages have no headers here; the sink's options name fields for properties"
    ),
    **dict.fromkeys(("offset", "progress"), "the engine keeps offsets by itself"),
    **dict.fromkeys(("renameudtf", "udtfrename"), "columns of a table function are named where it is called"),
    "addaliuidconstant": "there is no account of Alibaba here",
}
"""Functions that have no effect here, with a warning that says why."""
