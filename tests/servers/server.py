"""What every real server of the tests can do: start, stop, be killed, start again with the same data and the same port."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from servers.process import Command, Process
from servers.watchdog import delete, watchdog

POLL = 0.05
"""Seconds between two looks whether a server is ready."""


class StartError(Exception):
    """A server ended before it was ready, or was not ready in time; the message holds the end of its log."""


class Server:
    """A server with data in a temporary folder of its own.

    A kind of server says how its folder is filled (``prepare``), what is run (``command``) and when it serves (``ready``).
    """

    name: ClassVar[str]
    patience: ClassVar[float] = 120
    """Seconds until a start has failed: a busy machine with two cores starts several at once."""
    stopping: ClassVar[int] = signal.SIGTERM
    """What asks it to end in good order."""
    address: str

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"sluice-{self.name}-"))
        watchdog().tell("keep", self.folder)
        self.process: Process | None = None
        self.prepared = False

    def prepare(self) -> None:
        """Fetch what is needed and fill the folder: once."""

    def command(self) -> Command:
        """What is run."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Whether it serves; ``OSError`` means not yet."""
        raise NotImplementedError

    def launch(self) -> None:
        """Begin to start, and do not wait: several servers start at once in this way."""
        if self.process is None:
            if not self.prepared:
                self.prepare()
                self.prepared = True
            self.process = Process(self.command(), self.log)

    def start(self) -> Self:
        """Start, and wait until it serves."""
        self.launch()
        limit = time.monotonic() + self.patience
        while not self._ready():
            self._check(time.monotonic() < limit)
            time.sleep(POLL)
        return self

    def stop(self) -> None:
        """End it as an administrator does, and wait for its end."""
        if process := self._let_go():
            process.stop(self.stopping)

    def kill(self) -> None:
        """End it as a power failure does."""
        if process := self._let_go():
            process.kill()

    def restart(self) -> None:
        """Stop it if it runs, then start it on its data and its port."""
        self.stop()
        self.start()

    def discard(self) -> None:
        """Kill it and delete its data: the end of a test."""
        self.kill()
        delete(str(self.folder))
        watchdog().tell("drop", self.folder)

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.discard()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.discard()

    def _let_go(self) -> Process | None:
        process, self.process = self.process, None
        return process

    def _ready(self) -> bool:
        try:
            return self.process is not None and self.process.running and self.ready()
        except OSError:
            return False

    def _check(self, in_time: bool) -> None:
        process = self.process
        assert process is not None, f"{self.name} was ended while it was waited for"
        if not process.running:
            what = f"ended with {process.popen.returncode} before it was ready"
        elif not in_time:
            what = f"was not ready within {self.patience:.0f} s"
        else:
            return
        tail = process.tail()
        self.kill()
        raise StartError(f"{self.name} {what}; the end of its log:\n{tail}")


def copy(source: Path, target: Path) -> None:
    """A copy of a prepared folder."""
    shutil.copytree(source, target, dirs_exist_ok=True)
