"""A script compiled so far: the value of a pipeline file, and where in the script each part of it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from etl.sql.options import Options
from etl.sql.relation import Relation
from etl.sql.statements import CreateTable, ScriptError

Path = tuple[str | int, ...]


@dataclass
class CompiledScript:
    """What a script says as the value of a pipeline file. Locations are characters of the script."""

    value: dict[str, Any] = field(default_factory=lambda: {"sources": {}, "streams": {}, "sinks": {}})
    locations: dict[Path, tuple[int | None, int]] = field(default_factory=dict)
    """Path → the character of its key, None for one that the script does not name, and that of its value."""
    errors: list[ScriptError] = field(default_factory=list)
    warnings: list[ScriptError] = field(default_factory=list)
    idle: str | None = None
    """Silence of a source after which no step waits for it."""

    def add_component(self, path: tuple[str, str], options: Options, table: CreateTable, more: Mapping[str, Any]) -> None:
        """Add the source, sink or look-up table that a table of the script is."""
        value: dict[str, Any] = {"type": options.type}
        locations = self.locations
        locations[path] = table.at, table.at
        locations[*path, "type"] = options.at, options.at
        for keys, (one, at, value_at) in options.values.items():
            *parents, last = map(str, keys)
            node = value
            for key in parents:
                node = node.setdefault(key, {})
            node[last] = one
            for length in range(1, len(keys) + 1):
                locations.setdefault((*path, *keys[:length]), (at, value_at))
        family, name = path
        self.value.setdefault(family, {})[name] = value | {key: one for key, one in more.items() if key not in value}

    def as_stream(self, relation: Relation, name: str, at: int) -> Relation:
        """The relation as a stream of its own, which others read by name; itself if it has no steps."""
        if not relation.steps and len(relation.inputs) == 1:
            return relation
        name = self.free_name(name)
        streams, locations = self.value["streams"], self.locations
        inputs = relation.inputs[0] if len(relation.inputs) == 1 else list(relation.inputs)
        streams[name] = {"from": inputs, "steps": [dict(step.options) for step in relation.steps]}
        path: Path = ("streams", name)
        locations[path] = locations[*path, "from"] = locations[*path, "steps"] = (at, at)
        for number, step in enumerate(relation.steps):
            locations[*path, "steps", number] = None, step.at
            for keys, place in step.places.items():
                locations[*path, "steps", number, *keys] = place, place
        return replace(relation, inputs=(name,), steps=())

    def free_name(self, name: str) -> str:
        """The name, or with a number, if a stream or source has it."""
        taken = {*self.value["streams"], *self.value["sources"]}
        if name not in taken:
            return name
        return next(one for number in range(2, 100_000) if (one := f"{name}_{number}") not in taken)


def plain_name(name: str) -> str:
    """A name of a source, stream or sink: letters, digits, _ and -."""
    plain = "".join(one if one.isascii() and (one.isalnum() or one in "_-") else "_" for one in name)
    return plain if plain[:1].isalpha() else f"t{plain}"
