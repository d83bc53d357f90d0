"""A pipeline as the builder describes it: immutable nodes that know what they read, and where they were written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from etl.sdk.call_site import Site
from etl.sdk.functions import Function
from etl.sdk.values import Reference


@dataclass(frozen=True, eq=False)
class ComponentCall:
    """A component as it was called: its options are plain values, or references. They may be secret, so no ``repr`` has them."""

    type: str
    options: Mapping[str, Any] = field(repr=False)
    site: Site
    functions: tuple[Function, ...] = ()
    """Functions of the user that its expressions call."""


@dataclass(frozen=True, eq=False)
class SourceNode(Reference):
    """A source."""

    part: ComponentCall
    name: str | None = None


@dataclass(frozen=True, eq=False)
class StepNode(Reference):
    """One step after what it reads."""

    part: ComponentCall
    input: Node


@dataclass(frozen=True, eq=False)
class UnionNode(Reference):
    """Several streams as one."""

    inputs: tuple[Node, ...]
    site: Site


@dataclass(frozen=True, eq=False)
class NamedNode(Reference):
    """The end of a stream that has a name."""

    input: Node
    name: str
    site: Site
    description: str | None = None


Node: TypeAlias = SourceNode | StepNode | UnionNode | NamedNode


@dataclass(frozen=True, eq=False)
class OutputNode:
    """A sink and what it delivers."""

    part: ComponentCall
    input: Node
    name: str | None = None


@dataclass(frozen=True, eq=False)
class TableNode(Reference):
    """A look-up table."""

    part: ComponentCall
    name: str | None = None


@dataclass(frozen=True, eq=False)
class Definition:
    """A whole pipeline. ``settings`` are the other keys of its file, such as ``run``, with the site of each."""

    name: str | None
    site: Site
    outputs: tuple[OutputNode, ...] = ()
    sources: tuple[SourceNode, ...] = ()
    """Sources to declare, whether or not anything reads them; those that outputs need come without being listed."""
    streams: tuple[Node, ...] = ()
    """Streams that no output needs to read."""
    tables: tuple[TableNode, ...] = ()
    dead_letters: ComponentCall | None = None
    functions: tuple[Function, ...] = ()
    """Functions of the user that expressions given as text call."""
    settings: Mapping[str, tuple[Any, Site]] = field(default_factory=dict, repr=False)
    in_long_form: bool = False
    """Whether it has names for its parts, even if it has only one source, stream and sink."""


def inputs_of(node: Node) -> tuple[Node, ...]:
    """The nodes that a node reads."""
    if isinstance(node, SourceNode):
        return ()
    return node.inputs if isinstance(node, UnionNode) else (node.input,)


def references(value: Any) -> Iterator[Reference]:
    """The references in the options of a part."""
    if isinstance(value, Reference):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


def nodes_before(ends: tuple[Node, ...]) -> list[Node]:
    """All nodes that lead to these, each after those that it reads and names. A chain may have any length."""
    found: dict[int, Node] = {}
    waiting: list[tuple[Node, bool]] = [(end, False) for end in reversed(ends)]
    while waiting:
        node, expanded = waiting.pop()
        if id(node) in found:
            continue
        if expanded:
            found[id(node)] = node
            continue
        named = references(node.part.options) if isinstance(node, StepNode) else ()
        before = [*inputs_of(node), *(one for one in named if isinstance(one, Node))]
        waiting.append((node, True))
        waiting += [(one, False) for one in reversed(before)]
    return list(found.values())
