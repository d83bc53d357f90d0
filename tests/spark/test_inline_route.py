"""Micro-batches of a stateful query that one task reads: which ones, and that their results are those of further jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.discard import DiscardSink
from etl.api import TIMESTAMP, BatchId, Limit, Offset, Source, Split
from etl.plan.frames import StageInput
from etl.plan.segments import Branch, Output, Segment, Watermark
from etl.receipts import NO_SEGMENT, Receipt
from etl.spark.lane.lane_batch import BatchOutcome, Lane, MoreTasksNeeded, run_here
from etl.spark.lane.lane_stages import Stage
from etl.spark.lane.stored_receipts import StoredReceipts
from etl.spark.query_context import QueryContext
from etl.spark.split_planner import JOINED_SIZE, SplitPlanner
from etl.spark.state.folder import StateFolder
from etl.state.compaction import FILES_IN_TIER
from etl.state.manifest import StateFileEntry
from etl.state.row_files import RowWriter
from etl.steps.window import Window

MINUTE = 60_000_000
INCOMING = pa.schema([("time", TIMESTAMP), ("user_name", pa.string())])


class Ranges(Source):
    """A source that counts events; each split has ``most`` of them at most."""

    type: str = "ranges"
    max_events: int = JOINED_SIZE
    end: int = 0

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        return [Split("0", at, min(at + self.max_events, end["at"])) for at in range(start["at"], end["at"], self.max_events)]

    def latest(self, start: Offset, limit: Limit) -> Offset:
        return {"at": self.end}

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


def query(folder: Path, durable: bool = True) -> QueryContext:
    return QueryContext(
        pipeline="p",
        query="q",
        run_id="r",
        state=StateFolder(folder),
        dead_letters=Output("dead_letters", DiscardSink(type="discard"), pa.schema([])),
        parallelism=4,
        max_batch_bytes=1,
        once=True,
        durable=durable,
    )


@pytest.mark.parametrize(
    ("events", "joins", "joined"),
    [
        ([JOINED_SIZE], True, [0]),
        ([20, 30, 40], True, [2]),
        ([JOINED_SIZE - 1, 2], True, [None, None]),
        ([2 * JOINED_SIZE], True, [None, None]),
        ([20, 30], False, [None, None]),
    ],
)
def test_splits_of_a_small_micro_batch_are_read_by_one_task(
    events: Sequence[int], joins: bool, joined: Sequence[int | None], tmp_path: Path
) -> None:
    sources = {f"s{number}": Ranges() for number in range(len(events))}
    start = {"sources": {name: {"at": 7} for name in sources}, "parallelism": 4}
    end = {"sources": {name: {"at": 7 + count} for name, count in zip(sources, events, strict=True)}, "parallelism": 4}

    tasks = SplitPlanner(query(tmp_path), sources, joins=joins).plan_tasks(start, end)

    assert [None if task.joined is None else len(task.joined) for task in tasks] == joined
    assert {task.tasks for task in tasks} == {len(joined)}


def test_a_tick_is_a_micro_batch_of_one_task(tmp_path: Path) -> None:
    offset = {"sources": {"s": {"at": 7}}, "parallelism": 4}

    [task] = SplitPlanner(query(tmp_path), {"s": Ranges()}, joins=True).plan_tasks(offset, {**offset, "tick": MINUTE})

    assert (task.tick, task.joined) == (MINUTE, ())


def test_of_several_tasks_the_one_that_ends_last_gets_the_receipts_of_all(tmp_path: Path) -> None:
    stored, receipts = StoredReceipts(tmp_path), [Receipt("s", str(number), number) for number in range(3)]

    found = [stored.add(receipts[number], number, 3) for number in (2, 0, 1)]

    assert found == [None, None, receipts]
    assert stored.add(receipts[1], 1, 3) is None  # an attempt that runs again: the driver runs the parts
    stored.clear()
    assert [stored.add(receipts[number], number, 3) for number in (1, 0)] == [None, None]


def test_of_tasks_that_end_at_the_same_time_one_gets_the_receipts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile, rename = StoredReceipts(tmp_path), Path.rename
    found: list[list[Receipt] | None] = []

    def then_the_other_ends(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        renamed = self.rename(target)
        found.append(meanwhile.add(Receipt("s", "1", 1), 1, 2))
        return renamed

    monkeypatch.setattr(Path, "rename", then_the_other_ends)
    found.append(StoredReceipts(tmp_path).add(Receipt("s", "0", 0), 0, 2))

    assert [None if one is None else len(one) for one in found] == [2, None]


def lane(folder: Path, durable: bool = True) -> Lane:
    """A window after a window."""
    first = Window.model_validate({"time": "time", "size": "1m", "group_by": ["user_name"], "aggregates": {"n": "count(*)"}})
    second = Window.model_validate({"time": "window_start", "size": "2m", "aggregates": {"n": "sum(n)"}})
    between = first.fields(INCOMING)
    ends = [Segment({"": Branch((), between, emits=True, to=1)}, {}), Segment({"": Branch((), second.fields(between))}, {})]
    watermarks = [Watermark("time", 0), Watermark("window_start", 0)]
    stages = [
        Stage(
            step=step,
            incoming=incoming,
            watermark=watermark,
            segment=segment,
            segment_number=number,
            following={} if number else {1: 1},
        )
        for number, (step, incoming, watermark, segment) in enumerate(
            zip((first, second), (INCOMING, between), watermarks, ends, strict=True)
        )
    ]
    inputs = (StageInput(0, 0, sources=frozenset({"s"})), StageInput(1, 0, stages=frozenset({0})))
    return Lane(stages, inputs, query(folder, durable))


def read(lane: Lane, batch: int, times: Sequence[int]) -> list[Receipt]:
    """The receipt of a task that has read events of these times."""
    rows = {"time": pa.array(times, TIMESTAMP), "user_name": [str(number % 3) for number in range(len(times))]}
    watermark = lane.manifests.read(batch - 1).stage(0).watermark
    writer = RowWriter(lane.stages[0].step.operator(INCOMING), lane.manifests, f"rows-{batch:012d}-0-000000", watermark)
    writer.add(pa.RecordBatch.from_pydict(rows, schema=INCOMING))
    return [Receipt("s", "s", 0, 0, rows={0: writer.close()}, late=writer.late, event_times={0: max(times)})]


def outcome(one: Lane, batch: int, times: Sequence[int], here: bool) -> BatchOutcome:
    """A micro-batch whose manifest is written."""
    tasks = run_here if here else lambda work, tasks: [done for number in range(tasks) for done in work([number])]
    found = one.advance(BatchId("q", batch), read(one, batch, times), tasks)
    one.manifests.write(batch, found.state)
    return found


def test_parts_that_the_reading_task_runs_give_what_further_jobs_give(tmp_path: Path) -> None:
    micro_batches = [[0, MINUTE // 2, 30], [MINUTE + 1, 10], [3 * MINUTE, 2 * MINUTE], [9 * MINUTE], [4 * MINUTE, 10 * MINUTE]]
    lanes = [lane(tmp_path / route) for route in ("inline", "log")]
    (tmp_path / "log" / "queries" / "q" / "state").mkdir(parents=True)
    seed = lanes[0].manifests.seed
    (tmp_path / "log" / "queries" / "q" / "state" / "seed.json").write_text(str(seed))

    for batch, times in enumerate(micro_batches):
        inline, log = (outcome(one, batch, times, here) for one, here in zip(lanes, (True, False), strict=True))

        assert inline.state == log.state
        assert inline.late == log.late
        for ours, others in zip([*inline.heads, *inline.results], [*log.heads, *log.results], strict=True):
            assert (ours.split, ours.order, ours.part, ours.read) == (others.split, others.order, others.part, others.read)
        files = [{path.name: path.read_bytes() for path in one.manifests.folder.glob("rows-*")} for one in lanes]
        assert files[0] == files[1]
    assert inline.late == 1
    assert [receipt.read.incoming for receipt in inline.results] == [1]


def test_large_parts_are_run_by_ranges_of_keys_with_the_same_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def results(folder: Path) -> list[tuple[int, int, int]]:
        one, found = lane(folder), []
        for batch, times in enumerate([[*range(0, 60, 2)], [MINUTE + 1], [9 * MINUTE]]):
            done = outcome(one, batch, times, True)
            rows = sum(file.rows for stage in done.state.stages for file in stage.files)
            found.append((sum(receipt.read.incoming for receipt in [*done.heads, *done.results]), rows, done.late))
        return found

    together = results(tmp_path / "together")
    monkeypatch.setattr("etl.spark.lane.lane_batch.MAX_JOINT_ROWS", 0)
    monkeypatch.setattr("etl.state.part_rows.RANGE_ROWS", 1)

    assert results(tmp_path / "ranges") == together
    assert together[-1][0]


def test_parts_that_are_worth_several_tasks_are_left_to_the_driver(tmp_path: Path) -> None:
    one = lane(tmp_path)
    large = StateFileEntry("rows-0", 0, 0, 1_000_000, 1, 0)
    receipt = Receipt("", "s", 0, NO_SEGMENT, rows={0: (large,)}, event_times={0: 5 * MINUTE})

    with pytest.raises(MoreTasksNeeded):
        one.advance(BatchId("q", 0), [receipt], run_here)


@pytest.mark.parametrize("durable", [True, False])
def test_the_disk_is_waited_for_where_state_must_survive_a_power_failure(
    durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = lane(tmp_path, durable)
    _ = one.manifests.seed
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)

    counts = []
    for batch in range(FILES_IN_TIER):
        outcome(one, batch, [batch], here=True)
        counts.append(len(synced))
        synced.clear()

    rows, manifest, merged = 1, 2, 1
    assert counts == ([rows + manifest] * (FILES_IN_TIER - 1) + [rows + manifest + merged] if durable else [0] * FILES_IN_TIER)
