"""The lengths of a window's options, and how they go together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from etl.api import Finding


def length_findings(size: timedelta | None, slide: timedelta | None, gap: timedelta | None) -> Iterator[Finding]:
    """Lengths that make no window."""
    if (size is None) == (gap is None):
        found = "has both size and gap" if size else "has neither size nor gap"
        yield Finding("bad-window", f"the window {found}", (), "give size for a fixed length, or gap for sessions")
    for name, value in (("size", size), ("slide", slide), ("gap", gap)):
        if value is not None and value <= timedelta(0):
            yield Finding("bad-window", f"{name} is not longer than nothing", (name,))
    if slide and gap:
        yield Finding("bad-window", "a session cannot slide", ("slide",), "leave out slide, or give size for gap")
    if slide and size and slide > size:
        yield Finding("bad-window", "slide is longer than size, and events between windows would be lost", ("slide",))
