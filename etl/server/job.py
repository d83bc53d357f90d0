"""One pipeline of a server: a thread that makes what runs agree with the desired version and the desired state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from etl.api import EtlError
from etl.config.model import Pipeline
from etl.config.problems import ConfigError, Problem
from etl.running.dead_letters.letter_filter import LetterFilter
from etl.running.message_log import MessageLog
from etl.running.messages import Message, OnMessage
from etl.running.supervision import FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS
from etl.server.engine import Engine, EngineRun, PreparedPipeline
from etl.server.jobs_folder import JobFile
from etl.server.letter_requests import LetterRequest, LetterRequests, LetterVerb
from etl.server.names import PipelineName
from etl.server.records import Desired

CANCEL_SECONDS = 90.0
"""Seconds that a pipeline which stops has for its micro-batch. Service managers give the server 120 s."""

FORMER_CHECK_SECONDS = 0.2
"""How often a pipeline looks whether a removed one of its name has stopped."""

HANG_SECONDS = 15.0
"""Seconds that it then has to end. What hangs longer waits in code of this process, which nothing can end."""

JobStatus: TypeAlias = Literal[
    "starting", "running", "waiting", "stopping", "stopped", "paused", "ended", "failed", "refused", "replaying", "dropping"
]
"""``waiting``: it starts again after a failure; ``ended``: its sources have no more events; ``failed``: it does not start again;
``refused``: its file has problems, and no earlier version runs; ``replaying``: dead letters run through it; ``dropping``: dead
letters are settled without a replay. After these two it goes on."""


@dataclass(frozen=True)
class Refusal:
    """A file that was not accepted; the version before goes on."""

    digest: str
    reason: str
    problems: Sequence[Problem]

    @staticmethod
    def of(file: JobFile, error: Exception) -> Refusal:
        """The refusal of a file for an error."""
        return Refusal(file.digest, failure_reason(error), error.problems if isinstance(error, ConfigError) else ())


def failure_reason(error: Exception) -> str:
    """What an error says; a defect also with its type."""
    return str(error) if isinstance(error, (EtlError, OSError)) else f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class JobVersion:
    """An accepted version and its number."""

    file: JobFile
    number: int


class Job:
    """A pipeline. Methods that change it return at once; its thread carries them out."""

    def __init__(
        self,
        name: PipelineName,
        engine: Engine,
        others: Callable[[], Sequence[Pipeline]],
        on_change: Callable[[Job], None],
        on_message: OnMessage,
        former: Sequence[Job] = (),
    ) -> None:
        """``others``: the pipelines that run beside it; ``on_change``: called when its status has changed; ``on_message``: takes
        its messages and those of its runs; ``former``: removed pipelines of the same name, whose state it takes when they have
        stopped."""
        self.name = name
        self.log = MessageLog(engine.state(str(name)).messages)
        self.version: JobVersion | None = None
        """The desired version."""
        self.desired: Desired = "stopped"
        self.refusal: Refusal | None = None
        self.pipeline: Pipeline | None = None
        """The pipeline of the version that runs, or ran last."""
        self.notes: Sequence[Problem] = ()
        self.run: EngineRun | None = None
        """The current run, or the last one."""
        self._engine, self._others, self._on_change, self._on_message = engine, others, on_change, on_message
        self._changed = threading.Condition()
        self._prepared: PreparedPipeline | None = None
        self._running: JobVersion | None = None
        self._before: JobVersion | None = None
        """The version that ran before, until the new one has begun."""
        self._has_begun = False
        self._stopping = False
        self._hanging: EngineRun | None = None
        """A run that was given up because it did not end."""
        self._is_paused = False
        """Whether the current run is paused."""
        self._restart = False
        self._error = ""
        self._failures = 0
        """Starts that have failed one after the other."""
        self._restarts = 0
        """Failures of starts and of earlier runs."""
        self.created = time.time()
        """When it had no failures, seconds since the epoch."""
        self._retry_at: float | None = None
        self._closing = False
        self._former = former
        self._letter_requests = LetterRequests(engine, str(name), self._changed)
        self._thread = threading.Thread(target=self._conduct, name=f"job {name}", daemon=True)
        self._thread.start()

    # ── Desired state ────────────────────────────────────────────────────────────────────────────

    def deploy(self, version: JobVersion, prepared: PreparedPipeline | None, desired: Desired) -> None:
        """Run this version, if that is desired. ``prepared``: the version, checked and planned."""
        with self._changed:
            self.version, self._prepared, self.desired = version, prepared, desired
            self.refusal, self._retry_at, self._failures, self._error = None, None, 0, ""
            if prepared is not None:
                self.pipeline, self.notes = prepared.pipeline, prepared.notes
            self._changed.notify_all()

    def refuse(self, refusal: Refusal) -> None:
        """Keep the version that runs, and the reason why the new file does not."""
        self.refusal = refusal
        self.report("refused", f"the new file is refused: {refusal.reason}", "error")

    def want(self, desired: Desired, restart: bool = False) -> None:
        """Change the desired state; ``restart``: also when it runs already."""
        with self._changed:
            self.desired = desired
            self._restart = self._restart or restart
            self._retry_at, self._failures = None, 0
            if desired != "stopped" and self._has_ended():
                self._restart = True
            if desired == "stopped":
                self._letter_requests.stop()
            self._changed.notify_all()

    def settle(self, verb: LetterVerb, letters: LetterFilter) -> None:
        """Stop the run after its micro-batch, send dead letters through the desired version or drop them, and go on.

        Raises EtlError if that is going on already, if its run hangs, or if no version was accepted.
        """
        with self._changed:
            if self._is_hanging():
                raise EtlError(f"its run has not ended: {self._error}")
            if self.version is None:
                raise EtlError("its file is refused: no version can take dead letters")
            self._letter_requests.add(LetterRequest(verb, letters))
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the run after its micro-batch, and end the thread; returns at once."""
        with self._changed:
            self._closing = True
            self._letter_requests.close()
            self._changed.notify_all()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end after `close`; returns whether it has come."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # ── What is ───────────────────────────────────────────────────────────────────────────────────

    @property
    def status(self) -> JobStatus:
        """What it is doing."""
        if self._stopping:
            return "stopping"
        request = self._letter_requests.current
        if request is not None and self._hanging is None:
            doing: JobStatus = "replaying" if request.verb == "replay" else "dropping"
            return "stopping" if self._is_at_work() else doing
        if self._is_at_work() and self.run is not None:
            return self.run.status
        if self._hanging is not None and not self._hanging.wait(0):
            return "failed"
        if self._retry_at is not None:
            return "waiting"
        if self.version is None:
            return "refused"
        if self.desired == "stopped":
            return "stopped"
        return self.run.status if self._has_ended() and self.run is not None else "failed" if self._error else "starting"

    @property
    def error(self) -> str:
        """The last failure; empty while it runs."""
        return self._error or (self.run.error if self.run is not None and self._running is not None else "")

    @property
    def hangs(self) -> bool:
        """Whether a call of one of its components does not return."""
        return self._hanging is not None or (self.run is not None and bool(self.run.hanging))

    @property
    def restarts(self) -> int:
        """Failures after which it started again, since the server knows it."""
        return self._restarts + (self.run.failures if self.run is not None else 0)

    @property
    def running_version(self) -> int | None:
        """The number of the version that runs."""
        return self._running.number if self._running is not None and self._is_at_work() else None

    def report(self, event: str, text: str, level: str = "info") -> None:
        """Add a message of the server to the log of the pipeline."""
        message = Message(event, text, level, str(self.name))
        self.log.append(message)
        self._on_message(message)
        self._on_change(self)

    def _take(self, message: Message) -> None:
        if message.event == "running":
            self._has_begun, self._before, self._failures = True, None, 0
        if message.pipeline or message.event != "component":  # else that of the whole process, which each of its runs gets
            self._on_message(message)
        self._on_change(self)

    @property
    def may_run(self) -> bool:
        """Whether it runs, or is to run."""
        return self._is_at_work() or (self.desired != "stopped" and not self._closing)

    def _is_at_work(self) -> bool:
        return self.run is not None and self._running is not None and not self.run.wait(0)

    def _has_ended(self) -> bool:
        return self.run is not None and self._running is not None and self.run.wait(0)

    # ── The thread ────────────────────────────────────────────────────────────────────────────────

    def _conduct(self) -> None:
        """Carry out one change after the other."""
        self._wait_for_former()
        while not (self._closing and not self._is_at_work()):
            with self._changed:
                while not self._is_due():
                    self._changed.wait(None if self._retry_at is None else max(0.0, self._retry_at - time.monotonic()))
            self._step()
            self._on_change(self)

    def _wait_for_former(self) -> None:
        """Wait until removed pipelines of this name have stopped: a state folder has one run."""
        if any(not job.wait(0) for job in self._former):
            self.report("waiting", "its run from before it was removed still stops: it starts when that has ended")
        while not self._closing and any(not job.wait(FORMER_CHECK_SECONDS) for job in self._former):
            pass
        self._former = ()

    def _is_due(self) -> bool:
        return (
            self._closing
            or self._must_settle()
            or self._must_stop()
            or self._must_start()
            or self._must_toggle()
            or self._fell_over()
        )

    def _must_toggle(self) -> bool:
        """Whether the run is to be paused or resumed."""
        return self._is_at_work() and self._is_paused != (self.desired == "paused")

    def _must_stop(self) -> bool:
        if not self._is_at_work():
            return False
        must_change = self.desired == "stopped" or self.version is not self._running
        return self._closing or self._restart or must_change or self._letter_requests.current is not None

    def _must_settle(self) -> bool:
        return self._letter_requests.current is not None and not self._is_at_work() and not self._is_hanging()

    def _must_start(self) -> bool:
        if self._closing or self.desired == "stopped" or self.version is None or self._is_at_work() or self._is_hanging():
            return False
        if self._retry_at is not None:
            return time.monotonic() >= self._retry_at
        return self._running is None or self._restart or self.version is not self._running

    def _fell_over(self) -> bool:
        """Whether the run has ended before it began to work."""
        return self._has_ended() and not self._has_begun and self._retry_at is None and not self._error

    def _step(self) -> None:
        if self._must_stop():
            self._stop()
        elif self._must_settle():
            self._settle_letters()
        elif self._must_start():
            self._start()
        elif self._must_toggle():
            self._toggle()
        elif self._fell_over() and self.run is not None:
            self._after_failure(self.run.error)

    def _stop(self) -> None:
        assert self.run is not None
        self._stopping = True
        self._on_change(self)
        self.run.stop()
        if not self.run.wait(CANCEL_SECONDS):
            text = f"its micro-batch did not end in {CANCEL_SECONDS:g} s: it is cancelled, and the next run processes it again"
            self.report("cancelled", text, "warning")
            self.run.cancel()
            if not self.run.wait(HANG_SECONDS):
                self._abandon()
                return
        self._before = self._running if self._has_begun else self._before
        self._running, self._stopping = None, False

    def _abandon(self) -> None:
        """Give up a run whose code hangs in this process: no thread can be ended from outside."""
        assert self.run is not None
        what = self.run.call or "its code in the driver"
        error = (
            f"hangs: {what} has not ended {HANG_SECONDS:g} s after it was cancelled; it can start again when "
            "that has ended, or when the server was started again"
        )
        self.report("hanging", error, "error")
        with self._changed:
            request = self._letter_requests.withdraw()
        if request is not None:  # reported before the status changes, for which `etl dead` waits
            text = f"the {request.verb} of its dead letters has not begun: its run has not ended"
            self.report(f"{request.verb}-failed", text, "error")
        self._error = error
        self._hanging, self._running, self._stopping = self.run, None, False

    def _is_hanging(self) -> bool:
        """Whether a run that was given up has not ended yet."""
        if self._hanging is not None and self._hanging.wait(0):
            self._hanging, self._error = None, ""
        return self._hanging is not None

    def _start(self) -> None:
        with self._changed:
            goes_on = self._letter_requests.add_unfinished_replay()
        if goes_on:
            self.report("replay", "a replay of dead letters did not end: it goes on, and then the pipeline starts")
            return
        with self._changed:
            version, prepared = self.version, self._prepared
            assert version is not None
            self._prepared, self._restart, self._retry_at, self._error, self._has_begun = None, False, None, "", False
        try:
            prepared = prepared or self._engine.prepare(str(self.name), version.file, self._others())
        except Exception as error:
            self._running = None
            self._after_failure(failure_reason(error))
            return
        self.pipeline, self.notes = prepared.pipeline, prepared.notes
        self._running, self._is_paused = version, False
        before, self.run = self.run, prepared.start(self._take, self._wake)
        self._restarts += before.failures if before is not None else 0

    def _settle_letters(self) -> None:
        """Replay or drop the letters, and report what has failed."""
        with self._changed:
            version = self.version
        assert version is not None
        self._letter_requests.run(
            lambda: self._engine.prepare(str(self.name), version.file, self._others()),
            lambda: self._on_change(self),
            lambda message: self.report(message.event, message.text, message.level),
            self._report_letters_failed,
        )

    def _report_letters_failed(self, request: LetterRequest, error: Exception) -> None:
        hint = "; the next one finishes it" if request.verb == "replay" else ""
        text = f"the {request.verb} of its dead letters has failed{hint}: {failure_reason(error)}"
        self.report(f"{request.verb}-failed", text, "error")

    def _toggle(self) -> None:
        assert self.run is not None
        self._is_paused = not self._is_paused
        if self._is_paused:
            self.run.pause()
        else:
            self.run.resume()

    def _after_failure(self, reason: str) -> None:
        """Go back to the version before, or try again later."""
        before, self._before = self._before, None
        version = self.version
        if before is not None and version is not None and before.file.digest != version.file.digest:
            with self._changed:
                self._running, self.version, self._prepared = None, before, None
            self.refuse(Refusal.of(version.file, EtlError(f"version {version.number} does not start: {reason}")))
            return
        self._failures += 1
        self._restarts += 1
        wait = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (self._failures - 1))
        self._error = reason
        self._retry_at = time.monotonic() + wait
        self._running = None
        self.report("failed", f"does not start: {reason}\nit starts again in {wait:g} s", "error")

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
