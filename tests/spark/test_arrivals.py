"""Rows for a stateful step of events that Spark reads, as a task writes them; without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from spark.test_inline_route import query

from etl.api import OFFSET, TIMESTAMP, BatchId, EmitProgress
from etl.delivery.backoff import StopFile
from etl.receipts import Receipt
from etl.segment.segment_run import SplitContext
from etl.spark.lane import arrivals
from etl.spark.lane.arrivals import RowTarget, _PartitionRows
from etl.state.manifest import Manifest, Manifests, StageState
from etl.steps.heartbeats import ARRIVAL
from etl.steps.window import Window

SECOND = 1_000_000
CLOSED_UNTIL = 1_601 * SECOND
"""Where the end of a run at 1,000 s has advanced the clock of a window of ten minutes."""

Write = Callable[..., Receipt]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes two events by the time of reading; ``seconds``: what Spark says about it, None where the column is lost."""
    context = query(tmp_path, durable=False)
    manifests = Manifests(context.state.rows(context.query), durable=False)
    manifests.folder.mkdir(parents=True)
    stages = (StageState(CLOSED_UNTIL, (), EmitProgress()),)
    manifests.write(0, Manifest(1_000 * SECOND, stages, 1, {"0.0": 1_000 * SECOND}, CLOSED_UNTIL))

    def split_context(*_: object) -> SplitContext:
        return SplitContext(
            pipeline="p",
            source="q",
            partition="0",
            split="rows-000000",
            order=0,
            staging_folder=lambda _: str(tmp_path),
            segment_number=0,
            batch=BatchId("b", 1),
            stop_file=StopFile(tmp_path / "stop"),
            spool_folder=tmp_path,
        )

    monkeypatch.setattr(arrivals, "split_context", split_context)
    step = Window.model_validate({"size": "10m", "aggregates": {"n": "count(*)"}})

    def work(seconds: int | None, read_at: int | None, upstream: int | None = None) -> Receipt:
        target = RowTarget(
            step=step,
            incoming=pa.schema([(ARRIVAL, TIMESTAMP)]),
            id="steps[0] window",
            reports=True,
            reports_times=True,
            inputs={0: 0},
            upstream=upstream,
            read_at=read_at,
        )
        columns = {OFFSET: pa.array([0, 1], pa.int64())}
        if seconds is not None:
            columns[ARRIVAL] = pa.array([seconds * SECOND] * 2, pa.int64()).cast(TIMESTAMP)
        rows = _PartitionRows(context, target)
        rows.add(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))
        return rows.close()

    return work


def times(receipt: Receipt) -> tuple[int, int, int]:
    """Events that are late, rows, and the largest time."""
    return receipt.late, sum(file.rows for file in receipt.rows[0]), receipt.event_times[0]


@pytest.mark.parametrize("seconds", [1_100, None])
def test_no_event_is_late_by_the_time_of_reading_after_a_drained_run(write: Write, seconds: int | None) -> None:
    assert times(write(seconds, 1_100 * SECOND)) == (0, 1, CLOSED_UNTIL + 1)
    assert times(write(seconds, 2_000 * SECOND)) == (0, 1, 2_000 * SECOND)


def test_results_of_a_stage_keep_the_time_that_it_gives_them(write: Write) -> None:
    assert times(write(1_700, None, upstream=0)) == (0, 1, 1_700 * SECOND)


def test_events_that_are_read_at_once_keep_the_time_that_they_have(write: Write) -> None:
    assert times(write(1_700, None)) == (0, 1, 1_700 * SECOND)
    assert write(None, None).event_times[0] > CLOSED_UNTIL
