"""Windows on the state lane, beside Spark's own windows, Flink's, and DuckDB over the whole file."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import measure
from benchmarks.contenders import OTHERS, OWN, etl, flink_python, prepare_peers
from benchmarks.folders import HERE, fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "Windows over a million groups"
SMALL, LARGE, LARGEST = 500_000, 2_500_000, 10_500_000
"""Events of the runs whose difference is measured: start-up and the first compilation are in both. These vary by a CPU second
from run to run, so that the fast contenders need the largest."""

FILE_EVENTS = 100_000
"""Events of a file, which is a micro-batch of Spark's; ours has 8 MB, which is as much."""

GROUPS = 60_000
MINUTE_EVENTS = 84_000
ABOUT = (
    f"JSON lines of time, address and a number; {MINUTE_EVENTS:,} a minute from {GROUPS:,} addresses, which makes a group of two "
    "or three events; `count`, `sum` and `max` for each minute and address, given when the minute is over, on two cores. "
    f"Events a CPU second of all processes: the events that a run over {LARGEST:,} (Spark and Flink: {LARGE:,}) has more than "
    f"one over {SMALL:,}, divided by the CPU that it takes more. The number of windows' events is compared with the input. "
    "DuckDB keeps nothing and gives results once, at the end: a limit."
)
OURS, INLINE, SPARK = "sluice, 2 cores", "sluice, inline: one split, 1 core", "Spark's windows, append mode"
FLINK, DUCKDB = "Flink SQL", "DuckDB, the whole file in one batch"
TARGETS = {OURS: 350_000, INLINE: 500_000}


def run(settings: Settings) -> Result:
    """All by turns; a peer that fails is left out."""
    rows = {name: Row(name, "events/CPU s", at_least=TARGETS.get(name)) for name in (OURS, INLINE, SPARK, FLINK, DUCKDB)}
    folders = {events: _data(events) for events in (SMALL, LARGE, LARGEST)}
    prepare_peers()
    for _ in range(settings.runs):
        for name, row in rows.items():
            if not row.remark:
                _measure(name, row, folders)
    speeds = rows[OURS].median, rows[SPARK].median
    times = Row("sluice, times as fast", "", at_least=4)
    if speeds[0] and speeds[1]:
        times.values.append(speeds[0] / speeds[1])
    return Result("state", TITLE, ABOUT, [*rows.values(), times])


def _measure(name: str, row: Row, folders: Mapping[int, Path]) -> None:
    """The difference of both runs. Raises RuntimeError if start-up varies more than that."""
    large = LARGE if name in (SPARK, FLINK) else LARGEST
    try:
        costs = [_cost(name, folders[events], events) for events in (SMALL, large)]
        if costs[1].cpu <= costs[0].cpu:
            raise RuntimeError(f"{name}: {large:,} events took {costs[1].cpu:.1f} CPU s, and {SMALL:,} {costs[0].cpu:.1f}")
    except (RuntimeError, ValueError, OSError, CalledProcessError) as error:
        if name in TARGETS:
            raise
        row.remark = str(error)[-300:]
        print(f"  {name} failed: {row.remark}", file=sys.stderr, flush=True)
        return
    row.values.append((large - SMALL) / (costs[1].cpu - costs[0].cpu))
    row.cpu.append(costs[1].cpu)
    row.pss.append(costs[1].peak)
    row.wall.append(costs[1].wall)
    print(f"  {name}: {row.values[-1]:,.0f} events/CPU s", file=sys.stderr, flush=True)


def _data(events: int) -> Path:
    """A folder with so many events in the order of their times: as one file, and as a folder of a file for each micro-batch."""
    folder, chance = fresh(f"state-{events}"), np.random.default_rng(7)
    (folder / "batches").mkdir()
    with (folder / "all.jsonl").open("wb") as whole:
        for number in range(0, events, FILE_EVENTS):
            lines = _lines_of(np.arange(number, number + FILE_EVENTS), chance)
            if events <= LARGE:
                (folder / "batches" / f"{number:09d}.jsonl").write_bytes(lines)
            whole.write(lines)
    return folder


def _lines_of(numbers: Any, chance: np.random.Generator) -> bytes:
    """The lines of the events with these numbers."""
    seconds = np.datetime64("2026-11-20T06:00:00") + (numbers * 60 // MINUTE_EVENTS).astype("timedelta64[s]")
    groups, sizes = (chance.integers(0, limit, len(numbers)) for limit in (GROUPS, 5000))
    address = [pa.array(groups >> shift & 255).cast(pa.string()) for shift in (16, 8, 0)]
    ip = pc.binary_join_element_wise(pa.scalar("10"), *address, ".")
    times = pa.array(np.datetime_as_string(seconds))
    parts = ('{"time":"', times, 'Z","ip":"', ip, '","bytes":', pa.array(sizes).cast(pa.string()), "}\n", "")
    return "".join(pc.binary_join_element_wise(*parts).to_pylist()).encode()


def _cost(name: str, source: Path, events: int) -> measure.Cost:
    folder = fresh("state-windows")
    cost, _, _ = measure.run(_argv(name, source, folder), folder)
    _check(folder / "out.json", events, closes_all=name in (FLINK, DUCKDB))
    return cost


def _argv(name: str, source: Path, folder: Path) -> list[str]:
    """The command of a contender."""
    if name in TARGETS:
        return etl("state-windows.yaml")(source / "all.jsonl", folder, 1 if name == INLINE else 2)
    scripts = {SPARK: "spark_windows.py", FLINK: "flink_windows.py", DUCKDB: "duckdb_windows.py"}
    python = flink_python() if name == FLINK else OTHERS if name == DUCKDB else OWN
    given = source / ("batches" if name == SPARK else "all.jsonl")
    return [str(python), str(HERE / "peers" / scripts[name]), str(given), str(folder / "out.json"), "2"]


def _check(output: Path, events: int, closes_all: bool) -> None:
    """All windows that the watermark has passed are there, with their events; ``closes_all``: at the end of the input, all."""
    found: Counter[str] = Counter()
    for line in _lines(output):
        window = json.loads(line)
        found[window.get("window_start") or window["start"]] += window["events"]
    closed = (events - 1 - MINUTE_EVENTS // 12) // MINUTE_EVENTS
    minutes, counted = (-(-events // MINUTE_EVENTS), events) if closes_all else (closed, closed * MINUTE_EVENTS)
    if len(found) != minutes or sum(found.values()) != counted:
        raise ValueError(f"{output}: {len(found)} minutes of {minutes}, {sum(found.values())} events of {counted}")


def _lines(output: Path) -> Iterator[str]:
    for file in sorted(output.glob("part-*")) if output.is_dir() else [output]:
        yield from file.read_text().splitlines()
