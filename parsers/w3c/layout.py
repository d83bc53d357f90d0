"""A list of W3C fields → a layout: a grok expression for the scanner, and how each capture is read."""

from __future__ import annotations

from collections.abc import Sequence

from parsers.w3c.names import values
from parsers.weblog.layout import CAPTURE, Layout, address, note, without
from parsers.weblog.parts import Value

_SPACE = r"[ \t]+"
_DAY, _CLOCK = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(?::\d\d(?:\.\d+)?)?"
_FORMATS = ("yyyy-MM-dd HH:mm:ss[.SSSSSSSSS]", "yyyy-MM-dd HH:mm")


def layout(names: Sequence[str], timestamp: str) -> Layout:
    """Values with blanks or tabs between; a text with blanks stands in quotes."""
    made = Layout("")
    pieces: list[str] = []
    seen: set[str] = set()
    todo = list(zip(names, values(list(names)), strict=True))
    while todo:
        name, value = todo.pop(0)
        if name == "date" and todo and todo[0][0] == "time":
            todo.pop(0)
            value = Value(timestamp, "time", _FORMATS)
        pieces.append(without(_piece(value), seen))
        seen.update(CAPTURE.findall(pieces[-1]))
        note(value, made)
    made.pattern = rf"\s*{_SPACE.join(pieces)}\s*"
    return made


def _piece(value: Value) -> str:
    name = value.field
    if value.kind == "time":
        return rf"(?:-{_SPACE}-|(?<{name}>{_DAY}{_SPACE}{_CLOCK}))"
    if value.kind == "address":
        return f"(?:-|{address(name)})"
    if value.kind in ("real", "seconds"):
        return rf"(?:-|(?<{name}>\d+(?:\.\d+)?))"
    if value.kind in ("whole", "milliseconds"):
        return rf"(?:-|(?<{name}>\d+))"
    if value.kind == "protocol":
        return rf"(?:-|(?:HTTP/)?(?<{name}>[^\s\"]+))"
    return rf"(?:\"(?<{name}>[^\"]*)\"|(?<{name}>[^\s\"]\S*))"
