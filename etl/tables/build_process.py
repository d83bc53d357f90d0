"""Builds table files in a separate process, whose memory is freed when it ends.

The process reads a pickled list of requests and a folder from standard input, and writes one pickled result for each.
"""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from etl.api import ComponentError
from etl.tables.table_store import TableRequest, TableVersion, refresh


@dataclass(frozen=True)
class BuildResult:
    """The result for one table: the version in use and whether it is new, or the error that prevented reading it."""

    name: str
    version: TableVersion | None = None
    is_new: bool = False
    error: str = ""
    is_temporary: bool = False
    """Whether the error may disappear without a change by the user."""
    notices: tuple[str, ...] = ()
    """Warnings about the table's rows."""


Receive = Callable[[TableRequest, Callable[[], BuildResult], Callable[[], None]], BuildResult]
"""Waits for the result of a request: by a call, which another function ends by killing the process."""


def build_tables(
    tables: Sequence[TableRequest],
    root: Path,
    python: str = sys.executable,
    receive: Receive = lambda _, call, kill: call(),
) -> Iterator[BuildResult]:
    """Refresh the files of tables, in order, and yield a result for each. ``python`` is the program that runs the process; where
    ``receive`` has killed it, a further process reads the next tables."""
    process = subprocess.Popen([python, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    left, killed = deque(tables), threading.Event()

    def kill() -> None:
        killed.set()
        process.kill()

    with process, process.stdin as requests, process.stdout as results:
        pickle.dump((list(tables), root), requests)
        requests.close()
        while left and not killed.is_set():
            request = left.popleft()
            try:
                yield receive(request, lambda: pickle.load(results), kill)
            except EOFError:
                yield BuildResult(
                    request.name,
                    error=f"the process that read it failed with exit code {process.wait()}: is there enough memory?",
                )
    if left:
        yield from build_tables(left, root, python, receive)


class _MessageBuffer(logging.Handler):
    """Collects the messages of log records."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def _build_table(request: TableRequest, root: Path) -> BuildResult:
    messages = _MessageBuffer()
    logger = logging.getLogger("sluice")
    logger.addHandler(messages)
    try:
        version, is_new = refresh(request, root)
    except (OSError, ComponentError) as error:
        return BuildResult(request.name, error=str(error), is_temporary=isinstance(error, OSError), notices=tuple(messages.texts))
    finally:
        logger.removeHandler(messages)
    return BuildResult(request.name, version, is_new, notices=tuple(messages.texts))


def main() -> None:
    """Build the tables requested on standard input."""
    requests, root = pickle.load(sys.stdin.buffer)
    for request in requests:
        pickle.dump(_build_table(request, root), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    import_module("etl.tables.build_process").main()  # pickles name its classes, not those of __main__
