"""Names that select fields: a field, or a prefix such as ``source`` for all of ``source.*``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from pydantic import Field

from etl.api import HIDDEN, Finding, Schema, unknown_field, visible
from etl.events import prefixes

Selector = Annotated[
    str, Field(pattern=r"^[A-Za-z_@][A-Za-z0-9_@\-]*(\.[A-Za-z_@][A-Za-z0-9_@\-]*)*(\.\*)?$", examples=["source", "source.ip"])
]
"""A field, or a prefix that stands for all fields under it; ``source.*`` is the same as ``source``."""


def selected(selector: str, names: Iterable[str]) -> list[str]:
    """The fields a selector means, in their order."""
    stem = selector.removesuffix(".*")
    return [name for name in names if (name == stem and selector == stem) or name.startswith(f"{stem}.")]


def unknown(selectors: Sequence[str], incoming: Schema) -> Iterator[Finding]:
    """A finding for each selector, by its number, that selects nothing."""
    names = visible(incoming).names
    for index, selector in enumerate(selectors):
        if not selected(selector, names):
            yield unknown_field(selector, incoming, ("fields", index))


def conflicts(names: Sequence[str], given: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of a given field and another that cannot be in one event: one is a value, the other a member of it."""
    known, structs = set(names), prefixes(names)
    for name in given:
        parents = {".".join(name.split(".")[:count]) for count in range(1, name.count(".") + 1)}
        if name in structs or parents & known:
            yield from ((name, other) for other in names if other in parents or other.startswith(f"{name}."))


def reserved(name: str, path: tuple[str | int, ...]) -> Iterator[Finding]:
    """A finding when a name is one of the hidden columns."""
    if name in HIDDEN:
        yield Finding("reserved-field", f"{name!r} is the event's identity and cannot be given", path)


def conflict(name: str, other: str, path: tuple[str | int, ...]) -> Finding:
    """One of the two would have to be a value and a struct."""
    value, member = sorted((name, other), key=len)
    return Finding("field-conflict", f"{value!r} is a value, and {member!r} needs it to be a struct", path)
