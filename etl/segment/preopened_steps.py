"""Steps that take long to open are opened once on a host, in the process from which workers are forked.

What such a step (`ArrowStep.opens_before_fork`) caches when it is opened is then in the shared memory of all workers; the
step is also run on sample lines, which loads its kernels, and so is each step with state: a worker by itself takes up to 0.3 s
to load those. The driver writes the steps to a file and the file's path to an
environment variable; without the file, as on a cluster, each worker opens the steps itself.

The zygote may open them before it becomes Spark's daemon and is connected to the driver's log: log records are buffered until
then, each with the pipeline of its step as ``record.pipeline``.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from etl.api import ArrowStep, Schema, StatefulStep
from etl.plan.segments import Segment, StepNode
from etl.segment.kernel_warmup import run_on_samples, run_with_state, step_nodes
from etl.udf.attaching import called_functions

_STEPS_FILE_VARIABLE = "SLUICE_OPEN_FIRST"

SavedStep = tuple[str, ArrowStep | StatefulStep, Schema]
"""Pipeline, step, and the schema of the events that it gets."""

_early_openings: list[_EarlyOpening] = []
"""At most one early opening in this process, until `open_steps` uses it."""


def save_steps_to_open(
    segments: Iterable[tuple[str, Segment]], file: Path, stateful: Iterable[tuple[str, StepNode]] = ()
) -> None:
    """Save the steps that the daemon started by this process is to open, from pairs of pipeline and segment, and pairs of
    pipeline and step with state.

    Call it only when the steps' kernels are compiled.
    """
    row_wise = ((pipeline, node) for pipeline, segment in segments for node in step_nodes(segment))
    steps = [(name, node.step, node.incoming) for name, node in (*row_wise, *stateful) if _can_be_preopened(node.step)]
    os.environ.pop(_STEPS_FILE_VARIABLE, None)
    if steps:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        with open(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as output:
            pickle.dump(steps, output)
        os.environ[_STEPS_FILE_VARIABLE] = str(file)


def has_steps_to_open() -> bool:
    """Whether a file with steps to open exists."""
    return Path(os.environ.get(_STEPS_FILE_VARIABLE, "")).is_file()


def open_early() -> None:
    """Open the saved steps before `open_steps` is called, which then only logs the buffered records."""
    with _buffered_log() as buffer:
        opened = _open_saved_steps(buffer)
    _early_openings.append(_EarlyOpening(opened, buffer.records))


def open_steps() -> int:
    """Open the saved steps and return how many succeeded.

    An error is ignored: the worker gets it again and reports it. Log records are emitted here, as workers do not repeat them.
    """
    if not _early_openings:
        open_early()
    early = _early_openings.pop()
    for record in early.records:
        logging.getLogger("sluice").handle(record)
    return early.opened


class _EarlyOpening(NamedTuple):
    opened: int
    records: list[logging.LogRecord]


class _RecordBuffer(logging.Handler):
    """Buffers log records, each with the pipeline whose step is being opened."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.pipeline = ""

    def emit(self, record: logging.LogRecord) -> None:
        record.pipeline = self.pipeline
        self.records.append(record)


@contextmanager
def _buffered_log() -> Iterator[_RecordBuffer]:
    """Buffer the records of the logger ``sluice`` instead of emitting them."""
    logger, buffer = logging.getLogger("sluice"), _RecordBuffer()
    before = logger.level, logger.propagate
    logger.addHandler(buffer)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield buffer
    finally:
        logger.removeHandler(buffer)
        logger.level, logger.propagate = before


def _open_saved_steps(buffer: _RecordBuffer) -> int:
    opened = 0
    if has_steps_to_open():
        for buffer.pipeline, step, incoming in _saved_steps(Path(os.environ[_STEPS_FILE_VARIABLE])):
            with suppress(Exception):
                _open(step, incoming)
                opened += 1
    return opened


def _open(step: ArrowStep | StatefulStep, incoming: Schema) -> None:
    if isinstance(step, ArrowStep):
        step.open(incoming)
        run_on_samples(step, incoming)
    else:
        with TemporaryDirectory() as folder:
            run_with_state(step, incoming, Path(folder))


def _saved_steps(file: Path) -> list[SavedStep]:
    with suppress(Exception):  # written by another version, or incomplete: workers open the steps themselves
        return pickle.loads(file.read_bytes())
    return []


def _can_be_preopened(step: object) -> bool:
    """Whether the step caches its opening or has state, and has no tables, which are not read yet and may hold passwords; and no
    functions of the user, which sample events are not for."""
    if isinstance(step, StatefulStep):
        return not step.named_tables() and not any(called_functions(step))
    return isinstance(step, ArrowStep) and step.opens_before_fork and not step.named_tables()
