"""Following a file that grows by 10,000 lines a second: how long a line takes to come out, and memory over time."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import data
from benchmarks.contenders import PIPELINES
from benchmarks.folders import fresh
from benchmarks.growing import Watcher, Writer
from benchmarks.measure import Command
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "Following a file at 10,000 lines a second"
ABOUT = (
    "A writer appends lines that carry the time of their writing; the pipeline of W1 follows the file on `local[1]` with a "
    "trigger of 200 ms; a watcher tails the output and notes the age of every line when it appears (looking each 5 ms). "
    "Latencies are of all lines, the first after start-up included. PSS is of all processes."
)
RATE = 10_000
P99_SECONDS = 1.0
MEMORY_MB = 900.0
GROWTH_MB = 30.0
START_LIMIT_SECONDS = 60.0
SETTLED = 0.2
"""Memory is called flat by comparing the second fifth of the time with the last: by then everything has run."""


def run(settings: Settings) -> Result:
    """One long run."""
    folder = fresh("follow")
    source, output = folder / "follow.log", folder / "out.json"
    source.write_text("".join(f"{line}\n" for line in data.seed()))
    writer, watcher = Writer(source, RATE), Watcher(output)
    with Command(follow_argv(source, output, folder), folder, every=1.0) as command:
        wait_until(lambda: output.exists() and output.stat().st_size > 0, command, START_LIMIT_SECONDS)
        began = time.monotonic() - command.began
        watcher.start()
        writer.start()
        _follow(settings.minutes * 60, writer, watcher, command)
        wait_until(lambda: watcher.lines >= writer.written, command, 30.0)
        watched = time.monotonic() - command.began
        command.terminate()
        cost = command.wait(60)
        watcher.stop()
    if cost.code or watcher.lines != writer.written:
        raise RuntimeError(f"exit {cost.code}; {watcher.lines} of {writer.written} lines came out: {command.stderr}")
    steady = [(at - began, mb) for at, mb in cost.pss if began < at < watched]
    rows = [*_latencies(watcher.ages), *_memory(steady), Row("CPU", "cores", [cost.cpu / cost.wall])]
    return Result("follow", f"{TITLE} ({settings.minutes:g} minutes)", ABOUT, rows, extra=_by_time(steady, watcher.ages))


def follow_argv(source: Path, output: Path, folder: Path) -> list[str]:
    """The command that follows."""
    options = ["--set", f"sources.log.path={source}", "--set", f"sinks.out.path={output}", "--log-format", "json"]
    run_options = ["--master", "local[1]", "--state", str(folder / "state")]
    return [sys.executable, "-m", "etl", "run", str(PIPELINES / "follow.yaml"), *options, *run_options]


def wait_until(true: Callable[[], bool], command: Command, limit: float) -> None:
    """Wait for a condition while the command runs."""
    until = time.monotonic() + limit
    while not true():
        if command.process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"nothing came out; see {command.stderr}")
        time.sleep(0.01)


def _follow(seconds: float, writer: Writer, watcher: Watcher, command: Command) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 30.0))
        progress = f"{writer.written:,} written, {watcher.lines:,} seen, {command.pss():.0f} MB"
        print(f"  {progress}", file=sys.stderr, flush=True)
        if command.process.poll() is not None:
            raise RuntimeError(f"the run ended; see {command.stderr}")
    writer.stop()


def _latencies(ages: Sequence[tuple[float, float]]) -> list[Row]:
    cuts = statistics.quantiles((age for _, age in ages), n=1000)
    return [
        Row("append to visible, p50", "s", [cuts[499]]),
        Row("append to visible, p99", "s", [cuts[989]], at_most=P99_SECONDS),
        Row("append to visible, p99.9", "s", [cuts[998]]),
        Row("append to visible, longest", "s", [max(age for _, age in ages)]),
    ]


def _memory(samples: Sequence[tuple[float, float]]) -> list[Row]:
    fifth = max(1, round(len(samples) * SETTLED))
    early = statistics.median(mb for _, mb in samples[fifth : 2 * fifth])
    late = statistics.median(mb for _, mb in samples[-fifth:])
    return [
        Row("memory, peak", "MB PSS", [max(mb for _, mb in samples)], at_most=MEMORY_MB),
        Row("memory, median of the last fifth", "MB PSS", [late]),
        Row("memory, growth from the second fifth to the last", "MB PSS", [late - early], at_most=GROWTH_MB),
    ]


def _by_time(samples: Sequence[tuple[float, float]], ages: Sequence[tuple[float, float]]) -> str:
    """Ten lines of a table: memory and latency over the run."""
    step = samples[-1][0] / 10
    first = ages[0][0]
    lines = ["| until | PSS, median | age, median | age, longest |", "| ---: | ---: | ---: | ---: |"]
    for number in range(10):
        begin, end = number * step, (number + 1) * step
        memory = [mb for at, mb in samples if begin <= at < end] or [0.0]
        delays = [age for at, age in ages if begin <= at - first < end] or [0.0]
        lines.append(
            f"| {end:.0f} s | {statistics.median(memory):.0f} MB | {statistics.median(delays):.2f} s | {max(delays):.2f} s |"
        )
    return "\n".join(lines)
