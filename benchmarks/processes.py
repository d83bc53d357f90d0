"""What is seen of processes while they work: their CPU, and how far they are."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil  # type: ignore[import-untyped]

from benchmarks.measure import Command
from benchmarks.results import Row


def cpu_of(pid: int) -> float:
    """CPU seconds, user and system, of a process and what it started so far; of those that have ended none."""
    root, total = psutil.Process(pid), 0.0
    for process in [root, *root.children(recursive=True)]:
        with suppress(psutil.Error):
            used = process.cpu_times()
            total += used.user + used.system
    return total


def cpu_of_ended() -> float:
    """CPU seconds of our children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def until(count: Callable[[], int], target: int, command: Command, seconds: float = 300.0, pause: float = 0.05) -> None:
    """Wait for a command to bring a count so far, counted after each pause (seconds). Raises RuntimeError when it ends before, or
    takes longer."""
    end = time.monotonic() + seconds
    while (there := count()) < target:
        if command.process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"{there} of {target}; see {command.stderr}")
        time.sleep(pause)


@contextmanager
def noted(server: int, row: Row, cost: Row, messages: int) -> Iterator[None]:
    """Note what is done here in this process: its rate and CPU in a row, the server's CPU (by its pid) in another."""
    cpu, there, began = time.process_time(), cpu_of(server), time.monotonic()
    yield
    seconds = time.monotonic() - began
    row.values.append(messages / seconds)
    row.wall.append(seconds)
    row.cpu.append(time.process_time() - cpu)
    cost.values.append((cpu_of(server) - there) / messages * 1e6)
