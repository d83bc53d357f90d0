"""Values of a sequence's events: ``accepted.user_name``, ``first(failed.source.ip)``, and comparisons of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from etl.api import Finding, Schema, closest, unknown_field


@dataclass(frozen=True)
class Reference:
    """A field of the first or the last event of a name."""

    name: str
    field: str
    last: bool = True
    at: int = 0
    """The character of the name."""


_REFERENCE = re.compile(r"\s*(?:(?P<which>first|last)\s*\(\s*)?(?P<name>[A-Za-z_]\w*)\.(?P<field>[\w@.\-]+)(?P<close>\s*\))?\s*")


def read_reference(text: str, names: Iterable[str], incoming: Schema, path: tuple[str | int, ...]) -> Reference | Finding:
    """The reference of a text; ``names``: those that the pattern takes."""
    found = _REFERENCE.fullmatch(text)
    if not found or bool(found["which"]) != bool(found["close"]):
        hint = "write an event and its field, such as accepted.user_name or first(failed.source.ip)"
        return Finding("bad-reference", f"{text!r} is no field of an event", path, hint, at=0)
    known = tuple(names)
    if found["name"] not in known:
        near = closest(found["name"], known)
        hint = f"did you mean {near!r}?" if near else f"events here: {', '.join(known)}"
        return Finding("unknown-event", f"the pattern takes no event {found['name']!r}", path, hint, at=found.start("name"))
    if found["field"] not in incoming.names:
        return unknown_field(found["field"], incoming, path, found.start("field"))
    return Reference(found["name"], found["field"], found["which"] != "first", found.start("name"))
