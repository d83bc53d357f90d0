"""Random values and times of events that are read again are the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from test_segment_run import Copies, Memory, node, split_context

from etl.api import OFFSET, BatchId
from etl.delivery.dead_letters import SCHEMA
from etl.events import visible
from etl.plan.frames import Exchange
from etl.plan.segments import Branch, Output, Segment
from etl.segment.segment_run import SegmentRun, SplitContext
from etl.steps.filter import Filter
from etl.steps.set import Set

EVENTS = pa.record_batch(
    {"n": pa.array([1, 2] * 600, pa.int64()), "level": ["warn", "info"] * 600, OFFSET: pa.array(range(1200), pa.int64())}
)
VALUES = {
    "id": "flink_uuid()",
    "other": "uuid()",
    "pair": "concat(flink_uuid(), flink_uuid())",
    "warned": "case when level like 'warn%' then flink_uuid() end",
    "number": "rand()",
    "limited": "flink_rand_integer(1000)",
    "seeded": "flink_rand(7)",
    "at": "flink_current_timestamp()",
}


def values(context: SplitContext, *batches: pa.RecordBatch) -> pa.Table:
    """What events become that are copied, sampled and given random values twice."""
    incoming = visible(EVENTS.schema)
    sets = Set(fields=VALUES)
    again = Set(fields={"id_2": "flink_uuid()", "seeded_2": "flink_rand(7)"})
    steps = (
        node(Copies(), incoming),
        node(Filter(where="flink_rand() < 0.5"), incoming),
        node(sets, incoming),
        replace(node(again, sets.fields(incoming)), id="s[3] set"),
    )
    fields = steps[-1].outgoing
    segment = Segment({"src": Branch(steps, fields, emits=True)}, {}, {"src": True})
    run = SegmentRun(segment, "src", context, Output("dead_letters", Memory(), SCHEMA), {0: Exchange(fields, None)})
    return pa.Table.from_batches([batch for _, batch in run.process(batches)])


@pytest.fixture
def context(tmp_path: Path) -> SplitContext:
    return replace(split_context(tmp_path), batch=BatchId("query", 3), read_at=1.7e9)


def test_an_event_that_is_read_again_has_the_same_values(context: SplitContext) -> None:
    first = values(context, EVENTS)
    again = values(replace(context, split="src-1", order=4, batch=BatchId("query", 9)), EVENTS[:1], EVENTS[1:700], EVENTS[700:])

    assert 500 < first.num_rows < 1300
    assert again.equals(first)


def test_values_of_events_copies_fields_steps_and_calls_are_others(context: SplitContext) -> None:
    found = values(context, EVENTS)
    ids = [one for name in ("id", "other", "id_2") for one in found[name].to_pylist()]
    pairs = [pair[at : at + 36] for pair in found["pair"].to_pylist() for at in (0, 36)]
    warned = [one for one in found["warned"].to_pylist() if one is not None]

    assert len({*ids, *pairs, *warned}) == 5 * found.num_rows + len(warned)
    assert len(warned) == found["level"].to_pylist().count("warn")
    assert found["seeded"].equals(found["seeded_2"])
    assert 0.4 < sum(found["number"].to_pylist()) / found.num_rows < 0.6
    assert max(found["limited"].to_pylist()) < 1000
    assert {time.timestamp() for time in found["at"].to_pylist()} == {1.7e9}


@pytest.mark.parametrize(
    "change",
    [
        {"batch": BatchId("other", 3)},
        {"partition": "part-1"},
        {"source": "other"},
        {"row_numbered": True},
    ],
)
def test_values_of_another_input_are_others(context: SplitContext, change: dict[str, Any]) -> None:
    found, other = values(context, EVENTS), values(replace(context, **change), EVENTS)

    assert not set(found["id"].to_pylist()) & set(other["id"].to_pylist())


def test_results_of_each_micro_batch_have_values_of_their_own(context: SplitContext) -> None:
    context = replace(context, row_numbered=True)
    found, other = values(context, EVENTS), values(replace(context, batch=BatchId("query", 4)), EVENTS)

    assert values(context, EVENTS).equals(found)
    assert not set(found["id"].to_pylist()) & set(other["id"].to_pylist())
