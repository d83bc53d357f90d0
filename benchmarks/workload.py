"""A workload: a log, a pipeline, peers that do the same, and what must come out; all contenders take turns."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks import data, events, measure
from benchmarks.ballast import Ballast
from benchmarks.contenders import PIPELINES, Contender, prepare_peers, sluice
from benchmarks.expressions import expressions, grok_patterns
from benchmarks.folders import fresh, work
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

FASTEST = "fastest peer"

HOW = (
    "Lines a second after start-up, `file` → `grok` → JSON lines, `--once`, through the command line. The log is read from "
    "and output goes to files in memory, for everybody: the disk here moves 200 MB a second, which is less "
    "than what is measured, and our commit waits for it while peers do not. The virtual machine's host hands out new memory "
    "at 0.4 GB a second, so memory that was used before is held and given to each run as it writes "
    "(`benchmarks/ballast.py`). Contenders take turns. The output of every run is compared with what must come out, event "
    "by event. One core means that all processes of the contender run on core 0 (`taskset -c 0`); *free* is our `local[1]` "
    "with Spark's JVM allowed on the other core. Wall clock, CPU and PSS are of all processes, start-up included; *CPU less "
    "start-up* takes off what the same command needs for the log taken once just before."
)


@dataclass(frozen=True)
class Workload:
    """``name`` is that of the pipeline in ``pipelines/``, whose first step is the grok."""

    name: str
    title: str
    about: str
    log: data.Log
    plain: Sequence[str]
    """For each pattern a simple regular expression that does the same to these lines: for peers, and for the check."""
    peers: Sequence[Contender]
    targets: Mapping[int, float]
    """Cores → lines a second."""
    ratios: Mapping[str, float | None] = field(default_factory=dict)
    """A peer, or `FASTEST` → how many times as fast we must be on two cores (`FASTEST`: on one, too), if it is a target."""
    scaling: float | None = None
    memory_mb: float = 900.0
    foreign: Sequence[str] = ()
    """The patterns for grok libraries of others, where they have no such names."""

    @property
    def pipeline(self) -> Path:
        """Its file."""
        return PIPELINES / f"{self.name}.yaml"

    @cached_property
    def work(self) -> dict[str, Any]:
        """What a peer is told."""
        return expressions(grok_patterns(self.pipeline), self.plain, self.foreign)

    @cached_property
    def once(self) -> Counter[events.Event]:
        """The events of the log taken once."""
        return events.expected(self.log.once(), self.work)

    @cached_property
    def length(self) -> int:
        """Lines of the log taken once."""
        return len(self.log.once())

    def run(self, settings: Settings) -> Result:
        """Every contender on two cores and on one, by turns."""
        prepare_peers()
        entries = self._entries(settings.lines)
        for number in range(settings.runs):
            for entry in entries:
                if not entry.failed:
                    entry.turn()
                    print(f"  run {number + 1}: {entry.row.label}: {entry.message}", file=sys.stderr, flush=True)
        lines = data.lines_of(self.log.file(settings.lines))
        rows = [*(entry.row for entry in entries), *_summary(self, entries)]
        return Result(self.name, f"{self.title} ({lines:,} lines)", f"{self.about} {HOW}", rows, extra=_pieces(entries, lines))

    def _entries(self, lines: int) -> list[Entry]:
        ours = sluice(self.pipeline.name)
        two = [Entry(self, contender, 2, False, lines) for contender in (ours, *self.peers)]
        one = [Entry(self, contender, 1, True, lines) for contender in (ours, *self.peers)]
        return [*two, Entry(self, ours, 1, False, lines), *one]


class Entry:
    """A contender on a number of cores, with what was measured of it."""

    def __init__(self, workload: Workload, contender: Contender, cores: int, pinned: bool, lines: int) -> None:
        self.workload, self.contender, self.cores, self.pinned = workload, contender, cores, pinned
        self.source = in_memory(workload.log.file(min(lines, contender.max_lines or lines)))
        free = ", free" if cores == 1 and not pinned else ""
        target = workload.targets.get(cores) if contender.ours else None
        self.row = Row(f"{contender.name}, {_cores(cores)}{free}", "lines/s", at_least=target)
        self.failed = False
        self.message = ""

    def turn(self) -> None:
        """One run; a peer that fails is left out and its row says so."""
        try:
            self._measure()
        except (RuntimeError, ValueError, OSError) as error:
            if self.contender.ours:
                raise
            self.failed, self.row.remark, self.message = True, str(error)[:300], f"failed: {error}"

    def _measure(self) -> None:
        idle = self._run(self.workload.log.file(1))[0].cpu
        cost, seconds = self._run(self.source)
        row = self.row
        row.work_cpu.append(cost.cpu - idle)
        row.values.append(data.lines_of(self.source) / seconds)
        row.cpu.append(cost.cpu)
        row.pss.append(cost.peak)
        row.wall.append(cost.wall)
        self.message = f"{row.values[-1]:,.0f} lines/s, {row.work_cpu[-1]:.1f} of {cost.cpu:.1f} CPU s, {cost.peak:.0f} MB"

    def _run(self, source: Path) -> tuple[measure.Cost, float]:
        folder = fresh(self.workload.name)
        (folder / "work.json").write_text(json.dumps(self.workload.work))
        argv = self.contender.argv(source, folder, self.cores)
        ballast = Ballast(work() / "ballast")
        ballast.fill()
        with ballast.give_way(folder):
            cost, out, err = measure.run(["taskset", "-c", "0", *argv] if self.pinned else argv, folder)
        copies = data.lines_of(source) // self.workload.length
        events.check(folder / self.contender.output, self.workload.once, copies)
        fresh(self.workload.name)
        return cost, self.contender.seconds(out, err)


def in_memory(file: Path) -> Path:
    """The file where contenders work, copied there once."""
    copy = work() / "data" / file.name
    if not copy.exists() or copy.stat().st_size != file.stat().st_size:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    return copy


def _cores(number: int) -> str:
    return f"{number} core{'s' * (number > 1)}"


def _pieces(entries: Sequence[Entry], lines: int) -> str:
    """Who ran on less than all lines."""
    pieces = {entry.contender.name: data.lines_of(entry.source) for entry in entries}
    shorter = [f"{name} {many:,}" for name, many in pieces.items() if many != lines]
    return f"On a shorter piece of the same lines: {', '.join(shorter)}." if shorter else ""


def _summary(workload: Workload, entries: Sequence[Entry]) -> Iterator[Row]:
    speed = {(e.contender.name, e.cores, e.pinned): e.row.median for e in entries}
    two, free, one = (speed["sluice", cores, pinned] for cores, pinned in ((2, False), (1, False), (1, True)))
    if two and free and one:
        yield Row("sluice, 2 cores / 1 core", "times", [two / one], at_least=workload.scaling)
        yield Row("sluice, 2 cores / 1 core, free", "times", [two / free])
    for cores, pinned, ours in ((2, False, two), (1, True, one)):
        peers = {name: s for (name, c, p), s in speed.items() if (c, p) == (cores, pinned) and name != "sluice" and s}
        if ours and peers:
            yield from _ratios(workload, cores, ours, peers)
    memory = next(e.row.pss for e in entries if e.contender.ours and e.cores == 1 and not e.pinned)
    yield Row("sluice, memory on local[1]", "MB PSS", list(memory), at_most=workload.memory_mb)


def _ratios(workload: Workload, cores: int, ours: float, peers: Mapping[str, float]) -> Iterator[Row]:
    best = max(peers, key=lambda name: peers[name])
    label = f"sluice / {FASTEST} ({best}), {_cores(cores)}"
    yield Row(label, "times", [ours / peers[best]], at_least=workload.ratios.get(FASTEST))
    for name, minimum in workload.ratios.items():
        if cores == 2 and name in peers:
            yield Row(f"sluice / {name}, {_cores(cores)}", "times", [ours / peers[name]], at_least=minimum)
