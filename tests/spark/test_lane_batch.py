"""Micro-batches of a stateful query in the driver, with tasks that only are counted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from etl.api import TIMESTAMP, BatchId, WatermarkAdvance
from etl.plan.frames import StageInput
from etl.plan.segments import Branch, Segment, Watermark
from etl.receipts import NO_SEGMENT, Receipt
from etl.spark.lane.lane_batch import Lane
from etl.spark.lane.lane_completion import LaneCompletion
from etl.spark.lane.lane_stages import Stage
from etl.spark.lane.part_tasks import PartTasks
from etl.spark.query_context import QueryContext
from etl.spark.state.folder import StateFolder
from etl.state.key_hash import PARTS
from etl.state.manifest import Manifest, Manifests, StateFileEntry
from etl.state.part_rows import MappedStateFiles
from etl.state.state_file_writer import write_state_file
from etl.steps.keyed.over import Over
from etl.steps.window import Window

MINUTE = 60_000_000


class Tasks:
    """Counts the tasks of each job, instead of a SparkContext."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def parallelize(self, numbers: Iterable[int], tasks: int) -> Any:
        self.counts.append(tasks)
        assert list(numbers) == list(range(tasks))
        session = SimpleNamespace(sparkContext=self)
        return SimpleNamespace(mapPartitions=lambda work: SimpleNamespace(collect=list, sparkSession=session))

    def getLocalProperty(self, name: str) -> None:  # noqa: N802
        """What asks whether the JVM is still there."""


def lane(folder: Path, parallelism: int) -> LaneCompletion:
    incoming = pa.schema([("time", TIMESTAMP)])
    step = Window.model_validate({"time": "time", "size": "1m", "late": "0s", "aggregates": {"n": "count(*)"}})
    segment = Segment({"": Branch((), incoming)}, {})
    stage = Stage(step=step, incoming=incoming, watermark=Watermark("time", 0), segment=segment, segment_number=0)
    query = QueryContext(
        pipeline="p",
        query="q",
        run_id="r",
        state=StateFolder(folder),
        dead_letters=cast(Any, None),
        parallelism=parallelism,
        max_batch_bytes=1,
        once=True,
    )
    totals = SimpleNamespace(add_dropped=lambda query, late, over_limit: None)
    return LaneCompletion(
        Lane([stage], (StageInput(0, 0, sources=frozenset({"s"})),), query),
        cast(Any, SimpleNamespace(totals=totals, complete=lambda *receipts: None)),
    )


def read(number: int) -> list[Receipt]:
    """What a task gives that has read events of a minute."""
    rows = (StateFileEntry(f"rows-{number}", number * MINUTE, number * MINUTE, 1_000_000, 1, 0),)
    return [Receipt("", "s", 0, NO_SEGMENT, rows={0: rows}, event_times={0: number * MINUTE})]


@pytest.fixture
def tasks() -> Tasks:
    return Tasks()


def test_a_run_on_other_cores_divides_the_next_micro_batch_as_the_run_before(tmp_path: Path, tasks: Tasks) -> None:
    for number in range(3):
        lane(tmp_path, 2).complete(cast(Any, SimpleNamespace(sparkContext=tasks)), BatchId("q", number), read(number))
    for number in (2, 3):
        lane(tmp_path, 8).complete(cast(Any, SimpleNamespace(sparkContext=tasks)), BatchId("q", number), read(number))

    assert tasks.counts == [2, 2, 2, 8]


def test_a_micro_batch_that_runs_again_starts_from_the_manifest_before(tmp_path: Path, tasks: Tasks) -> None:
    state = Manifests(StateFolder(tmp_path).rows("q"))
    manifests: list[Manifest] = []

    for number in (0, 1, 2, 2, 2, 3):
        lane(tmp_path, 1).complete(cast(Any, SimpleNamespace(sparkContext=tasks)), BatchId("q", number), read(number))
        manifests.append(state.read(number))

    assert manifests[2] == manifests[3] == manifests[4]
    assert [[file.name for file in one.stage(0).files] for one in manifests[-2:]] == [["rows-2"], ["rows-3"]]


@pytest.mark.parametrize(("waiting", "portions"), [(10, 1), (11, PARTS)])
def test_parts_with_many_events_that_wait_are_run_one_by_one(
    waiting: int, portions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past rows, in odd panes, are looked up: they are not a reason."""
    monkeypatch.setattr("etl.spark.lane.part_tasks.MAX_JOINT_ROWS", 10)
    incoming = pa.schema([("time", TIMESTAMP), ("key", pa.string())])
    step = Over.model_validate({"time": "time", "late": "0s", "keys": ["key"], "aggregates": {"n": "count(*)"}})
    kept = write_state_file(
        tmp_path / "kept",
        pa.table({"n": range(100 + waiting)}),
        np.arange(100 + waiting) % PARTS,
        np.array([2 * MINUTE + 1] * 100 + [2 * MINUTE] * waiting),
        durable=False,
    )
    assert kept is not None
    work = PartTasks(
        query=cast(Any, None),
        batch=BatchId("q", 1),
        number=0,
        step=step,
        incoming=incoming,
        clock=WatermarkAdvance(0, MINUTE),
        read_at=0,
        state=Manifests(tmp_path, durable=False),
        arrived=(),
        stored=(kept,),
        segment=cast(Any, None),
        segment_number=0,
        following={},
        tasks=1,
        at_once=True,
        reads_all=False,
    )

    no_rows, rows = MappedStateFiles(tmp_path, ()), MappedStateFiles(tmp_path, (kept,))

    assert len(list(work._rows(step.operator(incoming), 0, no_rows, rows))) == portions
