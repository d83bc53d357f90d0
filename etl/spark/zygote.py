"""One process that has loaded what Spark's Python processes need, and forks them: those start at once and share its pages.

Spark starts an interpreter for each kind of question, one after the other: the daemon of workers, two or three planners, and a
planner for each query that streams. Each would load the same modules for half a second or more. `etl.spark.interpreter` starts
this process and `etl.spark.launcher` asks it. A fork is what that program is asked to be: it has its variables, folder and
streams, and is killed when it is. The zygote ends with the driver; its forks end as they would without it.

The daemon of workers opens steps that take long, such as thousands of rules (`etl.segment.preopened_steps`). It is forked before
Spark asks for it, so that it opens them while the JVM starts.
"""

from __future__ import annotations

import gc
import os
import selectors
import shutil
import signal
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from etl.lean import obey
from etl.segment.preopened_steps import has_steps_to_open, open_early
from etl.spark.becoming import STREAMS, Wanted, become, received, send
from etl.spark.prepared import prepare

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed import HasFileno

MODULES = (
    "pandas",  # unless the run does without
    "pyarrow.compute",
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "etl.segment.segment_run",
    "etl.spark.datasource",
    "etl.spark.relay",
    "etl.spark.splits",
)

LIFELINE = 0
"""The stream that the driver holds open, once it has written a line: further modules."""

COMPILED = "compiled"
"""The argument that says that all kernels of the run have been compiled."""

DAEMON = ["-m", "etl.spark.daemon"]
"""The first arguments of the process that workers are forked from."""

ANSWER_SECONDS = 5.0
"""How long a launcher may take to say what it wants, which it knows when it comes."""


@dataclass(frozen=True)
class Child:
    """A fork, and the launcher that waits for it."""

    pid: int
    end: int
    """Readable when it has ended (pidfd_open)."""
    launcher: socket.socket


@dataclass(frozen=True)
class Ahead:
    """A fork that waits to be told what it is to be."""

    pid: int
    line: socket.socket

    def told(self, wanted: Wanted) -> bool:
        """Whether it has been told; False where it is gone."""
        with suppress(OSError), self.line:
            send(self.line, wanted)
            return True
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return False


class Zygote:
    """Forks what is asked for. No threads: a fork has only the one that forked."""

    def __init__(self, listener: socket.socket, daemon: Ahead | None = None) -> None:
        self._listener, self._daemon = listener, daemon
        self._selector = selectors.DefaultSelector()
        self._selector.register(LIFELINE, selectors.EVENT_READ)
        self._selector.register(listener, selectors.EVENT_READ)

    def serve(self) -> Wanted | None:
        """Work until the driver is gone; returns what this process is to be where it is a fork, else None."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == LIFELINE:
                    return None
                if key.data is not None:
                    self._look_after(key.data, key.fileobj)
                elif (wanted := self._forked()) is not None:
                    return wanted

    def _look_after(self, child: Child, ready: int | HasFileno) -> None:
        """Tell a launcher how its process ended, or end the process whose launcher is gone."""
        if ready not in self._selector.get_map():
            return  # both ended at once
        self._selector.unregister(ready)
        if ready is child.launcher:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(child.end, signal.SIGKILL)
            return
        code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        with suppress(OSError):
            child.launcher.send(b"%d\n" % (code if code >= 0 else 128 - code))
        with suppress(KeyError):
            self._selector.unregister(child.launcher)
        child.launcher.close()
        os.close(child.end)

    def _forked(self) -> Wanted | None:
        """Take one request; what this process is to be where it is the fork, else None."""
        launcher, _ = self._listener.accept()
        try:
            wanted = _request(launcher)
            pid = self._ahead(wanted) or os.fork()
        except (OSError, EOFError, ValueError, TypeError):
            launcher.close()
            return None
        if pid == 0:
            self._leave(launcher)
            return wanted
        for stream in wanted.streams:
            os.close(stream)
        child = Child(pid, os.pidfd_open(pid), launcher)
        self._selector.register(child.end, selectors.EVENT_READ, child)
        self._selector.register(launcher, selectors.EVENT_READ, child)
        return None

    def _ahead(self, wanted: Wanted) -> int:
        """The process that was begun for this; 0 where none was, or it is gone."""
        if self._daemon is None or wanted.arguments[:2] != DAEMON:
            return 0
        daemon, self._daemon = self._daemon, None
        return daemon.pid if daemon.told(wanted) else 0

    def _leave(self, launcher: socket.socket) -> None:
        """In a fork: hold nothing of the zygote's."""
        for key in list(self._selector.get_map().values()):
            if key.fd != LIFELINE:
                os.close(key.fd)
        launcher.close()
        if self._daemon is not None:
            self._daemon.line.close()
        self._selector.close()


def _request(launcher: socket.socket) -> Wanted:
    """What a launcher wants. Raises OSError, EOFError, ValueError or TypeError when it breaks off or is not this user's."""
    _, user, _ = struct.unpack("3i", launcher.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user != os.getuid():
        raise PermissionError(f"user {user} asks for a process of user {os.getuid()}")
    launcher.settimeout(ANSWER_SECONDS)
    launcher.send(b"!")
    wanted = received(launcher)
    launcher.settimeout(None)
    return wanted


def begin(listener: socket.socket) -> Ahead | Wanted:
    """Fork the process that opens what takes long, and then waits; in that process, what it is to be."""
    here, there = socket.socketpair()
    pid = os.fork()
    if pid:
        there.close()
        return Ahead(pid, here)
    here.close()
    listener.close()
    _silence()
    open_early()
    try:
        with there:
            return received(there)
    except (OSError, EOFError, ValueError, TypeError):
        os._exit(0)  # the zygote is gone, and the driver with it


def _silence() -> None:
    """What libraries print is for nobody yet: standard output and error are the driver's until Spark has given others."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(STREAMS):
        os.dup2(nowhere, number)
    os.close(nowhere)


def load(further: Iterable[str], compiled: bool) -> None:
    """Load what forks need, and where kernels are compiled those, too; what lies in memory then stays there for all."""
    obey()
    gc.disable()
    for module in (*MODULES, *further):
        with suppress(ModuleNotFoundError):
            import_module(module)
    if compiled:
        prepare()
    gc.freeze()  # a fork's collector that looked at it would copy its pages
    gc.enable()


if __name__ == "__main__":
    listening = socket.socket(fileno=int(sys.argv[1]))
    load(sys.stdin.readline().split(), compiled=sys.argv[2] == COMPILED)
    folder = os.path.dirname(listening.getsockname())
    daemon = begin(listening) if has_steps_to_open() else None
    asked_for = daemon if isinstance(daemon, Wanted) else Zygote(listening, daemon).serve()
    if asked_for is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        become(asked_for)
