"""A script compiled so far: the value of a pipeline file, and where in the script each part of it stands."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from etl.sql.relation import Relation
from etl.sql.statements import CreateTable, ScriptError
from etl.sql.table_options.options import Options

Path = tuple[str | int, ...]


@dataclass
class UnusedViews:
    """The views that no query reads, as a pipeline that drops their rows; it is checked, and does not run."""

    value: dict[str, Any]
    locations: dict[Path, tuple[int | None, int]]
    spans: list[tuple[int, int]]
    """First and last character of each of their declarations."""
    wrong: bool = False
    """Whether one of them cannot be compiled."""


@dataclass
class CompiledScript:
    """What a script says as the value of a pipeline file. Locations are characters of the script."""

    value: dict[str, Any] = field(default_factory=lambda: {"sources": {}, "streams": {}, "sinks": {}})
    locations: dict[Path, tuple[int | None, int]] = field(default_factory=dict)
    """Path → the character of its key, None for one that the script does not name, and that of its value."""
    errors: list[ScriptError] = field(default_factory=list)
    failed: dict[int, ScriptError] = field(default_factory=dict)
    """Number of a statement that cannot be compiled → its error, `errors` has those that do not follow from another error."""
    incomplete: set[Path] = field(default_factory=set)
    """Sources and sinks of which the script has other options than those in the value, which stand for wrong ones."""
    warnings: list[ScriptError] = field(default_factory=list)
    declares_only: bool = False
    """Whether the script has no query, only tables, views or functions."""
    unused_views: UnusedViews | None = None
    idle: str | None = None
    """Silence of a source after which no step waits for it."""

    def add_component(self, path: tuple[str, str], options: Options, table: CreateTable, more: Mapping[str, Any]) -> None:
        """Add the source, sink or look-up table that a table of the script is."""
        value: dict[str, Any] = {"type": options.type}
        self.warnings += options.warnings
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
        self.warnings += [step.warning for step in relation.steps if step.warning]
        for number, step in enumerate(relation.steps):
            locations[*path, "steps", number] = None, step.at
            for keys, first in step.starts.items():
                locations[*path, "steps", number, *keys] = first, first
        return replace(relation, inputs=(name,), steps=())

    def other_input(self, name: str, taken: Container[str], at: int) -> str:
        """The name of an input, or where it is taken, of a stream with the same events: a union has each name once."""
        if name not in taken:
            return name
        copy = self.free_name(f"{name}_again")
        self.value["streams"][copy] = {"from": name, "steps": [{"type": "filter", "where": "true"}]}
        path: Path = ("streams", copy)
        for part in (path, (*path, "from"), (*path, "steps"), (*path, "steps", 0)):
            self.locations[part] = at, at
        return copy

    @contextmanager
    def tentatively(self) -> Iterator[None]:
        """Sources and streams that are added within are removed at its end."""
        added = {family: dict(self.value[family]) for family in ("sources", "streams")}
        locations, warnings = dict(self.locations), list(self.warnings)
        try:
            yield
        finally:
            self.value |= added
            self.locations, self.warnings = locations, warnings

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


# ── Columns that no query uses ────────────────────────────────────────────────────────────────────

_DEFINING = frozenset({"select", "window"})
"""Types of steps after which events have no other fields than those that their options name."""

_NAMING = frozenset({"filter", "set", "convert", "join", "top", "over", "dedupe", "lookup", "unnest", "grok"})
"""Types of steps that hand on all fields, and whose options name those that they use."""

_WORD = re.compile(r"[\w.]+")
"""A name of a field in an expression, members of structs included."""

_PLAIN_FIELD = re.compile(r"[\w.`]+|current_timestamp\(\)", re.IGNORECASE)


def drop_unused_columns(value: Mapping[str, Any]) -> None:
    """Take fields that no query uses out of `json` steps, and out of `select` steps where they are plain fields.

    Each costs time, and memory in the state of joins; Flink does not read them, either.
    """
    known: dict[str, frozenset[str] | None] = {}
    for name, stream in reversed(value.get("streams", {}).items()):
        for at, step in reversed(list(enumerate(stream["steps"]))):
            if step["type"] in ("json", "select") and isinstance(step.get("fields"), Mapping):
                used = _texts_until_defined(value, name, stream["steps"][at + 1 :], known)
                if used is not None:
                    _keep_fields(step, "\n".join(used).replace("`", "").lower())


def _keep_fields(step: dict[str, Any], used: str) -> None:
    """Keep the fields that a text in lower case names, one at least: a row of an empty object is a row, too."""
    fields, words = step["fields"], frozenset(_WORD.findall(used))

    def is_needed(name: str, text: str) -> bool:
        if step["type"] == "select" and not _PLAIN_FIELD.fullmatch(str(text)):
            return True
        return name.lower() in (words if _WORD.fullmatch(name) else used)

    needed_fields = {name: text for name, text in fields.items() if is_needed(name, text)}
    step["fields"] = needed_fields or dict([next(iter(fields.items()))])
    if "paths" in step:
        step["paths"] = {name: path for name, path in step["paths"].items() if name in step["fields"]}
        if not step["paths"]:
            del step["paths"]


def _texts_until_defined(
    value: Mapping[str, Any], stream: str, steps: Iterable[Mapping[str, Any]], known: dict[str, frozenset[str] | None]
) -> frozenset[str] | None:
    """The texts in the options of these steps, and of all that follow them until a step defines the fields of events.

    None where some events reach a sink, or another step, with all their fields. ``known`` has the results of whole streams, each
    of which is looked at once: streams that are read twice by each other would else be many.
    """
    found: set[str] = set()
    prefixes: list[str] = []
    for step in steps:
        if step["type"] not in _DEFINING | _NAMING or (step["type"] == "dedupe" and not step.get("keys")):
            return None
        found.update(_texts(step))
        prefixes += [step["prefix"]] if "prefix" in step else []
        if step["type"] in _DEFINING:
            return _with_names_of_both_sides(found, prefixes)
    if any(stream in inputs_of(sink) for sink in value["sinks"].values()):
        return None
    for name, following in value["streams"].items():
        if stream in inputs_of(following):
            if name not in known:
                known[name] = _texts_until_defined(value, name, following["steps"], known)
            texts = known[name]
            if texts is None:
                return None
            found |= texts
    return _with_names_of_both_sides(found, prefixes)


def _with_names_of_both_sides(texts: set[str], prefixes: Iterable[str]) -> frozenset[str]:
    """The texts, and the same without the prefixes that joins give to fields of their right sides."""
    return frozenset(texts).union(text.replace(prefix, "") for prefix in prefixes for text in texts)


def inputs_of(reader: Mapping[str, Any]) -> list[str]:
    """The names of what a stream or a sink reads."""
    inputs = reader["from"]
    return [inputs] if isinstance(inputs, str) else inputs


def _texts(node: Any) -> Iterator[str]:
    """All texts in a value, keys too."""
    if isinstance(node, Mapping):
        yield from map(str, node)
        node = node.values()
    elif isinstance(node, str) or not isinstance(node, list):
        yield str(node)
        return
    for one in node:
        yield from _texts(one)
