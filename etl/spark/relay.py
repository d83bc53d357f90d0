"""Carrying what components log in Spark's processes to the terminal of the run.

Workers print to a file; lines that begin with `MARK` are messages of ours, one JSON object each.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MARK = "\x1esluice "
POLL_SECONDS = 0.2


class _Marked(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return MARK + json.dumps({"level": record.levelno, "text": f"{record.getMessage()}"})


def send() -> None:
    """In a process of Spark's: make the logger ``sluice`` print marked lines. Calling again changes nothing."""
    logger = logging.getLogger("sluice")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(_Marked())
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False


@contextmanager
def follow(log: Path, level: int, say: Callable[[str, str], None]) -> Iterator[None]:
    """In the driver: pass marked lines at or above a level to ``say(level name, text)`` while the body runs."""
    done = threading.Event()
    thread = threading.Thread(target=_follow, args=(log, level, say, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _follow(log: Path, level: int, say: Callable[[str, str], None], done: threading.Event) -> None:
    with log.open("rb") as file:
        rest = b""
        last = False
        while not last:
            last = done.wait(POLL_SECONDS)  # one more look when the run is over
            rest += file.read()
            *lines, rest = rest.split(b"\n")
            for line in lines:
                _pass(line, level, say)


def _pass(line: bytes, level: int, say: Callable[[str, str], None]) -> None:
    mark = MARK.encode()
    if not line.startswith(mark):
        return
    try:
        message = json.loads(line.removeprefix(mark))
    except ValueError:
        return
    if message["level"] >= level:
        say(logging.getLevelName(message["level"]).lower(), message["text"])
