"""The lengths of a window's options, and how they go together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from math import gcd
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from etl.api import Duration, FieldName, Finding, Schema, format_duration, format_type, unknown_field

if TYPE_CHECKING:
    from etl.state.windows.aggregation import EventLengths
    from etl.state.windows.shapes import WindowShape

_MICROSECOND = timedelta(microseconds=1)
_NOTHING = timedelta(0)


class FieldLength(BaseModel):
    """A length that each event has in a field."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: FieldName = Field(description="Field with the length: a number of seconds, or an interval.")
    default: Duration = Field(description="Length for events whose field is null or not positive.", examples=["5m"])
    max: Duration = Field(description="The longest length: that of events with a longer one.", examples=["1d"])


Length: TypeAlias = Duration | FieldLength
Size: TypeAlias = Length | tuple[Duration, ...]
"""The option's values: one length, several, or one of each event."""


def fixed_sizes(size: Size | None) -> Sequence[timedelta]:
    """The lengths of windows, in order; none for sessions and for lengths of events."""
    if size is None or isinstance(size, FieldLength):
        return ()
    return sorted(size) if isinstance(size, tuple) else (size,)


def longest(length: Size | None) -> timedelta:
    """The longest of them."""
    return length.max if isinstance(length, FieldLength) else max(fixed_sizes(length), default=_NOTHING)


def event_lengths(length: FieldLength) -> EventLengths:
    """The lengths of events for the operator."""
    from etl.state.windows.aggregation import EventLengths

    max_length = length.max // _MICROSECOND
    return EventLengths(length.field, length.default // _MICROSECOND, max_length)


def remembered_lengths(**lengths: Size | None) -> dict[str, Any]:
    """What the state depends on: the field, not how lengths of events are bounded; sizes in any order."""
    given = {name: length for name, length in lengths.items() if length is not None}
    return {name: _length_as_json(length) for name, length in given.items()}


def _length_as_json(length: Size) -> Any:
    if isinstance(length, FieldLength):
        return {"field": length.field}
    return format_duration(length) if isinstance(length, timedelta) else [format_duration(one) for one in sorted(length)]


def window_shapes(size: Size | None, slide: timedelta | None, step: timedelta | None) -> tuple[WindowShape, ...]:
    """Where windows of fixed lengths begin and end."""
    from etl.state.windows.shapes import WindowShape

    lengths = [(one, step or slide or one) for one in fixed_sizes(size)]
    return tuple(WindowShape(one // _MICROSECOND, by // _MICROSECOND, step is not None) for one, by in lengths)


def described_panes(size: Size | None, slide: timedelta | None, step: timedelta | None) -> Iterator[str]:
    """The panes of windows that have several."""
    sizes = fixed_sizes(size)
    lengths = [length // _MICROSECOND for length in (*sizes, slide, step) if length]
    pane = gcd(*lengths) * _MICROSECOND
    if sizes and pane < min(sizes):
        yield f"panes: {format_duration(pane)}, up to {sizes[-1] // pane} in a window"


# ── Checks ────────────────────────────────────────────────────────────────────────────────────────


def length_findings(size: Size | None, slide: timedelta | None, step: timedelta | None, gap: Length | None) -> Iterator[Finding]:
    """Lengths that make no window."""
    if (size is None) == (gap is None):
        found = "has both size and gap" if size is not None else "has neither size nor gap"
        yield Finding(
            "bad-window",
            f"the window {found}",
            (),
            "give size for a fixed length, gap for sessions, or emit: on_change for totals",
        )
    for path, value in _lengths({"size": size, "slide": slide, "step": step, "gap": gap}):
        if value <= _NOTHING:
            yield Finding("bad-window", f"{path[0]} must be longer than 0", path)
    if isinstance(size, tuple):
        yield from _several_findings(size)
    for name, by in (("slide", slide), ("step", step)):
        verb = {"slide": "slide", "step": "grow"}[name]
        if by and gap:
            yield Finding("bad-window", f"a session cannot {verb}", (name,), f"leave out {name}, or give size for gap")
        if by and isinstance(size, FieldLength):
            message = f"windows whose size is in a field cannot {verb}"
            yield Finding("bad-window", message, (name,), f"leave out {name}, or give a fixed size")
    if slide and fixed_sizes(size) and slide > min(fixed_sizes(size)):
        yield Finding("bad-window", "slide is longer than size, and events between windows would be lost", ("slide",))
    yield from _step_findings(size, slide, step)


def _lengths(options: dict[str, Size | None]) -> Iterator[tuple[tuple[str | int, ...], timedelta]]:
    for name, length in options.items():
        if isinstance(length, FieldLength):
            yield (name, "default"), length.default
            yield (name, "max"), length.max
        elif isinstance(length, tuple):
            yield from (((name, at), one) for at, one in enumerate(length))
        elif length is not None:
            yield (name,), length


def _several_findings(sizes: tuple[timedelta, ...]) -> Iterator[Finding]:
    if not sizes:
        yield Finding("bad-window", "the list of sizes is empty", ("size",), "give a length of time such as 10m")
    for at, size in enumerate(sizes):
        if size in sizes[:at]:
            yield Finding("bad-window", f"size {format_duration(size)} is there twice", ("size", at), "leave one of them out")


def _step_findings(size: Size | None, slide: timedelta | None, step: timedelta | None) -> Iterator[Finding]:
    """A cumulating window that slides, has several sizes, or does not reach its size in whole steps."""
    if step is None or step <= _NOTHING:
        return
    if slide:
        yield Finding("bad-window", "a window grows by step or slides, not both", ("step",), "leave out step or slide")
    elif isinstance(size, tuple):
        yield Finding("bad-window", "windows of several sizes do not grow", ("step",), "give one size, the largest")
    elif isinstance(size, timedelta) and (size % step or step == size):
        message = f"size {format_duration(size)} is not several times step {format_duration(step)}"
        yield Finding("bad-window", message, ("step",), "give a step that divides size")


def field_findings(option: str, length: Size | None, incoming: Schema) -> Iterator[Finding]:
    """A field that is unknown or has no lengths."""
    import pyarrow as pa

    if not isinstance(length, FieldLength):
        return
    if length.default > length.max:
        yield Finding("bad-window", "default is longer than max", (option, "default"), "give a shorter one")
    if length.field not in incoming.names:
        yield unknown_field(length.field, incoming, (option, "field"))
        return
    type_ = incoming.field(length.field).type
    fits = (pa.types.is_integer, pa.types.is_floating, pa.types.is_duration, pa.types.is_null)
    if not any(is_one(type_) for is_one in fits):
        message = f"{length.field!r} is {format_type(type_)}, not a number of seconds or an interval"
        yield Finding("wrong-type", message, (option, "field"), "put a step before this one that makes it a number")
