"""A segment that runs again for a sink that has lost accepted events, and the task that a sink gets for a split."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from etl.api import IDENTITY, OFFSET, BatchId, Rejects, Result, Sink, SplitLostError, Task
from etl.delivery.backoff import Backoff
from etl.delivery.dead_letters import SCHEMA
from etl.plan.frames import Exchange
from etl.plan.segments import Branch, Output, Segment
from etl.segment.restartable_segment import RestartableSegment
from etl.segment.segment_run import SegmentRun, SplitContext

FIELDS = pa.schema([("n", pa.int64())])
TASKS: list[Task] = []
WRITTEN: dict[str, list[pa.RecordBatch]] = {}


class Forgetful(Sink):
    """Loses the split on the first ``loses`` calls of close; rejects odd numbers."""

    type: str = "forgetful"
    loses: int = 0
    identified = True

    def open(self, task: Task) -> ForgetfulWriter:
        TASKS.append(task)
        return ForgetfulWriter(self, task)


class ForgetfulWriter:
    def __init__(self, sink: Forgetful, task: Task) -> None:
        self.sink = sink
        self.task = task
        self.taken: list[pa.RecordBatch] = []

    def sizes(self, batch: pa.RecordBatch) -> None:
        return None

    def write(self, batch: pa.RecordBatch) -> Result:
        self.taken.append(batch)
        if "n" not in batch.schema.names:
            return Result()
        odd = pc.equal(pc.bit_wise_and(batch.column("n"), 1), 1)
        return Result(rejected=(Rejects(batch.filter(odd).drop_columns([IDENTITY]), "odd", "is odd"),))

    def close(self) -> None:
        if sum(task.sink == self.task.sink for task in TASKS) <= self.sink.loses:
            raise SplitLostError("connection reset")
        WRITTEN[self.task.sink] = [*WRITTEN.get(self.task.sink, []), *self.taken]

    def abort(self) -> None:
        """Drop the batches that were not closed."""


@pytest.fixture(autouse=True)
def _empty() -> None:
    TASKS.clear()
    WRITTEN.clear()


def events(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int64()), OFFSET: pa.array(numbers, pa.int64())})


def restartable(tmp_path: Path, root: Branch, loses: int, numbered: bool = False, ordered: bool = True) -> RestartableSegment:
    outputs = {name: Output(name, Forgetful(loses=loses), FIELDS) for name in root.sinks}
    segment = Segment({"src": root}, outputs, {"src": True})
    context = SplitContext(
        pipeline="p",
        source="src",
        partition="0",
        split="src-0",
        order=7,
        staging_folder=lambda sink: str(tmp_path),
        segment_number=2,
        batch=BatchId("q", 5),
        row_numbered=numbered,
        ordered=ordered,
    )
    dead = Output("dead", Forgetful(), SCHEMA)
    begin = lambda: SegmentRun(segment, "src", context, dead, {0: Exchange(FIELDS)} if root.emits else {})  # noqa: E731
    return RestartableSegment(begin, lambda: iter([events(0, 1, 2), events(3, 4)]), Backoff("query 'q'", sleep=lambda _: None))


def written(sink: str, column: str) -> list[object]:
    return [value for batch in WRITTEN[sink] for value in batch.column(column).to_pylist()]


def test_a_lost_split_is_written_again_and_counted_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    receipt = restartable(tmp_path, Branch((), FIELDS, ("out",)), loses=2).run_to_end()

    assert written("out", "n") == [0, 1, 2, 3, 4]
    assert (receipt.read.incoming, receipt.sinks[0].accepted, receipt.sinks[0].dead) == (5, 3, 2)
    assert "query 'q': sink 'out': connection reset; trying again" in caplog.text
    assert "query 'q': works again" in caplog.text


def test_events_that_spark_has_are_not_emitted_again(tmp_path: Path) -> None:
    whole = restartable(tmp_path, Branch((), FIELDS, ("out",), emits=True), loses=2)

    handed = [number for _, batch in whole for number in batch.column("n").to_pylist()]

    assert handed == [0, 1, 2, 3, 4]
    assert whole.receipt.emitted == 5


@pytest.mark.parametrize(
    ("numbered", "ordered"), [(False, True), (False, False), (True, True)], ids=["a source's", "that only name events", "Spark's"]
)
def test_a_sinks_task_has_the_order_of_its_split_and_of_its_events(tmp_path: Path, numbered: bool, ordered: bool) -> None:
    restartable(tmp_path, Branch((), FIELDS, ("out",)), 0, numbered, ordered).run_to_end()

    assert [(task.sink, task.part, task.order, task.ordered) for task in TASKS] == [
        ("out", 2, 7, ordered and not numbered),
        ("dead", 2, 7, False),
    ]


def test_each_dead_letter_of_one_event_has_an_identity(tmp_path: Path) -> None:
    """Two sinks refuse the same events."""
    restartable(tmp_path, Branch((), FIELDS, ("one", "two")), 0).run_to_end()
    first = written("dead", IDENTITY)
    WRITTEN.clear()
    restartable(tmp_path, Branch((), FIELDS, ("one", "two")), 0).run_to_end()

    assert len(first) == len(set(first)) == 4
    assert written("dead", IDENTITY) == first
