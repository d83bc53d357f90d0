"""Processors of Filebeat that set, move, convert and drop fields and events → steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etl.migration.draft import NoCounterpartError, clean_name
from etl.migration.filebeat.configuration import leaves
from etl.migration.filebeat.decoding import DECODERS, TYPES
from etl.migration.given_options import GivenOptions, whole_number
from etl.migration.ingest.painless.sql_methods import appended
from etl.migration.ingest.processor import as_list
from etl.migration.translated import TranslatedSteps
from etl.migration.values import (
    NULL,
    TEXT,
    WHOLE,
    Value,
    as_type,
    both,
    call,
    choose,
    constant,
    is_null,
    negation,
    of_each,
    text_value,
)


def ignores_failure(given: GivenOptions) -> bool:
    """Whether a failure of the processor changes nothing for the event."""
    return given.is_on("ignore_failure") or given.is_off("fail_on_error")


def _names(given: GivenOptions, option: str = "fields") -> list[str]:
    return [clean_name(str(name)) for name in as_list(given.get(option) or [])]


def _pairs(given: GivenOptions) -> list[tuple[str, str]]:
    """``fields: [{from: a, to: b}]``."""
    found = []
    for one in as_list(given.get("fields") or []):
        if not isinstance(one, Mapping) or "from" not in one:
            raise NoCounterpartError("`fields` is a list of {from: …, to: …}")
        found.append((clean_name(str(one["from"])), clean_name(str(one.get("to") or one["from"]))))
    return found


def _add_fields(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    target = given.get("target")
    prefix = "fields." if target is None else f"{target}." if target else ""
    add_fields(steps, given.members("fields"), prefix, where)
    return None


def add_fields(steps: TranslatedSteps, fields: Mapping[str, Any], prefix: str, where: Value | None) -> None:
    """Set fields to values; a field that is there gets the new one."""
    for name, value in leaves(fields):
        full = clean_name(f"{prefix}{name}")
        made = _array(value) if isinstance(value, list) else constant(value)
        steps.draft.set({full: choose(where, made, steps.draft.field(full))})


def _array(values: list[Any]) -> Value:
    if any(isinstance(one, (dict, list)) for one in values):
        raise NoCounterpartError("a list of objects as a value")
    return constant(values)


def _add_labels(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    labels = {name.replace(".", "_"): value for name, value in leaves(given.members("labels"))}
    add_fields(steps, labels, "labels.", where)
    return None


def _add_tags(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    add_tags(steps, as_list(given.get("tags") or []), where, clean_name(str(given.get("target") or "tags")))
    return None


def add_tags(steps: TranslatedSteps, tags: Sequence[Any], where: Value | None, target: str = "tags") -> None:
    """Append tags that are not there yet."""
    if tags:
        before = steps.draft.field(target)
        made = appended(before, constant(list(dict.fromkeys(str(tag) for tag in tags))), False)
        steps.draft.set({target: choose(where, made, before)})


def _drop_event(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    if where is None:
        raise NoCounterpartError("it has no condition, and would drop all events")
    steps.apply("drop", {}, where)
    return None


def _matching_names(steps: TranslatedSteps, name: str) -> list[str]:
    """Fields with a name, those in the object of this name, or those that ``/a regular expression/`` finds."""
    draft = steps.draft
    if len(name) > 2 and name.startswith("/") and name.endswith("/"):
        try:
            pattern = re.compile(name[1:-1])
        except re.error as error:
            raise NoCounterpartError(f"the expression {name}: {error}") from None
        return [one for one in draft.types if pattern.search(one) and one not in draft.temporary]
    plain = clean_name(name)
    return [plain, *draft.under(plain)]


_ALWAYS = ("@timestamp", "type")
"""Fields that no processor drops."""


def _drop_fields(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    names = [one for name in as_list(given.get("fields") or []) for one in _matching_names(steps, str(name))]
    steps.draft.drop(dict.fromkeys(one for one in names if one not in _ALWAYS), where)
    return None


def _include_fields(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    requested = [str(name) for name in as_list(given.get("fields") or [])]
    for name in requested:
        if not name.startswith("/"):
            steps.draft.field(clean_name(name))
    retained_names = {one for name in requested for one in _matching_names(steps, name)} | {*_ALWAYS}
    draft = steps.draft
    gone = [name for name in draft.types if name not in retained_names and name not in draft.temporary]
    draft.drop(gone, where)
    return None


def _moved(copies: bool) -> Callable[[TranslatedSteps, GivenOptions, Value | None], Value | None]:
    """``rename`` and ``copy_fields``: each fails where the field is missing, or the new one is there."""

    def run(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
        draft = steps.draft
        strict = not ignores_failure(given)
        for old, new in _pairs(given):
            if members := draft.under(old):
                names = {name: new + name[len(old) :] for name in members}
            else:
                names = {old: new} if not draft.field(old).is_null else {}
            for one, other in names.items():
                if copies:
                    _copy(steps, one, other, where)
                else:
                    draft.rename({one: other}, where)
            if not names and strict and not given.is_on("ignore_missing"):
                draft.comment(f"no step before gives {old}, so that it fails there")
        return None

    return run


def _copy(steps: TranslatedSteps, old: str, new: str, where: Value | None) -> None:
    before = steps.draft.field(new)
    free = where if before.is_null else both(where, is_null(before))
    steps.draft.set({new: choose(free, steps.draft.field(old), before)})


def _convert(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    draft, moves = steps.draft, given.get("mode", "copy") == "rename"
    for one, (old, new) in zip(as_list(given.get("fields") or []), _pairs(given), strict=True):
        source = draft.field(old)
        if source.is_null:
            continue
        type_ = TYPES.get(str(one.get("type")), "") if one.get("type") else source.type
        if not type_:
            raise NoCounterpartError(f"the type {one.get('type')!r} is unknown")
        made = as_type(source, f"array<{type_}>" if source.is_array else type_)
        if one.get("type") == "ip":
            made = Value(f"case when ip_version({made.sql}) is not null then {made.sql} end", TEXT, made.reads)
        if old == new:
            _convert_field(steps, old, made, where)
            continue
        if new in draft.types:
            draft.set({new: choose(both(where, negation(is_null(made))), made, draft.field(new))})
        else:  # not as a member of open JSON either, which would be a text
            draft.set({new: choose(where, made, NULL)})
        if moves:
            draft.drop([old], both(where, negation(is_null(draft.field(new)))))
    return None


def _convert_field(steps: TranslatedSteps, name: str, made: Value, where: Value | None) -> None:
    """A field has one type here: what does not fit is null, with a comment that says so."""
    before = steps.draft.field(name)
    if made.type not in (TEXT, before.type):
        steps.draft.comment(f"convert: {name} is null where it does not fit; it stays a text there")
    steps.draft.set({name: choose(where, made, as_type(before, made.type))})


def _replace(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    for one in as_list(given.get("fields") or []):
        if not isinstance(one, Mapping) or not {"field", "pattern"} <= set(one):
            raise NoCounterpartError("`fields` is a list of {field: …, pattern: …, replacement: …}")
        name, pattern = clean_name(str(one["field"])), str(one["pattern"])
        source = steps.draft.field(name)
        if source.is_null:
            continue
        text = as_type(source, TEXT)
        replacement = re.sub(r"\$\{(\w+)\}", r"$\1", str(one.get("replacement", "")))
        made = call("regexp_replace", [text, text_value(pattern), text_value(replacement)], TEXT)
        steps.draft.set({name: choose(where, made, source)})
    return None


def _truncate(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    if given.get("max_characters") is None:
        given.leave("max_bytes", "texts are cut by characters: `max_characters`")
        return None
    for name in _names(given):
        source = steps.draft.field(name)
        if source.type == TEXT:
            made = call("substring", [source, Value("1", WHOLE), Value(str(given.number("max_characters")), WHOLE)], TEXT)
            steps.draft.set({name: choose(where, made, source)})
    return None


def _of_text(function: str) -> Callable[[TranslatedSteps, GivenOptions, Value | None], Value | None]:
    def run(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
        if given.get("fields"):
            given.leave("fields", "names of fields stay as they are; `values` changes their texts")
        for name in _names(given, "values"):
            source = steps.draft.field(name)
            if not source.is_null:
                made = of_each(lambda text: call(function, [as_type(text, TEXT)], TEXT), source)
                steps.draft.set({name: choose(where, made, source)})
        return None

    return run


def _append(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    target = clean_name(str(given.get("target_field", "")))
    before = steps.draft.field(target)
    made = before if before.is_array or before.is_null else as_type(before, f"array<{before.type}>")
    unique = given.get("allow_duplicate", True) is False
    for value in as_list(given.get("values") or []):
        made = appended(made, constant(value), not unique)
    for name in _names(given):
        if not (value := steps.draft.field(name)).is_null:
            made = appended(made, value, not unique)
    if not made.is_null:
        steps.draft.set({target: choose(where, made, NULL if before.is_null else as_type(before, made.type))})
    return None


def _extract_array(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    source = steps.draft.field(clean_name(str(given.get("field", ""))))
    if not source.is_array:
        raise NoCounterpartError("no step before gives an array of this name")
    for target, index in leaves(given.members("mappings")):
        item = Value(f"get({source.sql}, {whole_number(index, target)})", source.type[6:-1], source.reads)
        name = clean_name(target)
        if given.is_on("omit_empty") and item.type == TEXT:
            item = Value(f"nullif({item.sql}, '')", TEXT, item.reads)
        before = steps.draft.field(name)
        free = where if before.is_null or given.is_on("overwrite_keys") else both(where, is_null(before))
        steps.draft.set({name: choose(free, item, before)})
    return None


def _community_id(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    if given.get("fields"):
        given.leave("fields", "the fields of ECS: source.ip, source.port, destination.ip, destination.port, network.transport")
    target = given.get("target") or "network.community_id"
    steps.apply("community_id", {"target_field": str(target)}, where)
    return None


def _registered_domain(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    text = as_type(steps.draft.field(clean_name(str(given.get("field", "")))), TEXT)
    if text.sql == "null":
        return None
    parts = {"target_field": "registered_domain", "target_subdomain_field": "subdomain", "target_etld_field": "public_suffix"}
    for option, function in parts.items():
        if given.get(option):
            name = clean_name(str(given[option]))
            steps.draft.set({name: choose(where, call(function, [text], TEXT), steps.draft.field(name))})
    return None


def _network_direction(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    options = {
        "source_ip": given.get("source"),
        "destination_ip": given.get("destination"),
        "target_field": given.get("target"),
        "internal_networks": given.get("internal_networks"),
    }
    steps.apply("network_direction", options, where)
    return None


def _urldecode(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    for old, new in _pairs(given):
        steps.apply("urldecode", {"field": old, "target_field": new, "ignore_missing": True}, where)
    return None


PROCESSORS: Mapping[str, Callable[[TranslatedSteps, GivenOptions, Value | None], Value | None]] = {
    **DECODERS,
    "add_fields": _add_fields,
    "add_labels": _add_labels,
    "add_network_direction": _network_direction,
    "add_tags": _add_tags,
    "append": _append,
    "community_id": _community_id,
    "convert": _convert,
    "copy_fields": _moved(copies=True),
    "drop_event": _drop_event,
    "drop_fields": _drop_fields,
    "extract_array": _extract_array,
    "include_fields": _include_fields,
    "lowercase": _of_text("lower"),
    "registered_domain": _registered_domain,
    "rename": _moved(copies=False),
    "replace": _replace,
    "truncate_fields": _truncate,
    "uppercase": _of_text("upper"),
    "urldecode": _urldecode,
}
"""Each returns the condition of its failure; None if it cannot fail."""
