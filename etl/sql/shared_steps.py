"""Steps that several streams of a script begin with become one stream, which all of them read: they run once.

Queries repeat sub-queries, as SQL has no name for an intermediate result but a view. Two windows over the same rows, one joined
with the largest value of the other, are one window with two readers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from etl.sql.compiled import CompiledScript, Path, inputs_of

_CHEAP = frozenset({"filter", "select", "set", "drop", "rename", "convert"})
"""Types of steps that are not worth a stream of their own."""

_RANDOM = re.compile(r"\b(rand\w*|uuid|shuffle|generate\w*)\s*\(", re.IGNORECASE)
"""Functions that give each reader other values."""


def share_equal_steps(compiled: CompiledScript) -> None:
    """Move the first steps of streams that read the same input and begin with the same steps into a stream before them.

    Only of streams that lead to the same sinks: others belong to queries of their own, each with its state and its columns.
    """
    names = list(compiled.value["streams"])
    sinks = _sinks_after(compiled.value)
    while names:
        name = names.pop(0)
        alike = [other for other in names if sinks[other] == sinks[name]]
        others = [other for other in alike if _shared_length(compiled.value["streams"], name, other)]
        if others:
            length = min(_shared_length(compiled.value["streams"], name, other) for other in others)
            _share(compiled, [name, *others], length)
            names.insert(0, name)  # further steps may be the same in some of them


def _sinks_after(value: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Stream → the sinks that its rows lead to. A stream stands before those that read it."""
    found: dict[str, frozenset[str]] = {}
    for name in reversed(value["streams"]):
        sinks = {sink for sink, one in value["sinks"].items() if name in inputs_of(one)}
        readers = (found[reader] for reader, one in value["streams"].items() if name in inputs_of(one))
        found[name] = frozenset(sinks).union(*readers)
    return found


def _shared_length(streams: Mapping[str, Any], name: str, other: str) -> int:
    """How many first steps two streams share; 0 if none of them is worth it."""
    one, two = streams[name], streams[other]
    if _origin(streams, one) != _origin(streams, two):
        return 0
    steps = _equal_steps(one["steps"], two["steps"])
    return len(steps) if any(step["type"] not in _CHEAP for step in steps) else 0


def _equal_steps(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for step, twin in zip(one, other, strict=False):
        if step != twin or _RANDOM.search(str(step)):
            break
        found.append(step)
    return found


def _origin(streams: Mapping[str, Any], stream: Mapping[str, Any]) -> tuple[str, ...]:
    """The inputs of a stream; those that have no steps any more stand for their own input."""
    return tuple(_resolve(streams, one) for one in inputs_of(stream))


def _resolve(streams: Mapping[str, Any], name: str) -> str:
    while name in streams and not streams[name]["steps"] and isinstance(streams[name]["from"], str):
        name = streams[name]["from"]
    return name


def _share(compiled: CompiledScript, names: Sequence[str], length: int) -> None:
    """Give streams their first steps as a stream of its own, which stands before the first of them."""
    streams, first = compiled.value["streams"], names[0]
    shared = compiled.free_name(f"shared_by_{first}")
    before: dict[str, Any] = {}
    for name, stream in streams.items():
        if name == first:
            before[shared] = {"from": stream["from"], "steps": stream["steps"][:length]}
        before[name] = {"from": shared, "steps": stream["steps"][length:]} if name in names else stream
    compiled.value["streams"] = before
    for name in names:
        _move_locations(compiled.locations, ("streams", name), ("streams", shared) if name == first else None, length)


def _move_locations(locations: dict[Path, Any], stream: Path, shared: Path | None, length: int) -> None:
    """Give the locations of the first steps to the shared stream, and those of the others their new numbers."""
    for path in [path for path in locations if path[:2] == stream]:
        kind, number = path[2:3], path[3] if len(path) > 3 else None
        if kind != ("steps",) or not isinstance(number, int):
            if shared is not None:
                locations[*shared, *path[2:]] = locations[path]
            continue
        location = locations.pop(path)
        if number >= length:
            locations[*stream, "steps", number - length, *path[4:]] = location
        elif shared is not None:
            locations[*shared, *path[2:]] = location
