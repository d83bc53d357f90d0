"""Runs the pipelines of a server in one Spark session, each as a run of its own that starts, fails and ends alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from etl.api import ComponentError, EtlError
from etl.config.model import Pipeline
from etl.config.problems import Problem
from etl.running.dead_letters.letter_drop import drop_letters
from etl.running.dead_letters.letter_filter import LetterFilter
from etl.running.dead_letters.replay_run import Replay
from etl.running.messages import Message, OnMessage
from etl.running.planning import RunRequest
from etl.running.service import RunService
from etl.running.shared_session import SharedSession
from etl.running.supervision import Status
from etl.server.engine import check_file
from etl.server.jobs_folder import JobFile
from etl.spark.reports.totals import Totals
from etl.spark.state.fingerprint import compare_checkpoints
from etl.spark.state.folder import StateFolder, lock_state
from etl.spark.state.incompatible_changes import refusal_on_server


@dataclass(frozen=True)
class SparkEngine:
    """Runs pipelines in a session; ``request`` holds the options of all runs."""

    session: SharedSession
    request: RunRequest
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def state(self, name: str) -> StateFolder:
        """The state folder of a pipeline: below that of the server."""
        return StateFolder.of("", str(Path(self.request.state or "", name)))

    def prepare(self, name: str, file: JobFile, others: Sequence[Pipeline]) -> SparkPipeline:
        """Check, plan and compare with the state, as `Engine.prepare`."""
        pipeline, warnings = check_file(name, file, others, self.env)
        service = RunService([pipeline], self.request, several=True, shared=self.session)
        run = service.runs[0]
        changes = compare_checkpoints(run.plan, run.state)[1]
        if changes:
            raise ComponentError(refusal_on_server(name, changes, run.state))
        return SparkPipeline(pipeline, warnings, service)

    def replay(self, pipeline: Pipeline, letters: LetterFilter) -> SparkReplay:
        """A replay in the session of the server."""
        return SparkReplay(pipeline, self.state(pipeline.name), letters, self.session)

    def drop(self, pipeline: Pipeline, letters: LetterFilter) -> LetterDrop:
        """A drop, which needs no session."""
        return LetterDrop(pipeline, self.state(pipeline.name), letters)


@dataclass(frozen=True)
class LetterDrop:
    """Settles letters without a replay."""

    pipeline: Pipeline
    state: StateFolder
    letters: LetterFilter

    def run(self, report: OnMessage) -> None:
        """Settle them, and report how many there were."""
        with lock_state(self.state, "stop that run first"):
            dropped = drop_letters(self.pipeline, self.state, self.letters.choose)
        report(Message("dropped", str(dropped), pipeline=self.pipeline.name))

    def stop(self) -> None:
        """It ends by itself, after reading the letters."""


class SparkReplay:
    """A replay in the session of the server."""

    def __init__(self, pipeline: Pipeline, state: StateFolder, letters: LetterFilter, session: SharedSession) -> None:
        self._pipeline, self._state, self._letters, self._session = pipeline, state, letters, session
        self._service: RunService | None = None
        self._stopped = False

    def run(self, report: OnMessage) -> None:
        """Take the letters, and run them one step or sink after the other."""
        begun = Replay.begin(self._pipeline, self._state, self._letters.choose, "stop that run first")
        for note in begun.notes():
            report(Message("replay", note, pipeline=self._pipeline.name))

        def work(service: RunService) -> None:
            self._service = service
            if self._stopped:
                service.stop()
            service.work(lambda message: None if message.event == "running" else report(message))

        if not begun.run(self._session, work, report):
            report(Message("replay", "stopped: the next replay finishes this one", "warning", self._pipeline.name))

    def stop(self) -> None:
        """Stop the current portion, and begin no other."""
        self._stopped = True
        if self._service is not None:
            self._service.stop()


@dataclass(frozen=True)
class SparkPipeline:
    """A planned pipeline."""

    pipeline: Pipeline
    notes: Sequence[Problem]
    service: RunService

    def start(self, on_message: OnMessage, on_end: Callable[[], None]) -> SparkRun:
        """Start it in a thread of its own."""
        run = SparkRun(self.service, on_message)
        run.start(on_end)
        return run


class SparkRun:
    """A run in the session of the server."""

    def __init__(self, service: RunService, on_message: OnMessage) -> None:
        self._service, self._on_message = service, on_message
        self._name = service.runs[0].plan.pipeline
        self._thread: threading.Thread | None = None
        self._error = ""

    @property
    def status(self) -> Status:
        """The status of the supervised run; ``failed`` if it did not come so far."""
        if self._error:
            return "failed"
        return self._service.supervised[0].status if self._service.supervised else "starting"

    @property
    def error(self) -> str:
        """The last failure, or a call of a component that hangs."""
        return self._error or (self._service.supervised[0].problem if self._service.supervised else "")

    @property
    def hanging(self) -> str:
        """A call of a component that does not return."""
        return self._service.supervised[0].hanging if self._service.supervised else ""

    @property
    def call(self) -> str:
        """The call of a component in this process that has been running for longest, and its location; empty if there is none."""
        calls = self._service.runs[0].calls.longer_than(0)
        return f"{calls[0].what} ({calls[0].location()})" if calls else ""

    @property
    def failures(self) -> int:
        """Failures after which it started again."""
        return self._service.supervised[0].failures if self._service.supervised else 0

    @property
    def totals(self) -> Totals:
        """Its totals."""
        return self._service.runs[0].totals

    def start(self, on_end: Callable[[], None]) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._work, args=(on_end,), name=f"run {self._name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the current micro-batch."""
        self._service.stop()

    def cancel(self) -> None:
        """End within the current micro-batch."""
        self._service.cancel()

    def pause(self) -> None:
        """Stop reading after the current micro-batch."""
        self._service.pause()

    def resume(self) -> None:
        """End the pause."""
        self._service.resume()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the thread."""
        assert self._thread is not None
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _work(self, on_end: Callable[[], None]) -> None:
        try:
            self._service.work(self._on_message)
        except Exception as error:
            self._error = str(error) if isinstance(error, (EtlError, OSError)) else f"{type(error).__name__}: {error}"
            self._on_message(Message("failed", self._error, "error", self._name))
        finally:
            on_end()
