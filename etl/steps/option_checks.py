"""Options that several steps with state have: checks of the event time, lengths and names of new fields; the idle time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from etl.api import Finding, Schema, format_type, unknown_field


def time_findings(name: str, incoming: Schema, path: tuple[str | int, ...] = ("time",)) -> Iterator[Finding]:
    """An event time field that is unknown or no timestamp."""
    if name not in incoming.names:
        yield unknown_field(name, incoming, path)
        return
    shown = format_type(incoming.field(name).type)
    if not shown.startswith(("timestamp", "void")):
        hint = "put a timestamp step before this one, which reads it"
        yield Finding("wrong-type", f"event time {name!r} is {shown}, not a timestamp", path, hint)


def length_finding(name: str, length: timedelta) -> Iterator[Finding]:
    """A length of time that is not positive."""
    if length <= timedelta(0):
        yield Finding("bad-window", f"{name} must be longer than 0s", (name,), "give a length of time such as 10m")


def taken_name(name: str, names: list[str], path: tuple[str | int, ...]) -> Iterator[Finding]:
    """A new field whose name an incoming field has."""
    if name in names:
        yield Finding("name-conflict", f"there is a field {name!r} already", path, "give the new field another name")


def unused_option(option: str, message: str, hint: str) -> Finding:
    """A warning that an option has no effect beside the others."""
    return Finding("unused-option", message, (option,), hint, severity="warning")


def idle_by_clock(idle: timedelta | None, max_delay: timedelta) -> timedelta:
    """The idle time of a step that goes by the time of reading: what waits is over a second after it is due, or later."""
    return max(idle or timedelta(0), max_delay + timedelta(seconds=1))
