"""How options of other tools are read: the options of ours that a text gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

Path = tuple[str | int, ...]
Value = tuple[Path, Any]
Reader = Callable[[str], list[Value]]
"""Reads an option's text: the values that it gives, each with the path in the component's options."""


def to_option(*path: str) -> Reader:
    return lambda text: [(path, text)]


def to_list(*path: str) -> Reader:
    return lambda text: [(path, [part.strip() for part in re.split("[;,]", text) if part.strip()])]


def to_number(*path: str) -> Reader:
    return lambda text: [(path, int(text) if text.strip().isdecimal() else text)]


def to_time(*path: str) -> Reader:
    """Milliseconds since 1970 as a time in UTC; another text stays as it is."""
    return lambda text: [(path, _time_text(text))]


def _time_text(text: str) -> str:
    millis = int(text) if re.fullmatch(r"[0-9]{1,14}", text) else None
    return text if millis is None else (datetime(1970, 1, 1) + timedelta(milliseconds=millis)).isoformat()


def ignored(text: str) -> list[Value]:
    return []


def startup(text: str) -> list[Value]:
    known = {"earliest-offset": "earliest", "latest-offset": "latest", "group-offsets": "group"}
    return [(("start",), known.get(text, text))]


def milliseconds(*path: str) -> Reader:
    return lambda text: [(path, f"{text}ms" if text.isdecimal() else text)]


@dataclass(frozen=True)
class Connector:
    """A connector of another tool: the types of ours that it becomes, and its options by name; of ``prefixes`` the rest of the
    name is a key below the path."""

    source: str | None
    sink: str | None
    table: str | None = None
    options: Mapping[str, Reader] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
