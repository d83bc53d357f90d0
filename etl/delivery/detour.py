"""An outlet for `on_failure: spool`: what the sink does not take goes to a file instead, a split as a whole.

Every event is written to the file too, for nobody knows before the end whether the sink will take the split. So the sink
gets all of a split in one go, by the task or later out of the spool, under the same name: its ledger or ids keep out what
it has already. Where it has none, the part of a split that it had taken comes again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from etl.api import Rejects, Staged, Task, visible
from etl.columns.texts import owned
from etl.delivery.outlet import NotTakenError, Outlet
from etl.delivery.spool import SinkSpool
from etl.delivery.spool_file import SpoolFile
from etl.delivery.told import Trouble
from etl.delivery.waiting import Patience
from etl.receipts import Delivered, Spooled

log = logging.getLogger("sluice.sink")


@dataclass
class Detour:
    """Feeds an outlet as long as its sink takes events, and a file at the same time.

    ``open`` makes the outlet with what refuses events; it raises NotTakenError when the sink cannot be opened. Memory: that
    of the outlet, and the events of the split that the sink refused.
    """

    task: Task
    source: str
    partition: str
    spool: SinkSpool
    path: Path
    reject: Callable[[Rejects], None]
    patience: Patience
    max_bytes: int
    delivered: Delivered = field(default_factory=Delivered)
    takes_views: bool = False
    spooled: Spooled | None = None
    """What is there for the spool, after `close`."""
    _outlet: Outlet | None = None
    _refused: list[Rejects] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._file = SpoolFile(self.path)

    @property
    def name(self) -> str:
        """The sink's."""
        return self.task.sink

    def begin(self, open_outlet: Callable[[Callable[[Rejects], None], Delivered], Outlet]) -> None:
        """Open the outlet, unless events go to the spool already; then wait until it has room."""
        if self.spool.detour:
            self._wait_for_room()
            return
        try:
            self._outlet = open_outlet(self._refused.append, self.delivered)
        except NotTakenError as error:
            self._leave(error)

    def take(self, batch: pa.RecordBatch) -> None:
        """To the file, and to the sink while it takes events."""
        batch = owned(batch)
        self._file.write(batch)
        if self._outlet is None:
            self.delivered.came += batch.num_rows
        else:
            self._try(lambda outlet: outlet.take(batch))

    def tick(self) -> None:
        """Time has passed."""
        self._try(lambda outlet: outlet.tick())

    def close(self) -> Staged | None:
        """The split ends: at the sink or in the file."""
        staged: list[Staged | None] = []
        self._try(lambda outlet: staged.append(outlet.close()))
        self._file.close()
        if self._outlet is None:
            self.delivered.spooled = self.delivered.came
            self.spooled = self._as_spooled(self.delivered.came) if self.delivered.came else None
            return None
        for rejects in self._refused:
            self.reject(rejects)
        if staged[0] is None:
            self._file.discard()
        elif self.delivered.came:
            self.spooled = self._as_spooled(self.delivered.taken, delivered=True)
        return staged[0]

    def abort(self) -> None:
        """The split failed."""
        if self._outlet is not None:
            self._outlet.abort()
        self._file.discard()

    def _try(self, do: Callable[[Outlet], object]) -> None:
        if self._outlet is None:
            return
        try:
            do(self._outlet)
        except (NotTakenError, OSError) as error:
            with suppress(OSError):
                self._outlet.abort()
            self._leave(error)

    def _leave(self, error: Exception) -> None:
        """The sink takes nothing: what it had taken of this split is forgotten, here and, if it can, by itself."""
        self._outlet = None
        self._refused.clear()
        self.delivered.taken = self.delivered.dead = 0
        self.spool.begin()
        cause = error.briefly if isinstance(error, NotTakenError) else str(error)
        text = f"{cause}; its events wait in the spool"
        log.warning("%s: %s", self.patience.about, text, extra={"trouble": Trouble(self.patience.about, text, 1, 0.0)})

    def _wait_for_room(self) -> None:
        while self.spool.bytes() >= self.max_bytes:
            self.patience.wait(f"its spool is full ({self.max_bytes} bytes)")
        self.patience.over()

    def _as_spooled(self, events: int, delivered: bool = False) -> Spooled:
        task = self.task
        schema = visible(task.schema).serialize().to_pybytes()
        what = str(self.path), self.source, self.partition, task.split, task.identity, schema
        return Spooled(*what, events, delivered, task.part, task.order, task.ordered)
