"""Writes plain values as YAML: scalars without quotes where that is safe, an event on one line if it fits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from etl.config.document.scalars import scalar_value

MAX_LINE_CHARACTERS = 120
"""Maximum number of characters of an event on one line; longer events get one line for each field."""

_PLAIN = re.compile(r"[A-Za-z0-9_/.+\-]([\w/.+@=$;()%~ \-]*[\w/.+@=$;()%~\-])?|[A-Za-z0-9][\w/.+\-]*(:[\w/.+\-]+)+", re.ASCII)
_KEY = re.compile(r"[A-Za-z_][\w.@\-]*", re.ASCII)
_INDICATORS = ("- ", "? ", "---", "...")


def format_scalar(value: Any) -> str:
    """Return a value on one line, with mappings and lists in flow style."""
    if isinstance(value, Mapping):
        return format_flow_mapping(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(format_scalar, value)) + "]"
    if isinstance(value, str):
        return _format_text(value)
    return "null" if value is None else json.dumps(value)


def format_flow_mapping(event: Mapping[str, Any]) -> str:
    """Return an event like ``{user_name: root, source.ip: 192.0.2.1}``."""
    return "{" + ", ".join(f"{_format_key(name)}: {format_scalar(value)}" for name, value in event.items()) + "}"


def format_items(events: list[Mapping[str, Any]], indent: int) -> Iterator[str]:
    """A block list of events, each line with its indent."""
    for event in events:
        yield from format_item(event, indent)


def format_item(event: Mapping[str, Any], indent: int) -> Iterator[str]:
    """One event of a block list."""
    pad = " " * indent
    line = f"{pad}- {format_flow_mapping(event)}"
    if len(line) <= MAX_LINE_CHARACTERS or not event:
        yield line
        return
    for number, (name, value) in enumerate(event.items()):
        yield f"{pad}{'  ' if number else '- '}{_format_key(name)}: {format_scalar(value)}"


def _format_key(name: str) -> str:
    return name if _KEY.fullmatch(name) else _quote(name)


def _format_text(value: str) -> str:
    """Without quotes if every YAML reader reads the same text; otherwise in double quotes."""
    safe = _PLAIN.fullmatch(value) and not value.startswith(_INDICATORS) and isinstance(scalar_value(value), str)
    return value if safe and value.lower() not in _WORDS else _quote(value)


_WORDS = {"yes", "no", "on", "off", "y", "n", "true", "false", "null", "-", "?"}
"""Words that some YAML readers do not read as text."""


def _quote(value: str) -> str:
    if "'" not in value and all(character.isprintable() for character in value) and ("\\" in value or '"' in value):
        return f"'{value}'"
    text = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
