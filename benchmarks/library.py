"""The patterns of the grok library on the acceptance vectors, each alone: our parser against RE2 or ``regex``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import measure
from benchmarks.folders import fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings
from etl.spark.session import WORKER_ENVIRONMENT

TITLE = "The library, pattern by pattern"
ABOUT = (
    "Every pattern of the grok vectors (both sets) whose names the library has, over the messages of its own vectors, "
    "repeated to {rows:,} rows, in one process with a worker's settings: our parser (captures as typed, named columns, rows "
    "that failed) beside one call of RE2 (`pyarrow.compute.extract_regex`), or, where RE2 cannot, the package `regex` in a loop "
    "over the rows (captures as columns). CPU time; warm is the best of {times}, by turns; cold is compiling and the first call, "
    "in a process that has run other patterns; what is cold may be served by a cache on disk."
)
MIN_RATIO = 0.9
WORST = 12
"""Patterns listed."""


def run(settings: Settings) -> Result:
    """One process, as its many numbers come out of turns within it."""
    folder = fresh("library")
    _, out, _ = measure.run([sys.executable, "-m", "benchmarks.library_kernels"], folder, env=WORKER_ENVIRONMENT)
    found = json.loads(out)
    patterns = sorted(found["patterns"], key=_ratio)
    rows = list(_rows(patterns))
    for row in rows:
        print(f"  {row.label}: {row.median:,.3g} {row.unit}", file=sys.stderr, flush=True)
    return Result("library", TITLE, ABOUT.format(**found), rows, extra=_table(patterns[:WORST]))


def _ratio(pattern: Mapping[str, Any]) -> float:
    """How many times as fast as the other we are, warm."""
    return float(pattern["other_warm"] / pattern["ours_warm"])


def _rows(patterns: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Over all patterns; ``patterns`` begin with the worst."""
    ratios = [_ratio(pattern) for pattern in patterns]
    worst = patterns[0]
    by_other = {other: [_ratio(p) for p in patterns if p["other"] == other] for other in ("RE2", "regex")}
    return [
        Row("patterns", "patterns", [len(patterns)]),
        Row(
            "slowest pattern, ours / other", "times", [ratios[0]], at_least=MIN_RATIO, remark=f"{_name(worst)}, {worst['other']}"
        ),
        Row(f"patterns below {MIN_RATIO:g}", "patterns", [sum(ratio < MIN_RATIO for ratio in ratios)]),
        *(
            Row(f"median, ours / {other} ({len(some)} patterns)", "times", [some[len(some) // 2]])
            for other, some in by_other.items()
            if some
        ),
        Row("cold, ours", "s", [pattern["ours_cold"] for pattern in patterns]),
        Row("cold, the other", "s", [pattern["other_cold"] for pattern in patterns]),
    ]


def _name(pattern: Mapping[str, Any]) -> str:
    text = pattern["pattern"].replace("|", "\\|")
    return f"`{text[:77]}{'…' if len(text) > 77 else ''}` ({pattern['set']})"


def _table(patterns: Sequence[Mapping[str, Any]]) -> str:
    heads = ["slowest patterns", "other", "ours / other", "ours, rows/CPU s", "other, rows/CPU s", "ours, cold", "other, cold"]
    head = f"| {' | '.join(heads)} |\n| --- | --- |{' ---: |' * 5}"
    rows = [
        f"| {_name(p)} | {p['other']} | {_ratio(p):.2f} | {p['rows'] / p['ours_warm']:,.0f} | {p['rows'] / p['other_warm']:,.0f} "
        f"| {p['ours_cold'] * 1000:.1f} ms | {p['other_cold'] * 1000:.1f} ms |"
        for p in patterns
    ]
    return "\n".join([head, *rows])
