"""Delivering the events of a sink's spool, in order, while the queries run."""

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
from etl.spark.commit.sink_committer import SinkCommitter
from etl.spark.query_context import ensure_folder
from etl.spark.reports.totals import Totals

POLL_SECONDS = 0.1
"""Seconds between two looks at a spool that is empty."""


@dataclass
class SpoolDrain:
    """Empties one sink's spool in a thread, from `start` to `stop`. Memory: one batch of the sink.

    Each file is delivered under the name of its split, and again after a failure: the sink's ledger or ids filter out events that
    it already has. A delivered file that needs no commit is removed at once.
    """

    pipeline: str
    sink: SinkCommitter
    dead: SinkCommitter
    staging: Path
    totals: Totals
    failure: EtlError | None = field(default=None, init=False)
    """The error that ended the thread; the run reports it and fails."""
    tries: int = field(default=0, init=False)
    """Failed attempts in a row."""

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name=f"drain {self.name}", daemon=True)

    @property
    def name(self) -> str:
        """The sink's name."""
        return self.sink.output.name

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread before its next batch, and wait for it."""
        self._stop.set()
        self._thread.join()

    @property
    def is_settled(self) -> bool:
        """Whether a run that ends need not wait: the spool is empty, or the sink has failed in all its attempts."""
        gives_up = self.tries >= self.sink.output.sink.retry.attempts
        return gives_up or self.failure is not None or self.sink.spool.is_empty

    @property
    def is_stopping(self) -> bool:
        """Whether the thread is to stop."""
        return self._stop.is_set()

    def folder(self, entry: SpoolEntry) -> Path:
        """The folder for the staged output of an entry, which is what one micro-batch has spooled."""
        return self.staging / f"spool of {self.name}" / str(entry.number)

    def letters_batch(self, entry: SpoolEntry) -> BatchId:
        """The id under which an entry's dead letters are committed, which no micro-batch has."""
        return BatchId(f"spool-{self.name}-{self.sink.spool.id}", entry.number)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                entry = self.sink.spool.first_entry()
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
        """Deliver the files of a micro-batch, then commit."""
        staged: list[Staged] = []
        letters: list[Staged] = []
        for index, item in enumerate(entry.items):
            if not Path(item.path).exists():
                continue
            done = self._deliver_with_retries(entry, index, item)
            staged += done.staged
            letters += done.letters
            self.totals.add_drained(self.name, done.delivered, item.events)
            if not done.staged and not done.letters:
                Path(item.path).unlink()
        self._backoff().retry_until_done(lambda: self.sink.commit_once(entry.batch, staged))
        self._backoff().retry_until_done(lambda: self.dead.commit_once(self.letters_batch(entry), letters))
        self.sink.spool.remove(entry)
        shutil.rmtree(self.folder(entry), ignore_errors=True)

    def _deliver_with_retries(self, entry: SpoolEntry, index: int, item: Spooled) -> _FileDelivery:
        backoff = self._backoff()

        def deliver() -> _FileDelivery:
            delivery = _FileDelivery(self, entry, index, item, backoff)
            delivery.run()
            return delivery

        return backoff.retry_until_done(deliver)

    def _backoff(self) -> Backoff:
        usual = self.sink.backoff()
        return _DrainBackoff(usual.subject, lambda: self.is_stopping or usual.is_stopping(), usual.retry, drain=self)


@dataclass
class _DrainBackoff(Backoff):
    """A backoff that records the failed attempts in the drain."""

    drain: SpoolDrain | None = None

    def wait(self, cause: object, min_seconds: float = 0.0) -> None:
        assert self.drain is not None
        self.drain.tries = self.tries + 1
        self.drain.sink.is_waiting.set()
        text = f"{cause}; {self.drain.sink.spool.pending_events} events wait in the spool" if not self.tries else cause
        super().wait(text, min_seconds)

    def succeeded(self) -> None:
        assert self.drain is not None
        self.drain.tries = 0
        self.drain.sink.is_waiting.clear()
        super().succeeded()


@dataclass
class _FileDelivery:
    """The delivery of one file to the sink, and of the events that the sink rejects to the dead letters."""

    drain: SpoolDrain
    entry: SpoolEntry
    index: int
    item: Spooled
    backoff: Backoff
    delivered: Delivered = field(default_factory=Delivered)
    staged: list[Staged] = field(default_factory=list)
    letters: list[Staged] = field(default_factory=list)
    _letter_writer: SinkWriter | None = None

    def __post_init__(self) -> None:
        self._letters = DeadLetterIdentities(self._letters_task().identity)

    def run(self) -> None:
        """Deliver the file. Raises OSError when the sink fails, and RunStopping when the run stops."""
        self.drain.sink.prepare()
        sink_writer = self._open(self.drain.sink, self._task(), self._reject, self.delivered)
        try:
            for batch in spool_file.batches(Path(self.item.path)):
                if self.drain.is_stopping:
                    raise RunStopping(f"the run stops while the spool of sink {self.drain.name!r} is delivered")
                sink_writer.write(batch)
            self.staged = [staged for staged in [sink_writer.close()] if staged is not None]
            if self._letter_writer is not None:
                self.letters = [staged for staged in [self._letter_writer.close()] if staged is not None]
        except BaseException:
            for one in [sink_writer, *([self._letter_writer] if self._letter_writer else [])]:
                with suppress(OSError):
                    one.abort()
            raise

    def _open(self, committer: SinkCommitter, task: Task, reject: Callable[[Rejects], None], delivered: Delivered) -> SinkWriter:
        sink = committer.output.sink
        return SinkWriter(
            committer.output.name,
            sink,
            sink.open(task),
            reject,
            EventIdentities(task.identity),
            None,
            self.backoff,
            delivered=delivered,
        )

    def _task(self) -> Task:
        item = self.item
        return Task(
            pipeline=self.drain.pipeline,
            sink=self.drain.name,
            split=item.split,
            folder=self._folder(self.drain.name),
            schema=pa.ipc.read_schema(pa.py_buffer(item.schema)),
            batch=self.entry.batch,
            identity=item.identity,
            part=item.part,
            order=item.order,
            ordered=item.ordered,
        )

    def _reject(self, rejects: Rejects) -> None:
        if self.item.delivered:  # the task that wrote to the sink has reported them
            self.delivered.dead -= rejects.events.num_rows
            return
        item, drain = self.item, self.drain
        if self._letter_writer is None:
            self._letter_writer = self._open(drain.dead, self._letters_task(), lambda _: None, Delivered())
        at, identified = f"sink {drain.name}", drain.dead.output.sink.identified
        letters = dead_letters(rejects, drain.pipeline, at, item.source, item.partition)
        self._letter_writer.write(self._letters.add_to(letters, at, rejects.code) if identified else letters)

    def _letters_task(self) -> Task:
        output, split = self.drain.dead.output, f"{self.drain.name}-{self.entry.number:012d}-{self.index}"
        batch = self.drain.letters_batch(self.entry)
        return Task(
            pipeline=self.drain.pipeline,
            sink=output.name,
            split=split,
            folder=self._folder(output.name),
            schema=output.schema,
            batch=batch,
            identity=f"{batch.query}-{split}",
        )

    def _folder(self, name: str) -> str:
        return str(ensure_folder(self.drain.folder(self.entry) / name))
