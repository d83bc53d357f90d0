"""The normal form of a state's atomic groups: entries without effect are removed, equivalent entries are merged.

Without it, each iteration of a loop around an atomic group would make new states without end.
"""

from __future__ import annotations

from collections.abc import Sequence

from etl.scanner.automata.closure import Scopes, Thread

Numbered = list[tuple[int, Thread]]
"""Threads with their indexes in the original list."""


def normalise(threads: Sequence[Thread]) -> list[tuple[int, Thread]]:
    """Reduce the scopes of the threads and number them from 0; returns the remaining threads with their original indexes."""
    numbered_threads = list(enumerate(threads))
    while True:
        reduced = _without_repeats(_cut_after_match(_without_closed(numbered_threads)))
        reduced = _without_twins(reduced)
        if reduced == numbered_threads:
            return _renumber(numbered_threads)
        numbered_threads = reduced


def _without_closed(threads: Numbered) -> Numbered:
    """Remove the entries that all their threads have left: they have no effect."""
    open_ = {scope >> 1 for _, thread in threads for scope in thread.scopes if not scope & 1}
    return [
        (n, Thread(thread.at, tuple([scope for scope in thread.scopes if not scope & 1 or scope >> 1 in open_])))
        for n, thread in threads
    ]


def _cut_after_match(threads: Numbered) -> Numbered:
    for n, (_, thread) in enumerate(threads):
        if thread.at < 0 and not thread.scopes:
            return threads[: n + 1]
    return threads


def _without_repeats(threads: Numbered) -> Numbered:
    first: dict[Thread, int] = {}
    return [(n, thread) for n, thread in threads if first.setdefault(thread, n) == n]


def _without_twins(threads: Numbered) -> Numbered:
    """Of two entries whose threads are at the same instructions, remove the less preferred: it cannot win."""
    known_members: set[tuple[tuple[int, Scopes], ...]] = set()
    for entry in _entries(threads):
        members = tuple([(thread.at, _relative_to(entry, thread.scopes)) for _, thread in threads if _is_in(entry, thread)])
        if members in known_members:
            return [(n, thread) for n, thread in threads if not _is_in(entry, thread)]
        known_members.add(members)
    return threads


def _entries(threads: Numbered) -> list[int]:
    return list(dict.fromkeys(scope >> 1 for _, thread in threads for scope in thread.scopes))


def _is_in(entry: int, thread: Thread) -> bool:
    return any(scope >> 1 == entry for scope in thread.scopes)


def _relative_to(entry: int, scopes: Scopes) -> Scopes:
    """The scopes, with the entry itself replaced by a placeholder."""
    return tuple([-1 - (scope & 1) if scope >> 1 == entry else scope for scope in scopes])


def _renumber(threads: Numbered) -> list[tuple[int, Thread]]:
    names = {entry: number for number, entry in enumerate(_entries(threads))}
    return [(n, Thread(at, tuple([names[scope >> 1] * 2 | scope & 1 for scope in scopes]))) for n, (at, scopes) in threads]
