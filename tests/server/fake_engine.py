"""An engine without Spark: it checks files as the real one does, and its runs do nothing but change their status."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from etl.api import EtlError
from etl.config.model import Pipeline
from etl.config.problems import Problem
from etl.receipts import Counts
from etl.running.dead_letters.letter_filter import LetterFilter
from etl.running.messages import Message, OnMessage
from etl.running.supervision import Status
from etl.server.engine import check_file
from etl.server.jobs_folder import JobFile
from etl.server.spark_engine import LetterDrop
from etl.spark.reports.totals import SinkTotals, Totals
from etl.spark.state.folder import StateFolder


@dataclass
class FakeEngine:
    """Remembers what it has run."""

    root: Path
    env: Mapping[str, str] = field(default_factory=dict)
    unfit: set[str] = field(default_factory=set)
    """Words of files that do not fit their state."""
    broken: set[str] = field(default_factory=set)
    """Words of files whose runs fail before they begin."""
    runs: list[FakeRun] = field(default_factory=list)
    replays: list[FakeReplay] = field(default_factory=list)

    def replay(self, pipeline: Pipeline, letters: LetterFilter) -> FakeReplay:
        self.replays.append(FakeReplay(pipeline.name, letters, error="the disk is full" if letters.code == "broken" else ""))
        return self.replays[-1]

    def drop(self, pipeline: Pipeline, letters: LetterFilter) -> LetterDrop:
        return LetterDrop(pipeline, self.state(pipeline.name), letters)

    def state(self, name: str) -> StateFolder:
        folder = StateFolder(self.root / name)
        folder.prepare()
        return folder

    def prepare(self, name: str, file: JobFile, others: Sequence[Pipeline]) -> FakePrepared:
        pipeline, warnings = check_file(name, file, others, self.env)
        if any(word.encode() in file.content for word in self.unfit):
            raise EtlError("the state of the window does not fit: --new-state")
        return FakePrepared(self, pipeline, warnings, file)


@dataclass
class FakeReplay:
    """A replay that lasts until it is stopped."""

    name: str
    letters: LetterFilter
    error: str = ""
    ends: threading.Event = field(default_factory=threading.Event)

    def run(self, report: OnMessage) -> None:
        if self.error:
            raise EtlError(self.error)
        self.ends.wait(120)
        report(Message("replayed", "7 letters replayed", pipeline=self.name))

    def stop(self) -> None:
        self.ends.set()


@dataclass
class FakePrepared:
    engine: FakeEngine
    pipeline: Pipeline
    notes: Sequence[Problem]
    file: JobFile

    def start(self, on_message: OnMessage, on_end: Callable[[], None]) -> FakeRun:
        run = FakeRun(self.pipeline.name, self.file, on_end)
        self.engine.runs.append(run)
        if any(word.encode() in self.file.content for word in self.engine.broken):
            run.fail("the port is in use")
        else:
            run.status = "running"
            on_message(Message("running", "running", pipeline=self.pipeline.name))
        return run


@dataclass
class FakeRun:
    name: str
    file: JobFile
    on_end: Callable[[], None]
    status: Status = "starting"
    error: str = ""
    failures: int = 0
    call: str = ""
    hanging: str = ""
    totals: Totals = field(default_factory=Totals)
    is_stopped: bool = False
    is_cancelled: bool = False
    hangs: bool = False
    """Whether its micro-batch does not end by itself."""
    ignores_cancel: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        if not self.hangs:
            self._end()

    def cancel(self) -> None:
        self.is_cancelled = True
        if not self.ignores_cancel:
            self._end()

    def _end(self) -> None:
        self.is_stopped = True
        self.status = "ended"
        self._ended.set()

    def end_at_last(self) -> None:
        """What hung in the driver ends."""
        self._end()
        self.on_end()

    def pause(self) -> None:
        self.status = "paused"

    def resume(self) -> None:
        self.status = "running"

    def wait(self, seconds: float | None = None) -> bool:
        return self._ended.wait(seconds)

    def fail(self, error: str) -> None:
        self.error, self.status = error, "failed"
        self._ended.set()
        self.on_end()

    def work(self, events: int, dead: int = 0) -> None:
        """Count events."""
        self.totals.read["main"] = Counts(events, events)
        self.totals.steps["steps[0] filter"] = Counts(events, events - dead, 0, dead)
        self.totals.sinks["main"] = SinkTotals(incoming=events, accepted=events - dead, dead=dead)
        self.totals.dead = dead
