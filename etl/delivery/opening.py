"""Opening a sink for one split, as its options say what is to happen when it is down."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

from etl.api import ComponentError, Rejects, Sink, Task, Writer
from etl.delivery.detour import Detour
from etl.delivery.identities import Identities
from etl.delivery.outlet import NotTakenError, Outlet, said_by
from etl.delivery.spool import SinkSpool
from etl.delivery.waiting import NEVER, Ending, Patience
from etl.receipts import Delivered

Reject = Callable[[Rejects], None]


def opened(sink: Sink, task: Task, reject: Reject, ending: Ending = NEVER) -> Outlet:
    """The sink's outlet; waits for it, or raises NotTakenError, as it says."""
    return _opened(sink, task, ending, reject, Delivered())


def with_detour(
    sink: Sink, task: Task, reject: Reject, ending: Ending, spool: SinkSpool, read: tuple[str, str], path: Path
) -> Outlet | Detour:
    """The sink's outlet, with the spool beside it where the sink says so or events wait there already.

    ``read`` is the split's source and partition, ``path`` a file that the task may stage.
    """
    if sink.on_failure != "spool" and not spool.detour:
        return opened(sink, task, reject, ending)
    patience = Patience(f"sink {task.sink!r}", ending, sink.retry)
    detour = Detour(task, *read, spool, path, reject, patience, sink.spool.max_bytes)
    detour.begin(partial(_opened, sink, task, ending))
    return detour


def _opened(sink: Sink, task: Task, ending: Ending, reject: Reject, delivered: Delivered) -> Outlet:
    attempts = None if sink.on_failure == "block" else sink.retry.attempts
    patience = Patience(f"sink {task.sink!r}", ending, sink.retry)
    writer = _writer(sink, task, patience, attempts)
    return Outlet(task.sink, sink, writer, reject, Identities(task.identity), attempts, patience, delivered=delivered)


def _writer(sink: Sink, task: Task, patience: Patience, attempts: int | None) -> Writer:
    for tries in itertools.count(1):
        try:
            writer = sink.open(task)
            break
        except ComponentError as error:
            raise said_by(task.sink, error) from error
        except OSError as error:
            if tries == attempts:
                raise NotTakenError(
                    f"sink {task.sink!r} could not be opened in {tries} attempts: {error}; "
                    "nothing is lost: the next run goes on from here",
                    str(error),
                ) from error
            patience.wait(error)
    patience.over()
    return writer
