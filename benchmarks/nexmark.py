"""Nexmark: streaming SQL as it is written for Flink, beside Flink and Spark."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from subprocess import CalledProcessError

from benchmarks import measure
from benchmarks.contenders import OWN, flink_python
from benchmarks.folders import CACHE, HERE, ROOT, acceptance, fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "Nexmark, SQL as for Flink"
WARM_EVENTS = 200_000
"""Events of the run before, which compiles what the query needs."""

QUERIES = tuple(f"q{number}" for number in range(23))
AHEAD = 3.0
"""Times as many events a CPU second as Flink, in the geometric mean."""

OURS, THEIRS, SPARK = "sluice", "Flink", "Spark"

ABOUT = (
    "The 23 queries as they stand, {events:,} events in a file of JSON lines to a sink that discards, on two cores, one query "
    f"after the other in a process that has run each query over {WARM_EVENTS:,} events before. Events divided by the CPU seconds "
    "of the process and its children, the JVM included, while the query runs. Flink and Spark read two files of alternate lines, "
    "because one file is one split for Flink; Flink with object reuse, mini-batches of 50,000 rows or 2 s and split distinct "
    "aggregates, state in its heap, without checkpoints; Sluice and Spark store their state and their offsets. Flink refuses "
    "q6; in q13 it joins the look-up table as a stream, for lack of a connector, and in q14 `count_char` is replaced by the "
    "length of the text. Spark's Structured Streaming has the queries in its own SQL, those that it can compute, all events in "
    "one micro-batch, and gives no windows that are open at the end."
)


def run(settings: Settings) -> Result:
    """All three, by turns; a query that one refuses has a remark."""
    data, queries = acceptance() / "nexmark", settings.queries or QUERIES
    events = {count: _events(data, count) for count in (WARM_EVENTS, settings.events)}
    sides = {side: {query: Row(f"{query}, {side}", "events/CPU s") for query in queries} for side in (OURS, THEIRS, SPARK)}
    for _ in range(settings.runs):
        for side, rows in sides.items():
            folder = fresh("nexmark")
            try:
                places = [str(data), str(folder), str(events[WARM_EVENTS]), str(events[settings.events])]
                _run([*_program(side), *places, *queries], rows, folder, settings.events)
            except (RuntimeError, OSError, CalledProcessError) as error:
                if side == OURS:
                    raise
                print(f"  {side} failed: {str(error)[-2000:]}", file=sys.stderr, flush=True)
            shutil.rmtree(folder, ignore_errors=True)
    ratios = [*_ratios(sides[OURS], sides[THEIRS], THEIRS, AHEAD, 1), *_ratios(sides[OURS], sides[SPARK], SPARK, None, None)]
    measured = [sides[side][query] for query in queries for side in sides]
    return Result("nexmark", TITLE, ABOUT.format(events=settings.events), [*ratios, *measured])


def _program(side: str) -> list[str]:
    """The command of a side, before its arguments: data, output, folders of events for warming up and to measure, queries."""
    if side == OURS:
        return [str(OWN), "-m", "benchmarks.nexmark_queries"]
    python = OWN if side == SPARK else flink_python()
    return [str(python), str(HERE / "peers" / f"{side.lower()}_nexmark.py")]


def _ratios(ours: dict[str, Row], theirs: dict[str, Row], name: str, mean: float | None, minimum: float | None) -> list[Row]:
    """How many times as many events as a peer, of the queries that both have run."""
    ratios = Row(f"times as many as {name}, geometric mean", "", at_least=mean)
    smallest = Row(f"times as many as {name}, smallest", "", at_least=minimum)
    both = [mine / other for query in ours if (mine := ours[query].median) and (other := theirs[query].median)]
    if both:
        ratios.values.append(statistics.geometric_mean(both))
        smallest.values.append(min(both))
        ratios.remark = f"Of {len(both)} queries."
    return [ratios, smallest]


def _run(argv: list[str], rows: dict[str, Row], folder: Path, events: int) -> None:
    """A program over all queries, which prints a line of JSON for each."""
    _, out, _ = measure.run(argv, folder, {"PYTHONPATH": str(ROOT)})
    for line in out.splitlines():
        if not line.startswith('{"query"'):
            continue
        result = json.loads(line)
        row = rows[result["query"]]
        if error := result.get("error"):
            row.remark = re.sub(r"\s+", " ", error)[:300]
            continue
        row.values.append(events / result["cpu"])
        row.cpu.append(result["cpu"])
        row.wall.append(result["seconds"])
        print(f"  {row.label}: {row.values[-1]:,.0f} events/CPU s, {events / result['seconds']:,.0f} events/s", file=sys.stderr)


def _events(data: Path, count: int) -> Path:
    """A folder with so many events, made once: ``all.jsonl``, and the same as two files of alternate lines in ``halves``."""
    folder = CACHE / "nexmark" / str(count)
    if (folder / ".ready").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "halves").mkdir(parents=True)
    with (folder / "all.jsonl").open("wb") as whole:
        build = {**os.environ, "BUILD": str(CACHE / "nexmark" / "generator")}
        subprocess.run(["sh", str(data / "gen.sh"), str(count), "10000"], stdout=whole, env=build, check=True)
    halves = [(folder / "halves" / f"{half}.jsonl").open("wb") for half in "ab"]
    with (folder / "all.jsonl").open("rb") as whole:
        for number, line in enumerate(whole):
            halves[number % 2].write(line)
    for half in halves:
        half.close()
    (folder / ".ready").touch()
    return folder
