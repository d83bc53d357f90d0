"""Running a command and seeing what it costs: wall clock, CPU and memory of its whole process tree."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import psutil  # type: ignore[import-untyped]

SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2): orphans become our children, so that their CPU time reaches us."""

FIRST_SECONDS = 0.1
"""The first sample of memory comes early, for commands that end soon."""

ORPHAN_SECONDS = 30.0
"""How long processes may outlive the command that started them."""


_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""An installed program has its byte code; a machine for development may forbid to write it."""


@dataclass
class Cost:
    """What a command cost. ``pss`` are the megabytes of all processes together, by seconds since the start."""

    wall: float
    cpu: float
    code: int
    pss: list[tuple[float, float]] = field(default_factory=list)

    @property
    def peak(self) -> float:
        """Most megabytes seen."""
        return max((megabytes for _, megabytes in self.pss), default=0.0)


class Command:
    """A process and all it starts, sampled while it runs. Only one may run at a time: its CPU is that of all our children."""

    def __init__(self, argv: Sequence[str], folder: Path, env: Mapping[str, str] | None = None, every: float = 0.25) -> None:
        self.stdout, self.stderr = folder / "stdout", folder / "stderr"
        self._argv, self._env, self._every = list(argv), {**_ENVIRONMENT, **(env or {})}, every
        self._samples: list[tuple[float, float]] = []
        self._used: dict[tuple[int, float], float] = {}
        """CPU seconds of each process (by id and birth) when it was last seen."""
        self._ended = threading.Event()

    def __enter__(self) -> Command:
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
        self._others = {child.pid for child in psutil.Process().children()}
        self._cpu = _children_cpu()
        self.began = time.monotonic()
        with self.stdout.open("wb") as out, self.stderr.open("wb") as err:
            self.process = subprocess.Popen(self._argv, env=self._env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            for process in _tree(self._others):
                process.kill()
        self.wait()

    def terminate(self) -> None:
        """Ask it to end, as a service manager does."""
        self.process.terminate()

    def pss(self) -> float:
        """Megabytes at the last sample."""
        return self._samples[-1][1] if self._samples else 0.0

    def wait(self, timeout: float | None = None) -> Cost:
        """Its end and the end of all it started; raises subprocess.TimeoutExpired."""
        code = self.process.wait(timeout)
        wall = time.monotonic() - self.began
        self._ended.set()
        self._sampler.join()
        _reap(self._others)
        children_cpu = _children_cpu() - self._cpu  # not of workers: Spark's daemon does not wait for them
        return Cost(wall, max(children_cpu, sum(self._used.values())), code, self._samples)

    def _sample(self) -> None:
        pause = min(FIRST_SECONDS, self._every)
        while not self._ended.wait(pause):
            self._samples.append((time.monotonic() - self.began, tree_pss(self._others)))
            self._used |= tree_cpu(self._others)
            pause = self._every


def run(argv: Sequence[str], folder: Path, env: Mapping[str, str] | None = None, every: float = 0.25) -> tuple[Cost, str, str]:
    """A command to its end: its cost, its standard output and error. Raises RuntimeError when it fails."""
    os.sync()  # what others wrote is not to be paid by this one
    with Command(argv, folder, env, every) as command:
        cost = command.wait()
    out, err = command.stdout.read_text(errors="replace"), command.stderr.read_text(errors="replace")
    if cost.code:
        raise RuntimeError(f"{' '.join(argv)} ended with {cost.code}:\n{err[-2000:]}")
    return cost, out, err


def tree_pss(others: Collection[int] = ()) -> float:
    """Megabytes (PSS: shared pages counted once) of all our descendants but ``others`` and theirs."""
    total = 0
    for process in _tree(others):
        try:
            total += 0 if _is_vforked(process) else process.memory_full_info().pss
        except psutil.Error:  # it ended meanwhile
            continue
    return total / 1e6


def tree_cpu(others: Collection[int] = ()) -> dict[tuple[int, float], float]:
    """CPU seconds (user and system) of each of these that lives, by its id and the time of its birth."""
    used = {}
    for process in _tree(others):
        try:
            times = process.cpu_times()
            used[process.pid, process.create_time()] = times.user + times.system
        except psutil.Error:
            continue
    return used


def _tree(others: Collection[int]) -> list[psutil.Process]:
    tree = []
    for child in psutil.Process().children():
        if child.pid not in others:
            with suppress(psutil.Error):  # it ended meanwhile
                tree += [child, *child.children(recursive=True)]
    return tree


def _is_vforked(process: psutil.Process) -> bool:
    """Whether it is a JVM's child that has yet to become the program it is to run: its memory is still the JVM's."""
    parent = process.parent()
    return parent is not None and process.exe() == parent.exe() and process.exe().endswith("/java")


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _reap(others: Collection[int]) -> None:
    """Wait for orphans (a JVM outlives its driver by a moment), for only the dead have told their CPU time.

    ``others`` were there before: a server's watchdog lives as long as the benchmark.
    """
    until = time.monotonic() + ORPHAN_SECONDS
    while time.monotonic() < until and (orphans := {child.pid for child in psutil.Process().children()}.difference(others)):
        for orphan in orphans:
            with suppress(ChildProcessError):
                os.waitpid(orphan, os.WNOHANG)
        time.sleep(0.02)
