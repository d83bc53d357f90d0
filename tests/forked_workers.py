"""``pytest --forks N`` collects the tests once, then runs them in N forked processes, which take one group after the other.

xdist collects in each process (9 s of CPU time for our tests) and passes reports on in Python code of its own (2 ms a test); it
stays for `make test`. Fixtures of the session exist once per process with both.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import time
import traceback
from collections.abc import Iterator
from itertools import groupby, pairwise
from multiprocessing.connection import Connection, Pipe, wait
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

GROUP = pytest.StashKey[str]()
"""What a test's group is called. Neighbours of one group run in one process, in their order."""

_NUMBER = struct.Struct("i")

SENDING_SECONDS = 0.1
"""Reports are sent together so often: each message wakes the first process up."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, metavar="N", help="collect once, run the tests in N forked processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in forked processes, unless one is enough: then pytest runs them itself."""
    option = session.config.option
    if option.forks < 2 or option.collectonly or session.testsfailed:
        return None
    groups = [list(items) for _, items in groupby(range(len(session.items)), lambda n: group_of(session.items[n]))]
    workers = ForkedWorkers(session, groups)
    try:
        for _ in range(min(option.forks, len(groups))):
            workers.start()
        workers.report()
    finally:
        workers.stop()
    return True


def group_of(item: pytest.Item) -> str:
    return item.stash.get(GROUP, str(item.path))


class ForkedWorkers:
    """Processes forked from this one. The numbers of their groups come from one pipe, each has a pipe for its reports."""

    def __init__(self, session: pytest.Session, groups: list[list[int]]) -> None:
        self.session, self.groups = session, groups
        self.pids: dict[Connection, int] = {}
        self.current = mmap.mmap(-1, _NUMBER.size * max(session.config.option.forks, 1))
        """The test that each process runs, for the case that the process ends in it."""
        self.unfinished = len(session.items)
        self.queue, end = os.pipe()
        os.set_blocking(end, False)  # an error, should the groups ever be more than the 16,384 that a pipe holds
        for n in range(len(groups)):
            os.write(end, _NUMBER.pack(n))
        os.close(end)
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one folder for all processes

    def start(self) -> None:
        reading, writing = Pipe(duplex=False)
        slot = len(self.pids)
        pid = os.fork()
        if not pid:
            reading.close()
            _Worker(self.session, self.groups, self.queue, writing, self.current, slot).run()
        writing.close()
        self.pids[reading] = pid

    def report(self) -> None:
        """Pass on what the processes report until all have ended. A process that ends early fails the test it ran."""
        slots = {pipe: slot for slot, pipe in enumerate(self.pids)}
        while self.pids:
            for pipe in wait(list(self.pids)):
                try:
                    self._pass_on(pipe.recv())
                except EOFError:
                    self._ended(pipe, slots[pipe])
        if self.unfinished:
            self.session.shouldfail = f"no report came of {self.unfinished} tests"
            raise self.session.Failed(self.session.shouldfail)

    def _pass_on(self, message: tuple[int, list[tuple[int | None, dict[str, Any]]]]) -> None:
        finished, reports = message
        hook = self.session.config.hook
        for number, values in reports:
            if number is None:
                report = hook.pytest_report_from_serializable(config=self.session.config, data=values)
            else:
                item = self.session.items[number]
                report = pytest.TestReport(item.nodeid, item.location, {}, "passed", None, **values)
            if self.session.config.option.verbose >= 0 and report.when == "call":
                hook.pytest_runtest_logstart(nodeid=report.nodeid, location=report.location)  # the line that a report ends
            hook.pytest_runtest_logreport(report=report)
        self.unfinished -= finished
        if self.session.shouldfail:
            raise self.session.Failed(self.session.shouldfail)

    def _ended(self, pipe: Connection, slot: int) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(self.pids.pop(pipe), 0)[1])
        pipe.close()
        if not status:
            return
        item = self.session.items[_NUMBER.unpack_from(self.current, slot * _NUMBER.size)[0]]
        text = f"the process of this test ended with {status} in it or after it"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        self.session.config.hook.pytest_runtest_logreport(report=report)

    def stop(self) -> None:
        """Interrupt the processes that still run, and wait for them: fixtures of theirs end what they started."""
        for pid in self.pids.values():
            os.kill(pid, signal.SIGINT)
        for pipe, pid in self.pids.items():
            pipe.close()
            os.waitpid(pid, 0)
        self.pids.clear()
        os.close(self.queue)


class _Worker:
    """One forked process: runs groups until there are no more."""

    def __init__(
        self, session: pytest.Session, groups: list[list[int]], queue: int, out: Connection, current: mmap.mmap, slot: int
    ) -> None:
        self.session, self.groups, self.queue, self.out = session, groups, queue, out
        self.current, self.slot = current, slot
        self.config = session.config
        self.reports: list[tuple[int | None, dict[str, Any]]] = []
        self.number = -1
        self.finished, self.sent = 0, time.monotonic()

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
                self.out.close()
            finally:
                os._exit(status)

    def _prepare(self) -> None:
        """Replace what processes must not share: the terminal, files of captured output, random numbers."""
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
        while number := os.read(self.queue, _NUMBER.size):
            yield from self.groups[_NUMBER.unpack(number)[0]]
        yield None

    def _run_tests(self) -> None:
        items, hook = self.session.items, self.config.hook
        for number, following in pairwise(self._numbers()):
            self.number = number
            _NUMBER.pack_into(self.current, self.slot * _NUMBER.size, number)
            hook.pytest_runtest_protocol(item=items[number], nextitem=None if following is None else items[following])
            self.finished += 1
            if time.monotonic() - self.sent > SENDING_SECONDS:
                self._send()
            if self.session.shouldfail or self.session.shouldstop:
                break
        self._send()

    def _send(self) -> None:
        self.out.send((self.finished, self.reports))
        self.finished, self.sent = 0, time.monotonic()
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
