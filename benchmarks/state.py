"""Windows on the state lane, beside Spark's own windows."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import measure
from benchmarks.contenders import etl
from benchmarks.places import HERE, fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "Windows over a million groups"
SMALL, LARGE = 500_000, 2_500_000
"""Events of the two runs whose difference is measured: start-up and the first compilation are in both."""

FILE_EVENTS = 100_000
"""Events of a file, which is a micro-batch of Spark's; ours has 8 MB, which is as much."""

GROUPS = 60_000
MINUTE_EVENTS = 84_000
ABOUT = (
    f"JSON lines of time, address and a number; {MINUTE_EVENTS:,} a minute from {GROUPS:,} addresses, which makes a group of two "
    "or three events; `count`, `sum` and `max` for each minute and address, given when the minute is over, on two cores. "
    f"Events a CPU second of all processes: {LARGE - SMALL:,} events divided by the CPU of a run over {LARGE:,} less that of "
    f"a run over {SMALL:,}. The number of windows' events is compared with the input."
)
SPARK, OURS = "Spark's windows, append mode", "sluice, 2 cores"


def run(settings: Settings) -> Result:
    """Both by turns."""
    rows = {OURS: Row(OURS, "events/CPU s", at_least=350_000), SPARK: Row(SPARK, "events/CPU s")}
    folders = {events: _data(events) for events in (SMALL, LARGE)}
    for _ in range(settings.runs):
        for name, measured in (("sluice", OURS), ("spark", SPARK)):
            costs = [_cost(name, folders[events], events) for events in (SMALL, LARGE)]
            row = rows[measured]
            row.values.append((LARGE - SMALL) / (costs[1].cpu - costs[0].cpu))
            row.cpu.append(costs[1].cpu)
            row.pss.append(costs[1].peak)
            row.wall.append(costs[1].wall)
            print(f"  {measured}: {row.values[-1]:,.0f} events/CPU s", file=sys.stderr, flush=True)
    ratio = rows[OURS].median, rows[SPARK].median
    times = Row("sluice, times as fast", "", at_least=4)
    if ratio[0] and ratio[1]:
        times.values.append(ratio[0] / ratio[1])
    return Result("state", TITLE, ABOUT, [*rows.values(), times])


def _data(events: int) -> Path:
    """A folder with so many events in the order of their times: as one file, and as a folder of a file for each micro-batch."""
    folder, chance = fresh(f"state-{events}"), random.Random(7)
    (folder / "batches").mkdir()
    with (folder / "all.jsonl").open("w") as whole:
        for number in range(0, events, FILE_EVENTS):
            lines = "".join(_line(at, chance) for at in range(number, number + FILE_EVENTS))
            (folder / "batches" / f"{number:09d}.jsonl").write_text(lines)
            whole.write(lines)
    return folder


def _line(number: int, chance: random.Random) -> str:
    second = number * 60 // MINUTE_EVENTS
    time = f"2026-11-20T{6 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"
    group = chance.randrange(GROUPS)
    ip = f"10.{group >> 16}.{group >> 8 & 255}.{group & 255}"
    return f'{{"time":"{time}","ip":"{ip}","bytes":{chance.randrange(5000)}}}\n'


def _cost(name: str, source: Path, events: int) -> measure.Cost:
    folder = fresh(f"state-{name}")
    argv: Callable[[Path, Path, int], list[str]] = etl("state-windows.yaml") if name == "sluice" else _spark
    cost, _, _ = measure.run(argv(source / ("all.jsonl" if name == "sluice" else "batches"), folder, 2), folder)
    _check(folder / "out.json", events)
    return cost


def _spark(source: Path, folder: Path, cores: int) -> list[str]:
    return [sys.executable, str(HERE / "peers" / "spark_windows.py"), str(source), str(folder / "out.json"), str(cores)]


def _check(output: Path, events: int) -> None:
    """All windows that the watermark has passed are there, with their events."""
    found: Counter[str] = Counter()
    for line in _lines(output):
        window = json.loads(line)
        found[window.get("window_start") or window["start"]] += window["events"]
    closed = (events - 1 - MINUTE_EVENTS // 12) // MINUTE_EVENTS
    if len(found) != closed or sum(found.values()) != closed * MINUTE_EVENTS:
        raise ValueError(f"{output}: {len(found)} minutes of {closed}, {sum(found.values())} events")


def _lines(output: Path) -> Iterator[str]:
    for file in sorted(output.glob("*.json")) if output.is_dir() else [output]:
        yield from file.read_text().splitlines()
