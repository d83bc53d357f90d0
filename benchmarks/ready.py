"""How soon a parser is ready in a fresh process: from the cache on disk, and without it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks import measure
from benchmarks.folders import fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings
from etl.spark.session import WORKER_ENVIRONMENT

TITLE = "Until a scanner is ready"
ABOUT = (
    "A fresh process each time, with a worker's settings and numba imported: the grok of a pipeline is opened and parses "
    "one row, then a batch of 2,000. *Cold* begins with an empty cache folder; *cached* is the next process with that folder. "
    "Importing numba (`etl.columns.kernels`) and what numba sets up at the first kernel of a process are rows of their own: "
    "Spark's worker daemon does both before it forks workers (`etl.scanner.warm_up`), so the target is for a process that has "
    "them after it. Wall clock."
)
LIMIT_SECONDS = 0.1
PIPELINES = {"w1": "four fields", "apache": "COMBINEDAPACHELOG", "sshd": "five sshd events"}


def run(settings: Settings) -> Result:
    """A cold process and a cached one for each pipeline, by turns."""
    imported = Row("import of numba", "s")
    set_up = Row("kernels loaded, as the worker daemon does before it forks", "s")
    rows = {}
    for what in PIPELINES.values():
        rows[what, "apart"] = Row(f"{what}, one row, cached, in a worker", "s", at_most=LIMIT_SECONDS)
        rows[what, "cached"] = Row(f"{what}, one row, cached, in a process of its own", "s")
        rows[what, "cold"] = Row(f"{what}, one row, cold", "s")
        rows[what, "batch"] = Row(f"{what}, the next 2,000 rows, cached", "s")
    for _ in range(settings.runs):
        for name, what in PIPELINES.items():
            folder = fresh("ready")
            cold = _measure(name, folder)
            _measure(name, folder, "apart")  # compiles the kernels that this pattern does without
            cached, apart = _measure(name, folder), _measure(name, folder, "apart")
            imported.values.append(cached["imported"])
            set_up.values.append(apart["set_up"])
            rows[what, "cold"].values.append(cold["row"])
            rows[what, "cached"].values.append(cached["row"])
            rows[what, "apart"].values.append(apart["row"])
            rows[what, "apart"].cpu.append(apart["cpu"])
            rows[what, "cold"].cpu.append(cold["cpu"])
            rows[what, "cached"].cpu.append(cached["cpu"])
            rows[what, "batch"].values.append(cached["batch"])
    for row in (*rows.values(), imported, set_up):
        print(f"  {row.label}: {row.median:.3f} s", file=sys.stderr, flush=True)
    return Result("ready", TITLE, ABOUT, [*rows.values(), imported, set_up])


def _measure(pipeline: str, folder: Path, *options: str) -> dict[str, float]:
    """Seconds in a process whose caches lie in ``folder``."""
    env = {**WORKER_ENVIRONMENT, "SLUICE_CACHE": str(folder / "cache")}
    _, out, _ = measure.run([sys.executable, "-m", "benchmarks.ready_kernels", pipeline, *options], folder, env=env, every=60.0)
    found: dict[str, float] = json.loads(out)
    return found
