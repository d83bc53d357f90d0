"""Processors that change fields and events: set, append, rename, remove, convert, script, drop and so on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from etl.migration.draft import NoCounterpartError
from etl.migration.ingest.painless.parser import parse_script
from etl.migration.ingest.painless.python_step import add_python_step
from etl.migration.ingest.painless.scripts import Script
from etl.migration.ingest.painless.sql_methods import appended
from etl.migration.ingest.painless.tree import Statement
from etl.migration.ingest.processor import ZONE_FIELD, Processor, as_list, static_name
from etl.migration.ingest.templates import INGEST_TIME, slots
from etl.migration.values import (
    FALSE,
    NULL,
    NUMBER,
    TEXT,
    TEXTS,
    TRUE,
    TRUTH,
    WHOLE,
    Value,
    as_type,
    both,
    choose,
    is_null,
    negation,
    text_value,
)


def set_field(one: Processor) -> None:
    name = one.field_name()
    if one.option("copy_from"):
        _copy(one, static_name(one.option("copy_from")), name)
    elif isinstance(one.option("value"), dict):
        for member, value in _leaves(name, one.option("value")):
            _set(one, member, one.template(value))
    elif name == ZONE_FIELD and one.option("override", True) is False and one.draft.field(name).is_null:
        _set(one, name, text_value(one.timezone))  # the option stands for the zone that shippers note
    else:
        _set(one, name, one.template(one.need("value")))


def _leaves(prefix: str, value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, member in value.items():
        found += _leaves(f"{prefix}.{name}", member) if isinstance(member, dict) else [(f"{prefix}.{name}", member)]
    return found


def _copy(one: Processor, source: str, target: str) -> None:
    members = one.draft.under(source)
    for name in members or [source]:
        value = one.draft.field(name)
        if not value.is_null:  # a field that is missing is no value to copy
            _set(replace(one, where=both(one.where, negation(is_null(value)))), target + name[len(source) :], value)


def _set(one: Processor, name: str, value: Value) -> None:
    before = one.draft.field(name)
    if value.is_null and slots(str(one.option("value", ""))) == [INGEST_TIME]:
        return
    if one.option("ignore_empty_value"):
        if value.is_null:
            return
        empty = f"{value.sql} is null" if value.type != TEXT else f"coalesce({value.sql}, '') = ''"
        value = choose(Value(empty, TRUTH, value.reads), before, value) if not before.is_null else _filled(value)
    elif value.is_null:
        value = text_value("")
    if one.option("override", True) is False and not before.is_null:
        value = choose(is_null(before), value, before)
    one.draft.set({name: choose(one.where, value, before)})


def _filled(value: Value) -> Value:
    return Value(f"nullif({value.sql}, '')", TEXT, value.reads) if value.type == TEXT and value.reads else value


def append(one: Processor) -> None:
    name = one.field_name()
    before = one.draft.field(name)
    if one.option("copy_from"):
        values = [one.draft.field(static_name(one.option("copy_from")))]
    else:
        values = [one.template(item) for item in as_list(one.need("value"))]
    for value in values:
        if one.option("ignore_empty_values") and value.type == TEXT:
            value = Value(f"nullif({value.sql}, '')", TEXT, value.reads)
        if not value.is_null:
            before = appended(before, value, one.option("allow_duplicates", True))
    if not before.is_null:
        one.draft.set({name: choose(one.where, before, one.draft.field(name))})


def rename(one: Processor) -> None:
    old, new = one.field_name(), static_name(one.need("target_field"))
    members = one.draft.under(old)
    if not members:
        one.draft.field(old)  # a member of an open object is declared
    names = {name: new + name[len(old) :] for name in members} if members else {old: new} if old in one.draft.types else {}
    if not names and not one.option("ignore_missing") and one.is_fatal:
        one.draft.comment(f"rename: no step before gives {old}")
    if names and one.option("override"):
        for name, target in names.items():
            value = one.draft.field(name)
            one.draft.set({target: choose(both(one.where, negation(is_null(value))), value, one.draft.field(target))})
            one.draft.drop([name], one.where)
    elif names:
        one.draft.rename(names, one.where)


def remove(one: Processor) -> None:
    if one.option("keep"):
        retained_names = [static_name(name) for name in as_list(one.option("keep"))]
        gone = [
            n
            for n in one.draft.types
            if not any(n == k or n.startswith(k + ".") for k in retained_names) and n not in one.draft.temporary
        ]
        one.draft.drop(gone, one.where)
        return
    for name in as_list(one.need("field")):
        one.draft.drop([static_name(name), *one.draft.under(static_name(name))], one.where)


_TYPES = {"integer": WHOLE, "long": WHOLE, "float": NUMBER, "double": NUMBER, "string": TEXT, "boolean": TRUTH, "ip": TEXT}


def convert(one: Processor) -> None:
    source = one.source()
    if str(one.need("type")).lower() == "auto":
        _convert_auto(one, source)
        return
    changed = convert_value(one, source or NULL)
    if source is None:
        return
    type_, is_address = changed.type, str(one.option("type")).lower() == "ip"
    if is_address and one.is_fatal:
        one.draft.comment(
            f"convert: {one.target} is null where {one.field_name()} is not an address; in Elasticsearch the event fails"
        )
    can_fail = (type_ != TEXT and type_ != source.type) or is_address
    failed = None
    if can_fail and not one.option("ignore_failure") and not one.is_fatal:
        condition = both(one.where, both(negation(is_null(source)), is_null(changed)))
        failed = one.draft.keep(condition, "failed")
        text = one.draft.new_temporary("text")
        one.draft.set({text: choose(failed, as_type(source, TEXT), NULL)})
    if one.is_fatal and one.where is None and source.type == TEXT and type_ != TEXT:
        changed = Value(changed.sql.replace("try_cast(", "cast(", 1), changed.type, changed.reads)
    before = one.draft.field(one.target)
    if one.where is not None and one.target == one.field_name():
        before = as_type(before, type_)
    one.draft.set({one.target: choose(one.where, changed, before)})
    if failed is not None:
        one.failed(failed, one.draft.field(text))


def convert_value(one: Processor, source: Value) -> Value:
    """The value in the type that the processor names; null where it does not fit."""
    target_type = str(one.need("type")).lower()
    if target_type == "auto":
        return source
    type_ = _TYPES.get(target_type)
    if type_ is None:
        raise NoCounterpartError(f"the type {target_type!r} is unknown; known are {', '.join((*_TYPES, 'auto'))}")
    if target_type == "ip":
        return _address(source)
    return as_type(source, f"array<{type_}>" if source.is_array else type_)


def _convert_auto(one: Processor, source: Value | None) -> None:
    """``auto`` gives each event the type that its text looks like; a field here has one type, which for a text stays text."""
    if source is not None and one.target != one.field_name():
        one.set(one.target, source)
    if source is None or source.type in (TEXT, TEXTS):
        one.leave_option("type", AUTO)


AUTO = "auto gives the value of each event a type of its own; here it keeps its type: write integer, float or boolean instead"


def _address(source: Value) -> Value:
    """The text of an address of IP; null for any other."""
    if source.is_array:
        return source
    text = as_type(source, TEXT)
    return Value(f"case when ip_version({text.sql}) is not null then {text.sql} end", TEXT, text.reads)


_REMOVES_NULLS = re.compile(r"removeIf\(\s*(\w+)\s*->\s*\1\s*==\s*null\b")
"""A script that many pipelines end with, in the words of Elastic's own."""

_CHANGES = re.compile(
    r"[\w\])]\s*(?:[-+*/%|&]|\|\||>>|<<)?=(?![=~])|\.(?!removeIf\b)(?:put|add|set|remove|replace|clear|compute|merge)\w*\(|\+\+|--"
)
"""What a script has that does more than to remove nulls."""


def script(one: Processor) -> None:
    if one.option("id") or one.option("lang", "painless") not in ("painless", None):
        raise NoCounterpartError("a stored script, or one in another language than Painless")
    source = one.option("source") or one.option("inline")
    if not isinstance(source, str):
        raise NoCounterpartError("a script without its source")
    if _REMOVES_NULLS.search(source) and not _CHANGES.search(source):
        return  # a field without a value is missing here anyway
    statements = parse_script(source)
    try:
        one.draft.set(dict(Script(one.draft, one.option("params")).run(statements, one.where)))
    except NoCounterpartError as error:
        _script_in_python(one, statements, error)


def _script_in_python(one: Processor, statements: Sequence[Statement], reason: NoCounterpartError) -> None:
    """A script that is more than expressions: a function in Python, which a step calls. Raises the reason if that fails too."""
    draft = one.draft
    condition = None
    if one.where is not None:
        where = draft.keep(one.where)
        assert where is not None
        condition = next(iter(where.reads), None)
    handled = one.option("ignore_failure") or one.option("on_failure") or one.scope
    failed = draft.new_temporary("failed") if handled else None
    try:
        add_python_step(draft, statements, one.option("params") or {}, condition, failed)
    except NoCounterpartError as error:
        raise NoCounterpartError(f"{reason}; and not as Python: {error}" if str(error) != str(reason) else str(reason)) from None
    if failed:
        one.failed(draft.field(failed))


def drop_event(one: Processor) -> None:
    condition = FALSE if one.where is None else negation(one.where)
    one.draft.check(condition)
    one.draft.add({"type": "filter", "where": condition.sql})


def fail(one: Processor) -> None:
    """The event is a dead letter with the message as the reason, or what ``on_failure`` does with it."""
    if one.option("ignore_failure"):
        return
    if one.option("on_failure") or one.scope:
        one.failed(TRUE)
        return
    message = as_type(one.template(one.need("message")), TEXT)
    where = one.where or TRUE
    raised = f"cast(raise_error(coalesce({message.sql}, 'fail')) as boolean)"
    condition = Value(f"case when {where.sql} then {raised} else true end", TRUTH, message.reads | where.reads)
    one.draft.check(condition)
    one.draft.add({"type": "filter", "where": condition.sql})


def geoip(one: Processor) -> None:
    """Places need a file of MaxMind, which the user has to give: the step stands above the next one, as a comment."""
    name, target = one.field_name(), one.option("target_field", "geoip")
    database = one.option("database_file", "GeoLite2-City.mmdb")
    one.draft.comment(f"places need a file of MaxMind: {{type: geoip, field: {name}, target: {target}, database: {database}}}")


def nothing(one: Processor) -> None:
    """A processor that has nothing to do here."""


FIELD_PROCESSORS: Mapping[str, Callable[[Processor], None]] = {
    "set": set_field,
    "append": append,
    "rename": rename,
    "remove": remove,
    "convert": convert,
    "script": script,
    "drop": drop_event,
    "fail": fail,
    "geoip": geoip,
    "ip_location": geoip,
    "dot_expander": nothing,  # a dotted name is the member of an object here anyway
}

NO_COUNTERPART: Mapping[str, str] = {
    "attachment": "contents of office documents are not read",
    "circle": "shapes are not computed",
    "date_index_name": "the sink elasticsearch has the pattern of the index's name: `index: logs-{timestamp:yyyy.MM.dd}`",
    "enrich": "a lookup with a table does the same: export the enrich index as a table, or read it from a database",
    "inference": "models are not run",
    "geo_grid": "tiles of maps are not computed",
    "redact": "a `set` with regexp_replace(message, '…', '<IP>') hides what a pattern finds",
    "reroute": "the sink names the index",
    "set_security_user": "there is no user of a request",
}
"""Processors without a counterpart, and what to do instead."""
