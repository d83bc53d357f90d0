"""A Spark cluster on this machine: W1 on one and on two workers of a core each, and many splits in a micro-batch."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import data, measure
from benchmarks.contenders import PIPELINES, last_event
from benchmarks.folders import ROOT, fresh
from benchmarks.results import Result, Row
from benchmarks.settings import Settings
from benchmarks.workload import in_memory

TITLE = "A Spark cluster"
SPLITS, SPLIT_LINES = 10_000, 10
"""Files of the micro-batch with many splits, and lines of each."""
ABOUT = (
    "Spark's standalone master, workers with one core each, and the driver share this machine. W1 reads and writes files that "
    "all mount; lines/s are those by which a long run has more than a run of a fifth of them, so without the start of executors. "
    "Each worker has a core of its own; the driver runs on both. "
    f" *Receipts* is one micro-batch of {SPLITS:,} splits of {SPLIT_LINES} lines, each a task: what planning, tasks and "
    "receipts take."
)


def run(settings: Settings) -> Result:
    """One and two workers by turns, each on a cluster of its own."""
    sys.path.append(str(ROOT / "tests"))
    from servers.spark_cluster import SparkCluster

    files = in_memory(data.w1(settings.lines // 5)), in_memory(data.w1(settings.lines))
    rows = {workers: Row(f"W1, {workers} of 1 core", "lines/s") for workers in (1, 2)}
    with SparkCluster(2, memory="2g") as cluster:
        for worker, core in zip(cluster.workers, (0, 1), strict=True):
            assert worker.process is not None
            run_on_core(worker.process.pid, core)
        for _ in range(settings.runs):
            for workers, row in rows.items():
                _measure(row, cluster.address, workers, files)
        receipts = Row("Receipts", "splits/s")
        _measure_splits(receipts, cluster.address)
    ratio = Row("W1, two workers over one", "times", at_least=1.8)
    ratio.values = [two / one for one, two in zip(rows[1].values, rows[2].values, strict=True)]
    return Result("cluster", TITLE, ABOUT, [*rows.values(), ratio, receipts])


def run_on_core(pid: int, core: int) -> None:
    """Give a worker, and the executors that it starts, a core of their own."""
    import psutil  # type: ignore[import-untyped]

    psutil.Process(pid).cpu_affinity([core])


def _measure(row: Row, master: str, workers: int, files: tuple[Path, Path]) -> None:
    few, many = (_run(master, workers, "w1", {"sources.log.path": f"file://{file}"}) for file in files)
    row.values.append((many[0]["events"] - few[0]["events"]) / (many[0]["work_seconds"] - few[0]["work_seconds"]))
    row.cpu.append(many[1].cpu)
    row.wall.append(many[1].wall)
    print(f"  {row.label}: {row.values[-1]:,.0f} lines/s", file=sys.stderr, flush=True)


def _measure_splits(row: Row, master: str) -> None:
    folder = fresh("cluster-in")
    lines = "".join(f"{line}\n" for line in data.seed()[:SPLIT_LINES])
    for number in range(SPLITS):
        (folder / f"{number}.log").write_text(f"{number} {lines}")
    done, cost = _run(master, 2, "w1", {"sources.log.path": f"file://{folder}/*.log", "run.parallelism": str(SPLITS)})
    row.values.append(SPLITS / done["work_seconds"])
    row.cpu.append(cost.cpu)
    row.wall.append(cost.wall)
    row.remark = f"{done['batches']} micro-batches"
    fresh("cluster-in")


def _run(master: str, workers: int, name: str, overrides: Mapping[str, str]) -> tuple[Mapping[str, Any], measure.Cost]:
    folder = fresh("cluster")
    argv = [sys.executable, "-m", "etl", "run", str(PIPELINES / f"{name}.yaml"), "--once", "--log-format", "json"]
    argv += ["--master", master, "--state", f"file://{folder}/state", "--conf", f"spark.cores.max={workers}"]
    for path, value in {**overrides, "sinks.out.path": f"file://{folder}/out/"}.items():
        argv += ["--set", f"{path}={value}"]
    cost, _, err = measure.run(argv, folder)
    done = last_event(err, "done")
    fresh("cluster")
    return done, cost
