"""The graph of sources, streams and sinks: unknown names, cycles, sources and streams that no sink reads."""

from __future__ import annotations

import re
from collections.abc import Mapping

from etl.api import closest
from etl.config.layout import Feed, Layout
from etl.config.model import OptionPath
from etl.config.report import Report

MAX_COMPARED = 100
"""Maximum number of unknown names that are compared with the known ones."""
MAX_SHOWN = 50
"""Maximum number of names in one hint."""


def check_network(layout: Layout, declared: Mapping[str, object], report: Report) -> list[str]:
    """Report faults of the graph; returns names of streams, each behind its inputs, without those in cycles.

    ``declared`` are the names of all sources and streams in the file, also of those with errors.
    """
    layout.meant = _meant(layout, declared)
    _check_names(layout, declared, report)
    order = _ordered(layout, report)
    _check_use(layout, declared, report)
    return order


def _check_names(layout: Layout, declared: Mapping[str, object], report: Report) -> None:
    feeds = [feed for stream in layout.streams.values() for feed in stream.feeds]
    feeds += [feed for sink in layout.sinks.values() for feed in sink.feeds]
    if not declared or (layout.short and not layout.sources):
        return  # a missing source and mixed forms are reported elsewhere
    parts: list[OptionPath] = [("sources",), ("streams",)]
    if any(report.is_broken(part) or part in report.document.incomplete for part in parts):
        return  # their names are unknown
    for feed in feeds:
        if feed.name not in declared and feed.name not in layout.streams and not report.is_broken(feed.path):
            report.add(feed.path, "unknown-from", f"there is no source or stream {feed.name!r}", _hint(feed, layout, declared))


def _hint(feed: Feed, layout: Layout, declared: Mapping[str, object]) -> str:
    if feed.name in layout.sinks:
        return f"{feed.name!r} is a sink; events come from sources and streams"
    if len(several := split_names(feed.name, declared)) > 1:
        return f"several are a list: [{', '.join(several)}]"
    if meant := layout.meant.get(feed.name):
        return f"did you mean {meant!r}?"
    here = list(declared)
    return f"here are: {', '.join(here[:MAX_SHOWN]) or 'none'}" + (" …" if len(here) > MAX_SHOWN else "")


def split_names(text: str, declared: Mapping[str, object]) -> list[str]:
    """The names that a text such as ``a, b`` lists, if it does."""
    names = [name for name in re.split(r"[,;\s]+", text) if name]
    return names if len(names) > 1 and all(name in declared for name in names) else []


def _ordered(layout: Layout, report: Report) -> list[str]:
    """Names of streams, depth first; a stream that is its own input closes a cycle."""
    order: list[str] = []
    done: set[str] = set()
    for root in layout.streams:
        path: dict[str, list[Feed]] = {}
        todo = [root]
        while todo:
            name = todo[-1]
            if name in done:
                todo.pop()
                continue
            feeds = path.setdefault(name, [feed for feed in layout.streams[name].feeds if feed.name in layout.streams])
            if not feeds:
                done.add(name)
                order.append(name)
                path.pop(name)
                todo.pop()
                continue
            feed = feeds.pop()
            if feed.name in path:
                members = list(path)[list(path).index(feed.name) :]
                report.add(feed.path, "cycle", f"streams feed each other: {' → '.join([*members, feed.name])}")
            elif feed.name not in done:
                todo.append(feed.name)
    return order


def _check_use(layout: Layout, declared: Mapping[str, object], report: Report) -> None:
    readers: dict[str, set[str]] = {}
    for name, stream in layout.streams.items():
        for feed in stream.feeds:
            readers.setdefault(feed.name, set()).add(name)
    delivered = {feed.name for sink in layout.sinks.values() for feed in sink.feeds}
    unread = [(*sink.part.path, "from") for sink in layout.sinks.values()]
    unread += [(*stream.path, "from") for stream in layout.streams.values()]
    if not layout.sinks or any(_is_near(path, gone) for path in unread for gone in report.document.blanked):
        return
    feeds = [feed for stream in layout.streams.values() for feed in stream.feeds]
    feeds += [feed for sink in layout.sinks.values() for feed in sink.feeds]
    several = {name for feed in feeds if feed.name not in declared for name in split_names(feed.name, declared)}
    reached = upstream(delivered | set(layout.meant.values()) | several, layout)
    for name in declared:
        if name in reached:
            continue
        kind = "source" if name in layout.sources or name not in layout.streams else "stream"
        path = ("source",) if layout.short and kind == "source" else ("steps",) if layout.short else (f"{kind}s", name)
        hint = "a sink must read it, or a stream that a sink reads"
        report.add(path, f"unused-{kind}", f"no sink is reached by {kind} {name!r}", hint, key=True, severity="warning")


def _meant(layout: Layout, declared: Mapping[str, object]) -> dict[str, str]:
    """Unknown names behind ``from`` → the names that they most likely mean."""
    feeds = [feed for sink in layout.sinks.values() for feed in sink.feeds]
    feeds += [feed for stream in layout.streams.values() for feed in stream.feeds]
    unknown = list(dict.fromkeys(feed.name for feed in feeds if feed.name not in declared))
    found = {name: closest(name, declared) for name in unknown[:MAX_COMPARED]}
    return {name: meant for name, meant in found.items() if meant}


def _is_near(path: OptionPath, other: OptionPath) -> bool:
    """Whether one of the two is in the other."""
    return path[: len(other)] == other or other[: len(path)] == path


def upstream(names: set[str], layout: Layout) -> set[str]:
    """These sources and streams, and all that feed them."""
    reached: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += [feed.name for feed in layout.streams[name].feeds] if name in layout.streams else []
    return reached


def leaves(layout: Layout) -> tuple[str, ...]:
    """Sources and streams that no stream reads."""
    read = {feed.name for stream in layout.streams.values() for feed in stream.feeds}
    return tuple(name for name in (*layout.sources, *layout.streams) if name not in read)
