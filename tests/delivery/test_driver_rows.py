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
from contextlib import suppress
from pathlib import Path
import psutil, pyspark.util
from etl.spark import session
from etl.spark.driver_rows import collect_all

context = session.start("collected", "local[1]", {}, Path(sys.argv[2])).sparkContext
connect = pyspark.util._create_local_socket

def connect_and_kill(address):
    connected = connect(address)
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # one that has ended since
            if "java" in process.name():
                process.kill()
                process.wait()
    return connected

pyspark.util._create_local_socket = connect_and_kill
rows = context.parallelize(range(1_000_000), 1)
try:
    print("collected", len(rows.collect() if sys.argv[1] == "plain" else collect_all(rows)))
except OSError as error:
    print("raised", type(error).__name__)
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("how", "printed"), [("plain", "collected"), ("all", "raised")])
def test_rows_are_not_taken_for_all_where_the_jvm_ends(how: str, printed: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", SCRIPT, how, str(tmp_path / "spark.log")]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)

    assert ran.stdout.split()[:1] == [printed], ran.stderr[-2000:]


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
