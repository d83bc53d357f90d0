"""Which event times count: not those of clocks that are ahead, nor those beyond what can be computed with."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.api import ALWAYS, NEVER, OFFSET, SIDE, TIMESTAMP
from etl.plan.segments import Watermark
from etl.segment.event_time import TAIL_BYTES, TAIL_ROWS, BatchTails, EventTime

READ_AT, DAY = 1_700_000_000, 86_400
MICROS = {"s": 10**6, "ms": 10**3, "us": 1}


def batch(unit: str, *times: int | None) -> pa.RecordBatch:
    return pa.record_batch({"time": pa.array(times, pa.timestamp(unit)), OFFSET: pa.array(range(len(times)))})


def event_time(max_ahead: float | None = DAY) -> EventTime:
    return EventTime(Watermark("time", 0), READ_AT, max_ahead)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_that_is_too_far_ahead_does_not_move_the_event_time(unit: str) -> None:
    second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    last = (READ_AT + DAY) * second
    found = event_time()

    found.observe(batch(unit, READ_AT * second, None, last + 1, last, 4_000_000_000 * second))

    assert found.latest == (READ_AT + DAY) * 10**6


def test_a_batch_of_times_that_do_not_count_has_no_event_time() -> None:
    found = event_time()

    found.observe(batch("s", READ_AT + 2 * DAY, None))

    assert found.latest is None


@pytest.mark.parametrize(("sides", "beats"), [([1, 1], [(1, 7)]), ([0, 1, 0], [(0, 9), (1, 7)]), ([None], [(None, 5)])])
def test_the_heartbeat_of_a_join_says_the_side(sides: list[int | None], beats: list[tuple[int | None, int]]) -> None:
    times = pa.array([5, 7, 9][: len(sides)], TIMESTAMP)
    events = {"time": times, SIDE: pa.array(sides, pa.int8()), OFFSET: pa.array(range(len(sides)))}
    known = event_time()

    known.observe(pa.record_batch({"time": times, OFFSET: events[OFFSET]} if sides == [None] else events))
    found = known.heartbeat(pa.schema({"time": TIMESTAMP, SIDE: pa.int8(), "key": pa.string()}))

    assert [*zip(found[SIDE].to_pylist(), found["time"].cast(pa.int64()).to_pylist(), strict=True)] == beats
    assert found["key"].null_count == found[OFFSET].null_count == len(beats)


@pytest.mark.slow
@given(
    times=st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1)),
    unit=st.sampled_from(["s", "ms", "us"]),
    max_ahead=st.none() | st.floats(0, 10**13),
)
def test_times_in_range_are_those_from_the_first_to_the_last_that_counts(
    times: list[int | None], unit: str, max_ahead: float | None
) -> None:
    last = ALWAYS - 1 if max_ahead is None else min(READ_AT * 10**6 + round(max_ahead * 10**6), ALWAYS - 1)
    counts = [None if time is None else NEVER <= time * MICROS[unit] <= last for time in times]

    wrong = event_time(max_ahead).out_of_range(batch(unit, *times))

    assert [None if one is None else not one for one in counts] == (
        [None if time is None else False for time in times] if wrong is None else wrong.to_pylist()
    )


def test_the_time_of_reading_always_counts() -> None:
    found = EventTime(Watermark("read", 0, arrival=True), READ_AT, 0)

    assert found.out_of_range(found.with_arrival_time(batch("us", 1))) is None


class DropsAll:
    """A branch with a filter that passes nothing."""

    def __init__(self) -> None:
        self.runs: list[int] = []

    def preview_unfiltered(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self.runs.append(batch.num_rows)
        yield batch


@pytest.mark.parametrize(("text", "runs"), [("short", [3 * TAIL_ROWS]), ("long" * TAIL_BYTES, [TAIL_ROWS] * 3)])
def test_the_ends_of_all_batches_count_and_run_together_while_they_are_small(text: str, runs: list[int]) -> None:
    branch, found = DropsAll(), event_time(None)
    tails = BatchTails(branch, [found])
    for last in (5, 9, 7):
        rows = [0, *range(last - TAIL_ROWS + 1, last + 1)]
        texts = pa.array([None] * TAIL_ROWS + [text])
        tails.add(batch("us", *rows).append_column("text", texts.cast(pa.string_view())))

    tails.observe()

    assert found.latest == 9
    assert branch.runs == runs
