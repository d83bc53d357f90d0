"""Delivering what waits in a sink's spool, in order, beside the queries."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from etl.api import BatchId, EtlError, Rejects, Staged, Task
from etl.delivery import spool_file
from etl.delivery.backoff import Backoff, RunStopping
from etl.delivery.dead_letters import dead_letters
from etl.delivery.identities import DeadLetterIdentities, EventIdentities
from etl.delivery.sink_writer import SinkWriter
from etl.delivery.spool import SpoolEntry
from etl.receipts import Delivered, Spooled
from etl.spark.query_context import made
from etl.spark.sink_end import SinkEnd
from etl.spark.totals import Totals

POLL_SECONDS = 0.1


@dataclass
class Drain:
    """Empties one sink's spool in a thread of its own, from `start` to `stop`. Memory: one batch of the sink.

    Every file is delivered under the name of the split that it came from, and again if the sink breaks off: what the sink
    has already, its ledger or ids keep out. A file that it has, and that needs no commit, is removed at once.
    """

    pipeline: str
    end: SinkEnd
    dead: SinkEnd
    staging: Path
    totals: Totals
    failure: EtlError | None = field(default=None, init=False)
    tries: int = field(default=0, init=False)
    """Failed ones in a row."""

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name=f"drain {self.name}", daemon=True)

    @property
    def name(self) -> str:
        """The sink's."""
        return self.end.output.name

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End before the next batch."""
        self._stop.set()
        self._thread.join()

    @property
    def settled(self) -> bool:
        """Whether nothing waits any more, or the sink has not taken it in as many tries as it has."""
        gives_up = self.tries >= self.end.output.sink.retry.attempts
        return gives_up or self.failure is not None or self.end.spool.is_empty

    @property
    def stopping(self) -> bool:
        """Whether it is to end."""
        return self._stop.is_set()

    def folder(self, entry: SpoolEntry) -> Path:
        """Where what an entry's tasks stage lies."""
        return self.staging / f"spool of {self.name}" / str(entry.number)

    def letters_batch(self, entry: SpoolEntry) -> BatchId:
        """The micro-batch of an entry's dead letters: no other has its name."""
        return BatchId(f"spool-{self.name}-{self.end.spool.id}", entry.number)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                entry = self.end.spool.first_entry()
                if entry is None:
                    self._stop.wait(POLL_SECONDS)
                else:
                    self._deliver(entry)
        except RunStopping:
            pass
        except EtlError as error:
            self.failure = error
        except Exception as error:
            self.failure = EtlError(f"sink {self.name!r}: {type(error).__name__}: {error}")
            self.failure.__cause__ = error

    def _deliver(self, entry: SpoolEntry) -> None:
        """All of a micro-batch, then its commit."""
        staged: list[Staged] = []
        letters: list[Staged] = []
        for place, item in enumerate(entry.items):
            if not Path(item.path).exists():
                continue
            done = self._deliver_with_retries(entry, place, item)
            staged += done.staged
            letters += done.letters
            self.totals.drained(self.name, done.delivered, item.events)
            if not done.staged and not done.letters:
                Path(item.path).unlink()
        self._backoff().retry_until_done(lambda: self.end.commit_once(entry.batch, staged))
        self._backoff().retry_until_done(lambda: self.dead.commit_once(self.letters_batch(entry), letters))
        self.end.spool.remove(entry)
        shutil.rmtree(self.folder(entry), ignore_errors=True)

    def _deliver_with_retries(self, entry: SpoolEntry, place: int, item: Spooled) -> _Attempt:
        backoff = self._backoff()
        while True:
            attempt = _Attempt(self, entry, place, item, backoff)
            try:
                attempt.run()
            except OSError as error:
                backoff.wait(error)
            else:
                backoff.succeeded()
                return attempt

    def _backoff(self) -> Backoff:
        usual = self.end.backoff()
        return _Noted(usual.subject, lambda: self.stopping or usual.is_stopping(), usual.retry, drain=self)


@dataclass
class _Noted(Backoff):
    """Tells the drain how long it has been waiting."""

    drain: Drain | None = None

    def wait(self, cause: object, min_seconds: float = 0.0) -> None:
        assert self.drain is not None
        self.drain.tries = self.tries + 1
        self.drain.end.stuck.set()
        told = f"{cause}; {self.drain.end.spool.pending_events} events wait in the spool" if not self.tries else cause
        super().wait(told, min_seconds)

    def succeeded(self) -> None:
        assert self.drain is not None
        self.drain.tries = 0
        self.drain.end.stuck.clear()
        super().succeeded()


@dataclass
class _Attempt:
    """One file on its way to the sink, and what the sink refuses on its way to the dead letters."""

    drain: Drain
    entry: SpoolEntry
    place: int
    item: Spooled
    backoff: Backoff
    delivered: Delivered = field(default_factory=Delivered)
    staged: list[Staged] = field(default_factory=list)
    letters: list[Staged] = field(default_factory=list)
    _refused: SinkWriter | None = None

    def __post_init__(self) -> None:
        self._letters = DeadLetterIdentities(self._letters_task().identity)

    def run(self) -> None:
        """Raises OSError when the sink breaks off, and RunStopping with the run."""
        self.drain.end.make_ready()
        sink_writer = self._open(self.drain.end, self._task(), self._reject, self.delivered)
        try:
            for batch in spool_file.batches(Path(self.item.path)):
                if self.drain.stopping:
                    raise RunStopping(f"the run ends while the spool of sink {self.drain.name!r} is delivered")
                sink_writer.write(batch)
            self.staged = [staged for staged in [sink_writer.close()] if staged is not None]
            if self._refused is not None:
                self.letters = [staged for staged in [self._refused.close()] if staged is not None]
        except BaseException:
            for one in [sink_writer, *([self._refused] if self._refused else [])]:
                with suppress(OSError):
                    one.abort()
            raise

    def _open(self, end: SinkEnd, task: Task, reject: Callable[[Rejects], None], delivered: Delivered) -> SinkWriter:
        sink = end.output.sink
        return SinkWriter(
            end.output.name,
            sink,
            sink.open(task),
            reject,
            EventIdentities(task.identity),
            None,
            self.backoff,
            delivered=delivered,
        )

    def _task(self) -> Task:
        item, name = self.item, self.drain.name
        schema = pa.ipc.read_schema(pa.py_buffer(item.schema))
        what = self.drain.pipeline, name, item.split, self._folder(name), schema, self.entry.batch, item.identity
        return Task(*what, item.part, item.order, item.ordered)

    def _reject(self, rejects: Rejects) -> None:
        if self.item.delivered:  # the task that gave it to the sink reported them
            self.delivered.dead -= rejects.events.num_rows
            return
        item, drain = self.item, self.drain
        if self._refused is None:
            self._refused = self._open(drain.dead, self._letters_task(), lambda _: None, Delivered())
        at, identified = f"sink {drain.name}", drain.dead.output.sink.identified
        letters = dead_letters(rejects, drain.pipeline, at, item.source, item.partition)
        self._refused.write(self._letters.add_to(letters, at, rejects.code) if identified else letters)

    def _letters_task(self) -> Task:
        output, split = self.drain.dead.output, f"{self.drain.name}-{self.entry.number:012d}-{self.place}"
        folder, batch = self._folder(output.name), self.drain.letters_batch(self.entry)
        return Task(self.drain.pipeline, output.name, split, folder, output.schema, batch, f"{batch.query}-{split}")

    def _folder(self, name: str) -> str:
        return str(made(self.drain.folder(self.entry) / name))
