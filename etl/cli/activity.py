"""Progress messages on stderr, for commands that print nothing for more than a second or two."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from etl.columns import compile_events

QUIET_SECONDS = 1.5
"""Seconds without output after which a terminal's line is written."""

LOG_SECONDS = 30.0
"""The same where lines stay, as in a log."""

Doing = Callable[[str], None]


@contextmanager
def activity(first: str) -> Iterator[Doing]:
    """Write what the command does until the context ends; call the given function with the next activity.

    A terminal has one line, which is removed at the end; elsewhere a line is written every `LOG_SECONDS`.
    """
    line = _Line(first)
    compile_events.watchers.append(line.compile)
    thread = threading.Thread(target=line.run, daemon=True)
    thread.start()
    try:
        yield line.do
    finally:
        compile_events.watchers.remove(line.compile)
        line.ended.set()
        thread.join()
        line.clear()


class _Line:
    """The line of a terminal, or lines of a log."""

    def __init__(self, first: str) -> None:
        self.ended = threading.Event()
        self._doing, self._kernel = first, ""
        self._since = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._is_shown = False

    def do(self, what: str) -> None:
        """Set the activity."""
        self._doing = what

    def compile(self, kernel: str | None) -> None:
        """Set the kernel that is being compiled; None at its end."""
        self._kernel, self._since = kernel or "", time.monotonic()

    def run(self) -> None:
        """Write lines until the context ends."""
        while not self.ended.wait(QUIET_SECONDS if self._is_terminal else LOG_SECONDS):
            kernel = self._kernel
            seconds = f", {time.monotonic() - self._since:.0f} s"
            compiled = f": compiling {kernel} for this machine, once{seconds}" if kernel else ""
            self._write(f"{self._doing}{compiled}")

    def clear(self) -> None:
        """Remove the terminal's line."""
        if self._is_shown and self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _write(self, text: str) -> None:
        self._is_shown = True
        sys.stderr.write(f"\r\x1b[K{text}" if self._is_terminal else f"{text}\n")
        sys.stderr.flush()
