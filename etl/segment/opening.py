"""Steps that take long to open are opened once a host: by the process that Spark's workers are forked from.

What such a step remembers of its opening (see `ArrowStep.remembers`) is then in every worker, and its memory is shared; it is
tried, too, so that its kernels are loaded. The driver leaves the steps in a file and its place in the environment; where that
file is not, as on a cluster, workers open for themselves. The process that is to be that of the workers may begin before it
knows who listens to it: what opening logs waits until then, each record with the pipeline of its step as ``record.pipeline``.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from etl.api import ArrowStep, Schema
from etl.plan.model import Segment
from etl.segment.warming import attempt, nodes

_PLACE = "SLUICE_OPEN_FIRST"

Opened = tuple[str, ArrowStep, Schema]
"""Pipeline, step, and the schema of what comes to it."""

_AHEAD: list[_Ahead] = []
"""What was opened ahead in this process, until somebody asks for it."""


def leave(segments: Iterable[tuple[str, Segment]], file: Path) -> None:
    """Note what the daemon that this process starts is to open, by pipeline; only where the kernels for it have been compiled."""
    steps = [(name, node.step, node.incoming) for name, segment in segments for node in nodes(segment) if _remembers(node.step)]
    os.environ.pop(_PLACE, None)
    if steps:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        with open(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as left:
            pickle.dump(steps, left)
        os.environ[_PLACE] = str(file)


def is_left() -> bool:
    """Whether there is something to open."""
    return Path(os.environ.get(_PLACE, "")).is_file()


def open_ahead() -> None:
    """Open what was left before `open_first` is called for it; what is logged is logged by that call."""
    with _keeping() as kept:
        opened = _open(kept)
    _AHEAD.append(_Ahead(opened, kept.records))


def open_first() -> int:
    """Open what was left; the number of steps that could be. What one raises comes again in the worker, which reports it. What
    one logs must be passed on from here: a worker that finds it open does not log it again."""
    if not _AHEAD:
        open_ahead()
    ahead = _AHEAD.pop()
    for record in ahead.records:
        logging.getLogger("sluice").handle(record)
    return ahead.opened


class _Ahead(NamedTuple):
    opened: int
    records: list[logging.LogRecord]


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.pipeline = ""

    def emit(self, record: logging.LogRecord) -> None:
        record.pipeline = self.pipeline
        self.records.append(record)


@contextmanager
def _keeping() -> Iterator[_Kept]:
    """Nobody is told yet of what our logger is told."""
    logger, handler = logging.getLogger("sluice"), _Kept()
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


def _open(kept: _Kept) -> int:
    opened = 0
    if is_left():
        for kept.pipeline, step, incoming in _left(Path(os.environ[_PLACE])):
            with suppress(Exception):
                step.open(incoming)
                attempt(step, incoming)
                opened += 1
    return opened


def _left(place: Path) -> list[Opened]:
    with suppress(Exception):  # another version's, or half a file: workers do without
        return pickle.loads(place.read_bytes())
    return []


def _remembers(step: object) -> bool:
    """Without tables: those are not read yet, and may hold passwords, which are for no file."""
    return isinstance(step, ArrowStep) and step.remembers and not step.named_tables()
