"""How sources, streams and sinks hang together: unknown names, cycles, what nobody reads."""

from __future__ import annotations

from collections.abc import Mapping

from etl.api import nearest
from etl.config.layout import Feed, Layout
from etl.config.report import Report


def check_network(layout: Layout, declared: Mapping[str, object], report: Report) -> list[str]:
    """Report what does not hang together; names of streams, each behind its inputs, without those in cycles.

    ``declared`` are all names that the file gives to sources and streams, sound or not.
    """
    _check_names(layout, declared, report)
    order = _ordered(layout, report)
    _check_use(layout, declared, report)
    return order


def _check_names(layout: Layout, declared: Mapping[str, object], report: Report) -> None:
    feeds = [feed for stream in layout.streams.values() for feed in stream.feeds]
    feeds += [feed for sink in layout.sinks.values() for feed in sink.feeds]
    if not declared or (layout.short and not layout.sources):
        return  # that there is no source, or that the forms are mixed, is said already
    for feed in feeds:
        if feed.name not in declared and feed.name not in layout.streams and not report.is_broken(feed.path):
            report.add(feed.path, "unknown-from", f"there is no source or stream {feed.name!r}", _hint(feed, layout, declared))


def _hint(feed: Feed, layout: Layout, declared: Mapping[str, object]) -> str:
    if feed.name in layout.sinks:
        return f"{feed.name!r} is a sink; events come from sources and streams"
    return nearest(feed.name, declared) or f"here are: {', '.join(declared) or 'none'}"


def _ordered(layout: Layout, report: Report) -> list[str]:
    """Depth first; a stream met again on its own way closes a cycle."""
    order: list[str] = []
    done: set[str] = set()
    for root in layout.streams:
        way: dict[str, list[Feed]] = {}
        todo = [root]
        while todo:
            name = todo[-1]
            if name in done:
                todo.pop()
                continue
            feeds = way.setdefault(name, [feed for feed in layout.streams[name].feeds if feed.name in layout.streams])
            if not feeds:
                done.add(name)
                order.append(name)
                way.pop(name)
                todo.pop()
                continue
            feed = feeds.pop()
            if feed.name in way:
                members = list(way)[list(way).index(feed.name) :]
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
    if not layout.sinks:
        return
    reached = upstream(delivered | _meant(layout, declared), layout)
    for name in declared:
        if name in reached:
            continue
        kind = "source" if name in layout.sources or name not in layout.streams else "stream"
        path = ("source",) if layout.short and kind == "source" else ("steps",) if layout.short else (f"{kind}s", name)
        hint = "a sink must read it, or a stream that a sink reads"
        report.add(path, f"unused-{kind}", f"no sink is reached by {kind} {name!r}", hint, key=True, severity="warning")


def _meant(layout: Layout, declared: Mapping[str, object]) -> set[str]:
    """Names that an unknown ``from`` is most likely to mean: that nobody reads them is a consequence."""
    from difflib import get_close_matches

    feeds = [feed for sink in layout.sinks.values() for feed in sink.feeds]
    feeds += [feed for stream in layout.streams.values() for feed in stream.feeds]
    unknown = {feed.name for feed in feeds if feed.name not in declared}
    return {name for text in unknown for name in get_close_matches(text, declared, n=1)}


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
