"""Receiving syslog: from a socket to JSON lines on disk, over TCP as fast as it goes and over UDP at a steady rate."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.contenders import PIPELINES
from benchmarks.folders import ROOT, fresh
from benchmarks.measure import Command
from benchmarks.processes import cpu_of
from benchmarks.results import Result, Row
from benchmarks.senders import DIGITS, SIZE
from benchmarks.settings import Settings

TITLE = "Receiving syslog"
ABOUT = (
    f"A sender of its own process sends messages of {SIZE} bytes over loopback to `etl run` on `local[2]`, which journals them "
    "(`fsync: interval`) and writes them as JSON lines with sender and time, while sender, receiver and Spark share the "
    "machine. TCP is one connection that sends as fast as it is read; the time is from the first byte sent to the last line "
    "on disk. Every message has a number, and the output must hold each once."
)
TCP_RATE = 150_000.0
UDP_RATE = 50_000
UDP_FAST = 100_000
UDP_SECONDS = 20
MESSAGES = 3_000_000
START_LIMIT_SECONDS = 120.0
QUIET_SECONDS = 10.0
"""After so long without a new line, none is awaited."""

_NUMBER = re.compile(rb" n=(\d{%d}) " % DIGITS)
_BLOCK = 1 << 24
_MAX_BYTES = 1 << 23
"""Beyond the largest number sent."""


class OutputNumbers:
    """The output as it grows: how often it holds each number."""

    def __init__(self, file: Path) -> None:
        self._file, self._at = file, 0
        self._times = np.zeros(_MAX_BYTES, np.uint8)
        self.lines = 0

    @property
    def twice(self) -> int:
        """Lines that repeat another."""
        return self.lines - int(np.count_nonzero(self._times))

    def look(self) -> bool:
        """Read what is new; whether anything was."""
        if not self._file.exists():
            return False
        with self._file.open("rb") as file:
            file.seek(self._at)
            block = file.read(_BLOCK)
        block = block[: block.rfind(b"\n") + 1]
        self._at += len(block)
        found = np.array(_NUMBER.findall(block), f"S{DIGITS}").astype(np.int64)
        self.lines += len(found)
        np.add.at(self._times, found, 1)
        return bool(block)


def run(settings: Settings) -> Result:
    """Each way of sending, in a run of the engine of its own."""
    rows = [Row("TCP, newlines", "messages/s", at_least=TCP_RATE), Row("TCP, octet-counted", "messages/s", at_least=TCP_RATE)]
    for row, kind in zip(rows, ("newline", "counted"), strict=True):
        for _ in range(settings.runs):
            _tcp(row, kind)
    for rate in (UDP_RATE, UDP_FAST):
        row = Row(f"UDP at {rate:,} messages/s, lost of {rate * UDP_SECONDS:,}", "messages")
        row.at_most = 0 if rate == UDP_RATE else None
        for _ in range(settings.runs):
            _udp(row, rate)
        rows.append(row)
    return Result("syslog", TITLE, ABOUT, rows)


def _tcp(row: Row, kind: str) -> None:
    folder = fresh("syslog")
    with Command(argv(folder, port := free_port()), folder, every=1.0) as command:
        output = _ready(folder, port, command)
        began, cpu = time.monotonic(), cpu_of(command.process.pid)
        sender = send(kind, port, MESSAGES, 0, output.lines)
        _until(output, output.lines + MESSAGES)
        seconds = time.monotonic() - began
        row.values.append(MESSAGES / seconds)
        row.wall.append(seconds)
        row.cpu.append(cpu_of(command.process.pid) - cpu)
        row.pss.append(command.pss())
        sender.wait()
        _end(command)
    if output.twice:
        raise RuntimeError(f"{output.twice} of {output.lines} lines repeat others")


def _udp(row: Row, rate: int) -> None:
    folder = fresh("syslog")
    count = rate * UDP_SECONDS
    with Command(argv(folder, port := free_port()), folder, every=1.0) as command:
        output = _ready(folder, port, command)
        before, began, cpu = output.lines, time.monotonic(), cpu_of(command.process.pid)
        sender = send("udp", port, count, rate, before)
        while sender.poll() is None:
            time.sleep(0.1)
        _until(output, before + count)
        row.values.append(count - (output.lines - before))
        row.wall.append(time.monotonic() - began)
        row.cpu.append(cpu_of(command.process.pid) - cpu)
        row.pss.append(command.pss())
        _end(command)
    if output.twice:
        raise RuntimeError(f"{output.twice} of {output.lines} lines repeat others")


def argv(folder: Path, port: int) -> list[str]:
    """The command that receives."""
    places = f'sources.main.listen=["tcp://127.0.0.1:{port}", "udp://127.0.0.1:{port}"]'
    options = ["--set", places, "--set", f"sinks.out.path={folder / 'out.json'}", "--log-format", "json"]
    run_options = ["--master", "local[2]", "--state", str(folder / "state")]
    return [sys.executable, "-m", "etl", "run", str(PIPELINES / "syslog.yaml"), *options, *run_options]


def send(kind: str, port: int, count: int, rate: int, first: int) -> subprocess.Popen[bytes]:
    """Start a sender."""
    words: Sequence[object] = (sys.executable, "-m", "benchmarks.senders", kind, port, count, rate, first)
    return subprocess.Popen([str(word) for word in words], cwd=ROOT, stdout=subprocess.DEVNULL)


def free_port() -> int:
    """A port of loopback that nobody listens at."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _ready(folder: Path, port: int, command: Command) -> OutputNumbers:
    """Wait until some messages have come through: Spark has started, workers have loaded."""
    output, until = OutputNumbers(folder / "out.json"), time.monotonic() + START_LIMIT_SECONDS
    while time.monotonic() < until:
        if command.process.poll() is not None:
            break
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    send("newline", port, 20_000, 0, 0).wait()
    while output.lines < 20_000:
        if command.process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"nothing came out; see {command.stderr}")
        if not output.look():
            time.sleep(0.05)
    return output


def _until(output: OutputNumbers, lines: int) -> None:
    """Read the output up to a line, or until no more comes."""
    last = time.monotonic()
    while output.lines < lines and time.monotonic() - last < QUIET_SECONDS:
        if output.look():
            last = time.monotonic()
        else:
            time.sleep(0.02)


def _end(command: Command) -> None:
    command.terminate()
    cost = command.wait(60)
    if cost.code:
        raise RuntimeError(f"exit {cost.code}; see {command.stderr}")
