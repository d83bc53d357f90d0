"""The writer of a sink with ``on_failure: spool``: when the sink fails, the whole split goes to a file instead.

Every event is also written to the file, because only the end of the split shows whether the sink accepts all of it. A split
is therefore delivered as a whole, by the task or later from the spool, and under the same name: the sink's ledger or ids
filter out events that it already has. A sink without either gets the events before the failure twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from etl.api import Rejects, Staged, Task, visible
from etl.columns.texts import materialize
from etl.delivery.backoff import Backoff
from etl.delivery.notices import Notice
from etl.delivery.sink_writer import DeliveryFailedError, SinkWriter
from etl.delivery.spool import SinkSpool
from etl.delivery.spool_file import SpoolFile
from etl.receipts import Delivered, Spooled

log = logging.getLogger("sluice.sink")


@dataclass
class SpoolingSinkWriter:
    """Writes a split to a `SinkWriter` until its sink fails, and to a file at the same time.

    Memory: that of the `SinkWriter`, and the split's events that the sink rejected.
    """

    task: Task
    source: str
    partition: str
    spool: SinkSpool
    path: Path
    reject: Callable[[Rejects], None]
    backoff: Backoff
    max_bytes: int
    delivered: Delivered = field(default_factory=Delivered)
    takes_views: bool = False
    spooled: Spooled | None = None
    """The file for the spool, set by `close`; None if the sink has all events."""
    _sink_writer: SinkWriter | None = None
    _rejects: list[Rejects] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._file = SpoolFile(self.path)

    @property
    def name(self) -> str:
        """The sink's name."""
        return self.task.sink

    def open(self, open_writer: Callable[[Callable[[Rejects], None], Delivered], SinkWriter]) -> None:
        """Open the sink, or, if its events go to the spool already, wait until the spool has room.

        ``open_writer`` gets the function that takes rejected events; it may raise DeliveryFailedError.
        """
        if self.spool.is_active:
            self._wait_for_room()
            return
        try:
            self._sink_writer = open_writer(self._rejects.append, self.delivered)
        except DeliveryFailedError as error:
            self._switch_to_spool(error)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch to the file, and to the sink unless it has failed."""
        batch = materialize(batch)
        self._file.write(batch)
        if self._sink_writer is None:
            self.delivered.incoming += batch.num_rows
        else:
            self._call_sink_writer(lambda sink_writer: sink_writer.write(batch))

    def tick(self) -> None:
        """Let the sink write a batch whose timeout has passed."""
        self._call_sink_writer(lambda sink_writer: sink_writer.tick())

    def close(self) -> Staged | None:
        """Finish the split: its events are at the sink, or in the file."""
        staged: list[Staged | None] = []
        self._call_sink_writer(lambda sink_writer: staged.append(sink_writer.close()))
        self._file.close()
        if self._sink_writer is None:
            self.delivered.spooled = self.delivered.incoming
            self.spooled = self._spooled_file(self.delivered.incoming) if self.delivered.incoming else None
            return None
        for rejects in self._rejects:
            self.reject(rejects)
        if staged[0] is None:
            self._file.discard()
        elif self.delivered.incoming:
            self.spooled = self._spooled_file(self.delivered.accepted, delivered=True)
        return staged[0]

    def abort(self) -> None:
        """Discard what was written: the split failed."""
        if self._sink_writer is not None:
            self._sink_writer.abort()
        self._file.discard()

    def _call_sink_writer(self, do: Callable[[SinkWriter], object]) -> None:
        if self._sink_writer is None:
            return
        try:
            do(self._sink_writer)
        except (DeliveryFailedError, OSError) as error:
            with suppress(OSError):
                self._sink_writer.abort()
            self._switch_to_spool(error)

    def _switch_to_spool(self, error: Exception) -> None:
        """The sink failed: reset this split's counts, and send its events to the spool."""
        self._sink_writer = None
        self._rejects.clear()
        self.delivered.accepted = self.delivered.dead = 0
        self.spool.activate()
        cause = error.summary if isinstance(error, DeliveryFailedError) else str(error)
        text = f"{cause}; its events wait in the spool"
        log.warning("%s: %s", self.backoff.subject, text, extra={"notice": Notice(self.backoff.subject, text, 1, 0.0)})

    def _wait_for_room(self) -> None:
        while self.spool.bytes() >= self.max_bytes:
            self.backoff.wait(f"its spool is full ({self.max_bytes} bytes)")
        self.backoff.succeeded()

    def _spooled_file(self, events: int, delivered: bool = False) -> Spooled:
        task = self.task
        schema = visible(task.schema).serialize().to_pybytes()
        what = str(self.path), self.source, self.partition, task.split, task.identity, schema
        return Spooled(*what, events, delivered, task.part, task.order, task.ordered)
