"""W1 in a pipeline of a server, with a hundred viewers and without."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from benchmarks import data
from benchmarks.contenders import PIPELINES
from benchmarks.folders import HERE, fresh
from benchmarks.follow import wait_until
from benchmarks.measure import Command, tree_cpu
from benchmarks.results import Result, Row
from benchmarks.settings import Settings
from benchmarks.workload import in_memory

VIEWERS, SETTLE_SECONDS, LIMIT_SECONDS = 100, 12.0, 300.0
PIPELINE = "bench/w1"
TITLE = f"W1 in a server with {VIEWERS} viewers"
ABOUT = (
    f"A pipeline of `etl serve` on two cores follows a folder, in which a file with the lines of W1 appears at each turn; "
    "the sink discards the events. At every "
    f"other turn {VIEWERS} viewers, half of them pages and half taps, look at the pipeline from a process of their own, which is "
    "not counted. CPU is that of all processes of the server from the appearance of the file to its last line."
)


def run(settings: Settings) -> Result:
    """Turns without and with viewers, after one that is not counted."""
    folder, source = fresh("viewers"), in_memory(data.w1(settings.lines))
    alone, viewed = Row("CPU without viewers", "s"), Row(f"CPU with {VIEWERS} viewers", "s")
    answers = Row("answers to viewers", "requests/s")
    with _server(folder) as server:
        for number in range(2 * settings.runs + 1):
            is_viewed = number > 0 and number % 2 == 0
            with _viewers(server.port) if is_viewed else nullcontext() as viewers:
                time.sleep(SETTLE_SECONDS)
                used, seconds = server.give(source, viewers)
                if viewers is not None:
                    answers.values.append(_end(viewers))
            if number:
                row = viewed if is_viewed else alone
                row.values.append(used)
                row.wall.append(seconds)
            print(f"  turn {number}: {used:.2f} CPU s, {seconds:.2f} s{', viewed' * is_viewed}", file=sys.stderr, flush=True)
    more = Row("more CPU with viewers", "%", at_most=3.0)
    shutil.rmtree(folder)  # gigabytes of memory
    more.values = [100 * (one / other - 1) for one, other in zip(viewed.values, alone.values, strict=True)]
    return Result("viewers", f"{TITLE} ({data.lines_of(source):,} lines)", ABOUT, [alone, viewed, more, answers])


@dataclass
class _Server:
    command: Command
    port: int
    inbox: Path
    files: int = 0
    lines: int = 0

    def give(self, source: Path, viewers: subprocess.Popen[str] | None) -> tuple[float, float]:
        """Let the pipeline read a further file; returns CPU seconds, less those of the viewers, and seconds."""
        others = {viewers.pid} if viewers else set()
        self.files, self.lines = self.files + 1, self.lines + data.lines_of(source) + 1
        draft = self.inbox / "draft"
        with draft.open("wb") as out, source.open("rb") as log:
            out.write(f"Dec 10 06:55:46 LabSZ sshd[{self.files}]: a copy would count as rotated\n".encode())
            shutil.copyfileobj(log, out, 1 << 20)
        before, began = sum(tree_cpu(others).values()), time.monotonic()
        draft.rename(self.inbox / f"{self.files}.log")
        wait_until(lambda: self._read() >= self.lines, self.command, LIMIT_SECONDS)
        used, seconds = sum(tree_cpu(others).values()) - before, time.monotonic() - began
        (self.inbox / f"{self.files - 1}.log").unlink(missing_ok=True)  # gigabytes of memory
        return used, seconds

    def _read(self) -> int:
        """The events that the pipeline has read."""
        time.sleep(0.2)  # a look costs as much as one of a viewer
        with urlopen(f"http://127.0.0.1:{self.port}/api/pipelines/{PIPELINE}") as answer:
            return int(json.load(answer)["counters"]["read"])


@contextmanager
def _server(folder: Path) -> Iterator[_Server]:
    jobs, inbox = folder / "jobs" / PIPELINE.partition("/")[0], folder / "in"
    jobs.mkdir(parents=True)
    inbox.mkdir()
    text = (PIPELINES / "w1.yaml").read_text().replace("path: w1.log", f"path: {inbox}/*.log")
    (jobs / "w1.yaml").write_text(text.replace("type: file, path: out/", "type: discard"))
    argv = [sys.executable, "-m", "etl", "serve", str(folder / "jobs"), "--listen", "0", "--state", str(folder / "state")]
    with Command([*argv, "--master", "local[2]"], folder, every=1.0) as command:
        wait_until(lambda: "ready: " in command.stderr.read_text(), command, LIMIT_SECONDS)
        found = re.search(r"page at http://[\d.]+:(\d+)", command.stderr.read_text())
        assert found
        yield _Server(command, int(found[1]), inbox)
        command.terminate()
        command.wait(60)


@contextmanager
def _viewers(port: int) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, str(HERE / "peers" / "viewers.py"), str(port), PIPELINE, str(VIEWERS)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _end(viewers: subprocess.Popen[str]) -> float:
    """Let the viewers end; returns their requests a second."""
    return float(viewers.communicate(timeout=30)[0])
