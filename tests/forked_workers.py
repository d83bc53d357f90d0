"""``pytest --forks N`` collects the tests once, then runs them in N forked processes, which take one group after the other.

Fixtures of the session exist once per process. A process that crashes, or that takes too long for a test, fails this test; what
it had taken is run by a new one. (xdist collects in each process, 9 s of CPU time for our tests, and passes reports on in Python
code of its own, 2 ms a test.)
"""

from __future__ import annotations

import atexit
import ctypes
import mmap
import os
import random
import re
import signal
import struct
import time
import traceback
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

GROUP = pytest.StashKey[str]()
"""What a test's group is called. Neighbours of one group run in one process, in their order."""

_ENDS = pytest.StashKey[list[str]]()
"""When each process ended, to be printed with ``--durations``."""

_NUMBER = struct.Struct("i")

_PR_SET_PDEATHSIG = 1

SENDING_SECONDS = 0.1
"""Reports are sent together so often: each message wakes the first process up."""

MAX_TEST_SECONDS = 1200.0
"""Default for ``--max-test-seconds``: a limit that ends a hang, many times the longest test on a slow machine."""

LOOK_SECONDS = 10.0
"""A hanging test is looked for so often at least."""

ENDING_SECONDS = 120.0
"""Interrupted processes may take so long to end what their fixtures started."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, metavar="N", help="collect once, run the tests in N forked processes")
    parser.addoption(
        "--max-test-seconds",
        type=float,
        default=MAX_TEST_SECONDS,
        metavar="S",
        help="with --forks: end the process of a test that takes longer, with the tracebacks of its threads",
    )


_EXCLUSION = re.compile(r"not \((\w+(?: or \w+)*)\)")
"""The form of ``-m`` that deselects every test with one of its marks, whatever other marks it has."""

_FILE_MARKS = re.compile(r"^pytestmark = (.*)$", re.MULTILINE)


def deselects(config: pytest.Config, marks: Set[str]) -> bool:
    """Whether ``-m "not (… or …)"`` deselects all tests with one of these marks."""
    exclusion = _EXCLUSION.fullmatch(config.option.markexpr)
    return exclusion is not None and bool(marks & set(exclusion[1].split(" or ")))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``--forks``, import no file whose tests are all deselected: for ``make test-quick`` a seventh of the collection."""
    if config.option.forks < 2 or not config.option.markexpr or collection_path.suffix != ".py":
        return None
    found = _FILE_MARKS.search(collection_path.read_text())
    return (found is not None and deselects(config, set(re.findall(r"pytest\.mark\.(\w+)", found[1])))) or None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in forked processes, unless one is enough: then pytest runs them itself."""
    option = session.config.option
    if option.forks < 2 or option.collectonly or session.testsfailed:
        return None
    groups = [list(items) for _, items in groupby(range(len(session.items)), lambda n: group_of(session.items[n]))]
    workers = ForkedWorkers(session, groups)
    try:
        for slot in range(min(option.forks, len(groups))):
            workers.start(slot)
        workers.report()
    finally:
        workers.stop()
    return True


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    if ends := terminalreporter.config.stash.get(_ENDS, []):
        terminalreporter.write_line("forked processes ended: " + ", ".join(ends))


def group_of(item: pytest.Item) -> str:
    return item.stash.get(GROUP, str(item.path))


@dataclass(eq=False)
class _Process:
    """A forked process as the first process sees it."""

    slot: int
    pid: int
    pipe: Connection
    pending: list[int]
    """Tests that it has taken and not reported."""
    hung: bool = False
    ended: int = field(init=False)
    """A file descriptor that is readable when it has ended: its pipe may be held open by processes that it forked."""

    def __post_init__(self) -> None:
        self.ended = os.pidfd_open(self.pid)


@dataclass(frozen=True)
class _Message:
    """What a forked process reports."""

    taken: list[int]
    finished: list[int]
    reports: list[tuple[int | None, dict[str, Any]]]


class ForkedWorkers:
    """Processes forked from this one. The numbers of their groups come from one pipe, each has a pipe for its reports."""

    def __init__(self, session: pytest.Session, groups: list[list[int]]) -> None:
        self.session, self.groups = session, groups
        self.max_test_seconds = session.config.option.max_test_seconds
        self.processes: list[_Process] = []
        shared = memoryview(mmap.mmap(-1, 2 * 8 * session.config.option.forks)).cast("d")
        self.current, self.current_begun = shared[: len(shared) // 2], shared[len(shared) // 2 :]
        """The test that each process runs, and when it began, for the case that the process ends in it or hangs. Each number is
        written at once; ``struct.pack_into`` writes zeros first, and the first process could read these."""
        self.unfinished = len(session.items)
        self.begun = time.monotonic()
        self.queue, end = os.pipe()
        os.set_blocking(end, False)  # an error, should the groups ever be more than the 16,384 that a pipe holds
        for n in range(len(groups)):
            os.write(end, _NUMBER.pack(n))
        os.close(end)
        config = session.config
        config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one folder for all processes
        config.pluginmanager.getplugin("terminalreporter").showfspath = False  # files are mixed in what is printed

    def start(self, slot: int, first: list[int] | None = None) -> None:
        """Start a process, which runs the tests ``first`` before it takes groups."""
        reading, writing = Pipe(duplex=False)
        self.set_current(slot, -1)
        pid = os.fork()
        if not pid:
            reading.close()
            _Worker(self, writing, slot, first or []).run()
        writing.close()
        self.processes.append(_Process(slot, pid, reading, list(first or [])))

    def set_current(self, slot: int, number: int) -> None:
        """Keep which test the process of a slot runs from now on; -1 for none."""
        self.current[slot], self.current_begun[slot] = number, time.monotonic()

    def report(self) -> None:
        """Pass on what the processes report until all have ended. A process that ends early fails the test it ran."""
        while self.processes:
            waited = {one.pipe: one for one in self.processes} | {one.ended: one for one in self.processes}
            ready = {waited[found]: None for found in wait(list(waited), LOOK_SECONDS)}
            for process in ready:
                self._receive(process)
            self._end_hanging()
        if self.unfinished:
            self.session.shouldfail = f"no report came of {self.unfinished} tests"
            raise self.session.Failed(self.session.shouldfail)

    def _receive(self, process: _Process) -> None:
        has_ended = bool(wait([process.ended], 0))
        while process.pipe.poll():
            try:
                message = process.pipe.recv()
            except (EOFError, ConnectionError):
                has_ended = True
                break
            self._pass_on(process, message)
        if has_ended:
            self._ended(process)

    def _pass_on(self, process: _Process, message: _Message) -> None:
        hook = self.session.config.hook
        for number, values in message.reports:
            if number is None:
                report = hook.pytest_report_from_serializable(config=self.session.config, data=values)
            else:
                item = self.session.items[number]
                report = pytest.TestReport(item.nodeid, item.location, {}, "passed", None, **values)
            if self.session.config.option.verbose > 0 and report.when == "call":
                hook.pytest_runtest_logstart(nodeid=report.nodeid, location=report.location)  # the line that a report ends
            hook.pytest_runtest_logreport(report=report)
        self.unfinished -= len(message.finished)
        finished = set(message.finished)
        process.pending = [number for number in (*process.pending, *message.taken) if number not in finished]
        if self.session.shouldfail:
            raise self.session.Failed(self.session.shouldfail)

    def _ended(self, process: _Process) -> None:
        """Wait for a process that has ended or is about to. One that failed is replaced, and its test has failed."""
        status = self._forget(process)
        if not status:
            ends = self.session.config.stash.setdefault(_ENDS, [])
            if self.session.config.option.durations is not None:
                ends.append(f"{process.slot} after {time.monotonic() - self.begun:.0f} s")
            return
        number = int(self.current[process.slot])
        if number < 0:
            return  # before its first test: what it did not run is reported at the end
        item = self.session.items[number]
        text = f"the process of this test ended with {status} in it or after it"
        if process.hung:
            text = f"this test took longer than {self.max_test_seconds:.0f} s; its process was ended and has printed its threads"
        if number in process.pending:
            process.pending.remove(number)
            self.unfinished -= 1
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        self.session.config.hook.pytest_runtest_logreport(report=report)
        if self.session.shouldfail:
            raise self.session.Failed(self.session.shouldfail)
        self.start(process.slot, process.pending)

    def _forget(self, process: _Process) -> int:
        """Wait for the end of a process and return its exit code."""
        status = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        self.processes.remove(process)
        process.pipe.close()
        os.close(process.ended)
        return status

    def _end_hanging(self) -> None:
        """Abort the process of a test that takes too long: Python then prints where each of its threads is."""
        for process in self.processes:
            if not process.hung and time.monotonic() - self.current_begun[process.slot] > self.max_test_seconds:
                process.hung = True
                os.kill(process.pid, signal.SIGABRT)

    def stop(self) -> None:
        """Interrupt the processes that still run, and wait for them: fixtures of theirs end what they started."""
        for process in self.processes:
            os.kill(process.pid, signal.SIGINT)
        limit = time.monotonic() + ENDING_SECONDS
        for process in list(self.processes):
            process.pipe.close()
            if not wait([process.ended], max(limit - time.monotonic(), 0)):
                os.kill(process.pid, signal.SIGKILL)
            self._forget(process)
        os.close(self.queue)


class _Worker:
    """One forked process: runs groups until there are no more."""

    def __init__(self, workers: ForkedWorkers, out: Connection, slot: int, first: list[int]) -> None:
        self.session, self.groups, self.queue, self.out = workers.session, workers.groups, workers.queue, out
        self.workers, self.slot, self.first = workers, slot, first
        self.config = self.session.config
        self.reports: list[tuple[int | None, dict[str, Any]]] = []
        self.number = -1
        self.taken: list[int] = []
        self.finished: list[int] = []
        self.sent = time.monotonic()

    def run(self) -> NoReturn:
        status = 1
        try:
            self._prepare()
            self._run_tests()
            self.config._ensure_unconfigure()  # warnings of the garbage that is left are errors here too
            status = 0
        except (KeyboardInterrupt, BrokenPipeError):  # the first process has ended the session
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self.session._setupstate.teardown_exact(None)
            status = 2
        except BaseException:
            traceback.print_exc()
        finally:
            try:
                atexit._run_exitfuncs()
                self.out.close()
            finally:
                os._exit(status)

    def _prepare(self) -> None:
        """Replace what processes must not share: the terminal, files of captured output, random numbers, and what is done at
        the first process's end."""
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)  # should the first process be killed
        atexit._clear()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started pytest in the background
        plugins = self.config.pluginmanager
        terminal: TerminalReporter = plugins.unregister(name="terminalreporter")
        terminal._tw.flush()
        capture = plugins.getplugin("capturemanager")
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
        random.seed()
        plugins.register(self)

    def _numbers(self) -> Iterator[int | None]:
        yield from self.first
        while number := os.read(self.queue, _NUMBER.size):
            group = self.groups[_NUMBER.unpack(number)[0]]
            self.taken += group
            self._send()
            yield from group
        yield None

    def _run_tests(self) -> None:
        items, hook = self.session.items, self.config.hook
        for number, following in pairwise(self._numbers()):
            self.number = number
            self.workers.set_current(self.slot, number)
            hook.pytest_runtest_protocol(item=items[number], nextitem=None if following is None else items[following])
            self.finished.append(number)
            if time.monotonic() - self.sent > SENDING_SECONDS:
                self._send()
            if self.session.shouldfail or self.session.shouldstop:
                break
        self._send()

    def _send(self) -> None:
        self.out.send(_Message(self.taken, self.finished, self.reports))
        self.taken, self.finished, self.sent = [], [], time.monotonic()
        self.reports.clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect a report. Of a setup or a teardown that passed nobody reads anything, except with ``--durations``."""
        plain = type(report) is pytest.TestReport and report.outcome == "passed" and not hasattr(report, "wasxfail")
        if not plain or report.sections or report.user_properties:
            data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
            self.reports.append((None, data))
        elif report.when == "call" or self.config.option.durations is not None:
            times = {name: getattr(report, name) for name in ("when", "duration", "start", "stop")}
            self.reports.append((self.number, times))
