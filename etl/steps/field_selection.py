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


class Selection:
    """Looks selectors up in a list of fields; the time does not grow with the number of fields."""

    def __init__(self, names: Iterable[str]) -> None:
        self._found: dict[str, list[str]] = {}
        for name in names:
            parts = name.split(".")
            for count in range(1, len(parts) + 1):
                self._found.setdefault(".".join(parts[:count]), []).append(name)

    def of(self, selector: str) -> list[str]:
        """The fields a selector means, in their order."""
        stem = selector.removesuffix(".*")
        found = self._found.get(stem, [])
        return found if selector == stem else [name for name in found if name != stem]


def unknown_selectors(selectors: Sequence[str], incoming: Schema) -> Iterator[Finding]:
    """A finding for each selector, by its number, that selects nothing."""
    selection = Selection(visible(incoming).names)
    for index, selector in enumerate(selectors):
        if not selection.of(selector):
            yield unknown_field(selector, incoming, ("fields", index))


def struct_conflicts(names: Sequence[str], given: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of a given field and another that cannot be in one event: one is a value, the other a member of it."""
    known, structs = set(names), prefixes(names)
    for name in given:
        parents = {".".join(name.split(".")[:count]) for count in range(1, name.count(".") + 1)}
        if name in structs or parents & known:
            yield from ((name, other) for other in names if other in parents or other.startswith(f"{name}."))


def reserved_name(name: str, path: tuple[str | int, ...]) -> Iterator[Finding]:
    """A finding when a name is one of the hidden columns."""
    if name in HIDDEN:
        yield Finding("reserved-field", f"{name!r} is the event's identity and cannot be given", path)


def conflict_finding(name: str, other: str, path: tuple[str | int, ...]) -> Finding:
    """A finding about two fields of which one would be a value and a struct at once."""
    value, member = sorted((name, other), key=len)
    return Finding("field-conflict", f"{value!r} is a value, and {member!r} needs it to be a struct", path)
