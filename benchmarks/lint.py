"""How soon the command line answers: ``etl lint`` of a long file, and ``etl --help``."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import measure
from benchmarks.folders import fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "The command line"
ABOUT = "Wall clock and CPU seconds of the whole command, median of ten."
TIMES = 10
LINES = 300

HEAD = """\
name: long
sources:
  log: {type: file, path: /var/log/auth.log}
streams:
"""
STREAM = """\
  stream_%(n)d:
    from: log
    steps:
      - type: grok
        patterns: ['^%%{SYSLOGTIMESTAMP:timestamp} %%{HOSTNAME:host} sshd\\[%%{POSINT:pid:int}\\]: %%{GREEDYDATA:message}']
      - {type: filter, where: "message like 'Failed password for %%' and pid > %(n)d"}
      - {type: set, fields: {user_name: "regexp_extract(message, 'for (\\\\\\\\S+) from', 1)", shard: "pid %% %(m)d"}}
      - {type: timestamp, formats: [syslog]}
"""
SINK = """\
  sink_%(n)d:
    from: stream_%(n)d
    type: file
    path: sink-%(n)d.json
"""


def run(settings: Settings) -> Result:
    """Ten times each."""
    folder = fresh("lint")
    file = folder / "long.yaml"
    file.write_text(pipeline(LINES))
    rows = [
        Row(f"`etl lint`, a file of {LINES} lines", "s", at_most=0.45),
        Row("`etl --help`", "s", at_most=0.2),
    ]
    for row, options in zip(rows, (["lint", str(file)], ["--help"]), strict=True):
        _measure(row, options, folder)
        print(f"  {row.label}: {row.median:.3f} s, {statistics.median(row.cpu):.3f} CPU s", file=sys.stderr, flush=True)
    return Result("lint", TITLE, ABOUT, rows)


def _measure(row: Row, options: Sequence[str], folder: Path) -> None:
    for _ in range(TIMES):
        cost, _, _ = measure.run([sys.executable, "-m", "etl", *options], folder, every=60.0)
        row.values.append(cost.wall)
        row.cpu.append(cost.cpu)


def pipeline(lines: int) -> str:
    """A valid pipeline file of that many lines: streams and sinks, and comments for what is left."""
    each = (STREAM + SINK).count("\n")
    count = (lines - HEAD.count("\n") - 1) // each
    numbers = [{"n": number, "m": number + 1} for number in range(count)]
    text = HEAD + "".join(STREAM % n for n in numbers) + "sinks:\n" + "".join(SINK % n for n in numbers)
    return text + "# padding\n" * (lines - text.count("\n"))
