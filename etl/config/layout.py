"""The parts of a pipeline file in either form: sources, streams, sinks and tables, with their paths."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from etl.api import Family, nearest
from etl.catalogue import Catalogue
from etl.config.model import OptionPath
from etl.config.nested_values import as_mapping
from etl.config.options.type_names import advice
from etl.config.report import Report
from etl.config.schema import NAME_PATTERN

MAIN = "main"
"""Name of the source and the sink in the short form; its stream is called ``steps``, as in the file."""
_STEPS = "steps"
_NAME = re.compile(NAME_PATTERN)
_SHORT = ("source", "steps", "sink")
_LONG = ("sources", "streams", "sinks")


@dataclass(frozen=True)
class Part:
    """One component in the file: ``options`` are its keys without ``from``."""

    family: Family
    path: OptionPath
    options: Mapping[str, Any]
    is_mapping: bool = True
    """Whether it has options at all; a step that is a text or nothing has none."""


@dataclass(frozen=True)
class InputRef:
    """A name in ``from`` and its path; the path of the reader if ``from`` is left out."""

    name: str
    path: OptionPath


@dataclass(frozen=True)
class StreamPart:
    """A stream in the file."""

    path: OptionPath
    inputs: tuple[InputRef, ...]
    steps: tuple[Part, ...]


@dataclass(frozen=True)
class SinkPart:
    """A sink in the file."""

    part: Part
    inputs: tuple[InputRef, ...]


@dataclass
class Layout:
    """All parts by name, without parts of the wrong shape, which the schema reports."""

    short: bool
    sources: dict[str, Part] = field(default_factory=dict)
    streams: dict[str, StreamPart] = field(default_factory=dict)
    sinks: dict[str, SinkPart] = field(default_factory=dict)
    tables: dict[str, Part] = field(default_factory=dict)
    dead_letters: Part | None = None
    table_names: frozenset[str] = frozenset()
    """Names of all tables in the file, also of those of the wrong shape."""
    likely_names: dict[str, str] = field(default_factory=dict)
    """Unknown name in ``from`` → the most similar declared name."""

    def parts(self) -> Iterator[Part]:
        """Every component, in the order table, source, step, sink."""
        yield from self.tables.values()
        yield from self.sources.values()
        for stream in self.streams.values():
            yield from stream.steps
        yield from (sink.part for sink in self.sinks.values())
        if self.dead_letters:
            yield self.dead_letters

    def model_path(self, path: OptionPath) -> OptionPath:
        """A path of the file → the path in the long form."""
        if not self.short or not path or path[0] not in _SHORT:
            return path
        long: Mapping[Any, OptionPath] = {
            "source": ("sources", MAIN),
            "steps": ("streams", _STEPS, "steps"),
            "sink": ("sinks", MAIN),
        }
        return (*long[path[0]], *path[1:])


def lay_out(root: Mapping[str, Any], report: Report) -> Layout:
    """Find the parts; mixed or missing forms and bad names are reported."""
    short = _is_short(root, report)
    layout = _short(root) if short else _long(root, report)
    layout.dead_letters = _part("sink", ("dead_letters",), root.get("dead_letters"))
    layout.table_names = frozenset(as_mapping(root.get("tables")))
    for name, value in as_mapping(root.get("tables")).items():
        _check_name(name, ("tables", name), None, report)
        if part := _part("table", ("tables", name), value):
            layout.tables[name] = part
    return layout


_BRANCHES = "`filter` passes events by a condition; branches are streams of their own, each with a filter first"


def check_types(layout: Layout, catalogue: Catalogue, report: Report) -> None:
    """Report parts without a type, or with one that their family does not have."""
    for part in layout.parts():
        if report.is_broken(part.path) or not part.is_mapping:
            continue
        if "type" not in part.options:
            report.fail(
                part.path,
                "missing-option",
                "needs 'type'",
                _BRANCHES
                if "if" in part.options and part.family == "step"
                else f"a {part.family} is one of: {_names(catalogue, part.family)}",
            )
            report.broken.add((*part.path, "type"))
        elif not report.is_broken((*part.path, "type")) and not _has_known_type(part, catalogue):
            name = part.options["type"]
            report.fail(
                (*part.path, "type"),
                "unknown-type",
                f"there is no {part.family} {name!r}",
                _type_hint(part.family, name, catalogue),
            )


def _has_known_type(part: Part, catalogue: Catalogue) -> bool:
    name = part.options.get("type")
    return isinstance(name, str) and name in catalogue.families[part.family]


def _type_hint(family: Family, name: object, catalogue: Catalogue) -> str:
    others = [other for other, members in catalogue.families.items() if isinstance(name, str) and name in members]
    known = advice(family, str(name))
    if others and not (known and family == "table"):
        return f"{name!r} is a {' and a '.join(others)}"
    return known or f"a {family} is one of: {_names(catalogue, family)}"


def _names(catalogue: Catalogue, family: Family) -> str:
    return ", ".join(catalogue.families[family]) or "none is installed"


def _is_short(root: Mapping[str, Any], report: Report) -> bool:
    short = [key for key in _SHORT if key in root]
    long = [key for key in _LONG if key in root]
    if short and long:
        report.add(
            (short[0],),
            "mixed-forms",
            f"{short[0]!r} belongs to the short form and {long[0]!r} to the long one",
            "use source, steps, sink, or sources, streams, sinks",
            key=True,
        )
        report.broken |= {(key,) for key in short}
    elif "source" not in root and "sources" not in root:
        report.add((), "missing-source", "needs 'source' or 'sources'", nearest_top(root))
    return bool(short) and not long


def nearest_top(root: Mapping[str, Any]) -> str | None:
    """A hint when a key looks like ``source`` or ``sources``."""
    for key in root:
        if key not in (*_SHORT, *_LONG) and nearest(key, ("source", "sources")):
            return f"is {key!r} meant?"
    return "a pipeline begins with where its events come from"


def _short(root: Mapping[str, Any]) -> Layout:
    layout = Layout(short=True)
    source, sink = _part("source", ("source",), root.get("source")), _part("sink", ("sink",), root.get("sink"))
    if source:
        layout.sources[MAIN] = source
    steps = _steps(("steps",), root.get("steps"))
    if steps:
        layout.streams[_STEPS] = StreamPart(("steps",), (InputRef(MAIN, ("steps",)),), steps)
    if sink:
        layout.sinks[MAIN] = SinkPart(sink, (InputRef(_STEPS if steps else MAIN, ("sink",)),))
    return layout


def _long(root: Mapping[str, Any], report: Report) -> Layout:
    layout = Layout(short=False)
    for name, value in as_mapping(root.get("sources")).items():
        _check_name(name, ("sources", name), layout, report)
        part = _part("source", ("sources", name), value)
        if part:
            layout.sources[name] = part
    only = next(iter(layout.sources)) if len(as_mapping(root.get("sources"))) == 1 and layout.sources else None
    for name, value in as_mapping(root.get("streams")).items():
        path: OptionPath = ("streams", name)
        _check_name(name, path, layout, report)
        if not isinstance(value, dict):
            continue
        inputs = _input_refs((*path, "from"), value.get("from")) if "from" in value else _default_input(only, path, report)
        free = name if name not in layout.sources else f"{name} (stream)"  # its steps are checked, too
        layout.streams[free] = StreamPart(path, inputs, _steps((*path, "steps"), value.get("steps")))
    for name, value in as_mapping(root.get("sinks")).items():
        _check_name(name, ("sinks", name), None, report)
        part = _part("sink", ("sinks", name), value)
        if part:
            layout.sinks[name] = SinkPart(part, _input_refs(("sinks", name, "from"), value.get("from")))
    return layout


def _default_input(only: str | None, path: OptionPath, report: Report) -> tuple[InputRef, ...]:
    if only is None:
        report.add(path, "missing-option", "needs 'from'", "it may be left out only when there is one source")
        return ()
    return (InputRef(only, path),)


def _check_name(name: str, path: OptionPath, layout: Layout | None, report: Report) -> None:
    if not _NAME.match(name):
        report.add(path, "bad-name", f"{name!r} is not a name", "a name is a letter, then letters, digits, '_' and '-'", key=True)
    if layout and name in layout.sources and path[0] == "streams":
        report.add(path, "duplicate-name", f"{name!r} is a source already", "'from' would not know which is meant", key=True)


def _part(family: Family, path: OptionPath, value: object) -> Part | None:
    if not isinstance(value, dict):
        return None
    own = {key: item for key, item in value.items() if key != "from" or family != "sink"}
    return Part(family, path, own)


def _steps(path: OptionPath, value: object) -> tuple[Part, ...]:
    items = value if isinstance(value, list) else []
    paths: list[OptionPath] = [(*path, index) for index in range(len(items))]
    return tuple(_part("step", *one) or Part("step", one[0], {}, is_mapping=False) for one in zip(paths, items, strict=True))


def _input_refs(path: OptionPath, value: object) -> tuple[InputRef, ...]:
    if isinstance(value, str):
        return (InputRef(value, path),)
    items = value if isinstance(value, list) else []
    return tuple(InputRef(item, (*path, index)) for index, item in enumerate(items) if isinstance(item, str))
