"""Runs of a pipeline, to the end or in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from etl.api import NOTICE, EtlError
from etl.config.model import Pipeline
from etl.sdk.events import html_table, text_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from etl.running.messages import Message
    from etl.running.service import RunService
    from etl.spark.reports.totals import SinkTotals, Totals

MAX_MESSAGES = 10_000
"""Messages of a run that are held: the latest ones, as a run may have no end."""

_COLUMNS = ("sink", "in", "made", "out", "filtered", "dead", "spooled")


class Run:
    """A run of a pipeline: watch it, stop it, wait for its end. ``with p.start(…) as run:`` stops it after the block."""

    def __init__(
        self,
        name: str,
        value: Mapping[str, Any],
        service: RunService,
        on_message: Callable[[Message], None] | None,
        spark: SparkSession | None = None,
    ) -> None:
        self.name, self._value = name, value
        self.messages: list[Message] = []
        """What the run reports, in its order: ``message.text``, ``.level``, ``.event``; the latest `MAX_MESSAGES`."""
        self._service, self._on_message, self._spark = service, on_message, spark
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name=f"sluice {name}", daemon=True)

    def stop(self) -> Run:
        """Ask the run to end after the current micro-batch, and wait for that. Raises the error of a run that failed."""
        self._service.stop()
        return self.wait()

    def wait(self, timeout: float | None = None) -> Run:
        """Wait for the end, or these seconds at most: then `is_running` is still true. Raises the error of a run that failed."""
        self._thread.join(timeout)
        if self._error is not None and not self._thread.is_alive():
            raise self._error
        return self

    def watch(self, interval: float = 1.0) -> Run:
        """Show the run until it ends: in a notebook its picture with numbers, elsewhere its totals when they change.

        An interrupt ends the watching, not the run. Raises the error of a run that failed.
        """
        from etl.sdk.display import LiveDisplay

        live = LiveDisplay()
        try:
            while self.is_running:
                live.update(self)
                self._thread.join(interval)
        except KeyboardInterrupt:
            return self
        live.update(self)
        return self.wait()

    @property
    def is_running(self) -> bool:
        """Whether the run has not ended."""
        return self._thread.is_alive()

    @property
    def error(self) -> BaseException | None:
        """Why the run failed; None while it runs, and after a good end."""
        return self._error

    @property
    def totals(self) -> Totals:
        """Numbers of events so far: ``totals.read``, ``totals.sinks``, ``totals.dead``, or all as ``totals.as_numbers()``."""
        return self._service.runs[0].totals

    @property
    def sinks(self) -> Mapping[str, SinkTotals]:
        """The totals of each sink: ``run.sinks["main"].accepted``."""
        return dict(self.totals.sinks)

    def __enter__(self) -> Run:
        return self

    def end(self) -> None:
        """As `stop`, without raising the error of a run that failed."""
        self._service.stop()
        self._thread.join()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.end()
        if self._error is not None and kind is None:
            raise self._error

    def __str__(self) -> str:
        return "\n".join([self._headline(), *(f"  {line}" for line in text_table(_COLUMNS, self._rows()))])

    def __repr__(self) -> str:
        return f"<Run {self._headline()}>"

    def _repr_html_(self) -> str:
        from etl.sdk.graph import picture

        return picture(self._value, self._counts()).svg() + html_table(_COLUMNS, self._rows(), self._headline())

    def _counts(self) -> dict[str, str]:
        """Lines of the picture: events read of each source, and delivered by each sink."""
        read = {name: f"{counts.incoming:,} read" for name, counts in list(self.totals.read.items())}
        dead = {":": f"{self.totals.dead:,}"}
        return read | {f":{name}": f"{sink.accepted:,} delivered" for name, sink in self.sinks.items()} | dead

    def _headline(self) -> str:
        state = "running" if self.is_running else "failed" if self._error else "ended"
        read = sum(counts.incoming for counts in list(self.totals.read.values()))
        return f"{self.name}: {state}, {read:,} events read, {self.totals.dead:,} dead letters"

    def _rows(self) -> list[list[str]]:
        return [
            [name, *(f"{number:,}" for number in (s.incoming, s.made, s.accepted, s.filtered, s.dead, s.spooled))]
            for name, s in self.sinks.items()
        ]

    def _begin(self) -> Run:
        self._thread.start()
        return self

    def _work(self) -> None:
        try:
            self._service.work(self._report)
            self._check_end()
        except BaseException as error:  # raised to the caller by `wait`
            self._error = self._explain(error)

    def _explain(self, error: BaseException) -> BaseException:
        """The error, or in its place that the caller's session was stopped, which makes PySpark fail in many ways."""
        from etl.sdk.session import is_stopped

        if self._spark is None or not is_stopped(self._spark):
            return error
        stopped = EtlError("the SparkSession was stopped before the run; nothing is lost: the next run continues where it was")
        stopped.__cause__ = error
        return stopped

    def _check_end(self) -> None:
        """Raises EtlError when too many events became dead letters."""
        limit = self._service.request.max_dead
        for share in self._service.shares:
            if share.check_end():
                raise EtlError(f"{share.description}, more than max_dead={limit:g} allows; the next run continues after them")

    def _report(self, message: Message) -> None:
        self.messages.append(message)
        if len(self.messages) > MAX_MESSAGES:
            del self.messages[0]
        if self._on_message is not None:
            self._on_message(message)


def start(
    pipeline: Pipeline,
    value: Mapping[str, Any],
    *,
    spark: SparkSession | None = None,
    on_message: Callable[[Message], None] | None = None,
    settings: Mapping[str, str] | None = None,
    master: str = "local[*]",
    new_state: Sequence[str] = (),
    **request: Any,
) -> Run:
    """Begin a run of a pipeline, which has this value as a file, in a thread. Raises EtlError when the pipeline cannot run."""
    from etl.running.planning import RunRequest
    from etl.running.service import RunService
    from etl.sdk.session import register, shared_session, wrap_session

    shared = shared_session(master, settings) if spark is None else wrap_session(spark)
    requested = RunRequest(master=shared.master, new_state=tuple(new_state), log_level=NOTICE, **request)
    run = Run(pipeline.name, value, RunService([pipeline], requested, shared=shared), on_message, spark)
    if spark is None:
        register(run)
    return run._begin()
