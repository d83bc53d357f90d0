"""A join of two streams on the state lane, beside Spark's own."""

from __future__ import annotations

import random
import sys
from collections import defaultdict, deque
from pathlib import Path

from benchmarks import measure
from benchmarks.contenders import etl
from benchmarks.folders import HERE, fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "Join of two streams"
SMALL, LARGE = 200_000, 1_200_000
"""Events of both sides, of the two runs whose difference is measured: start-up and the first compilation are in both."""

FILE_EVENTS = 50_000
"""Events of one side in a file, which is a micro-batch of Spark's; ours has 8 MB."""

ADDRESSES, SECOND_EVENTS, WITHIN = 60_000, 1_000, 30
ABOUT = (
    f"JSON lines of time, address and a number, {SECOND_EVENTS:,} a second on each side from {ADDRESSES:,} addresses; each event "
    f"of the left side with those of the right one that have its address in the {WITHIN} seconds after it, on two cores. Events "
    f"of both sides a CPU second of all processes: {LARGE - SMALL:,} events divided by the CPU of a run over {LARGE:,} less that "
    f"of a run over {SMALL:,}. The number of pairs is compared with that of a loop over the events."
)
SPARK, OURS = "Spark's stream-stream join", "sluice, 2 cores"
SIDES = ("logins", "payments")


def run(settings: Settings) -> Result:
    """Both by turns."""
    rows = {name: Row(name, "events/CPU s") for name in (OURS, SPARK)}
    data = {events: _data(events) for events in (SMALL, LARGE)}
    for folder, pairs in data.values():
        _cost(OURS, folder, pairs)  # compiles the kernels of both runs
    for _ in range(settings.runs):
        for name, row in rows.items():
            costs = [_cost(name, *data[events]) for events in (SMALL, LARGE)]
            row.values.append((LARGE - SMALL) / (costs[1].cpu - costs[0].cpu))
            row.cpu.append(costs[1].cpu)
            row.pss.append(costs[1].peak)
            row.wall.append(costs[1].wall)
            print(f"  {name}: {row.values[-1]:,.0f} events/CPU s", file=sys.stderr, flush=True)
    times = Row("sluice, times as fast", "", at_least=8)
    ratio = rows[OURS].median, rows[SPARK].median
    if ratio[0] and ratio[1]:
        times.values.append(ratio[0] / ratio[1])
    return Result("joins", TITLE, ABOUT, [*rows.values(), times])


def _data(events: int) -> tuple[Path, int]:
    """A folder with so many events in the order of their times, of each side as one file and as a folder of files; and the number
    of pairs."""
    folder, chance = fresh(f"joins-{events}"), random.Random(7)
    recent: dict[int, deque[int]] = defaultdict(deque)
    pairs, lines = 0, {side: list[str]() for side in SIDES}
    for second in range(events // 2 // SECOND_EVENTS):
        logins, payments = ([chance.randrange(ADDRESSES) for _ in range(SECOND_EVENTS)] for _ in SIDES)
        for address in logins:
            recent[address].append(second)
        for address in payments:
            while recent[address] and recent[address][0] < second - WITHIN:
                recent[address].popleft()
            pairs += len(recent[address])
        for side, addresses in zip(SIDES, (logins, payments), strict=True):
            lines[side] += [_line(second, address, number) for number, address in enumerate(addresses)]
    for side, own in lines.items():
        (folder / side).mkdir()
        (folder / f"{side}.jsonl").write_text("".join(own))
        for first in range(0, len(own), FILE_EVENTS):
            (folder / side / f"{first:09d}.jsonl").write_text("".join(own[first : first + FILE_EVENTS]))
    return folder, pairs


def _line(second: int, address: int, number: int) -> str:
    time = f"2026-11-20T06:{second // 60:02d}:{second % 60:02d}Z"
    return f'{{"time":"{time}","ip":"10.{address >> 16}.{address >> 8 & 255}.{address & 255}","bytes":{number}}}\n'


def _cost(name: str, data: Path, pairs: int) -> measure.Cost:
    folder = fresh("joins-sluice" if name == OURS else "joins-spark")
    if name == OURS:
        argv = [
            *etl("state-join.yaml")(data / "logins.jsonl", folder, 2),
            "--set",
            f"sources.payments.path={data}/payments.jsonl",
        ]
    else:
        argv = [sys.executable, str(HERE / "peers" / "spark_join.py"), str(data), str(folder / "out.json"), "2"]
    cost, _, _ = measure.run(argv, folder)
    output = folder / "out.json"
    found = sum(file.read_text().count("\n") for file in (output.glob("*.json") if output.is_dir() else [output]))
    if found != pairs:
        raise ValueError(f"{output}: {found} pairs, and not {pairs}")
    return cost
