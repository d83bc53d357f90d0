"""Opening a sink for one split: with retries, and with a spool if ``on_failure`` says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from etl.api import ComponentError, Rejects, Sink, Task, Writer
from etl.delivery.backoff import NEVER_STOPS, Backoff, StopFile
from etl.delivery.identities import EventIdentities
from etl.delivery.sink_writer import DeliveryFailedError, SinkWriter, with_sink_name
from etl.delivery.spool import SinkSpool
from etl.delivery.spooling_writer import SpoolingSinkWriter
from etl.receipts import Delivered
from etl.system_errors import with_advice

Reject = Callable[[Rejects], None]


def open_writer(sink: Sink, task: Task, reject: Reject, stop_file: StopFile = NEVER_STOPS) -> SinkWriter:
    """Open a sink; while it is down, retry or raise DeliveryFailedError, according to ``on_failure``."""
    return _open(sink, task, stop_file, reject, Delivered())


def open_spooling_writer(
    sink: Sink, task: Task, reject: Reject, stop_file: StopFile, spool: SinkSpool, read: tuple[str, str], path: Path
) -> SinkWriter | SpoolingSinkWriter:
    """Open a sink that may have a spool: by its option ``on_failure``, or because earlier events still wait there.

    ``read`` is the split's source and partition, ``path`` the file to which the split is written for the spool.
    """
    if sink.on_failure != "spool" and not spool.is_active:
        return open_writer(sink, task, reject, stop_file)
    backoff = Backoff(f"sink {task.sink!r}", stop_file, sink.retry)
    spooling_writer = SpoolingSinkWriter(task, *read, spool, path, reject, backoff, sink.spool.max_bytes)
    spooling_writer.open(partial(_open, sink, task, stop_file))
    return spooling_writer


def _open(sink: Sink, task: Task, stop_file: StopFile, reject: Reject, delivered: Delivered) -> SinkWriter:
    attempts = None if sink.on_failure == "block" else sink.retry.attempts
    backoff = Backoff(f"sink {task.sink!r}", stop_file, sink.retry)
    writer = _writer(sink, task, backoff, attempts)
    return SinkWriter(task.sink, sink, writer, reject, EventIdentities(task.identity), attempts, backoff, delivered=delivered)


def _writer(sink: Sink, task: Task, backoff: Backoff, attempts: int | None) -> Writer:
    def open_once() -> Writer:
        try:
            return sink.open(task)
        except ComponentError as error:
            raise with_sink_name(task.sink, error) from error

    try:
        return backoff.retry_until_done(open_once, attempts)
    except OSError as error:
        raise DeliveryFailedError(
            f"sink {task.sink!r} could not be opened in {attempts} attempts: {with_advice(error)}; "
            "nothing is lost: the next run goes on from here",
            str(error),
        ) from error
