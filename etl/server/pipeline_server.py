"""The pipelines of a server: deploys, starts and stops them, and follows the folder of their files."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from etl.api import EtlError
from etl.config.model import Pipeline
from etl.config.problems import ConfigError
from etl.delivery.driver_calls import HungCallError
from etl.running.dead_letters.letter_filter import LetterFilter
from etl.running.messages import Message, OnMessage
from etl.server.boards.letter_board import LetterBoard
from etl.server.boards.sample_board import SampleBoard
from etl.server.boards.threshold_board import ThresholdBoard
from etl.server.engine import ConflictError, Engine, PreparedPipeline, check_file
from etl.server.job import Job, JobVersion, Refusal
from etl.server.jobs_folder import FolderContent, JobFile, JobsFolder, Language, check_size
from etl.server.names import PipelineName
from etl.server.rates import Rates
from etl.server.records import Desired, DesiredStates, Version, Versions
from etl.server.secret_values import SecretValues

WATCH_SECONDS = 1.0
"""Seconds between two looks at the folder, and between two samples of the totals."""

RECHECK_SECONDS = 30.0
"""Seconds after which a refused file is checked again: a file of rules may be there now, the disk may have room, the state may be
gone."""

FEW_REFUSED = 10
"""Refused files of which each is checked so often; each of more waits longer, so that all together cost the same."""

_HUNG = frozenset({""})
"""Stands for the files beside one whose check hung: it is checked again at each look, which begins when that has ended."""


class UnknownPipelineError(EtlError):
    """The server has no pipeline of this name."""


class PipelineServer:
    """All pipelines of a folder. Its methods may be called from any thread."""

    def __init__(self, folder: JobsFolder, state: Path, engine: Engine) -> None:
        """``state``: the folder below which each pipeline has its state, and the server its records."""
        self.folder, self.engine = folder, engine
        self.on_change: Callable[[Job], None] = lambda _: None
        """Called with a pipeline whose status or version has changed."""
        self.on_message: OnMessage = lambda _: None
        """Takes the messages of the pipelines, and why a file of the folder is refused."""
        self.secrets = SecretValues()
        self.samples = SampleBoard()
        self.thresholds = ThresholdBoard()
        self.letters = LetterBoard()
        self.versions = Versions(state)
        self._desired = DesiredStates(state)
        self._jobs: dict[PipelineName, Job] = {}
        self._rates: dict[PipelineName, Rates] = {}
        self.refused_files: Mapping[str, str] = {}
        """Files of the folder that are not pipelines of the server, with the reason."""
        self._leaving: list[Job] = []
        """Removed pipelines whose run has not ended yet."""
        self._refused_beside: dict[PipelineName, frozenset[str]] = {}
        """Pipeline whose file is refused, and not for the file itself → the files of the pipelines that ran then."""
        self._recheck_at: dict[PipelineName, float] = {}
        """Pipeline whose file was refused → when it is checked again at the latest, on the monotonic clock."""
        self._files: frozenset[str] = frozenset()
        """The files of the pipelines that run, or are to run, at the last look."""
        self._gone: set[PipelineName] = set()
        """Pipelines whose file was not there at the last look; at the next one they are removed."""
        self._lock = threading.RLock()
        """Held while a file is checked and deployed: two pipelines that exclude each other are not accepted at once."""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="folder", daemon=True)

    # ── Life ──────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Start the pipelines of the folder, and follow it."""
        self._look()
        self._thread.start()

    def stop(self, seconds: float | None = None) -> list[PipelineName]:
        """Stop all pipelines after their micro-batch; returns those that have not ended in time. Their desired states stay."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()
        self.samples.tidy(everything=True)
        jobs = self.jobs()
        for job in jobs:
            job.close()
        return [job.name for job in [*jobs, *self._leaving] if not job.wait(seconds)]

    # ── Reading ───────────────────────────────────────────────────────────────────────────────────

    def jobs(self) -> list[Job]:
        """All pipelines, by name; also while a file is checked, which may take long."""
        known = self._jobs.copy()
        return [known[name] for name in sorted(known)]

    def job(self, name: PipelineName) -> Job:
        """A pipeline. Raises UnknownPipelineError."""
        try:
            return self._jobs[name]
        except KeyError:
            raise UnknownPipelineError(f"there is no pipeline {str(name)!r}") from None

    def read_version(self, name: PipelineName, number: int) -> tuple[Version, str]:
        """A version and its text, whose secrets are masked from now on. Raises EtlError, also for a file whose secrets cannot be
        told because it is not a valid pipeline any more.
        """
        version = self.versions.find(name, number)
        file = version.file(self.folder.path(name, version.language))
        try:
            pipeline, _ = check_file(str(name), file, (), self.engine.env)
        except ConfigError as error:
            raise EtlError(
                f"version {number} is not a valid pipeline any more, and its secrets are not known: {error}"
            ) from error
        text = file.content.decode("utf-8", "replace")
        self.secrets.add(pipeline)
        return version, text

    def rates(self, name: PipelineName) -> Rates:
        """The rates of a pipeline."""
        return self._rates.setdefault(name, Rates())

    # ── Changing ──────────────────────────────────────────────────────────────────────────────────

    def deploy(self, name: PipelineName, content: bytes, language: Language) -> Job:
        """Check a file, write it to the folder, and run it. Raises EtlError, as ConfigError for problems of the file."""
        check_size(len(content))
        file = JobFile(self.folder.path(name, language), content)
        with self._lock:
            prepared = self.engine.prepare(str(name), file, self._others(name))
            self.secrets.add(prepared.pipeline)
            version = JobVersion(file, self._write(name, file))
            job = self._job(name)
            self._refused_beside.pop(name, None)
            job.deploy(version, prepared, self._desired.get(name))
        job.report("deployed", f"version {job.version.number if job.version else ''} is accepted")
        return job

    def _write(self, name: PipelineName, file: JobFile) -> int:
        """Write a version to the records and to the folder, or to neither; returns its number. Raises OSError."""
        known = self.versions.list(name)
        number = self.versions.add(name, file)
        try:
            self.folder.write(name, file.content, file.language)
        except OSError:
            if not known or number != known[-1].number:
                self.versions.undo(name, number)
            raise
        return number

    def validate(self, name: PipelineName, content: bytes, language: Language) -> PreparedPipeline:
        """Check a file as `deploy` does, and change nothing. Raises EtlError."""
        check_size(len(content))
        file = JobFile(self.folder.path(name, language), content)
        return self.engine.prepare(str(name), file, self._others(name))

    def want(self, name: PipelineName, desired: Desired, restart: bool = False) -> Job:
        """Start, stop or pause a pipeline; ``restart``: stop it before. Raises EtlError, and OSError of the records."""
        with self._lock:
            job = self.job(name)
            self._desired.set(name, desired)
            job.want(desired, restart)
        return job

    def replay(self, name: PipelineName, letters: LetterFilter) -> Job:
        """Send dead letters through a pipeline, which stops meanwhile. Raises EtlError."""
        job = self.job(name)
        job.settle("replay", letters)
        return job

    def drop(self, name: PipelineName, letters: LetterFilter) -> Job:
        """Settle dead letters of a pipeline, which stops meanwhile. Raises EtlError."""
        job = self.job(name)
        job.settle("drop", letters)
        return job

    def remove(self, name: PipelineName) -> None:
        """Stop a pipeline and remove its file; its state and its versions stay. Raises EtlError and OSError."""
        with self._lock:
            self.job(name)
            self.folder.remove(name)
            self._forget(name)

    def rollback(self, name: PipelineName, number: int | None = None) -> Job:
        """Deploy an earlier version, by default the one before the desired one, as a new version. Raises EtlError."""
        with self._lock:
            job = self.job(name)
            current = job.version.number if job.version else None
            earlier = [one.number for one in self.versions.list(name) if current is None or one.number < current]
            if number is None and not earlier:
                raise EtlError(f"{name} has no earlier version to go back to")
            version = self.versions.find(name, earlier[-1] if number is None else number)
            return self.deploy(name, version.path.read_bytes(), version.language)

    # ── The folder ────────────────────────────────────────────────────────────────────────────────

    def _watch(self) -> None:
        while not self._ends.wait(WATCH_SECONDS):
            for job in self.jobs():
                if job.run is not None:
                    self.rates(job.name).add(job.run.totals)
            self.samples.tidy()
            with suppress(EtlError, OSError):
                self._look()

    def _look(self) -> None:
        """Make the pipelines agree with the folder."""
        with self._lock:
            content = self.folder.read()  # under the lock: else it could be older than what `deploy` has written
            self._note_files()
            refused = dict(content.refused)
            for name, path in content.unreadable.items():
                if name in self._jobs or self.versions.list(name):
                    self._take_unreadable(name, path, refused.pop(str(path.relative_to(self.folder.root))))
            self._note_refused_files(refused)
            for name, file in content.files.items():
                self._take(name, file)
            self._remove_missing(content)

    def _note_refused_files(self, refused: Mapping[str, str]) -> None:
        """Say which files are refused now and were not before, or for another reason."""
        before, self.refused_files = self.refused_files, refused
        for file, reason in refused.items():
            if before.get(file) != reason:
                self.on_message(Message("refused-file", f"{file} does not run: {reason}", "warning"))

    def _take(self, name: PipelineName, file: JobFile) -> None:
        """Accept or refuse a file that is new or has changed."""
        job = self._jobs.get(name)
        if job is not None and job.version is not None and job.version.file.digest == file.digest:
            job.refusal = None
            return
        is_known = job is not None and job.refusal is not None and job.refusal.digest == file.digest
        if is_known and not self._must_recheck(name):
            return
        job = self._job(name)
        try:
            prepared = self.engine.prepare(str(name), file, self._others(name))
            version = JobVersion(file, self.versions.add(name, file))
        except Exception as error:  # also a defect of a component: the folder is followed on
            self._note_refusal(name, error)
            refusal = Refusal.of(file, error)
            if not is_known or job.refusal is None or job.refusal.reason != refusal.reason:
                job.refuse(refusal)
            self._fall_back(job, file.path)
            return
        self._refused_beside.pop(name, None)
        job.deploy(version, prepared, self._desired.get(name))
        job.report("deployed", f"version {version.number} is accepted")

    def _note_refusal(self, name: PipelineName, error: Exception) -> None:
        """Decide when a refused file that does not change is checked again: at each look if its check goes on, when other
        pipelines run if they were the reason, and later in any case."""
        self._refused_beside.pop(name, None)
        if isinstance(error, HungCallError):
            self._refused_beside[name] = _HUNG
        elif isinstance(error, ConflictError) or not isinstance(error, ConfigError):
            self._refused_beside[name] = self._files
        refused = sum(job.refusal is not None for job in self._jobs.values())
        self._recheck_at[name] = time.monotonic() + RECHECK_SECONDS * max(1.0, refused / FEW_REFUSED)

    def _must_recheck(self, name: PipelineName) -> bool:
        """Whether a refused file that has not changed may be accepted now."""
        is_due = time.monotonic() >= self._recheck_at.get(name, math.inf)
        return is_due or self._refused_beside.get(name, self._files) is not self._files

    def _take_unreadable(self, name: PipelineName, path: Path, reason: str) -> None:
        """Refuse a file that cannot be read; the pipeline runs, or goes on, in its last accepted version."""
        job = self._job(name)
        if job.refusal is None or job.refusal.reason != reason:
            job.refuse(Refusal("", reason, ()))
        self._fall_back(job, path)

    def _fall_back(self, job: Job, path: Path) -> None:
        """After the start of the server: run the last accepted version of a pipeline whose file is refused."""
        versions = self.versions.list(job.name)
        if job.version is None and versions:
            refusal = job.refusal
            try:
                last = JobVersion(versions[-1].file(path), versions[-1].number)
            except OSError as error:
                job.report("refused", f"version {versions[-1].number} cannot be read: {error.strerror}", "error")
                return
            job.deploy(last, None, self._desired.get(job.name))
            job.refusal = refusal

    def _remove_missing(self, content: FolderContent) -> None:
        """Remove pipelines whose file was missing twice: editors replace a file by removing it first. One whose file is there and
        cannot be read goes on."""
        missing = {name for name in self._jobs if not content.has(name)}
        for name in missing & self._gone:
            self._forget(name)
        self._gone = missing - self._gone

    def _forget(self, name: PipelineName) -> None:
        job = self._jobs.pop(name)
        self._rates.pop(name, None)
        self.thresholds.forget(str(name))
        self.letters.forget(str(name))
        self._desired.set(name, None)
        job.report("removed", "its file is removed; it stops after its micro-batch")
        job.close()
        self._refused_beside.pop(name, None)
        self._recheck_at.pop(name, None)
        self._leaving = [one for one in self._leaving if not one.wait(0)] + [job]

    def _job(self, name: PipelineName) -> Job:
        if name not in self._jobs:
            former = [job for job in self._leaving if job.name == name]
            self._jobs[name] = Job(name, self.engine, lambda: self._others(name), self._report, self._hand_on, former)
        return self._jobs[name]

    def _hand_on(self, message: Message) -> None:
        self.on_message(message)

    def _report(self, job: Job) -> None:
        if job.pipeline is not None:
            self.secrets.add(job.pipeline)
        self.on_change(job)

    def _others(self, name: PipelineName) -> Sequence[Pipeline]:
        """The pipelines that run, or are to run, beside this one."""
        return [job.pipeline for job in self._candidates() if job.name != name and job.pipeline is not None]

    def _note_files(self) -> None:
        files = frozenset(job.version.file.digest + str(job.name) for job in self._candidates() if job.version is not None)
        if files != self._files:  # else the same object, so that comparing it takes no time
            self._files = files

    def _candidates(self) -> list[Job]:
        """Pipelines that may run; a removed one counts until its run has ended."""
        return [job for job in [*self._jobs.values(), *self._leaving] if job.may_run]
