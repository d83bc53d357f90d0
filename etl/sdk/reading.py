"""Pipeline files and SQL scripts → definitions, which the builder continues."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from etl.catalogue import installed
from etl.config.document.parser import read
from etl.config.document.sql_script import read_script
from etl.config.document.yaml_document import Document, YamlProblem
from etl.config.loader import inspect_document
from etl.config.problems import ConfigError
from etl.sdk.call_site import FileSite
from etl.sdk.nodes import ComponentCall, Definition, NamedNode, Node, OutputNode, SourceNode, StepNode, TableNode, UnionNode

TEXT = "<text>"
"""The file of a pipeline that is given as text."""

_PARTS = ("name", "source", "steps", "sink", "sources", "streams", "sinks", "tables", "dead_letters")
_SETTINGS = ("description", "functions", "run", "tests")


class _MalformedError(Exception):
    """The value is not that of a pipeline file; the check of the file says why."""


def read_yaml(given: str | os.PathLike[str]) -> Definition:
    """A pipeline file, by its path or as text: a text of several lines. Raises ConfigError and OSError."""
    data, file = _content(given)
    return _definition(read(data), file)


def read_sql(given: str | os.PathLike[str]) -> Definition:
    """An SQL script, by its path or as text: one with a blank. Raises ConfigError and OSError."""
    is_text = isinstance(given, str) and not given.rstrip().endswith(".sql")
    data, file = (str(given).encode(), TEXT) if is_text else (Path(given).read_bytes(), os.fspath(given))
    return _definition(read_script(data, installed(), Path(file).parent), file)


def _content(given: str | os.PathLike[str]) -> tuple[bytes, str]:
    if isinstance(given, str) and ("\n" in given or given.lstrip().startswith("{")):
        return given.encode(), TEXT
    return Path(given).read_bytes(), os.fspath(given)


def _definition(document: Document, file: str) -> Definition:
    if all(flaw.severity != "error" for flaw in document.flaws):
        try:
            return _Reader(document, file).definition()
        except _MalformedError:
            pass
    problems = inspect_document(file, document).problems
    if not problems:
        document.flaws.append(YamlProblem((1, 1), "not-a-pipeline", "the file holds no pipeline"))
        problems = inspect_document(file, document).problems
    raise ConfigError(problems)


class _Reader:
    """Turns the parts of a document into nodes."""

    def __init__(self, document: Document, file: str) -> None:
        root = document.value
        if not isinstance(root, dict) or set(root) - {*_PARTS, *_SETTINGS}:
            raise _MalformedError
        self._root: Mapping[str, Any] = root
        self._site = FileSite(file, document.locations)
        self._nodes: dict[str, Node] = {}

    def definition(self) -> Definition:
        """The whole file."""
        root = self._root
        name = root.get("name", "pipeline" if self._site.file == TEXT else None)
        if name is not None and not isinstance(name, str):
            raise _MalformedError
        settings = {key: (root[key], self._site) for key in _SETTINGS if key in root}
        letters = self._part("dead_letters") if "dead_letters" in root else None
        tables = tuple(TableNode(part, name) for name, part in self._parts("tables"))
        common = {"tables": tables, "dead_letters": letters, "settings": settings}
        return self._short(name, common) if "source" in root else self._long(name, common)

    def _short(self, name: str | None, common: Mapping[str, Any]) -> Definition:
        if any(key in self._root for key in ("sources", "streams", "sinks")):
            raise _MalformedError
        source = SourceNode(self._part("source"))
        end = self._steps(source, ("steps",), self._root.get("steps"))
        outputs = (OutputNode(self._part("sink"), end),) if "sink" in self._root else ()
        ends = (end,) if not outputs and end is not source else ()
        return Definition(name, self._site, outputs, (source,), ends, **common)

    def _long(self, name: str | None, common: Mapping[str, Any]) -> Definition:
        if any(key in self._root for key in ("steps", "sink")) or "sources" not in self._root:
            raise _MalformedError
        sources = {name: SourceNode(part, name) for name, part in self._parts("sources")}
        self._nodes |= sources
        streams = _mapping(self._root.get("streams") or {})
        for stream in streams:
            self._add_stream(stream, streams)
        outputs = tuple(
            OutputNode(part, self._union(_mapping(self._root["sinks"])[sink].get("from"), ("sinks", sink)), sink)
            for sink, part in self._parts("sinks")
        )
        ends = tuple(self._nodes[stream] for stream in streams)
        return Definition(name, self._site, outputs, tuple(sources.values()), ends, in_long_form=True, **common)

    def _add_stream(self, first_name: str, streams: Mapping[str, Any]) -> None:
        """Add a stream after those that it reads."""
        waiting, begun = [first_name], set[str]()
        while waiting:
            name = waiting[-1]
            if name in self._nodes:
                waiting.pop()
                continue
            missing = [one for one in self._inputs(name, streams) if one not in self._nodes]
            if missing and (name in begun or any(one not in streams for one in missing)):
                raise _MalformedError  # a cycle, or a name that the file lacks
            begun.add(name)
            waiting += missing
            if not missing:
                self._nodes[waiting.pop()] = self._stream(name, streams[name])

    def _inputs(self, name: str, streams: Mapping[str, Any]) -> list[str]:
        value = _mapping(streams[name])
        sources = _mapping(self._root["sources"])
        given = value.get("from", next(iter(sources)) if len(sources) == 1 else None)
        names = given if isinstance(given, list) else [given]
        if not names or not all(isinstance(one, str) for one in names):
            raise _MalformedError
        return names

    def _stream(self, name: str, value: Mapping[str, Any]) -> Node:
        if set(value) - {"from", "steps", "description"}:
            raise _MalformedError
        path = ("streams", name)
        first = self._union(self._inputs(name, {name: value}), path)
        end = self._steps(first, (*path, "steps"), value.get("steps"))
        description = value.get("description")
        return NamedNode(end, name, self._site.inside(*path), description if isinstance(description, str) else None)

    def _union(self, names: object, path: tuple[str, ...]) -> Node:
        given: list[Any] = names if isinstance(names, list) else [names]
        if not given or any(not isinstance(name, str) or name not in self._nodes for name in given):
            raise _MalformedError
        if len(given) == 1:
            return self._nodes[given[0]]
        return UnionNode(tuple(self._nodes[name] for name in given), self._site.inside(*path, "from"))

    def _steps(self, node: Node, path: tuple[str, ...], steps: object) -> Node:
        if not isinstance(steps, list | None):
            raise _MalformedError
        for number, step in enumerate(steps or []):
            node = StepNode(self._read_component(step, (*path, number)), node)
        return node

    def _parts(self, family: str) -> Iterator[tuple[str, ComponentCall]]:
        for name, value in _mapping(self._root.get(family) or {}).items():
            yield name, self._read_component(value, (family, name))

    def _part(self, key: str) -> ComponentCall:
        return self._read_component(self._root[key], (key,))

    def _read_component(self, value: object, path: tuple[str | int, ...]) -> ComponentCall:
        options = _mapping(value)
        type_ = options.get("type")
        if not isinstance(type_, str):
            raise _MalformedError
        own = {key: one for key, one in options.items() if key != "type" and not (key == "from" and path[0] == "sinks")}
        return ComponentCall(type_, own, self._site.inside(*path))


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _MalformedError
    return value
