"""Shows the log messages of components, from the driver and from Spark's processes, in the terminal of the run.

Workers print to a log file. Lines that begin with `MARK` are log messages, one JSON object each.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
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
def forward_worker_logs(log: Path, log_relay: LogRelay, pipelines: Collection[str], from_start: bool = False) -> Iterator[None]:
    """In the driver: forward the marked lines about these pipelines, or about none, that come to Spark's log while the body runs;
    ``from_start``: also those that it has already.

    Runs that share a log share the thread that reads it.
    """
    with _readers_lock:
        reader = _readers.get(log)
        if reader is None:
            reader = _readers[log] = _LogReader(log, from_start)
        reader.add(frozenset(pipelines), log_relay)
    try:
        yield
    finally:
        with _readers_lock:
            if reader.remove(log_relay):
                del _readers[log]
        if not reader.is_used:
            reader.end()


_readers_lock = threading.Lock()
_readers: dict[Path, _LogReader] = {}
"""Spark's log → what reads it, while a run needs it."""


class _LogReader:
    """A thread that reads Spark's log, and forwards each marked line to the runs that it is about."""

    def __init__(self, log: Path, from_start: bool) -> None:
        self._file = log.open("rb")
        self._file.seek(0, os.SEEK_SET if from_start else os.SEEK_END)
        self._rest = b""
        self._relays: list[tuple[frozenset[str], LogRelay]] = []
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, name="worker logs", daemon=True)
        self._thread.start()

    @property
    def is_used(self) -> bool:
        """Whether a run needs it."""
        return bool(self._relays)

    def add(self, pipelines: frozenset[str], log_relay: LogRelay) -> None:
        """Forward what comes from now on to a run, too."""
        with self._lock:
            if self._relays:
                self._read()
            self._relays.append((pipelines, log_relay))

    def remove(self, log_relay: LogRelay) -> bool:
        """Forward what has come, and then nothing more to this run; returns whether it was the last one."""
        with self._lock:
            self._read()
            self._relays = [(pipelines, relay) for pipelines, relay in self._relays if relay is not log_relay]
            return not self._relays

    def end(self) -> None:
        """End the thread."""
        self._done.set()
        self._thread.join()
        self._file.close()

    def _work(self) -> None:
        while not self._done.wait(POLL_SECONDS):
            with self._lock:
                if self._relays:  # else the first run is not added yet
                    self._read()

    def _read(self) -> None:
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            self._forward(line)

    def _forward(self, line: bytes) -> None:
        mark = MARK.encode()
        if not line.startswith(mark):
            return
        try:
            message = json.loads(line.removeprefix(mark))
        except ValueError:
            return
        notice, pipeline = message.get("notice"), message["pipeline"]
        about = Notice(**notice) if notice else None
        for pipelines, log_relay in self._relays:
            if not pipeline or pipeline in pipelines:
                log_relay.forward(message["level"], message["text"], about, message["process"], pipeline)
