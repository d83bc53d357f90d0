"""Processors of Filebeat that read texts: dissect, decode_json_fields, decode_csv_fields, timestamp and others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from etl.migration.draft import DraftStep, NoCounterpartError, clean_name
from etl.migration.filebeat.configuration import leaves
from etl.migration.given_options import GivenOptions
from etl.migration.go_layout import java_layout
from etl.migration.ingest.processor import as_list, parsed_fields
from etl.migration.translated import TranslatedSteps
from etl.migration.values import (
    NUMBER,
    TEXT,
    TEXTS,
    TIME,
    TRUTH,
    WHOLE,
    Value,
    as_type,
    both,
    call,
    choose,
    either,
    field_value,
    is_null,
    negation,
    split_literal,
    text_value,
)

TYPES = {"integer": WHOLE, "long": WHOLE, "float": NUMBER, "double": NUMBER, "boolean": TRUTH, "ip": TEXT, "string": TEXT}
"""Names of types in Filebeat → those of expressions."""
_KEY = re.compile(r"%\{([^{}]*)\}")
_PARTS = re.compile(r"(?P<sign>[+?&*]?)(?P<name>[^|/>]*?)(?P<order>/\d+)?(?P<length>#\d+)?(?P<pad>->)?(?:\|(?P<type>\w+))?")


def _dissect(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    prefix = given.get("target_prefix", "dissect")
    types: dict[str, str] = {}
    pattern = _tokenizer(str(given.get("tokenizer", "")), f"{prefix}." if prefix else "", types)
    field = clean_name(str(given.get("field", "message")))
    taken = [name for name in types if not steps.draft.field(name).is_null]
    if taken and not given.is_on("overwrite_keys"):
        raise NoCounterpartError(f"{taken[0]} is there before, so that it fails without overwrite_keys: true")
    flags = [] if given.is_on("ignore_failure") else [_flag("dissect_parsing_error")]
    failure = steps.failure("dissect", {"field": field, "pattern": pattern}, where, flags)
    succeeded = where if failure is None else both(where, negation(failure))
    for name, type_ in types.items():
        made = _trimmed(steps.draft.field(name), given)
        if made.is_null or (made.sql == steps.draft.field(name).sql and type_ in (TEXT, made.type)):
            continue
        made = as_type(made, type_)
        steps.draft.set({name: choose(succeeded, made, as_type(steps.draft.field(name), made.type))})
    return failure


def _flag(text: str) -> dict[str, Any]:
    return {"append": {"field": "log.flags", "value": text, "allow_duplicates": False}}


def _tokenizer(text: str, prefix: str, types: dict[str, str]) -> str:
    """The pattern of the parser dissect; ``types`` gets the fields that it gives."""

    def replace(found: re.Match[str]) -> str:
        part = _PARTS.fullmatch(found[1])
        if part is None or part["length"] or part["sign"] in ("&", "*"):
            raise NoCounterpartError(f"the key {found[0]}")
        if not part["name"] or part["sign"] == "?":
            return f"%{{?{part['name'] or ''}{part['pad'] or ''}}}" if part["name"] else f"%{{{part['pad'] or ''}}}"
        name = clean_name(prefix + part["name"])
        type_ = TYPES.get(part["type"] or "string")
        if type_ is None:
            raise NoCounterpartError(f"the type {part['type']!r}")
        types[name] = type_
        return f"%{{{part['sign']}{name}{part['order'] or ''}{part['pad'] or ''}}}"

    return _KEY.sub(replace, text)


def _trimmed(value: Value, given: GivenOptions) -> Value:
    side = str(given.get("trim_values", "none"))
    characters = re.escape(str(given.get("trim_chars", " ")))
    patterns = {"left": f"^[{characters}]+", "right": f"[{characters}]+$", "all": f"^[{characters}]+|[{characters}]+$"}
    if side not in patterns or value.is_null:
        return value
    return call("regexp_replace", [value, text_value(patterns[side]), text_value("")], TEXT)


def _decode_json(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    target = given.get("target")
    for option in ("process_array", "document_id"):
        if given.get(option):
            given.leave(option, "objects become fields, and the sink chooses the document's id")
    if given.number("max_depth", 1) > 1:
        given.leave("max_depth", "a text inside the JSON stays a text: a step `json` for its field reads it")
    given.get("add_error_key"), given.get("expand_keys")
    failure: Value | None = None
    for name in map(clean_name, map(str, as_list(given.get("fields") or []))):
        found = decode_json(steps, name, name if target is None else str(target), where, overwrites=given.is_on("overwrite_keys"))
        failure = found if failure is None else either(failure, found) if found is not None else failure
    return failure


def decode_json(steps: TranslatedSteps, name: str, target: str, where: Value | None, *, overwrites: bool) -> Value | None:
    """Decode a field into an object, or into the event itself with an empty target: the condition of failure."""
    draft = steps.draft
    if draft.field(name).is_null:
        return None
    if target:
        return steps.failure("json", {"field": name, "target_field": clean_name(target)}, where)
    if not overwrites:
        return read_into_event(steps, name, where, overwrites=False)
    before = draft.new_temporary("event")
    draft.set({before: draft.field(name)})
    draft.drop([name])
    failure = read_into_event(steps, before, where, overwrites=True)
    member, text = draft.field(name), field_value(before, TEXT)
    draft.set({name: text if member.is_null else choose(negation(is_null(member)), member, text)})
    return failure


def read_into_event(steps: TranslatedSteps, name: str, where: Value | None, *, overwrites: bool) -> Value | None:
    """Read the members of a JSON text into the event: the condition of failure. ``overwrites``: `@timestamp`, too, which is the
    time of reading otherwise."""
    known = len(steps.draft.members)
    failure = steps.failure("json", {"field": name, "add_to_root": True}, where)
    for members in steps.draft.members[known:]:
        members.known = {"tags": (TEXTS, "tags"), "@timestamp": (TIME, "@timestamp"), **members.known}
        members.names = None if overwrites else re.compile(r"(?!@timestamp\Z).*")
    return failure


def _decode_csv(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    separator = str(given.get("separator", ","))
    given.get("trim_leading_space"), given.get("overwrite_keys")
    for name, target in leaves(given.members("fields")):
        source = steps.draft.field(clean_name(name))
        if source.is_null:
            continue
        steps.draft.comment("decode_csv_fields: values in quotes that contain the separator need the parser `csv` with `names`")
        made = split_literal(as_type(source, TEXT), separator)
        full = clean_name(str(target))
        steps.draft.set({full: choose(where, Value(made.sql, TEXTS, made.reads), steps.draft.field(full))})
    return None


def _timestamp(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    layouts = [str(one) for one in as_list(given.get("layouts") or [])]
    formats = [one if one in ("UNIX", "UNIX_MS") else java_layout(one, with_fractions=True) for one in layouts]
    name, target = clean_name(str(given.get("field", ""))), clean_name(str(given.get("target_field", "@timestamp")))
    source = steps.draft.field(name)
    if source.is_null and (given.is_on("ignore_missing") or given.is_on("ignore_failure")):
        return None
    zone = str(given.get("timezone", "UTC"))
    options = {"field": name, "target_field": target, "timezone": steps.timezone if zone == "Local" else zone}
    return steps.failure("date", {**options, "formats": formats}, where)


def _base64(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    one = given.members("field")
    name = clean_name(str(one.get("from", "")))
    source, target = steps.draft.field(name), clean_name(str(one.get("to") or name))
    if not source.is_null:
        made = call("base64_text", [as_type(source, TEXT)], TEXT)
        steps.draft.set({target: choose(where, made, steps.draft.field(target))})
    return None


def _syslog(steps: TranslatedSteps, given: GivenOptions, where: Value | None) -> Value | None:
    if where is not None:
        raise NoCounterpartError("under a condition; a stream of its own with a `filter` and the parser `syslog` does it")
    name = clean_name(str(given.get("field", "message")))
    if steps.draft.field(name).type != TEXT:
        raise NoCounterpartError(f"no step before gives {name}")
    parse_syslog(steps, name, str(given.get("format", "auto")), str(given.get("timezone", "UTC")))
    return None


def parse_syslog(steps: TranslatedSteps, name: str, format_: str, timezone: str) -> None:
    """Parse messages of syslog; the text of a message is `message` after it."""
    zone = steps.timezone if timezone == "Local" else timezone
    options = {"type": "syslog", "field": name, "format": format_.lower(), "timezone": zone, "on_error": "keep"}
    given = parsed_fields("syslog", {"field": name, "format": format_.lower()})
    steps.draft.steps.append(DraftStep(options, steps.draft.last_comments))
    steps.draft.last_comments = []
    steps.draft.types |= given


DECODERS: Mapping[str, Callable[[TranslatedSteps, GivenOptions, Value | None], Value | None]] = {
    "decode_base64_field": _base64,
    "decode_csv_fields": _decode_csv,
    "decode_json_fields": _decode_json,
    "dissect": _dissect,
    "syslog": _syslog,
    "timestamp": _timestamp,
}
