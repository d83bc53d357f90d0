"""Functions of scripts that change the event: they set, drop or rename fields, or drop the event."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from etl.expressions.quoting import quoted, quoted_text
from etl.rsql import script_splits as splits
from etl.rsql.problems import SourceError
from etl.rsql.script_expressions import constant_or_field, name_of, spark_text
from etl.rsql.script_steps import NEEDS_FIELDS, CallCompiler, StepList, arguments_of
from etl.rsql.script_tree import Constant, Expression, FunctionCall, KeyValuePair

_NOW = "current_timestamp()"


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


def _compile_assignment(
    value: Callable[[StepList, tuple[Expression, ...]], str], min_arguments: int, max_arguments: int | None = None
) -> CallCompiler:
    """A call whose first argument names the field that it sets."""

    def run(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
        arguments = arguments_of(call, min_arguments, min_arguments if max_arguments is None else max_arguments)
        _set(steps, name_of(arguments[0]), value(steps, arguments), target, flag)

    return CallCompiler(run, in_branch=True)


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


def _in_place(function: str, min_arguments: int = 2) -> CallCompiler:
    """A call that sets its first argument to a function of it."""

    def run(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
        first, *others = arguments_of(call, min_arguments)
        if isinstance(first, Constant) and function.startswith("rsql_json"):
            _set_nothing(steps, target)
            return
        name = name_of(first)
        given = [steps.scope.text(name, call.at)]
        for one in others:
            given += (
                [_quoted_name(one.name), spark_text(one.value, steps.scope)]
                if isinstance(one, KeyValuePair)
                else [spark_text(one, steps.scope)]
            )
        _set(steps, name, f"{function}({', '.join(given)})", target, flag)

    return CallCompiler(run, in_branch=True)


def _quoted_name(node: Expression) -> str:
    return quoted_text(name_of(node))


def _set_nothing(steps: StepList, target: str | None) -> None:
    if target is not None:
        steps.set(target, "null")


# ── Fields ────────────────────────────────────────────────────────────────────────────────────────


def _rename(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
    new, old = (name_of(one) for one in arguments_of(call, 2, 2))
    scope = steps.scope
    if scope.is_known and not scope.has(old) and not scope.members(old):
        scope.warn_missing(old, call.at)
        return
    if scope.is_known and scope.has(new):
        steps.add({"type": "drop", "fields": [new]})
    steps.add({"type": "rename", "fields": {old: new}})
    scope.rename({old: new} | {one: f"{new}{one[len(old) :]}" for one in scope.members(old)})


def _remove(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
    names = [name_of(one) for one in arguments_of(call, 1)]
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


def _retain(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
    names = [name_of(one) for one in arguments_of(call, 1)]
    scope = steps.scope
    for name in names:
        if not scope.has(name) and not scope.members(name):
            steps.set(name, "cast(null as string)")
    retained_names = [one for name in names for one in ([name] if scope.has(name) else scope.members(name))]
    steps.add({"type": "keep", "fields": retained_names})
    scope.drop([name for name in scope.names if name not in retained_names])


def _names_no_field(steps: StepList, call: FunctionCall, *, quoted: bool) -> bool:
    """Whether a call names its field otherwise than the function reads it: the old engine then changes nothing."""
    first = arguments_of(call, 1)[0]
    if isinstance(first, Constant) == quoted:
        return False
    name = name_of(first)
    correction = f"{call.name}('{name}')" if quoted else f"{call.name}({name})"
    what = f"the value of {name} names no field" if quoted else f"{name!r} in quotes is a text"
    message = f"{call.name} has no effect, as in RocketMQ Streams: {what}; write {correction}"
    steps.scope.warnings.setdefault(message, call.at)
    return True


def _spread(*, keep: bool, quoted: bool) -> CallCompiler:
    """The members of an object as fields of the event; ``keep``: the object stays, too. ``quoted``: its name is in quotes."""

    def run(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
        names = [name_of(one) for one in arguments_of(call, 1, 2)]
        scope, prefix = steps.scope, ".".join(names)
        if _names_no_field(steps, call, quoted=quoted):
            return
        if not scope.is_known:
            raise SourceError("unknown-field", NEEDS_FIELDS, call.at, "use the step script, or rename the fields one by one")
        members = scope.members(prefix)
        if not members:
            splits.spread_text(steps, call, prefix, keep=keep)
            return
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

    return CallCompiler(run)


def _flatten_all(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
    """``spread_json()``: the last part of each name, and an event for each element of an array of objects."""
    scope = steps.scope
    if not scope.is_known:
        raise SourceError("unknown-field", NEEDS_FIELDS, call.at, "use the step script")
    for name in scope.names:
        if splits.members_of(scope.type_of(name)):
            splits.split_field(steps, name, call.at)
    names = {one: one.rsplit(".", 1)[-1] for one in scope.names if "." in one}
    if len(set(names.values())) < len(names) or any(scope.has(one) for one in names.values()):
        raise SourceError("unsupported-script", "two fields would have one name", call.at, "rename the fields one by one")
    if names:
        steps.add({"type": "rename", "fields": names})
        scope.rename(names)


def _receive_time(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
    steps.set("sys_receive_time", f"date_format({_NOW}, 'yyyy-MM-dd HH:mm:ss')")
    steps.set("sys_receive_timestamp", f"unix_millis({_NOW})")


def _modify_format(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
    if _names_no_field(steps, call, quoted=False):
        _set_nothing(steps, target)
    else:
        _in_place("rsql_format").run(steps, call, target, flag)


def _header(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
    """A new id, and the present time: the old engine makes both when it reads a message."""
    steps.set("_MSG_ID", "uuid()")
    steps.set("_MSG_SEND_TIME", f"unix_millis({_NOW})")
    steps.set("_RECEIVE_TIME", f"unix_millis({_NOW})")


def _mock(steps: StepList, call: FunctionCall, target: str | None, flag: str | None) -> None:
    """``mock('key','value')``: what ``env('key')`` gives from here on."""
    key, value = arguments_of(call, 2, 2)
    if not isinstance(value, Constant):
        raise SourceError("wrong-arguments", "the value of a property is a text in quotes", value.at)
    steps.scope.properties[name_of(key)] = str(value.value)


_DROPS = CallCompiler(_remove)

CHANGES: Mapping[str, CallCompiler] = {
    **dict.fromkeys(("newfield", "addfield"), _compile_assignment(_value, 2)),
    **dict.fromkeys(("copyfield", "copy"), _compile_assignment(_value, 2)),
    **dict.fromkeys(("addconstant", "constant"), _compile_assignment(_constant_value, 2)),
    "addbyequal": _compile_assignment(_by_equality, 5),
    "addbyip2long": _compile_assignment(_of_function("rsql_ip2long"), 2),
    "timelong2string": _compile_assignment(_of_function("rsql_tochar"), 2),
    "extra": _compile_assignment(_of_group, 3),
    "extrabygroup": _compile_assignment(_of_group, 4),
    **dict.fromkeys(("addrandomid", "addrandom"), _compile_assignment(_random, 2)),
    **dict.fromkeys(("addreceivetime", "addnow"), CallCompiler(_receive_time)),
    **dict.fromkeys(("dateformat", "modifyformat"), CallCompiler(_modify_format, in_branch=True)),
    **dict.fromkeys(("jsonadd", "json_add"), _in_place("rsql_jsonadd")),
    **dict.fromkeys(("jsonremove", "json_remove"), _in_place("rsql_jsonremove")),
    **dict.fromkeys(("val", "const"), _in_place("rsql_val", 1)),
    "backet": _in_place("rsql_backet", 1),
    **dict.fromkeys(("rename", "rn"), CallCompiler(_rename)),
    **dict.fromkeys(("rm", "removefield", "delete", "del"), _DROPS),
    **dict.fromkeys(("retainfield", "retain"), CallCompiler(_retain)),
    **dict.fromkeys(("expandfield", "expand_json"), _spread(keep=False, quoted=False)),
    **dict.fromkeys(("jsonexpand", "json_expand"), _spread(keep=False, quoted=True)),
    **dict.fromkeys(("json_merge", "jsonmerge"), _spread(keep=True, quoted=True)),
    **dict.fromkeys(("spread_json", "autojson"), CallCompiler(_flatten_all)),
    **dict.fromkeys(("splitarray", "split_array"), CallCompiler(splits.split_array)),
    **dict.fromkeys(("split", "paserbysplit", "string_split"), splits.cut(splits.text_argument, 2)),
    "paserbycomma": splits.cut(lambda arguments: ",", 1),
    "paserbyasciisplit": splits.cut(splits.character_argument, 2),
    "paserbyregex": CallCompiler(splits.by_groups),
    "grok": CallCompiler(splits.grok),
    **dict.fromkeys(("add_grok", "addgrok"), CallCompiler(splits.add_pattern)),
    "max": CallCompiler(splits.take_last),
    **dict.fromkeys(("header", "msgid"), CallCompiler(_header)),
    "mock": CallCompiler(_mock),
    **dict.fromkeys(("parse_express", "express"), CallCompiler(splits.by_pairs)),
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
