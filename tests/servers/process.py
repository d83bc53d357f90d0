"""One process of a server: in a session of its own, ended by its pid, with its output in a log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from servers.watchdog import watchdog

LAST_LINES = 25
CHILDREN_SECONDS = 120.0


@dataclass(frozen=True)
class Command:
    """A command line with its folder, further environment, and user (None: that of this process)."""

    words: Sequence[object]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    user: int | None = None

    def options(self) -> dict[str, Any]:
        """Return the arguments of ``subprocess.Popen``."""
        options: dict[str, Any] = {"cwd": self.folder, "env": {**os.environ, **self.environment}}
        return options if self.user is None else {**options, "user": self.user, "group": self.user, "extra_groups": ()}


class Process:
    """A running command whose output is appended to ``log``."""

    def __init__(self, command: Command, log: Path) -> None:
        self.log = log
        self.begin = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            words = [str(word) for word in command.words]
            files: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
            self.popen = subprocess.Popen(words, start_new_session=True, **files, **command.options())
        watchdog().tell("run", self.pid)

    @property
    def pid(self) -> int:
        return int(self.popen.pid)

    @property
    def running(self) -> bool:
        return self.popen.poll() is None

    def output(self) -> str:
        """Return its output since its start."""
        with self.log.open("rb") as log:
            log.seek(self.begin)
            return log.read().decode("utf-8", "replace")

    def tail(self) -> str:
        """Return the last lines of its log."""
        return "\n".join(self.output().splitlines()[-LAST_LINES:])

    def stop(self, ask: int = signal.SIGTERM, seconds: float = 120) -> None:
        """Ask it to end and wait; kill it after a time limit, and those of its children that outlive it."""
        children: list[psutil.Process] = []
        if self.running:
            with suppress(psutil.NoSuchProcess):
                children = psutil.Process(self.pid).children(recursive=True)
            self.popen.send_signal(ask)
            with suppress(subprocess.TimeoutExpired):
                self.popen.wait(seconds)
        self.kill()
        _kill(children)

    def kill(self) -> None:
        """SIGKILL for it and its children, and wait for the end of all: those of PostgreSQL are in groups of their own, and hold
        its memory."""
        if self.running:  # else its number may be another's by now
            children = self._children()
            os.killpg(self.pid, signal.SIGKILL)
            self.popen.wait()
            _kill(children)
        watchdog().tell("done", self.pid)

    def _children(self) -> list[psutil.Process]:
        """Return its children; it is stopped first, so that it cannot create more."""
        self.popen.send_signal(signal.SIGSTOP)
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []


def _kill(processes: list[psutil.Process]) -> None:
    """SIGKILL for processes that still run, and wait for their end."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    limit = time.monotonic() + CHILDREN_SECONDS
    while any(map(_lives, processes)) and time.monotonic() < limit:
        time.sleep(0.01)


def _lives(process: psutil.Process) -> bool:
    """Return whether a process runs; False for a zombie."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
