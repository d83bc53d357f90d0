"""Checks the graph of sources, streams and sinks for unknown names, cycles, and sources and streams that no sink reads."""

from __future__ import annotations

import re
from collections.abc import Mapping

from etl.api import closest
from etl.config.layout import InputRef, Layout
from etl.config.model import OptionPath
from etl.config.report import Report

MAX_COMPARED = 100
"""Maximum number of unknown names that are compared with the known ones."""
MAX_SHOWN = 50
"""Maximum number of names in one hint."""


def check_graph(layout: Layout, declared: Mapping[str, object], report: Report) -> list[str]:
    """Report faults of the graph. Returns the names of streams in topological order, without those in cycles.

    ``declared`` has the names of all sources and streams in the file, including those with errors.
    """
    layout.likely_names = _find_likely_names(layout, declared)
    _check_names(layout, declared, report)
    order = _order_streams(layout, report)
    _check_use(layout, declared, report)
    return order


def _check_names(layout: Layout, declared: Mapping[str, object], report: Report) -> None:
    inputs = [ref for stream in layout.streams.values() for ref in stream.inputs]
    inputs += [ref for sink in layout.sinks.values() for ref in sink.inputs]
    if not declared or (layout.short and not layout.sources):
        return  # a missing source and mixed forms are reported elsewhere
    parts: list[OptionPath] = [("sources",), ("streams",)]
    if any(report.is_broken(part) or part in report.document.incomplete for part in parts):
        return  # their names are unknown
    for ref in inputs:
        if ref.name not in declared and ref.name not in layout.streams and not report.is_broken(ref.path):
            report.add(
                ref.path, "unknown-from", f"there is no source or stream {ref.name!r}", _suggest_name(ref, layout, declared)
            )


def _suggest_name(ref: InputRef, layout: Layout, declared: Mapping[str, object]) -> str:
    if ref.name in layout.sinks:
        return f"{ref.name!r} is a sink; events come from sources and streams"
    if len(several := split_names(ref.name, declared)) > 1:
        return f"several are a list: [{', '.join(several)}]"
    if meant := layout.likely_names.get(ref.name):
        return f"did you mean {meant!r}?"
    here = list(declared)
    return f"here are: {', '.join(here[:MAX_SHOWN]) or 'none'}" + (" …" if len(here) > MAX_SHOWN else "")


def split_names(text: str, declared: Mapping[str, object]) -> list[str]:
    """Return the names in a text such as ``a, b``; none if it is not a list of declared names."""
    names = [name for name in re.split(r"[,;\s]+", text) if name]
    return names if len(names) > 1 and all(name in declared for name in names) else []


def _order_streams(layout: Layout, report: Report) -> list[str]:
    """Return the names of streams, each after its inputs (depth first). Reports streams that are their own input."""
    order: list[str] = []
    done: set[str] = set()
    for root in layout.streams:
        path: dict[str, list[InputRef]] = {}
        todo = [root]
        while todo:
            name = todo[-1]
            if name in done:
                todo.pop()
                continue
            inputs = path.setdefault(name, [ref for ref in layout.streams[name].inputs if ref.name in layout.streams])
            if not inputs:
                done.add(name)
                order.append(name)
                path.pop(name)
                todo.pop()
                continue
            ref = inputs.pop()
            if ref.name in path:
                members = list(path)[list(path).index(ref.name) :]
                report.add(ref.path, "cycle", f"streams feed each other: {' → '.join([*members, ref.name])}")
            elif ref.name not in done:
                todo.append(ref.name)
    return order


def _check_use(layout: Layout, declared: Mapping[str, object], report: Report) -> None:
    delivered = {ref.name for sink in layout.sinks.values() for ref in sink.inputs}
    unread = [(*sink.part.path, "from") for sink in layout.sinks.values()]
    unread += [(*stream.path, "from") for stream in layout.streams.values()]
    if not layout.sinks or any(_overlap(path, replaced) for path in unread for replaced in report.document.replaced_values):
        return
    inputs = [ref for stream in layout.streams.values() for ref in stream.inputs]
    inputs += [ref for sink in layout.sinks.values() for ref in sink.inputs]
    several = {name for ref in inputs if ref.name not in declared for name in split_names(ref.name, declared)}
    delivering = find_upstream(delivered | set(layout.likely_names.values()) | several, layout)
    for name in declared:
        if name in delivering:
            continue
        kind = "source" if name in layout.sources or name not in layout.streams else "stream"
        path = ("source",) if layout.short and kind == "source" else ("steps",) if layout.short else (f"{kind}s", name)
        hint = "a sink must read it, or a stream that a sink reads"
        report.add(path, f"unused-{kind}", f"no sink is reached by {kind} {name!r}", hint, key=True, severity="warning")


def _find_likely_names(layout: Layout, declared: Mapping[str, object]) -> dict[str, str]:
    """Return, for each unknown name in ``from``, the most similar declared name."""
    inputs = [ref for sink in layout.sinks.values() for ref in sink.inputs]
    inputs += [ref for stream in layout.streams.values() for ref in stream.inputs]
    unknown = list(dict.fromkeys(ref.name for ref in inputs if ref.name not in declared))
    found = {name: closest(name, declared) for name in unknown[:MAX_COMPARED]}
    return {name: meant for name, meant in found.items() if meant}


def _overlap(path: OptionPath, other: OptionPath) -> bool:
    """Whether one of the two paths contains the other."""
    return path[: len(other)] == other or other[: len(path)] == path


def find_upstream(names: set[str], layout: Layout) -> set[str]:
    """These sources and streams, and all that they read, directly or through other streams."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [ref.name for ref in layout.streams[name].inputs] if name in layout.streams else []
    return found


def find_leaves(layout: Layout) -> tuple[str, ...]:
    """Sources and streams that no stream reads."""
    read = {ref.name for stream in layout.streams.values() for ref in stream.inputs}
    return tuple(name for name in (*layout.sources, *layout.streams) if name not in read)
