"""The base class of the real servers: start, stop, kill, and restart with the same data and port."""

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
"""Seconds between two checks whether a server is ready."""


class StartError(Exception):
    """A server ended before it was ready, or was not ready in time; the message has the end of its log."""


class Server:
    """A server with its data in a temporary folder.

    A kind of server says how its folder is filled (``prepare``), what is run (``command``) and when it serves (``ready``).
    """

    name: ClassVar[str]
    patience: ClassVar[float] = 300
    """Seconds after which a start has failed: a busy machine with two cores starts several servers at once."""
    stopping: ClassVar[int] = signal.SIGTERM
    """Signal for an orderly end."""
    parent: ClassVar[Path | None] = None
    """Folder of the folders with data; None is that of temporary files. Tests have them in memory, and wait for no disk."""
    address: str

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"sluice-{self.name}-", dir=self.parent))
        watchdog().tell("keep", self.folder)
        self.process: Process | None = None
        self.prepared = False

    def prepare(self) -> None:
        """Fetch the needed files and fill the folder, once."""

    def command(self) -> Command:
        """Return the command line."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Return whether it is ready; an OSError means not yet."""
        raise NotImplementedError

    def fetch(self) -> None:
        """Fetch the needed files and fill the folder, for a later start. Raises MissingError."""
        if not self.prepared:
            self.prepare()
            self.prepared = True
        self.command()

    def launch(self) -> None:
        """Begin to start without waiting, so that several servers start at once."""
        if self.process is None:
            self.fetch()
            self.process = Process(self.command(), self.log)

    def start(self) -> Self:
        """Start, and wait until it is ready."""
        self.launch()
        limit = time.monotonic() + self.patience
        while not self._ready():
            self._check(time.monotonic() < limit)
            time.sleep(POLL)
        return self

    def stop(self) -> None:
        """Stop it as an administrator does, and wait for its end."""
        if process := self._let_go():
            process.stop(self.stopping)

    def kill(self) -> None:
        """Kill it, as a power failure does."""
        if process := self._let_go():
            process.kill()

    def restart(self) -> None:
        """Stop it if it runs, then start it with its data and port."""
        self.stop()
        self.start()

    def discard(self) -> None:
        """Kill it and delete its data."""
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
    """Copy a prepared folder."""
    shutil.copytree(source, target, dirs_exist_ok=True)
