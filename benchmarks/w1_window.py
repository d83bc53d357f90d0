"""W1 with a filter that keeps one line in a hundred and a window after it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks import data, measure
from benchmarks.contenders import done, etl
from benchmarks.folders import fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings

TITLE = "W1 with a filter and a window"
ABOUT = (
    "The same lines and grok; a filter keeps 1 %, a second grok takes the address, `timestamp` reads the time, and `window` "
    "counts for each address and ten minutes. The sum of all counts is compared with the number of lines that pass the filter."
)
TARGET = 4_000_000.0
MAX_LINES = 10_000_000
"""Two million are read in half a second, in which the second job and the first use of each kernel count as much as the lines."""

KEPT = "]: Invalid user admin from "


def run(settings: Settings) -> Result:
    """Two cores."""
    source = data.w1(min(settings.lines, MAX_LINES))
    row = Row("sluice, 2 cores", "lines/s", at_least=TARGET)
    for number in range(settings.runs):
        _measure(source, row)
        print(f"  run {number + 1}: {row.values[-1]:,.0f} lines/s", file=sys.stderr, flush=True)
    return Result("w1_window", f"{TITLE} ({data.lines_of(source):,} lines)", ABOUT, [row])


def _measure(source: Path, row: Row) -> None:
    folder = fresh("w1_window")
    cost, out, err = measure.run(etl("w1-window.yaml")(source, folder, 2), folder)
    _check(folder / "out.json", data.lines_of(source))
    row.values.append(data.lines_of(source) / done(out, err))
    row.cpu.append(cost.cpu)
    row.pss.append(cost.peak)
    row.wall.append(cost.wall)


def _check(output: Path, lines: int) -> None:
    """Windows are written again when they change: the last count of each is its count."""
    windows = {}
    for line in output.read_text().splitlines():
        window = json.loads(line)
        count = window.pop("probes")
        windows[json.dumps(window)] = count
    once = data.seed()
    expected = sum(KEPT in line for line in once) * (lines // len(once))
    if sum(windows.values()) != expected:
        raise ValueError(f"{output}: the windows count {sum(windows.values())} events of {expected}")
