"""Twenty pipelines of one server, each with a file that it follows: what they cost while they wait and while all files grow."""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import data
from benchmarks.contenders import PIPELINES
from benchmarks.folders import fresh
from benchmarks.follow import wait_until
from benchmarks.growing import STAMP
from benchmarks.measure import Command, tree_cpu
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

COUNT, RATE = 20, 500
SETTLE_SECONDS, IDLE_SECONDS, START_LIMIT_SECONDS = 150.0, 30.0, 300.0
TICK_SECONDS = 0.02
MAX_MINUTES = 10.0
TITLE = f"{COUNT} pipelines in a server, {RATE} lines a second each"
ABOUT = (
    f"`etl serve` on `local[2]` with {COUNT} pipelines; each follows a file of its own with the pattern of W1 and writes JSON "
    f"lines. First one pipeline runs, then {COUNT - 1} more are deployed. Memory is measured {SETTLE_SECONDS:g} s after the "
    "first lines of the last one, when Spark has ended the workers that wait; CPU while nothing is appended over the next "
    f"{IDLE_SECONDS:g} s. Then {RATE} lines a second are appended to each file. A line carries the time of its writing; "
    "its age is noted when it appears in the output. PSS is of all processes."
)


def run(settings: Settings) -> Result:
    """One run."""
    folder, minutes = fresh("many-pipelines"), min(settings.minutes, MAX_MINUTES)
    inputs, outputs = [[folder / f"{number:02}.{kind}" for number in range(COUNT)] for kind in ("log", "json")]
    jobs = folder / "jobs" / "bench"
    jobs.mkdir(parents=True)
    argv = [sys.executable, "-m", "etl", "serve", str(jobs.parent), "--listen", "0", "--state", str(folder / "state")]
    with Command([*argv, "--master", "local[2]"], folder, every=2.0) as command:
        one = _memory(command, jobs, inputs[:1], outputs[:1])
        all_of_them = _memory(command, jobs, inputs, outputs)
        idle = _cores(lambda: time.sleep(IDLE_SECONDS))
        files = GrowingFiles(inputs, outputs)
        busy = _cores(lambda: files.run(minutes * 60))
        loaded = command.pss()
        command.terminate()
        cost = command.wait(120)
    if cost.code or len(files.ages) != files.written:
        raise RuntimeError(f"exit {cost.code}; {len(files.ages)} of {files.written} lines came out: {command.stderr}")
    cuts = statistics.quantiles(files.ages, n=100)
    rows = [
        Row("memory, one pipeline", "MB PSS", [one]),
        Row("memory, each further one", "MB PSS", [(all_of_them - one) / (COUNT - 1)], at_most=15.0),
        Row("memory, each further one, at the end", "MB PSS", [(loaded - one) / (COUNT - 1)]),
        Row("CPU, all, while nothing is appended", "cores", [idle], at_most=0.5),
        Row("CPU, all", "cores", [busy]),
        Row("append to written, p50", "s", [cuts[49]]),
        Row("append to written, p99", "s", [cuts[98]], at_most=3.0),
    ]
    return Result("many-pipelines", f"{TITLE} ({minutes:g} minutes)", ABOUT, rows)


def _memory(command: Command, jobs: Path, inputs: Sequence[Path], outputs: Sequence[Path]) -> float:
    """Deploy pipelines that do not run yet; returns the megabytes of all when they have written and then waited for a time."""
    text = (PIPELINES / "follow.yaml").read_text().replace("run: {trigger: 200ms}\n", "")
    for source, output in zip(inputs, outputs, strict=True):
        if not source.exists():
            source.write_text("".join(f"{line}\n" for line in data.seed()))
            pipeline = text.replace("name: follow", f"name: follow-{source.stem}").replace("path: follow.log", f"path: {source}")
            (jobs / f"follow-{source.stem}.yaml").write_text(pipeline.replace("path: out.json", f"path: {output}"))
    wait_until(lambda: all(file.exists() and file.stat().st_size for file in outputs), command, START_LIMIT_SECONDS)
    time.sleep(SETTLE_SECONDS)
    print(f"  {len(inputs)} pipelines: {command.pss():.0f} MB", file=sys.stderr, flush=True)
    return command.pss()


def _cores(work: Callable[[], object]) -> float:
    """The cores that all processes of the command used meanwhile."""
    before, began = sum(tree_cpu().values()), time.monotonic()
    work()
    return (sum(tree_cpu().values()) - before) / (time.monotonic() - began)


class GrowingFiles:
    """Appends lines to all inputs evenly, and notes the age of each line that appears in the outputs."""

    def __init__(self, inputs: Sequence[Path], outputs: Sequence[Path]) -> None:
        self.inputs = [file.open("ab", buffering=0) for file in inputs]
        self.outputs = [file.open("rb", buffering=0) for file in outputs]
        for output in self.outputs:
            output.seek(0, 2)
        self.rests = [b""] * len(outputs)
        self.written, self.ages = 0, list[float]()

    def run(self, seconds: float) -> None:
        """Append for a time, then wait until all lines have come out."""
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=[ended], daemon=True)
        watcher.start()
        self._write(seconds)
        limit = time.monotonic() + START_LIMIT_SECONDS
        while len(self.ages) < self.written and time.monotonic() < limit:
            time.sleep(TICK_SECONDS)
        ended.set()
        watcher.join()
        for file in (*self.inputs, *self.outputs):
            file.close()

    def _write(self, seconds: float) -> None:
        seed, lines, began = data.seed(), 0, time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            due, stamp = int(passed * RATE), time.monotonic_ns() // 1000
            text = "".join(f"{seed[number % len(seed)]} t={stamp}\n" for number in range(lines, due)).encode()
            for file in self.inputs:
                file.write(text)
            self.written += (due - lines) * len(self.inputs)
            lines = due
            time.sleep(TICK_SECONDS)

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(TICK_SECONDS):
            for number, file in enumerate(self.outputs):
                block = self.rests[number] + (file.read(1 << 24) or b"")
                now, end = time.monotonic(), block.rfind(b"\n") + 1
                self.ages += [now - int(stamp) / 1e6 for stamp in STAMP.findall(block, 0, end)]
                self.rests[number] = block[end:]
