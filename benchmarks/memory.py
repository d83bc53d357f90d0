"""The workloads on ``local[1]`` once more, for their memory alone."""

from __future__ import annotations

import sys

from benchmarks import apache, sshd, w1
from benchmarks.contenders import sluice
from benchmarks.results import Result, Row
from benchmarks.settings import Settings
from benchmarks.workload import Entry

TITLE = "Memory on one core"
ABOUT = (
    "W1, COMBINEDAPACHELOG and the five sshd events on `local[1]`, with Spark's JVM allowed on the other core, after runs in "
    "which their patterns were learned and compiled: the most PSS that all processes had together, looked at four times a "
    "second. In the run that compiles, another process needs 80 MB for a second."
)


def run(settings: Settings) -> Result:
    """Workload after workload."""
    rows = []
    for workload in (w1.WORKLOAD, apache.WORKLOAD, sshd.WORKLOAD):
        entry = Entry(workload, sluice(workload.pipeline.name), 1, False, settings.lines)
        for _ in range(settings.runs):
            entry.turn()
            print(f"  {workload.name}: {entry.message}", file=sys.stderr, flush=True)
        rows.append(Row(workload.title, "MB PSS", list(entry.row.pss), at_most=workload.memory_mb))
    return Result("memory", TITLE, ABOUT, rows)
