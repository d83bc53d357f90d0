"""Nodes → the value of a pipeline file, with the location in Python of every part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from etl.config.document.yaml_document import Document, EntryLocation
from etl.config.model import OptionPath, YamlLocation
from etl.config.problems import ConfigError, Problem, json_path
from etl.sdk.call_site import Site
from etl.sdk.functions import distinct
from etl.sdk.nodes import (
    ComponentCall,
    Definition,
    NamedNode,
    Node,
    SourceNode,
    StepNode,
    TableNode,
    UnionNode,
    inputs_of,
    nodes_before,
    references,
)
from etl.sdk.values import Reference

MAIN, STEPS = "main", "steps"
"""Names in the short form of a file."""


@dataclass
class Assembled:
    """The value of a pipeline file; ``sites`` has the site of each path, and the path inside that site."""

    value: dict[str, Any] = field(default_factory=dict)
    sites: dict[OptionPath, tuple[Site, OptionPath]] = field(default_factory=dict)

    nodes: dict[str, Node] = field(default_factory=dict)
    """Sources and streams by name."""

    def document(self) -> Document:
        """The value as a document whose lines are the numbers of `sites`: column 1 for a key and 2 for its value."""
        numbered = enumerate(self.sites, 1)
        locations = {path: EntryLocation((number, 1), (number, 2)) for number, path in numbered}
        return Document("", self.value, locations)

    def locate(self, location: YamlLocation) -> tuple[str, YamlLocation]:
        """A location in that document → file, line and column. The first site stands for the whole."""
        number, column = location
        site, path = list(self.sites.values())[max(0, min(number, len(self.sites)) - 1)]
        return site.file, site.locate(path, key=column == 1)


def assemble(definition: Definition) -> Assembled:
    """The whole definition. Raises ConfigError for names that two parts have."""
    return _Assembly(definition).assembled


class _Assembly:
    """Names the parts of a definition, and writes them down."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        ends = tuple(output.input for output in definition.outputs)
        self._nodes = nodes_before((*definition.sources, *ends, *definition.streams))
        self._names: dict[int, str] = {}
        self.assembled = Assembled()
        self._name_all()
        self._write()

    # ── Streams ──

    @cached_property
    def _uses(self) -> Counter[int]:
        """How often each node is read, or named by an option; an end of its own counts twice: it has a name."""
        uses = Counter(id(one) for node in self._nodes for one in inputs_of(node))
        for node in self._nodes:
            if isinstance(node, StepNode):
                uses.update(2 * [id(one) for one in references(node.part.options)])
            elif isinstance(node, UnionNode):
                uses.update(id(one) for one in node.inputs if not isinstance(one, UnionNode))
        for output in self._definition.outputs:
            uses[id(output.input)] += 1 if isinstance(output.input, UnionNode) else 2
        uses.update(2 * [id(node) for node in self._definition.streams])
        return uses

    @cached_property
    def _sources(self) -> list[SourceNode]:
        return [node for node in self._nodes if isinstance(node, SourceNode)]

    @cached_property
    def _streams(self) -> list[Node]:
        """The nodes at which a stream of the file ends."""
        return [
            node
            for node in self._nodes
            if isinstance(node, NamedNode) or (not isinstance(node, SourceNode) and self._uses[id(node)] > 1)
        ]

    @cached_property
    def _tables(self) -> list[TableNode]:
        used = [one for node in self._nodes if isinstance(node, StepNode) for one in references(node.part.options)]
        every = [*self._definition.tables, *(one for one in used if isinstance(one, TableNode))]
        return list({id(table): table for table in every}.values())

    def _chain(self, end: Node) -> tuple[list[StepNode], Node]:
        """The steps of a stream, and what it reads."""
        steps: list[StepNode] = []
        node = end.input if isinstance(end, NamedNode) else end
        while isinstance(node, StepNode) and (node is end or id(node) not in self._names):
            steps.append(node)
            node = node.input
        return steps[::-1], node

    def _inputs(self, node: Node) -> list[str]:
        """The names of what a stream or sink reads."""
        if id(node) in self._names:
            return [self._names[id(node)]]
        assert isinstance(node, UnionNode)
        return list(dict.fromkeys(name for one in node.inputs for name in self._inputs(one)))

    # ── Names ──

    def _name_all(self) -> None:
        sources, streams, outputs = self._sources, self._streams, self._definition.outputs
        taken = self._collect_names([(node, node.part.site) for node in sources] + [(node, _site(node)) for node in streams])
        self._name_rest(sources, taken, [MAIN] if len(sources) == 1 else [node.part.type for node in sources])
        self._name_rest(streams, taken, [STEPS] if len(streams) == 1 else [_last_type(node) for node in streams])
        self.assembled.nodes = {self._names[id(node)]: node for node in (*sources, *streams)}
        taken = self._collect_names([(node, node.part.site) for node in outputs])
        self._name_rest(outputs, taken, [MAIN] if len(outputs) == 1 else [node.part.type for node in outputs])
        taken = self._collect_names([(node, node.part.site) for node in self._tables])
        self._name_rest(self._tables, taken, [node.part.type for node in self._tables])

    def _collect_names(self, nodes: Iterable[tuple[Any, Site]]) -> set[str]:
        taken: dict[str, Site] = {}
        for node, site in nodes:
            name = getattr(node, "name", None)
            if name is None:
                continue
            if name in taken:
                raise ConfigError([_repeated_name(name, site, taken[name])])
            taken[name] = site
            self._names[id(node)] = name
        return set(taken)

    def _name_rest(self, nodes: Sequence[Any], taken: set[str], preferred_names: Sequence[str]) -> None:
        for node, name in zip(nodes, preferred_names, strict=True):
            if id(node) not in self._names:
                free = next(one for one in _candidate_names(name) if one not in taken)
                taken.add(free)
                self._names[id(node)] = free

    # ── The file ──

    def _write(self) -> None:
        definition, value = self._definition, self.assembled.value
        self._put((), value, definition.site, ())
        if definition.name is not None:
            self._put(("name",), definition.name, definition.site, ("name",))
        self._write_setting("description")
        self._write_short() if self._is_short() else self._write_long()
        for table in self._tables:
            self._write_part(("tables", self._names[id(table)]), table.part)
        if definition.dead_letters:
            self._write_part(("dead_letters",), definition.dead_letters)
        for key in definition.settings:
            self._write_setting(key)
        self._write_functions()

    def _write_functions(self) -> None:
        """Declare the functions of the user; the paths of their files are relative to the folder of the definition's file."""
        steps = [node.part for node in self._nodes if isinstance(node, StepNode)]
        used = distinct([*self._definition.functions, *(one for part in steps for one in part.functions)])
        sites = {id(one): part.site for part in steps for one in part.functions}
        for one in used.values():
            site = sites.get(id(one), self._definition.site)
            declaration = one.declaration(Path(self._definition.site.file).parent)
            if ("functions",) not in self.assembled.sites:
                self._put(("functions",), {}, site, ())
            self._put(("functions", one.name), declaration, site, ())

    def _write_setting(self, key: str) -> None:
        if key in self._definition.settings and key not in self.assembled.value:
            value, site = self._definition.settings[key]
            self._put((key,), value, site, (key,))

    def _is_short(self) -> bool:
        sources, streams, outputs = self._sources, self._streams, self._definition.outputs
        if self._definition.in_long_form or len(sources) != 1 or len(streams) > 1 or len(outputs) > 1:
            return False
        names = [self._names[id(node)] for node in (*sources, *streams, *outputs)]
        end: Node = streams[0] if streams else sources[0]
        steps, first = self._chain(end) if streams else ([], sources[0])
        return (
            names == [MAIN, *[STEPS] * len(streams), *[MAIN] * len(outputs)]
            and first is sources[0]
            and (bool(steps) or not streams)
            and not (isinstance(end, NamedNode) and end.description is not None)
            and all(output.input is end for output in outputs)
        )

    def _write_short(self) -> None:
        self._write_part(("source",), self._sources[0].part)
        for end in self._streams:
            self._write_steps(("steps",), self._chain(end)[0])
        for output in self._definition.outputs:
            self._write_part(("sink",), output.part)

    def _write_long(self) -> None:
        for source in self._sources:
            self._write_part(("sources", self._names[id(source)]), source.part)
        for end in self._streams:
            path: OptionPath = ("streams", self._names[id(end)])
            site = _site(end)
            steps, first = self._chain(end)
            self._put(path, {}, site, ())
            if isinstance(end, NamedNode) and end.description is not None:
                self._put((*path, "description"), end.description, site, ("description",))
            self._put((*path, "from"), _one_or_list(self._inputs(first)), _site(first), ())
            if steps:
                self._write_steps((*path, "steps"), steps)
        for output in self._definition.outputs:
            path = ("sinks", self._names[id(output)])
            self._put(path, {}, output.part.site, ())
            self._put((*path, "from"), _one_or_list(self._inputs(output.input)), output.part.site, ("from",))
            self._write_part(path, output.part)

    def _write_steps(self, path: OptionPath, steps: Sequence[StepNode]) -> None:
        self._put(path, [], steps[0].part.site, ())
        for number, step in enumerate(steps):
            self._write_part((*path, number), step.part)

    def _write_part(self, path: OptionPath, part: ComponentCall) -> None:
        if path not in self.assembled.sites:
            self._put(path, {}, part.site, ())
        self._put((*path, "type"), part.type, part.site, ("type",))
        for name, value in part.options.items():
            self._put((*path, name), self._resolve(value), part.site, (name,))

    def _resolve(self, value: Any) -> Any:
        """The value with the names of what it refers to."""
        if isinstance(value, Reference):
            return self._names[id(value)]
        if isinstance(value, Mapping):
            return {key: self._resolve(one) for key, one in value.items()}
        return [self._resolve(one) for one in value] if isinstance(value, list) else value

    def _put(self, path: OptionPath, value: Any, site: Site, inside: OptionPath) -> None:
        """Set the value at a path, and note the site of all that is in it."""
        node: Any = self.assembled.value
        for key in path[:-1]:
            node = node.setdefault(key, {}) if isinstance(node, dict) else node[key]
        if isinstance(node, list) and path:
            node.append(value)
        elif path:
            node[path[-1]] = value
        for below in _paths(value):
            self.assembled.sites[(*path, *below)] = site, (*inside, *below)


def _paths(value: Any) -> Iterator[OptionPath]:
    """The paths of a value and of all values in it."""
    yield ()
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield from ((key, *below) for below in _paths(one))


def _one_or_list(names: list[str]) -> str | list[str]:
    return names[0] if len(names) == 1 else names


def _candidate_names(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}_{number}" for number in range(2, 1_000_000))


def _last_type(node: Node) -> str:
    """What a stream without a name is called after: its last step."""
    return node.part.type if isinstance(node, (StepNode, SourceNode)) else "union"


def _site(node: Node) -> Site:
    return node.part.site if isinstance(node, (SourceNode, StepNode)) else node.site


def _repeated_name(name: str, site: Site, other: Site) -> Problem:
    line, column = site.locate(())
    first, _ = other.locate(())
    hint = f"the other one is at {other.file}:{first}; each source, stream, sink and table has a name of its own"
    return Problem(site.file, line, column, "duplicate-name", json_path((name,)), f"two parts are named {name!r}", hint)
