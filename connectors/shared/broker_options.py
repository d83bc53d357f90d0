"""Checks of options that the sources of message brokers have in common: where to start, and which fields to fill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from etl.api import Finding


def check_start(
    start: str, start_time: object, start_offsets: object, start_group: str | None, commit_group: str | None
) -> Iterator[Finding]:
    """Yield findings for a ``start`` that lacks its option, and for options of another ``start``."""
    options = {
        "timestamp": ("start_time", start_time, start_time),
        "offsets": ("start_offsets", start_offsets, start_offsets),
        "group": ("start_group", start_group, start_group or commit_group),
    }
    for name, (option, value, sufficient) in options.items():
        if start == name and not sufficient:
            yield Finding("missing-option", f"start: {name} needs {option}", ("start",), f"add {option}: …")
        elif start != name and value:
            message = f"{option} has no effect with start: {start}"
            yield Finding("unused-option", message, (option,), f"write start: {name}", severity="warning")


def check_distinct_fields(names: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding for each field that two options fill."""
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Finding("duplicate-field", f"two options fill the field {name!r}", (), "give them different fields")
