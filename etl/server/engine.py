"""What runs the pipelines of a server, as a protocol: Spark in a server, something without Spark in tests of the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from etl.config.checks.published import check_published
from etl.config.checks.targets import find_new_conflicts
from etl.config.loader import inspect, inspect_content
from etl.config.model import Pipeline
from etl.config.problems import ConfigError, Problem
from etl.delivery.call_thread import CallThread
from etl.delivery.driver_calls import HungCallError
from etl.running.dead_letters.letter_filter import LetterFilter
from etl.running.messages import OnMessage
from etl.running.supervision import Status
from etl.server.jobs_folder import JobFile
from etl.spark.reports.totals import Totals
from etl.spark.state.folder import StateFolder

CHECK_SECONDS = 30.0
"""Seconds that the check of a file may take."""

T = TypeVar("T")

_long_checks: dict[str, tuple[str, CallThread]] = {}
"""Pipeline → the digest of a file, and its check that did not end in time."""


class ConflictError(ConfigError):
    """The file has problems beside the pipelines that run, which end with those."""


class EngineRun(Protocol):
    """A running pipeline."""

    @property
    def status(self) -> Status:
        """What it is doing."""

    @property
    def error(self) -> str:
        """The last failure; empty while it runs."""

    @property
    def hanging(self) -> str:
        """A call of a component in this process that does not return; empty if there is none."""

    @property
    def call(self) -> str:
        """The call of a component in this process that has been running for longest, and its location; empty if there is none."""

    @property
    def failures(self) -> int:
        """Failures after which it started again."""

    @property
    def totals(self) -> Totals:
        """Its totals so far."""

    def stop(self) -> None:
        """End it after the current micro-batch; returns at once."""

    def cancel(self) -> None:
        """End it within the current micro-batch, which its next run processes again; returns at once."""

    def pause(self) -> None:
        """Stop reading after the current micro-batch, and go on receiving; returns at once."""

    def resume(self) -> None:
        """End the pause."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended; returns whether it has."""


class LetterTask(Protocol):
    """What settles dead letters of a pipeline that does not run: a replay or a drop."""

    def run(self, report: OnMessage) -> None:
        """Work to the end, or until it is stopped. Raises EtlError."""

    def stop(self) -> None:
        """End a replay after the current micro-batch; the next one finishes it. Callable from any thread."""


class PreparedPipeline(Protocol):
    """A pipeline that fits its state, and can start."""

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline."""

    @property
    def notes(self) -> Sequence[Problem]:
        """Warnings about its file."""

    def start(self, on_message: OnMessage, on_end: Callable[[], None]) -> EngineRun:
        """Start it; ``on_end`` is called from any thread when it has ended by itself."""


class Engine(Protocol):
    """Checks, plans and runs pipelines."""

    @property
    def env(self) -> Mapping[str, str]:
        """Values of ``${NAME}`` in files."""

    def prepare(self, name: str, file: JobFile, others: Sequence[Pipeline]) -> PreparedPipeline:
        """Check a file, which need not be there yet, beside ``others`` that run, plan it, and compare it with its state. Writes
        nothing. Raises EtlError, as a ConfigError if the file has problems."""

    def replay(self, pipeline: Pipeline, letters: LetterFilter) -> LetterTask:
        """A replay of the open dead letters that are chosen, through a pipeline that does not run; not yet started."""

    def drop(self, pipeline: Pipeline, letters: LetterFilter) -> LetterTask:
        """What settles the open dead letters that are chosen without a replay; not yet started."""

    def state(self, name: str) -> StateFolder:
        """The state folder of a pipeline."""


def check_file(
    name: str, file: JobFile, others: Sequence[Pipeline], env: Mapping[str, str]
) -> tuple[Pipeline, Sequence[Problem]]:
    """The pipeline of a file beside ``others`` that run, and warnings about it.

    Raises ConfigError if the file has problems, as a ConflictError if it has them beside the others, and HungCallError if the
    check takes too long: it opens the files of tables, rules and schemas, which may be on a file system that does not answer.
    """
    checked = _in_time(name, file.digest, lambda: inspect_content(file.path, file.content, env))
    if checked.pipeline is None:
        raise ConfigError(_named(checked.problems, name, file))
    pipeline = replace(checked.pipeline, name=name)
    shared = find_new_conflicts(pipeline, others)
    shared += check_published([pipeline], lambda path: inspect(path, env).pipeline, others)
    if any(problem.severity == "error" for problem in shared):
        raise ConflictError(_named(shared, name, file))
    return pipeline, _named([*checked.problems, *shared], name, file)


def _named(problems: Sequence[Problem], name: str, file: JobFile) -> list[Problem]:
    """The problems with the file of the pipeline called as below the folder of jobs: clients need not know where that is."""
    path, short = str(file.path), f"{name}{file.path.suffix}"
    return [replace(problem, file=short) if problem.file == path else problem for problem in problems]


def _in_time(name: str, digest: str, check: Callable[[], T]) -> T:
    """A check in a thread of its own; no other one of the same pipeline begins while it goes on. What one found that took too
    long is the answer to the next call for the same file."""
    before, calls = _long_checks.get(name, ("", CallThread(lambda: False, max_seconds=CHECK_SECONDS)))
    if before and not calls.hangs:
        del _long_checks[name]
        if before == digest:
            found: T = calls.late_result()
            return found
        before, calls = "", CallThread(lambda: False, max_seconds=CHECK_SECONDS)
    try:
        return calls.run(check, f"the check of {name}")
    except HungCallError as error:
        _long_checks[name] = before or digest, calls
        raise HungCallError(f"{error}; if it ends, its result counts: deploy the same file again") from None
