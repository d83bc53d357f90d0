"""What SIGINT and SIGTERM mean to a run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from etl.cli.progress import Progress
from etl.running.service import RunService


@contextmanager
def signals(service: RunService, progress: Progress) -> Iterator[None]:
    """First signal: end after the micro-batch. Second: at once."""
    seen: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        if seen:
            os._exit(128 + number)  # the JVM ends with our pipe; what was not committed is done again by the next run
        seen.append(number)
        progress.say("stopping", "stopping after the micro-batch at work; again to stop at once")
        service.stop()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
