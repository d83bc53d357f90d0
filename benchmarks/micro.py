"""The engine's inner loops alone: cutting lines, grok, JSON, on one core."""

from __future__ import annotations

import json
import sys

from benchmarks import measure
from benchmarks.folders import fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings
from etl.spark.session import WORKER_ENVIRONMENT

TITLE = "Inner loops, one core"
ABOUT = (
    "Lines a CPU second of the functions that a task calls on each batch, in one process, with a worker's settings; beside "
    "each grok the same expressions by RE2 (`pyarrow.compute.extract_regex`; *RE2 simple*: a simple "
    "regular expression that does the same to these lines) and by Python's `re` (groups, no columns)."
)
PATTERNS = {"w1": "four fields", "apache": "COMBINEDAPACHELOG", "sshd": "five sshd events"}
LABELS = {
    "cut": "lines cut out of blocks",
    "json": "JSON lines of four fields",
    **{f"{name}, {by}": f"{what}, {by}" for name, what in PATTERNS.items() for by in ("grok", "RE2", "RE2 simple", "re")},
}


def run(settings: Settings) -> Result:
    """A process with the environment of Spark's workers, which must be set before it starts."""
    folder = fresh("micro")
    _, out, _ = measure.run([sys.executable, "-m", "benchmarks.kernels"], folder, env=WORKER_ENVIRONMENT)
    rows = [Row(LABELS[name], "lines/CPU s", values) for name, values in json.loads(out).items()]
    for row in rows:
        print(f"  {row.label}: {row.median:,.0f} lines/CPU s", file=sys.stderr, flush=True)
    return Result("micro", TITLE, ABOUT, rows)
