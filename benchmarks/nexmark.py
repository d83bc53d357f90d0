"""Nexmark: streaming SQL as it is written for Flink, beside Flink."""

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
from benchmarks.contenders import FLINK, OWN, flink_python
from benchmarks.places import CACHE, HERE, ROOT, acceptance, fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "Nexmark, SQL as for Flink"
EVENTS = int(os.environ.get("SLUICE_NEXMARK_EVENTS", "2000000"))
"""Events of a measured query; 10,000 of them are a second of event time."""

WARM_EVENTS = 200_000
"""Events of the run before, which compiles what the query needs."""

QUERIES = tuple(f"q{number}" for number in range(23))
AHEAD = 3.0
"""Times as many events a CPU second as Flink, in the geometric mean."""

ABOUT = (
    f"The 23 queries as they stand, {EVENTS:,} events in a file of JSON lines to a sink that discards, on two cores, one query "
    f"after the other in a process that has run each query over {WARM_EVENTS:,} events before. Events divided by the CPU seconds "
    "of the process and its children, the JVM included, while the query runs. Flink reads two files of alternate lines, because "
    "one file is one split for it; with object reuse, mini-batches of 50,000 rows or 2 s and split distinct aggregates, "
    "state in its heap, without checkpoints; Sluice stores its state and its offsets. Flink refuses q6; in q13 it joins the "
    "look-up table as a stream, for lack of a connector, and in q14 `count_char` is replaced by the length of the text."
)


def run(settings: Settings) -> Result:
    """Both, by turns; a query that a side refuses has a remark."""
    data = acceptance() / "nexmark"
    events = {count: _events(data, count) for count in (WARM_EVENTS, EVENTS)}
    ours = {query: Row(f"{query}, sluice", "events/CPU s") for query in QUERIES}
    flink = {query: Row(f"{query}, Flink", "events/CPU s") for query in QUERIES}
    for _ in range(settings.runs):
        folder = fresh("nexmark")
        _run([str(OWN), "-m", "benchmarks.nexmark_queries", *_arguments(data, events, folder), *QUERIES], ours, folder)
        try:
            folder = fresh("nexmark-flink")
            argv = [str(flink_python()), str(HERE / "peers" / "flink_nexmark.py"), *_arguments(data, events, folder), *QUERIES]
            _run(argv, flink, folder)
        except (RuntimeError, OSError, CalledProcessError) as error:
            print(f"  {FLINK} failed: {str(error)[-2000:]}", file=sys.stderr, flush=True)
            shutil.rmtree(folder, ignore_errors=True)
    ratios = Row("times as many as Flink, geometric mean", "", at_least=AHEAD)
    least = Row("times as many as Flink, smallest", "", at_least=1)
    both = [(mine, theirs) for q in QUERIES if (mine := ours[q].median) and (theirs := flink[q].median)]
    if both:
        ratios.values.append(statistics.geometric_mean([mine / theirs for mine, theirs in both]))
        least.values.append(min(mine / theirs for mine, theirs in both))
        ratios.remark = f"Of {len(both)} queries."
    pairs = [row for query in QUERIES for row in (ours[query], flink[query])]
    return Result("nexmark", TITLE, ABOUT, [ratios, least, *pairs])


def _arguments(data: Path, events: dict[int, Path], folder: Path) -> list[str]:
    """What both programs take: queries, output, a folder of events for warming up, and one to measure."""
    return [str(data), str(folder), str(events[WARM_EVENTS]), str(events[EVENTS])]


def _run(argv: list[str], rows: dict[str, Row], folder: Path) -> None:
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
        row.values.append(EVENTS / result["cpu"])
        row.cpu.append(result["cpu"])
        row.wall.append(result["seconds"])
        print(f"  {row.label}: {row.values[-1]:,.0f} events/CPU s, {EVENTS / result['seconds']:,.0f} events/s", file=sys.stderr)


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
