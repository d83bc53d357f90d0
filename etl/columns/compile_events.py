"""Callbacks for the compilation of kernels, which takes seconds, once on a machine."""

from __future__ import annotations

from collections.abc import Callable

Watcher = Callable[[str | None], None]
"""Takes the name of the kernel whose compilation begins, and None when it ends."""

watchers: list[Watcher] = []


def begin_compiling(name: str) -> None:
    """Call the watchers with the name of the kernel."""
    for watch in watchers:
        watch(name)


def end_compiling() -> None:
    """Call the watchers with None."""
    for watch in watchers:
        watch(None)
