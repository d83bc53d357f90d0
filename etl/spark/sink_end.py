"""One sink's end in the driver: its committer, and its spool, which the commit of a micro-batch fills."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from etl.api import BatchId, Committer, Staged
from etl.delivery.backoff import Backoff, StopFile
from etl.delivery.sink_writer import DeliveryFailedError
from etl.delivery.spool import SinkSpool, discard_files
from etl.plan.model import Output
from etl.receipts import Spooled
from etl.spark.query_context import made
from etl.spark.state import StateFolder

log = logging.getLogger("sluice.sink")

CATCH_UP_SECONDS = 5.0
"""How long a micro-batch that finds the spool empty waits for its own events to leave it: then the next goes straight."""

POLL_SECONDS = 0.05


@dataclass
class SinkEnd:
    """Queries and the drain take turns. Construction recovers what a killed run left behind.

    With `on_failure: spool` nothing here waits for a sink that is down: where it cannot even be opened, the run begins with
    the detour, and a commit that fails is left to the drain, which does the micro-batch again.
    """

    output: Output
    state: StateFolder
    spool: SinkSpool = field(init=False)
    stuck: threading.Event = field(default_factory=threading.Event)
    """Set while the drain waits for the sink."""
    _committer: Committer | None = field(default=None, init=False)
    _ready: bool = field(default=False, init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.spool = SinkSpool(self.state.spools / self.output.name)
        self.spool.recover()
        if not self._spools:
            self._try(self.make_ready)
        elif not self._can_be_ready():
            self.spool.activate()

    @property
    def _spools(self) -> bool:
        return self.output.sink.on_failure == "spool"

    def backoff(self) -> Backoff:
        """For this sink."""
        return Backoff(f"sink {self.output.name!r}", StopFile(self.state.stopping), self.output.sink.retry)

    def make_ready(self) -> None:
        """Prepare the sink and open its committer, once, before anything is written. Raises OSError when the sink is down."""
        with self._lock:
            if not self._ready:
                self.output.sink.prepare(self.output.schema)
                self._committer = self.output.sink.committer(str(made(self.state.sink(self.output.name))))
                self._ready = True

    def commit(self, batch: BatchId, staged: Sequence[Staged], spooled: Sequence[Spooled]) -> int:
        """Make a micro-batch visible, or part of the spool; a batch that was is not again. Returns how many events that the
        sink took wait nevertheless, until what it staged may be committed behind what waits."""
        with self._lock:
            nothing_to_do = not (staged or spooled or self._ready)
            if nothing_to_do or self.spool.has_batch(batch):
                return 0
            was_empty = self.spool.is_empty
            straight = was_empty and all(item.delivered for item in spooled) and self._straight(batch, staged)
            if straight:
                discard_files(spooled)
                self.spool.deactivate()
                return 0
            if spooled:
                self.spool.add(batch, spooled)
        if was_empty:
            self._catch_up()
        return sum(item.events for item in spooled if item.delivered)

    def commit_once(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Let the committer do it. Raises OSError when the sink is down."""
        with self._lock:
            self.make_ready()
            if self._committer is not None:
                self._committer.commit(batch, staged)

    def tick(self) -> None:
        """Let the committer do what is due."""
        if self._committer is not None and self._lock.acquire(blocking=False):
            try:
                self._committer.tick()
            except OSError as error:
                log.warning("sink %r: %s; what is due is done later", self.output.name, error)
            finally:
                self._lock.release()

    def close(self) -> None:
        """The run ends."""
        if self._committer is not None:
            with self._lock:
                try:
                    self._committer.close()
                except OSError as error:
                    log.warning("sink %r: %s; what could not be finished is left to the next run", self.output.name, error)

    def _straight(self, batch: BatchId, staged: Sequence[Staged]) -> bool:
        """Commit what went to the sink without a detour; False when the spool has to do it."""
        try:
            self._try(lambda: self.commit_once(batch, staged))
        except DeliveryFailedError as error:
            if not self._spools:
                raise
            log.warning("%s; its events wait in the spool", error)
            return False
        return True

    def _try(self, attempt: Callable[[], None]) -> None:
        """Until it works, or raises DeliveryFailedError when tries are counted."""
        backoff, sink = self.backoff(), self.output.sink
        for tries in itertools.count(1):
            try:
                attempt()
                break
            except OSError as error:
                if sink.on_failure != "block" and tries >= sink.retry.attempts:
                    name = f"sink {self.output.name!r}"
                    text = f"{name} could not be opened or committed in {tries} attempts: {error}; nothing is lost"
                    raise DeliveryFailedError(text) from error
                backoff.wait(error)
        backoff.succeeded()

    def _can_be_ready(self) -> bool:
        try:
            self.make_ready()
        except OSError as error:
            log.warning("sink %r: %s; its events wait in the spool", self.output.name, error)
        return self._ready

    def _catch_up(self) -> None:
        """Give the drain a moment. Between two micro-batches is the only time at which the detour can end in order."""
        end, ending = time.monotonic() + CATCH_UP_SECONDS, StopFile(self.state.stopping)
        while time.monotonic() < end and not self.stuck.is_set() and not ending():
            with self._lock:
                if self.spool.is_empty and self._ready:
                    self.spool.deactivate()
                    return
            time.sleep(POLL_SECONDS)
