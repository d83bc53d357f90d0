"""Following a file that grows by 10,000 lines a second with a window: how long until the counts have a line, CPU and memory."""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.contenders import PIPELINES
from benchmarks.folders import fresh
from benchmarks.follow import GROWTH_MB, SETTLED, wait_until
from benchmarks.growing import TICK_SECONDS
from benchmarks.measure import Command, tree_cpu
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "Following a file with a window at 10,000 lines a second"
RATE, ADDRESSES = 10_000, 200
UNMEASURED_SECONDS = 15.0
START_LIMIT_SECONDS = 60.0
MAX_MINUTES = 30.0
ABOUT = (
    f"A writer appends JSON lines with their time, of {ADDRESSES} addresses; a window of ten seconds counts those of "
    "each address and gives every change, on `local[1]` with a trigger of 200 ms. A line is visible when the counts of all "
    "windows and addresses together have reached its number. "
    f"CPU and latencies are those after the first {UNMEASURED_SECONDS:g} seconds; PSS is of all processes."
)


def run(settings: Settings) -> Result:
    """One run, of half an hour at most."""
    folder, minutes = fresh("follow-window"), min(settings.minutes, MAX_MINUTES)
    source, output = folder / "follow.jsonl", folder / "out.json"
    source.write_text(_line(0, time.time()))
    writer, watcher = CountedWriter(source), CountsWatcher(output)
    options = ["--set", f"sources.log.path={source}", "--set", f"sinks.out.path={output}", "--log-format", "json"]
    argv = [sys.executable, "-m", "etl", "run", str(PIPELINES / "follow-window.yaml"), *options]
    with Command([*argv, "--master", "local[1]", "--state", str(folder / "state")], folder, every=1.0) as command:
        wait_until(lambda: output.exists() and output.stat().st_size > 0, command, START_LIMIT_SECONDS)
        watcher.start()
        writer.start()
        time.sleep(UNMEASURED_SECONDS)
        first, before, began = writer.written, sum(tree_cpu().values()), time.monotonic()
        start = began - command.began
        time.sleep(max(10.0, minutes * 60 - UNMEASURED_SECONDS))
        cores = (sum(tree_cpu().values()) - before) / (time.monotonic() - began)
        writer.stop()
        wait_until(lambda: watcher.counted >= writer.written, command, 30.0)
        command.terminate()
        cost = command.wait(60)
        watcher.stop()
    ages = _ages([tick for tick in writer.ticks if tick[1] > first], watcher.totals)
    cuts = statistics.quantiles(ages, n=100)
    rows = [
        Row("append to result, p50", "s", [cuts[49]]),
        Row("append to result, p99", "s", [cuts[98]], at_most=0.7),
        Row("append to result, longest", "s", [max(ages)]),
        Row("CPU", "cores", [cores], at_most=0.8),
        Row("memory, peak", "MB PSS", [cost.peak], at_most=750.0),
        _growth([mb for at, mb in cost.pss if at > start]),
    ]
    return Result("follow-window", f"{TITLE} ({minutes:g} minutes)", ABOUT, rows)


def _growth(samples: list[float]) -> Row:
    """Of memory, as in `benchmarks.follow`."""
    fifth = max(1, round(len(samples) * SETTLED))
    grown = statistics.median(samples[-fifth:]) - statistics.median(samples[fifth : 2 * fifth])
    return Row("memory, growth from the second fifth to the last", "MB PSS", [grown], at_most=GROWTH_MB)


class CountedWriter(threading.Thread):
    """Appends lines evenly until `stop`; ``ticks`` are the times of appends with the number of lines written so far."""

    def __init__(self, file: Path) -> None:
        super().__init__(daemon=True)
        self._file, self._stopped = file, threading.Event()
        self.written = 1
        """The line before the start is one of them."""
        self.ticks: list[tuple[float, int]] = []

    def run(self) -> None:
        """As many lines as the clock asks for, at every tick."""
        began = time.monotonic()
        with self._file.open("ab", buffering=0) as out:
            while not self._stopped.wait(TICK_SECONDS):
                end = 1 + int((time.monotonic() - began) * RATE)
                now = time.time()
                text = "".join(_line(number, now) for number in range(self.written, end))
                self.ticks.append((time.monotonic(), end))
                out.write(text.encode())
                self.written = end

    def stop(self) -> None:
        """Returns when the last line is in the file."""
        self._stopped.set()
        self.join()


class CountsWatcher(threading.Thread):
    """Reads results as they are written; ``totals`` are the times of looking with the number of events that all windows have."""

    def __init__(self, file: Path) -> None:
        super().__init__(daemon=True)
        self._file, self._stopped = file, threading.Event()
        self._counts: dict[tuple[str, str], int] = {}
        self.counted = 0
        self.totals: list[tuple[float, int]] = []

    def run(self) -> None:
        """Until `stop`."""
        rest = b""
        with self._file.open("rb", buffering=0) as lines:
            while not self._stopped.wait(TICK_SECONDS / 2):
                block = rest + (lines.read(1 << 24) or b"")
                end = block.rfind(b"\n") + 1
                now, rest = time.monotonic(), block[end:]
                for line in block[:end].splitlines():
                    self._count(json.loads(line))
                if end:
                    self.totals.append((now, self.counted))

    def _count(self, window: dict[str, str | int]) -> None:
        key, events = (str(window["window_start"]), str(window["ip"])), int(window["events"])
        self.counted += events - self._counts.get(key, 0)
        self._counts[key] = events

    def stop(self) -> None:
        """The end of watching."""
        self._stopped.set()
        self.join()


def _line(number: int, now: float) -> str:
    at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return f'{{"time":"{at}","ip":"10.0.0.{number % ADDRESSES}"}}\n'


def _ages(ticks: list[tuple[float, int]], totals: list[tuple[float, int]]) -> list[float]:
    """Seconds from each append until the counts have its lines."""
    found, totals_by_time = [], iter(totals)
    now, total = next(totals_by_time)
    for appended, number in ticks:
        while total < number:
            now, total = next(totals_by_time)
        found.append(now - appended)
    return found
