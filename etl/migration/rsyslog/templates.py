"""Templates of rsyslog: as one text, as the members of an object, and as a path with placeholders."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from etl.expressions.quoting import quoted_text
from etl.migration.draft import FIELD_NAME, NoCounterpartError
from etl.migration.rsyslog.configuration import Element
from etl.migration.rsyslog.properties import TIMES, Properties
from etl.migration.values import TEXT, TIME, Value, as_type, text_value

MAX_PARTS = 1000
_PLACEHOLDER = re.compile(r"%([^%\n]*)%")


@dataclass(frozen=True)
class TemplatePart:
    """A constant, or a property with its form."""

    constant: str = ""
    property: str = ""
    options: tuple[str, ...] = ()
    start: str = ""
    end: str = ""
    member: str = ""
    """Name of the member in an object of JSON (``format="jsonf"``)."""


BUILT_IN = {
    "rsyslog_fileformat": "%TIMESTAMP:::date-rfc3339% %HOSTNAME% %syslogtag%%msg:::sp-if-no-1st-sp%%msg:::drop-last-lf%\n",
    "rsyslog_traditionalfileformat": "%TIMESTAMP% %HOSTNAME% %syslogtag%%msg:::sp-if-no-1st-sp%%msg:::drop-last-lf%\n",
    "rsyslog_forwardformat": "<%PRI%>%TIMESTAMP:::date-rfc3339% %HOSTNAME% %syslogtag:1:32%%msg:::sp-if-no-1st-sp%%msg%",
    "rsyslog_traditionalforwardformat": "<%PRI%>%TIMESTAMP% %HOSTNAME% %syslogtag:1:32%%msg:::sp-if-no-1st-sp%%msg%",
}
"""Templates that rsyslog has, by their names in small letters."""


def template_parts(template: Element) -> Sequence[TemplatePart]:
    """The parts of a template. Raises NoCounterpartError."""
    kind = template.text("type", "string")
    if kind == "string":
        return string_parts(template.text("string"))
    if kind != "list":
        raise NoCounterpartError(f"a template of type {kind!r}")
    found: list[TemplatePart] = []
    for one in template.body:
        if not isinstance(one, Element) or one.kind not in ("constant", "property"):
            raise NoCounterpartError("a list with something else than constants and properties")
        member = one.text("outname") if one.text("format") == "jsonf" else ""
        if one.kind == "constant":
            found.append(TemplatePart(one.text("value"), member=member))
            continue
        options = [f"date-{one.text('dateformat')}"] if one.text("dateformat") else []
        options += [f"{one.text('caseconversion')}case"] if one.text("caseconversion") else []
        options += [one.text("format")] if one.text("format") not in ("", "jsonf") else []
        unread = [name for name in one.parameters if name.startswith(("regex.", "field.")) or name in ("position.relativetoend",)]
        if unread:
            raise NoCounterpartError(f"a property with {unread[0]}")
        name = one.text("name") or member
        found.append(TemplatePart("", name, tuple(options), one.text("position.from"), one.text("position.to"), member or ""))
    return found


def string_parts(text: str) -> Sequence[TemplatePart]:
    """The parts of ``<%PRI%>%TIMESTAMP:::date-rfc3339%…``."""
    found: list[TemplatePart] = []
    at = 0
    for placeholder in _PLACEHOLDER.finditer(text):
        found.append(TemplatePart(text[at : placeholder.start()]))
        name, _, rest = placeholder[1].partition(":")
        start, _, rest = rest.partition(":")
        end, _, rest = rest.partition(":")
        options, _, member = rest.partition(":")
        if start.startswith(("R", "F")):
            raise NoCounterpartError(f"the property {placeholder[0]} with a regular expression or a field")
        made = tuple(one for one in options.lower().split(",") if one)
        found.append(TemplatePart("", name, made, start, end, member if "jsonf" in made else ""))
        at = placeholder.end()
        if len(found) > MAX_PARTS:
            raise NoCounterpartError("a template with more than 500 properties")
    return [*found, TemplatePart(text[at:])]


def part_value(part: TemplatePart, properties: Properties) -> Value:
    """What a part writes, as a text. Raises NoCounterpartError."""
    if not part.property:
        return text_value(part.constant)
    if "sp-if-no-1st-sp" in part.options:
        return text_value(" ")
    value = properties.value(part.property)
    form = next((one for one in part.options if one.startswith("date-")), None)
    if value.type == TIME:
        value = _time_text(value, form or "date-rfc3164")
    text = as_type(value, TEXT)
    made = text.sql if text.is_literal else f"coalesce({text.sql}, '')"
    if part.start or part.end not in ("", "$"):
        begin = int(part.start) if part.start.isdecimal() else 1
        length = f", {int(part.end) - begin + 1}" if part.end.isdecimal() else ""
        made = f"substring({made}, {begin}{length})"
    for option in part.options:
        case = {"lowercase": "lower", "uppercase": "upper", "lowercasecase": "lower"}.get(option)
        made = f"{case}({made})" if case else made
    return Value(made, TEXT, text.reads)


def _time_text(value: Value, form: str) -> Value:
    if form in ("date-unixtimestamp", "date-unix"):
        return Value(f"cast(unix_seconds({value.sql}) as string)", TEXT, value.reads)
    if form == "date-rfc3164":
        day = f"substring(concat(' ', cast(day({value.sql}) as string)), -2, 2)"
        return Value(f"concat(date_format({value.sql}, 'MMM '), {day}, date_format({value.sql}, ' HH:mm:ss'))", TEXT, value.reads)
    if form not in TIMES:
        raise NoCounterpartError(f"the form {form!r} of a time")
    return Value(f"date_format({value.sql}, {quoted_text(TIMES[form])})", TEXT, value.reads)


def text_of(parts: Sequence[TemplatePart], properties: Properties) -> Value:
    """The text of a template, without a newline at its end."""
    values = [part_value(part, properties) for part in parts if part.property or part.constant]
    if values and not parts[-1].property and (last := parts[-1].constant).endswith("\n"):
        values = [*values[:-1], *([text_value(last[:-1])] if last[:-1] else [])]
    if not values:
        raise NoCounterpartError("an empty template")
    sql = values[0].sql if len(values) == 1 else f"concat({', '.join(one.sql for one in values)})"
    return Value(sql, TEXT, frozenset().union(*(one.reads for one in values)))


_MARK = re.compile("\ue000(\\d+)\ue001")


def members_of(template: Element, properties: Properties) -> Mapping[str, str] | None:
    """The members of the object that a template writes, as expressions by their paths; None if it writes no object."""
    if template.text("type") == "subtree":
        prefix = properties.variable(template.text("subtree"))
        under = properties.draft.under(prefix)
        return {name.removeprefix(prefix + "."): properties.draft.field(name).sql for name in under} or None
    parts = template_parts(template)
    text = "".join(_as_json(part, number) for number, part in enumerate(parts)).strip()
    if template.text("option.jsonf") == "on":
        text = "{" + ",".join(_as_json(part, number) for number, part in enumerate(parts)) + "}"
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise NoCounterpartError("a template that looks like JSON and is none") from None
    return dict(_members(found, "", parts, properties))


def _as_json(part: TemplatePart, number: int) -> str:
    mark = f"\ue000{number}\ue001" if part.property else part.constant
    if part.member:
        return f"{json.dumps(part.member)}:{json.dumps(mark)}"
    if not part.property:
        return part.constant
    if "jsonf" in part.options:
        return f"{json.dumps(part.property.lstrip('$!.'))}:{json.dumps(mark)}"
    return mark


def _members(value: Any, path: str, parts: Sequence[TemplatePart], properties: Properties) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [
            pair for name, one in value.items() for pair in _members(one, f"{path}.{name}" if path else name, parts, properties)
        ]
    if not FIELD_NAME.fullmatch(path):
        raise NoCounterpartError(f"the member {path!r}, which cannot be a field's name")
    if not isinstance(value, str):
        return [(path, "null" if value is None else json.dumps(value))] if not isinstance(value, list) else _no_list(path)
    pieces = _MARK.split(value)
    if len(pieces) == 3 and not pieces[0] and not pieces[2]:
        part = parts[int(pieces[1])]
        plain = (
            properties.value(part.property)
            if part.options in ((), ("json",), ("jsonf",), ("date-rfc3339",)) and not part.start
            else None
        )
        return [(path, (plain or part_value(part, properties)).sql)]
    values = [
        part_value(parts[int(piece)], properties).sql if number % 2 else quoted_text(piece) for number, piece in enumerate(pieces)
    ]
    values = [one for one in values if one != "''"]
    return [(path, values[0] if len(values) == 1 else f"concat({', '.join(values)})" if values else "''")]


def _no_list(path: str) -> list[tuple[str, str]]:
    raise NoCounterpartError(f"the member {path!r}, which is a list")


def path_of(parts: Sequence[TemplatePart], properties: Properties) -> str:
    """A path or a name with ``{field}`` and ``{yyyy-MM-dd}``. Raises NoCounterpartError."""
    made = ""
    for part in parts:
        if not part.property:
            made += part.constant
            continue
        made += _time_pattern(part) or _placeholder(part, properties)
    return made.rstrip("\n")


def _time_pattern(part: TemplatePart) -> str | None:
    """The pattern for a part of a time; None for another property."""
    clock = {"$year": "yyyy", "$month": "MM", "$day": "dd", "$hour": "HH", "$minute": "mm", "$now": "yyyy-MM-dd"}
    if pattern := clock.get(part.property.lower()):
        return f"{{{pattern}}}"
    if part.property.lower() not in ("timereported", "timestamp", "timegenerated"):
        return None
    form = next((one for one in part.options if one.startswith("date-")), "date-rfc3164")
    if form == "date-rfc3339" and part.end in ("4", "7", "10"):
        return "{" + {"4": "yyyy", "7": "yyyy-MM", "10": "yyyy-MM-dd"}[part.end] + "}"
    if form in TIMES and form not in ("date-rfc3339", "date-rfc3164") and not part.start:
        return f"{{{TIMES[form]}}}"
    raise NoCounterpartError(f"a path with a time in the form {form}")


def _placeholder(part: TemplatePart, properties: Properties) -> str:
    value = properties.value(part.property)
    plain = {one for one in part.options if one not in ("secpath-replace", "secpath-drop")}
    if value.is_null or len(value.reads) != 1 or plain or part.start:
        raise NoCounterpartError(f"a path with the property {part.property!r} in this form")
    return "{" + next(iter(value.reads)) + "}"
