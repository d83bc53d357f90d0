"""The zygote: a process that has loaded all modules that Spark's Python processes need, and forks these processes.

Spark starts a Python interpreter for the daemon of workers, for two or three planners, and for each streaming query. Each would
load the same modules for half a second or more; forks start at once and share the zygote's memory. `interpreter` starts the
zygote; `launcher`, which Spark starts instead of Python, requests forks. A fork takes over the launcher's
arguments, variables, folder and streams, and is killed when the launcher is. The zygote ends with the driver.

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
from etl.spark.startup.forked_process import STREAMS, ProcessRequest, receive_request, run_and_exit, send_request
from etl.spark.startup.worker_preload import prepare

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed import HasFileno

MODULES = (
    "pandas",  # if installed
    "pyarrow.compute",
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "etl.segment.segment_run",
    "etl.spark.datasource",
    "etl.spark.reports.log_relay",
    "etl.spark.splits",
)

LIFELINE = 0
"""The stream on which the driver writes one line (further modules to load) and which it then keeps open."""

COMPILED = "compiled"
"""The argument for a run whose kernels have all been compiled."""

DAEMON = ["-m", "etl.spark.startup.daemon"]
"""The first arguments of Spark's worker daemon."""

ANSWER_SECONDS = 5.0
"""Seconds that a launcher may take to send its request."""


@dataclass(frozen=True)
class Child:
    """A forked process, and the launcher that waits for its exit code."""

    pid: int
    exit_descriptor: int
    """A descriptor that becomes readable when the process ends (pidfd_open)."""
    launcher: socket.socket


@dataclass(frozen=True)
class PreforkedDaemon:
    """A worker daemon forked before its request arrives, and the connection on which it waits for the request."""

    pid: int
    connection: socket.socket

    def send_request(self, request: ProcessRequest) -> bool:
        """Send the request; False if the process has ended."""
        with suppress(OSError), self.connection:
            send_request(self.connection, request)
            return True
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return False


class Zygote:
    """Forks processes on request. It has no threads, because a fork has only the thread that forked."""

    def __init__(self, listener: socket.socket, daemon: PreforkedDaemon | None = None) -> None:
        self._listener, self._daemon = listener, daemon
        self._selector = selectors.DefaultSelector()
        self._selector.register(LIFELINE, selectors.EVENT_READ)
        self._selector.register(listener, selectors.EVENT_READ)

    def serve(self) -> ProcessRequest | None:
        """Serve requests until the driver ends. Returns the request in a forked process, None in the zygote."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == LIFELINE:
                    return None
                if key.data is not None:
                    self._on_ready(key.data, key.fileobj)
                elif (request := self._accept_request()) is not None:
                    return request

    def _on_ready(self, child: Child, ready: int | HasFileno) -> None:
        """Send a launcher the exit code of its process, or kill the process whose launcher has ended."""
        if ready not in self._selector.get_map():
            return  # both have ended
        self._selector.unregister(ready)
        if ready is child.launcher:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(child.exit_descriptor, signal.SIGKILL)
            return
        code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        with suppress(OSError):
            child.launcher.send(b"%d\n" % (code if code >= 0 else 128 - code))
        with suppress(KeyError):
            self._selector.unregister(child.launcher)
        child.launcher.close()
        os.close(child.exit_descriptor)

    def _accept_request(self) -> ProcessRequest | None:
        """Accept one request and fork. Returns the request in the forked process, None in the zygote."""
        launcher, _ = self._listener.accept()
        try:
            request = _read_request(launcher)
            pid = self._take_early_fork(request) or os.fork()
        except (OSError, EOFError, ValueError, TypeError):
            launcher.close()
            return None
        if pid == 0:
            self._close_inherited(launcher)
            return request
        for stream in request.streams:
            os.close(stream)
        child = Child(pid, os.pidfd_open(pid), launcher)
        self._selector.register(child.exit_descriptor, selectors.EVENT_READ, child)
        self._selector.register(launcher, selectors.EVENT_READ, child)
        return None

    def _take_early_fork(self, request: ProcessRequest) -> int:
        """The id of the process forked early for this request; 0 if there is none."""
        if self._daemon is None or request.arguments[:2] != DAEMON:
            return 0
        daemon, self._daemon = self._daemon, None
        return daemon.pid if daemon.send_request(request) else 0

    def _close_inherited(self, launcher: socket.socket) -> None:
        """In a forked process: close all descriptors of the zygote."""
        for key in list(self._selector.get_map().values()):
            if key.fd != LIFELINE:
                os.close(key.fd)
        launcher.close()
        if self._daemon is not None:
            self._daemon.connection.close()
        self._selector.close()


def _read_request(launcher: socket.socket) -> ProcessRequest:
    """Read a launcher's request. Raises OSError, EOFError, ValueError or TypeError for a broken one or another user's."""
    _, user, _ = struct.unpack("3i", launcher.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user != os.getuid():
        raise PermissionError(f"user {user} requests a process of user {os.getuid()}")
    launcher.settimeout(ANSWER_SECONDS)
    launcher.send(b"!")
    request = receive_request(launcher)
    launcher.settimeout(None)
    return request


def prefork_daemon(listener: socket.socket) -> PreforkedDaemon | ProcessRequest:
    """Fork the future worker daemon, which opens slow steps and then waits. Returns its request in that process."""
    here, there = socket.socketpair()
    pid = os.fork()
    if pid:
        there.close()
        return PreforkedDaemon(pid, here)
    here.close()
    listener.close()
    _silence_output()
    open_early()
    try:
        with there:
            return receive_request(there)
    except (OSError, EOFError, ValueError, TypeError):
        os._exit(0)  # the zygote has ended, and so has the driver


def _silence_output() -> None:
    """Discard what libraries print: standard output and error are the driver's until Spark's streams replace them."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(STREAMS):
        os.dup2(nowhere, number)
    os.close(nowhere)


def load(further: Iterable[str], compiled: bool) -> None:
    """Load the modules that forks need, and compiled kernels; forks share this memory."""
    obey()
    gc.disable()
    for module in (*MODULES, *further):
        with suppress(ModuleNotFoundError):
            import_module(module)
    if compiled:
        prepare()
    gc.freeze()  # otherwise the garbage collector of a fork would touch, and so copy, the pages
    gc.enable()


if __name__ == "__main__":
    listening = socket.socket(fileno=int(sys.argv[1]))
    load(sys.stdin.readline().split(), compiled=sys.argv[2] == COMPILED)
    folder = os.path.dirname(listening.getsockname())
    daemon = prefork_daemon(listening) if has_steps_to_open() else None
    request = daemon if isinstance(daemon, ProcessRequest) else Zygote(listening, daemon).serve()
    if request is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        run_and_exit(request)
