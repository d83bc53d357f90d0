"""Values of a sequence's events: ``accepted.user_name``, ``first(failed.source.ip)``, and comparisons of them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

import pyarrow as pa

from etl.api import TIMESTAMP, Finding, Schema, closest, format_type, unknown_field
from etl.steps.sequences.pattern import Pattern

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Reference:
    """A field of the first or the last event of a name."""

    name: str
    field: str
    which: str | None = None
    """``first`` or ``last``, if it is given."""
    at: int = 0
    """The character of the name."""

    @property
    def last(self) -> bool:
        """Whether it is that of the last event."""
        return self.which != "first"


@dataclass(frozen=True)
class Comparison:
    """What each event of a name must have in common with an earlier event, or not."""

    event: Reference
    earlier: Reference
    holds: int
    """Sum of 1 for less, 2 for equal, 4 for greater."""
    type: pa.DataType
    """To which both fields are cast."""


REFERENCE = re.compile(r"\s*(?:(?P<which>first|last)\s*\(\s*)?(?P<name>[A-Za-z_]\w*)\.(?P<field>[\w@.\-]+)(?P<close>\s*\))?\s*")
_HOLDS = {"<": 1, "=": 2, "==": 2, "<=": 3, ">": 4, "<>": 5, "!=": 5, ">=": 6}
OPERATOR = re.compile("<=|>=|<>|!=|==|=|<|>")
_FLIPPED = {1: 4, 4: 1, 3: 6, 6: 3}


def read_reference(text: str, names: Collection[str], incoming: Schema, path: Path) -> Reference | Finding:
    """The reference of a text; ``names``: those that it may have."""
    found = REFERENCE.fullmatch(text)
    if not found or bool(found["which"]) != bool(found["close"]):
        hint = "write an event and its field, such as accepted.user_name or first(failed.source.ip)"
        return Finding(
            "bad-reference", f"{text.strip()!r} is not a field of an event", path, hint, at=len(text) - len(text.lstrip())
        )
    if found["name"] not in names:
        near = closest(found["name"], names)
        hint = f"did you mean {near!r}?" if near else f"events here: {', '.join(names)}"
        return Finding("unknown-event", f"the pattern takes no event {found['name']!r}", path, hint, at=found.start("name"))
    if found["field"] not in incoming.names:
        return unknown_field(found["field"], incoming, path, found.start("field"))
    return Reference(found["name"], found["field"], found["which"], found.start("name"))


def read_comparison(text: str, pattern: Pattern, incoming: Schema, path: Path) -> Comparison | Finding:
    """The comparison of a text."""
    operator = OPERATOR.search(text)
    if not operator:
        hint = "write two fields and =, <>, <, <=, > or >= between them: accepted.source.ip <> failed.source.ip"
        return Finding("bad-comparison", f"{text!r} compares nothing", path, hint, at=0)
    names = pattern.positions
    left = read_reference(text[: operator.start()], names, incoming, path)
    right = read_reference(text[operator.end() :], names, incoming, path)
    if isinstance(left, Finding):
        return left
    if isinstance(right, Finding):
        return replace(right, at=(right.at or 0) + operator.end())
    right = replace(right, at=right.at + operator.end())
    holds = _HOLDS[operator[0]]
    if _is_earlier(left, right, pattern):
        left, right, holds = right, left, _FLIPPED.get(holds, holds)
    return _problem(left, right, pattern, path) or _make_comparison(left, right, holds, incoming, path)


def _is_earlier(left: Reference, right: Reference, pattern: Pattern) -> bool:
    if left.name == right.name:
        return left.which is not None and right.which is None
    return pattern.positions[left.name] < pattern.positions[right.name]


def _problem(event: Reference, earlier: Reference, pattern: Pattern, path: Path) -> Finding | None:
    if event.which:
        hint = f"write {event.name}.{event.field}"
        return Finding("bad-comparison", f"each {event.name!r} is compared, not its {event.which} one", path, hint, at=event.at)
    if event.name == earlier.name and not earlier.which:
        hint = f"write last({earlier.name}.{earlier.field}) for the one before it, or first(…)"
        return Finding("bad-comparison", f"{event.name!r} is compared with itself", path, hint, at=earlier.at)
    if earlier.name not in pattern.names:
        message = f"{earlier.name!r} must not occur, so nothing can be compared with it"
        return Finding("bad-comparison", message, path, f"compare {event.name!r} with an event that occurs", at=earlier.at)
    return None


def _make_comparison(event: Reference, earlier: Reference, holds: int, incoming: Schema, path: Path) -> Comparison | Finding:
    types = [incoming.field(one.field).type for one in (event, earlier)]
    type_ = _common_type(*types)
    if type_ is None:
        shown = " and ".join(f"{one.field!r} is {format_type(type_)}" for one, type_ in zip((event, earlier), types, strict=True))
        hint = "convert one of them before the step, or compare their members"
        return Finding("wrong-type", f"{shown}: they cannot be compared", path, hint, at=event.at)
    return Comparison(event, earlier, holds, type_)


def _common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which values are compared, or None."""
    types = pa.types
    if types.is_null(left) or types.is_null(right):
        return right if types.is_null(left) else left
    if types.is_nested(left) or types.is_nested(right):
        return None
    if types.is_timestamp(left) and types.is_timestamp(right):
        return TIMESTAMP
    if types.is_integer(left) and types.is_integer(right):
        return pa.int64()
    if all(types.is_integer(one) or types.is_floating(one) for one in (left, right)):
        return pa.float64()
    return left if left == right else None
