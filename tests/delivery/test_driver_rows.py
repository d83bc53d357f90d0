"""A JVM that is killed while it sends rows to the driver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from etl.api import BatchId
from etl.receipts import Receipt
from etl.spark.driver_rows import collect_receipts, receipts_row
from etl.spark.lane.lane_completion import LaneCompletion

SCRIPT = """
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier
import psutil, pyspark.util
from etl.spark import session
from etl.spark.driver_rows import collect_all

context = session.start("collected", "local[1]", {}, Path(sys.argv[1])).sparkContext
connect = pyspark.util._create_local_socket

def kill():
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # one that has ended since
            if "java" in process.name():
                process.kill()
                process.wait()

both_connected = Barrier(2, kill)

def connect_and_kill(address):
    connected = connect(address)
    both_connected.wait(120)
    return connected

def collect(how):
    rows = context.parallelize(range(1_000_000), 1)
    try:
        return "collected", len(rows.collect() if how == "plain" else collect_all(rows))
    except OSError as error:
        return "raised", type(error).__name__

pyspark.util._create_local_socket = connect_and_kill
with ThreadPoolExecutor(2) as pool:
    for how, outcome in zip(("plain", "all"), pool.map(collect, ("plain", "all"))):
        print(how, *outcome)
"""
"""Collects the same rows in both ways, and kills the JVM when both have connected to it."""


@pytest.mark.spark
@pytest.mark.slow
def test_rows_are_not_taken_for_all_where_the_jvm_ends(tmp_path: Path) -> None:
    words = [sys.executable, "-c", SCRIPT, str(tmp_path / "spark.log")]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)

    assert [line.split()[:2] for line in ran.stdout.splitlines()] == [["plain", "collected"], ["all", "raised"]], ran.stderr[
        -2000:
    ]


@pytest.mark.parametrize("kind", ["LogicalRDD", "MapInArrow"])
def test_the_rows_of_a_planned_micro_batch_are_collected_without_a_further_query(kind: str) -> None:
    receipts = [Receipt("s", str(number), number) for number in range(3)]
    tasks = [receipts_row(receipts[:2]), receipts_row(receipts[2:])]
    rows = [
        SimpleNamespace(receipt=one["receipt"], getBinary=lambda _, one=one: one["receipt"])
        for t in tasks
        for one in t.to_pylist()
    ]
    queries: list[str] = []
    planned = SimpleNamespace(getSimpleName=lambda: kind)
    logical = SimpleNamespace(getClass=lambda: planned, rdd=lambda: SimpleNamespace(collect=lambda: rows))
    frame = SimpleNamespace(
        _jdf=SimpleNamespace(queryExecution=lambda: SimpleNamespace(logical=lambda: logical)),
        collect=lambda: queries.append("collect") or rows,
        sparkSession=SimpleNamespace(sparkContext=SimpleNamespace(getLocalProperty=str)),
    )

    assert collect_receipts(frame) == receipts  # type: ignore[arg-type]
    assert queries == ([] if kind == "LogicalRDD" else ["collect"])


def test_a_micro_batch_is_not_committed_after_the_end_of_the_jvm() -> None:
    committed: list[Any] = []

    def ended(name: str) -> str:
        raise ConnectionRefusedError(name)

    query = SimpleNamespace(query="q")
    outcome = SimpleNamespace(late=0, over_limit=0, results=[], heads=[], event_time=None, state=None)
    lane = SimpleNamespace(manifests=SimpleNamespace(seed=1, write=lambda *_: None), query=query, advance=lambda *_: outcome)
    lane.bounded = False
    totals = SimpleNamespace(add_dropped=lambda *_: None)
    completion = SimpleNamespace(complete=lambda *given: committed.append(given), totals=totals)
    context = SimpleNamespace(getLocalProperty=ended)

    with pytest.raises(ConnectionRefusedError):
        LaneCompletion(lane, completion).complete(SimpleNamespace(sparkContext=context), BatchId("q", 7), [])  # type: ignore[arg-type]

    assert committed == []
