"""Parts of a web server's log format: literal texts, and values that become fields."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

Kind = Literal[
    "text",
    "word",
    "address",
    "address_before_port",
    "braces",
    "request",
    "protocol",
    "query",
    "whole",
    "signed",
    "real",
    "seconds",
    "milliseconds",
    "microseconds",
    "time",
    "whole_list",
    "real_list",
    "text_list",
]
"""How a value is written. A list has a value of each of several upstream servers; of numbers the last one counts."""

SCALES = {"seconds": 1_000_000_000, "milliseconds": 1_000_000, "microseconds": 1_000}
"""Nanoseconds in a unit: durations become ECS's ``event.duration``."""


@dataclass(frozen=True)
class Value:
    """A value in a line. The field of an address is its parent: ``source`` has ``source.address`` and ``source.ip``."""

    field: str
    kind: Kind = "text"
    formats: tuple[str, ...] = ()
    """Formats of a time, in the letters of the parser `timestamp`."""


Part: TypeAlias = "str | Value"


def merge_parts(parts: Iterable[Part]) -> list[Part]:
    """The parts with neighbouring literal texts as one."""
    found: list[Part] = []
    for is_text, group in groupby(parts, key=lambda part: isinstance(part, str)):
        same = list(group)
        found += ["".join(map(str, same))] if is_text else same
    return [part for part in found if part != ""]


HEADERS = {"referer": "http.request.referrer", "user_agent": "user_agent.original"}
"""Request headers that ECS has fields for."""

_NO_NAME = re.compile(r"[^a-z0-9_]+")


def member(parent: str, name: str) -> str:
    """``http.request.headers`` and ``X-Real-IP`` → ``http.request.headers.x_real_ip``."""
    clean = _NO_NAME.sub("_", name.lower()) or "_"
    return f"{parent}.{'_' if clean[0].isdigit() else ''}{clean}"


def header(name: str) -> str:
    """The field of a request header."""
    return HEADERS.get(name.lower().replace("-", "_")) or member("http.request.headers", name)
