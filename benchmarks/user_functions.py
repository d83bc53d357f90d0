"""Functions of the user beside built-in ones with the same kernel, and the step `python` on dicts and batches."""

from __future__ import annotations

import json
import sys

from benchmarks import measure
from benchmarks.folders import fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings
from etl.spark.session import WORKER_ENVIRONMENT

TITLE = "Functions of your own"
ABOUT = (
    "Batches of {events:,} events with six fields, in one process with a worker's settings and on one thread; CPU time, the best "
    "of {times}, by turns. Own functions are Python on Arrow arrays and call the kernel of Arrow that the built-in one calls; "
    "the rest is the call with its time limit, about 10 µs for each batch, which shows where a batch takes 30 µs. The step "
    "`python` gives two fields."
)
MAX_RATIO = 1.1
MIN_ON_DICTS = 150_000
"""Events a CPU second."""


def run(settings: Settings) -> Result:
    """One process, as its numbers come out of turns within it."""
    _, out, _ = measure.run(
        [sys.executable, "-m", "benchmarks.user_functions_kernels"], fresh("user_functions"), env=WORKER_ENVIRONMENT
    )
    found = json.loads(out)
    rows = [Row(f"`{name}`, own / built-in", "times", [ratio], at_most=MAX_RATIO) for name, ratio in found["ratios"].items()]
    rows += [
        Row("step python, a dict for each event, six fields", "events/CPU-s", [found["dicts"]], at_least=MIN_ON_DICTS),
        Row("step python, a dict for each event, `read` of two fields", "events/CPU-s", [found["read"]], at_least=MIN_ON_DICTS),
        Row("step python, record batches", "events/CPU-s", [found["batches"]]),
        Row("function on values, one call for each event", "events/CPU-s", [found["values"]]),
    ]
    for row in rows:
        print(f"  {row.label}: {row.median:,.3g} {row.unit}", file=sys.stderr, flush=True)
    return Result("user-functions", TITLE, ABOUT.format(**found), rows)
