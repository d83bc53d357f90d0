"""Shows the log messages of components, from the driver and from Spark's processes, in the terminal of the run.

Workers print to a log file. Lines that begin with `MARK` are log messages, one JSON object each.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from etl.api import NOTICE
from etl.delivery.notices import Notice, NoticeLimiter

MARK = "\x1esluice "

_pipeline: ContextVar[str] = ContextVar("pipeline", default="")
"""In the driver: the pipeline of this thread, for messages without one."""

_worker_pipeline = {"pipeline": ""}
"""In a process of Spark: the pipeline of all its threads."""

POLL_SECONDS = 0.2
"""Seconds between two readings of the log."""

ATTEMPT_SECONDS = 120.0
"""Seconds that an attempt may take: when no notice has come for so long after its pause, its task has ended without one."""


class _MessageFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        notice = getattr(record, "notice", None)
        more = {"notice": notice.as_dict()} if notice else {}
        known = {"level": record.levelno, "text": record.getMessage(), "process": record.process, **_worker_pipeline}
        if pipeline := getattr(record, "pipeline", ""):
            known["pipeline"] = pipeline  # of a step that was opened before this process had a pipeline
        return MARK + json.dumps({**known, **more})


@contextmanager
def name_logs(pipeline: str) -> Iterator[None]:
    """In the driver: add the pipeline's name to messages of this thread, and of threads started with its context."""
    token = _pipeline.set(pipeline)
    try:
        yield
    finally:
        _pipeline.reset(token)


def relay_worker_logs(pipeline: str = "") -> None:
    """In a process of Spark: print messages of the logger ``sluice`` as marked lines, from now on with this pipeline's name."""
    _worker_pipeline["pipeline"] = pipeline
    logger = logging.getLogger("sluice")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(_MessageFormatter())
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False


@dataclass
class LogRelay:
    """Forwards messages of all processes, from a level on, to ``show(level name, text, pipeline)``.

    Notices about a lasting failure are limited by a `NoticeLimiter`.
    """

    level: int
    show: Callable[[str, str, str], None]
    limiters: dict[str, NoticeLimiter] = field(default_factory=dict)
    """Pipeline → its limiter; two pipelines may have sources of the same name."""
    clock: Callable[[], float] = time.monotonic
    _outages: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)
    """Pipeline and what it waits for → the last notice, and until when it counts (seconds of ``clock``)."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def forward(self, level: int, text: str, notice: Notice | None = None, process: int = 0, pipeline: str = "") -> None:
        """Forward a message of a process, unless its level is too low or its notice is limited."""
        with self._lock:
            if notice is not None:
                self._note_outage(pipeline, notice)
            limiter = self.limiters.setdefault(pipeline, NoticeLimiter())
            is_shown = level >= self.level and _should_show(limiter, text, notice, process)
        if is_shown:
            self.show("info" if level == NOTICE else logging.getLevelName(level).lower(), text, pipeline)

    def outage(self, pipeline: str) -> str:
        """What a pipeline waits for, as its last notice says; empty if it waits for nothing."""
        with self._lock:
            now = self.clock()
            return next((text for (of, _), (text, until) in self._outages.items() if of == pipeline and now < until), "")

    def _note_outage(self, pipeline: str, notice: Notice) -> None:
        self._outages.pop((pipeline, notice.subject), None)
        if notice.cause:
            self._outages[pipeline, notice.subject] = str(notice), self.clock() + notice.pause + ATTEMPT_SECONDS


def _should_show(limiter: NoticeLimiter, text: str, notice: Notice | None, process: int) -> bool:
    return limiter.should_show(notice) if notice else not limiter.is_duplicate(text, process)


class _DriverHandler(logging.Handler):
    """Forwards messages of the driver itself."""

    def __init__(self, log_relay: LogRelay) -> None:
        super().__init__()
        self._log_relay = log_relay

    def emit(self, record: logging.LogRecord) -> None:
        self._log_relay.forward(record.levelno, record.getMessage(), getattr(record, "notice", None), pipeline=_pipeline.get())


@contextmanager
def forward_driver_logs(log_relay: LogRelay) -> Iterator[None]:
    """In the driver: forward what its own threads log while the body runs. Runs in one process may overlap."""
    logger, handler = logging.getLogger("sluice"), _DriverHandler(log_relay)
    with _logger_lock:
        if not _own_handlers:
            _logger_before[:] = [(logger.level, logger.propagate)]
            logger.setLevel(logging.INFO)
            logger.propagate = False
        _own_handlers.append(handler)
        logger.addHandler(handler)
    try:
        yield
    finally:
        with _logger_lock:
            logger.removeHandler(handler)
            _own_handlers.remove(handler)
            if not _own_handlers:
                level, logger.propagate = _logger_before.pop()
                logger.setLevel(level)


_logger_lock = threading.Lock()
_own_handlers: list[_DriverHandler] = []
_logger_before: list[tuple[int, bool]] = []
"""Level and propagation of the logger ``sluice`` before the first of the overlapping runs."""


@contextmanager
def forward_worker_logs(log: Path, log_relay: LogRelay, start: int = 0) -> Iterator[None]:
    """In the driver: forward the marked lines of Spark's log while the body runs, from byte ``start`` of the log on."""
    done = threading.Event()
    thread = threading.Thread(target=_read_marked_lines, args=(log, log_relay, done, start), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _read_marked_lines(log: Path, log_relay: LogRelay, done: threading.Event, start: int) -> None:
    with log.open("rb") as file:
        file.seek(start)
        rest = b""
        last = False
        while not last:
            last = done.wait(POLL_SECONDS)  # reads once more after the run
            rest += file.read()
            *lines, rest = rest.split(b"\n")
            for line in lines:
                _forward_line(line, log_relay)


def _forward_line(line: bytes, log_relay: LogRelay) -> None:
    mark = MARK.encode()
    if not line.startswith(mark):
        return
    try:
        message = json.loads(line.removeprefix(mark))
    except ValueError:
        return
    notice = message.get("notice")
    about = Notice(**notice) if notice else None
    log_relay.forward(message["level"], message["text"], about, message["process"], message["pipeline"])
