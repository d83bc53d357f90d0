"""Who is told that a kernel is being compiled, which takes seconds, once on a machine."""

from __future__ import annotations

from collections.abc import Callable

Watcher = Callable[[str | None], None]
"""Takes the name of the kernel that is compiled now, and None when it is done."""

watchers: list[Watcher] = []


def begin_compiling(name: str) -> None:
    """Tell the watchers that a kernel is compiled."""
    for watch in watchers:
        watch(name)


def end_compiling() -> None:
    """Tell the watchers that it is done."""
    for watch in watchers:
        watch(None)
