"""Running pipelines in tests: the command as a user does, or inside the test's process."""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from etl.running.messages import Message
    from etl.running.service import RunService
    from etl.running.shared_session import SharedSession
    from etl.spark.reports.totals import Totals

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Ran:
    """The result of a call of ``etl``."""

    status: int
    out: str
    err: str

    @property
    def done(self) -> dict[str, Any]:
        """The totals that a run with ``--log-format json`` reports at its end."""
        events = [json.loads(line) for line in self.err.splitlines() if line.startswith("{")]
        return next(event for event in events if event["event"] == "done")


class Etl:
    """The command, run as a user does, in a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pipeline(self, text: str, name: str = "pipeline.yaml") -> Path:
        """Write a pipeline file; ``{here}`` is the test's folder."""
        path = self.folder / name
        path.write_text(textwrap.dedent(text).replace("{here}", str(self.folder)))
        return path

    def start(self, *words: object, apart: bool = False) -> subprocess.Popen[str]:
        """Start ``etl`` and do not wait; ``apart``: in its own process group."""
        line = [sys.executable, "-m", "etl", *map(str, words)]
        pipe = subprocess.PIPE
        nothing = subprocess.DEVNULL
        return subprocess.Popen(
            line, cwd=self.folder, stdin=nothing, stdout=pipe, stderr=pipe, text=True, start_new_session=apart
        )

    def __call__(self, *words: object, stdin: str | None = None) -> Ran:
        """Run ``etl`` to its end."""
        line = [sys.executable, "-m", "etl", *map(str, words)]
        given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        ran = subprocess.run(line, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False, **given)
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def here(self, *words: object) -> Ran:
        """Run ``etl`` to its end in this process, which costs a tenth: for a command that starts no Spark."""
        return call_main(self.folder, words)

    def run(self, pipeline: Path, *words: object, stdin: str | None = None) -> Ran:
        """``etl run`` on two cores with a state folder of the test's; without ``--once`` it ends only if its sources do."""
        base = ("run", pipeline, "--master", "local[2]", "--state", self.folder / "state", "--log-format", "json")
        return self(*base, *words, stdin=stdin)


def call_main(folder: Path, words: Iterable[object], shared: SharedSession | None = None) -> Ran:
    """Call the command line in this process, in a folder."""
    from etl.cli.main import main

    out, err = StringIO(), StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(err), packages_as_before():
        try:
            main([str(word) for word in words], shared)
        except SystemExit as ended:
            return Ran(int(ended.code or 0), out.getvalue(), err.getvalue())
    raise AssertionError("the command line ends with SystemExit")


@contextmanager
def packages_as_before() -> Iterator[None]:
    """Afterwards this process may import the packages that it could before: a command forbids pandas to its process, and a Spark
    session of a later test needs it."""
    finders, variables = sys.meta_path.copy(), dict(os.environ)
    try:
        yield
    finally:
        sys.meta_path[:] = [one for one in sys.meta_path if one in finders or type(one).__module__ != "etl.lean"]
        os.environ.clear()
        os.environ.update(variables)


def wait_for_orphans(folder: Path) -> None:
    """Wait until the children of a run that was killed in this folder have ended: its JVM needs a moment to see that, in which
    Spark refuses a second query on its checkpoint. A process of its own takes longer to start."""
    wait_for(lambda: not any(_is_orphan_in(folder, pid) for pid in _pids()), what="the killed run's JVM")


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _is_orphan_in(folder: Path, pid: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(folder) and psutil.Process(pid).ppid() == 1
    except (OSError, psutil.Error):
        return False  # it has ended, or is a zombie, which has no folder


class Engine:
    """Runs inside the test's process, on the session that all tests share."""

    def __init__(self, shared: SharedSession, etl: Etl) -> None:
        self.shared = shared
        self.etl = etl

    def __call__(self, text: str, once: bool = True, drain: bool = False, limit: int | None = None) -> Totals:
        """Run a pipeline to its end; raises what ``etl run`` would print."""
        return self.service(text, once=once, drain=drain, limit=limit).finished()

    def service(self, pipeline: str | Path, env_file: Path | None = None, **asked: Any) -> Running:
        """A pipeline, as text or in a file, that is ready to run; ``asked``: more of its `RunRequest`."""
        from etl.cli.config_options import load_environment
        from etl.config.loader import load
        from etl.running.planning import RunRequest
        from etl.running.service import RunService

        wait_for_orphans(self.etl.folder)
        request = RunRequest(**{"state": str(self.etl.folder / "state"), "master": self.shared.master} | asked)
        path = pipeline if isinstance(pipeline, Path) else self.etl.pipeline(pipeline)
        one = load(path, load_environment(str(env_file) if env_file else None))
        return Running(RunService([one], request, shared=self.shared))

    @contextmanager
    def following(self, pipeline: str | Path, env_file: Path | None = None, **asked: Any) -> Iterator[Running]:
        """Run a pipeline while the body runs; then stop it after its micro-batch. Raises the run's errors."""
        running = self.service(pipeline, env_file, **asked)
        with ThreadPoolExecutor(1) as pool:
            running.future = pool.submit(running.finished)
            try:
                yield running
            finally:
                running.service.stop()
                running.future.result()

    def run(self, pipeline: Path, *words: object) -> Ran:
        """``etl run`` as `Etl.run` calls it, but in this process: for what it prints and its exit status."""
        wait_for_orphans(self.etl.folder)
        base = ("run", pipeline, "--master", self.shared.master, "--state", self.etl.folder / "state", "--log-format", "json")
        return call_main(self.etl.folder, (*base, *words), self.shared)


@dataclass
class Running:
    """A run of one pipeline in this process."""

    service: RunService
    messages: list[Message] = field(default_factory=list)
    future: Future[Totals] | None = None
    """The run's result, if it runs in a thread."""

    @property
    def output(self) -> str:
        """The text of its messages, and the summary of its totals."""
        from etl.cli.run.summary import format_summary

        one = self.service.runs[0]
        return "\n".join([*(message.text for message in self.messages), *format_summary(one.plan, one.totals), ""])

    def says(self, text: str) -> None:
        """Wait until it reports a text; fails when the run ends before."""
        wait_for(lambda: text in self.output or self.ended, what=text)
        assert text in self.output, self.output

    @property
    def ended(self) -> bool:
        """Whether it has ended, also with an error."""
        return self.future is not None and self.future.done()

    @property
    def totals(self) -> Totals:
        """The totals so far."""
        return self.service.runs[0].totals

    def finished(self) -> Totals:
        """Run it to its end and return the totals. Raises the run's errors."""
        self.service.work(self.messages.append)
        return self.totals


def wait_for(condition: Callable[[], bool], seconds: float = 300, what: str = "the condition") -> None:
    """Return when the condition holds; fail after a limit."""
    end = time.monotonic() + seconds
    while True:
        begun = time.thread_time()
        if condition():
            return
        if time.monotonic() >= end:
            faulthandler.dump_traceback(sys.__stderr__)  # where the threads of a run in this process wait
            raise AssertionError(f"{what} did not come true in {seconds} s")
        time.sleep(max(0.05, 10 * (time.thread_time() - begun)))  # looking takes a tenth of a core at most
