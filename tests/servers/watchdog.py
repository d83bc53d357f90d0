"""A small separate process that ends the servers of a test run, however the run ended: also after kill -9.

It reads one line an order on standard input: ``run PID`` and ``done PID`` for servers, ``keep PATH`` and ``drop PATH`` for
their folders. The pipe's end is the end of the run: the process groups that still run are killed by their own pid, the folders
deleted. (PR_SET_PDEATHSIG would be shorter, but it fires when the thread that started a server ends, and not after a change of
user.)
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from threading import Lock

DELETING_TRIES = 20
LOOK = 1.0
"""Seconds between two checks whether the run still exists."""


class Watchdog:
    """The watchdog as the test run uses it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-S", __file__, str(os.getpid())],
            stdin=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self.lock = Lock()

    def tell(self, order: str, what: object) -> None:
        """Send one command. Threads that start servers may call it."""
        assert self.process.stdin is not None
        with self.lock, suppress(BrokenPipeError):
            self.process.stdin.write(f"{order} {what}\n")
            self.process.stdin.flush()


@cache
def watchdog() -> Watchdog:
    """Return the watchdog of this process, which starts with its first server."""
    return Watchdog()


def watch() -> None:
    """Run the watchdog: read commands until the run ends, then end the remaining servers."""
    pids: set[int] = set()
    folders: set[str] = set()
    for order, what in _orders(int(sys.argv[1])):
        if order in ("run", "done"):
            (pids.add if order == "run" else pids.discard)(int(what))
        else:
            (folders.add if order == "keep" else folders.discard)(what)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    for folder in folders:
        delete(folder)


def _orders(parent: int) -> Iterator[tuple[str, str]]:
    """Yield commands until the pipe or the process of the run ends: a fork of the run may keep the pipe open."""
    pending = b""
    while True:
        if not select.select([0], [], [], LOOK)[0]:
            if os.getppid() != parent:
                return
            continue
        got = os.read(0, 1 << 16)
        *lines, pending = (pending + got).split(b"\n")
        for line in lines:
            order, _, what = line.decode().partition(" ")
            yield order, what
        if not got:
            return


def delete(folder: str) -> None:
    """Delete a folder that ending processes may still use."""
    for _ in range(DELETING_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        time.sleep(0.1)


if __name__ == "__main__":
    watch()
