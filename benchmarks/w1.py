"""W1: 2,000,000 lines → grok of four fields → JSON lines on disk; this engine and its peers on the same data."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import data, measure
from benchmarks.contenders import OURS, PEERS, Contender, prepare_peers
from benchmarks.places import fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "W1: a log file to JSON lines"
ABOUT = (
    "OpenSSH lines, `file` → `grok` of four fields → JSON lines on disk, `--once`, through the command line; lines a second "
    "after start-up. Contenders take turns. The output of every run is compared with what must come out, event by event. "
    "The peers use a simple regular expression instead of grok's (Tenzir: grok). One core means that all processes of the "
    "contender run on core 0 (`taskset -c 0`); *free* is our `local[1]` with Spark's JVM allowed on the other core. Wall "
    "clock, CPU and PSS are of all processes, start-up included; *CPU less start-up* takes off what the same command needs for "
    "2,000 lines just before."
)
TARGETS = {2: 1_500_000.0, 1: 800_000.0}
MEMORY_MB = 900.0
SCALING = 1.8


def run(settings: Settings) -> Result:
    """Every contender on two cores and on one, by turns."""
    prepare_peers()
    source = data.w1(settings.lines)
    entries = _entries()
    for number in range(settings.runs):
        for entry in entries:
            if entry.failed:
                continue
            entry.turn(source)
            print(f"  run {number + 1}: {entry.row.label}: {entry.said}", file=sys.stderr, flush=True)
    return Result("w1", f"{TITLE} ({data.lines_of(source):,} lines)", ABOUT, [entry.row for entry in entries] + _summary(entries))


class Entry:
    """A contender on a number of cores, with what was measured of it."""

    def __init__(self, contender: Contender, cores: int, pinned: bool) -> None:
        self.contender, self.cores, self.pinned = contender, cores, pinned
        where = f"{cores} core{'s' * (cores > 1)}"
        free = ", free" if cores == 1 and not pinned else ""
        target = TARGETS[cores] if contender.ours else None
        self.row = Row(f"{contender.name}, {where}{free}", "lines/s", at_least=target)
        self.failed = False
        self.said = ""

    def turn(self, source: Path) -> None:
        """One run; a peer that fails is left out and its row says so."""
        try:
            self._measure(source)
        except (RuntimeError, ValueError, OSError) as error:
            if self.contender.ours:
                raise
            self.failed, self.row.remark, self.said = True, str(error)[:300], f"failed: {error}"

    def _measure(self, source: Path) -> None:
        idle = self._run(data.w1(1))[0].cpu
        cost, seconds = self._run(source)
        row = self.row
        row.work_cpu.append(cost.cpu - idle)
        row.values.append(data.lines_of(source) / seconds)
        row.cpu.append(cost.cpu)
        row.pss.append(cost.peak)
        row.wall.append(cost.wall)
        self.said = f"{row.values[-1]:,.0f} lines/s, {row.work_cpu[-1]:.1f} of {cost.cpu:.1f} CPU s, {cost.peak:.0f} MB"

    def _run(self, source: Path) -> tuple[measure.Cost, float]:
        folder = fresh("w1")
        argv = self.contender.argv(source, folder, self.cores)
        cost, out, err = measure.run(["taskset", "-c", "0", *argv] if self.pinned else argv, folder)
        data.check(folder / self.contender.output, data.lines_of(source))
        return cost, self.contender.seconds(out, err)


def _entries() -> list[Entry]:
    two = [Entry(contender, 2, False) for contender in (OURS, *PEERS)]
    one = [Entry(contender, 1, True) for contender in (OURS, *PEERS)]
    return [*two, Entry(OURS, 1, False), *one]


def _summary(entries: Sequence[Entry]) -> list[Row]:
    rows = []
    speed = {(entry.contender.name, entry.cores, entry.pinned): entry.row.median for entry in entries}
    two, free, one = (speed[OURS.name, cores, pinned] for cores, pinned in ((2, False), (1, False), (1, True)))
    if two and free and one:
        rows.append(Row("sluice, 2 cores / 1 core", "times", [two / one], at_least=SCALING))
        rows.append(Row("sluice, 2 cores / 1 core, free", "times", [two / free]))
    for cores, pinned, ours in ((2, False, two), (1, True, one)):
        peers = {
            name: value for (name, c, p), value in speed.items() if (c, p) == (cores, pinned) and name != OURS.name and value
        }
        if ours and peers:
            best = max(peers, key=lambda name: peers[name])
            label = f"sluice / fastest peer ({best}), {cores} core{'s' * (cores > 1)}"
            rows.append(Row(label, "times", [ours / peers[best]], at_least=1.0))
    memory = next(entry.row.pss for entry in entries if entry.contender.ours and entry.cores == 1 and not entry.pinned)
    rows.append(Row("sluice, memory on local[1]", "MB PSS", list(memory), at_most=MEMORY_MB))
    return rows
