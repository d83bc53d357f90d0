"""Committing micro-batches to one sink in the driver: through the sink's `Committer`, or into its spool."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from etl.api import BatchId, Committer, ComponentError, EtlError, Staged
from etl.delivery.backoff import Backoff, StopFile
from etl.delivery.driver_calls import DriverCalls, HungCallError
from etl.delivery.sink_writer import DeliveryFailedError
from etl.delivery.spool import SinkSpool, discard_files
from etl.plan.segments import Output
from etl.receipts import Spooled
from etl.spark.query_context import ensure_folder
from etl.spark.state.folder import StateFolder
from etl.system_errors import with_advice

T = TypeVar("T")

log = logging.getLogger("sluice.sink")

CATCH_UP_SECONDS = 5.0
"""Seconds that a commit waits for the drain to empty the spool, so that the next micro-batch can go directly to the sink."""

POLL_SECONDS = 0.05


@dataclass
class SinkCommitter:
    """Commits to one sink; a lock serialises queries and the drain. Construction repairs the state of a killed run.

    With ``on_failure: spool`` nothing here waits for a sink that is down: if the sink cannot be opened, the run starts with an
    active spool, and after a failed commit the drain delivers the micro-batch again.
    """

    output: Output
    state: StateFolder
    calls: DriverCalls = field(default_factory=DriverCalls)
    """Where calls of the sink are recorded while they run."""
    spool: SinkSpool = field(init=False)
    is_waiting: threading.Event = field(default_factory=threading.Event)
    """Set while the drain waits for a sink that is down."""
    _committer: Committer | None = field(default=None, init=False)
    _ready: bool = field(default=False, init=False)
    _unfinished: str = field(default="", init=False)
    """The error of a call that ended within its work; empty if there was none."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.spool = SinkSpool(self.state.spools / self.output.name)
        self.spool.recover()
        if not self._uses_spool:
            self._retry(self.prepare)
        elif not self._try_to_prepare():
            self.spool.activate()

    @property
    def _uses_spool(self) -> bool:
        return self.output.sink.on_failure == "spool"

    def backoff(self) -> Backoff:
        """A new backoff for this sink."""
        return Backoff(f"sink {self.output.name!r}", StopFile(self.state.stopping), self.output.sink.retry)

    def prepare(self) -> None:
        """Prepare the sink and open its committer, once, before the first write. Raises OSError when the sink is down."""
        with self._lock:
            if not self._ready:
                self._committer = self._call("the preparation", self._open)
                self._ready = True

    def _open(self) -> Committer | None:
        self.output.sink.prepare(self.output.schema)
        return self.output.sink.committer(str(ensure_folder(self.state.sink(self.output.name))))

    def commit(self, batch: BatchId, staged: Sequence[Staged], spooled: Sequence[Spooled]) -> int:
        """Commit a micro-batch to the sink, or add it to the spool; repeating it changes nothing.

        Returns the number of events that the sink has accepted but whose staged output must wait until the spool is delivered.
        """
        with self._lock:
            nothing_to_do = not (staged or spooled or self._ready)
            if nothing_to_do or self.spool.has_batch(batch):
                return 0
            was_empty = self.spool.is_empty
            is_direct = was_empty and all(item.delivered for item in spooled) and self._commit_directly(batch, staged)
            if is_direct:
                discard_files(spooled)
                self.spool.deactivate()
                return 0
            if spooled:
                self.spool.add(batch, spooled)
        if was_empty:
            self._wait_for_drain()
        return sum(item.events for item in spooled if item.delivered)

    def commit_once(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Call the sink's committer. Raises OSError when the sink is down."""
        with self._lock:
            self.prepare()
            if self._committer is not None:
                self._call(f"the commit of micro-batch {batch.number}", partial(self._committer.commit, batch, staged))

    def tick(self) -> None:
        """Let the committer do its periodic work."""
        if self._committer is not None and not self._unfinished and self._lock.acquire(blocking=False):
            try:
                self._call("periodic work", self._committer.tick)
            except OSError as error:
                log.warning("sink %r: %s; its periodic work is done later", self.output.name, error)
            finally:
                self._lock.release()

    def close(self) -> None:
        """Close the committer at the end of the run."""
        if self._committer is not None:
            with self._lock:
                try:
                    if not self._unfinished:
                        self._call("the end", self._committer.close)
                except OSError as error:
                    log.warning("sink %r: %s; what could not be finished is left to the next run", self.output.name, error)

    def _call(self, what: str, call: Callable[[], T]) -> T:
        """Call the sink.

        An interruption, or an error that nobody expects, ends a call within its work: a `Committer.close` after it could publish
        events that are not recorded as committed. The committer is not called any more; the next attempt opens another one, which
        repairs the state as after a killed run.
        """
        subject = f"{what} of sink {self.output.name!r} ({self.output.sink.type})"
        if self._unfinished:
            raise ComponentError(f"{subject} is left to the next attempt: {self._unfinished}")
        try:
            return self.calls.run(subject, call)
        except BaseException as error:
            if isinstance(error, HungCallError) or not isinstance(error, (OSError, EtlError)):
                self._unfinished = str(error) or type(error).__name__
            raise

    def _commit_directly(self, batch: BatchId, staged: Sequence[Staged]) -> bool:
        """Commit output that went directly to the sink; False if it must go through the spool."""
        try:
            self._retry(lambda: self.commit_once(batch, staged))
        except DeliveryFailedError as error:
            if not self._uses_spool:
                raise
            log.warning("%s; its events wait in the spool", error)
            return False
        return True

    def _retry(self, attempt: Callable[[], None]) -> None:
        """Retry until success, or raise DeliveryFailedError after the sink's attempts."""
        sink = self.output.sink
        attempts = None if sink.on_failure == "block" else sink.retry.attempts
        try:
            self.backoff().retry_until_done(attempt, attempts)
        except OSError as error:
            text = f"sink {self.output.name!r} could not be opened or committed in {attempts} attempts: {with_advice(error)}"
            raise DeliveryFailedError(f"{text}; nothing is lost") from error

    def _try_to_prepare(self) -> bool:
        try:
            self.prepare()
        except OSError as error:
            log.warning("sink %r: %s; its events wait in the spool", self.output.name, error)
        return self._ready

    def _wait_for_drain(self) -> None:
        """Wait up to `CATCH_UP_SECONDS` for the drain: only between two micro-batches can the spool be deactivated in order."""
        end, is_stopping = time.monotonic() + CATCH_UP_SECONDS, StopFile(self.state.stopping)
        while time.monotonic() < end and not self.is_waiting.is_set() and not is_stopping():
            with self._lock:
                if self.spool.is_empty and self._ready:
                    self.spool.deactivate()
                    return
            time.sleep(POLL_SECONDS)
