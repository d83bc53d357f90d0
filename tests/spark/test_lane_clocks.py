"""The clocks of stages: events are read later than all before them, and results in the micro-batch that gives them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from etl.api import NEVER, TIMESTAMP, StatefulStep
from etl.plan.frames import StageInput
from etl.plan.segments import Branch, Segment, Watermark
from etl.receipts import NO_SEGMENT, Receipt
from etl.spark.lane.clocks import BatchClocks, reading_time
from etl.spark.lane.lane_stages import Stage
from etl.spark.lane.operators import operator_of
from etl.state.manifest import Manifest
from etl.steps.heartbeats import ARRIVAL
from etl.steps.keyed.dedupe import Dedupe
from etl.steps.window import Window

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
BY_READING = pa.schema([(ARRIVAL, TIMESTAMP)])
EMPTY = Segment({"": Branch((), BY_READING)}, {})


def _window(size: str, time: str | None = None) -> Window:
    return Window.model_validate({"size": size, "late": "0s", "aggregates": {"n": "count(*)"}} | ({"time": time} if time else {}))


def _stage(step: StatefulStep, incoming: pa.Schema, late: float = 0) -> Stage:
    time = (step.event_time() or ("",))[0]
    watermark = Watermark(time, late, max_delay_seconds=step.max_delay().total_seconds(), arrival=time == ARRIVAL)
    return Stage(step=step, incoming=incoming, watermark=watermark, segment=EMPTY, segment_number=0)


CHAIN = (_stage(_window("1m"), BY_READING), _stage(_window("1h"), BY_READING))
INPUTS = (StageInput(0, 0, sources=frozenset({"s"})), StageInput(1, 0, stages=frozenset({0})))


def _run(clocks: BatchClocks, results: Sequence[Receipt] = ()) -> list[int]:
    """The clocks of all stages, of which the first has these results."""
    found = []
    for number, stage in enumerate(clocks.stages):
        found.append(clocks.of(number).now)
        clocks.record_stage(number, operator_of(stage.step, stage.incoming), found[-1], () if number else results)
    return found


def _read(**options: object) -> list[Receipt]:
    return [Receipt("", "s", 0, NO_SEGMENT, **options)]  # type: ignore[arg-type]


@pytest.mark.parametrize(("found", "before", "expected"), [(9.5, NEVER, 9_500_000), (9.5, 10 * SECOND, 10 * SECOND + 1)])
def test_a_clock_that_was_set_back_gives_no_earlier_time_of_reading(found: float, before: int, expected: int) -> None:
    assert reading_time(found, Manifest(read_at=before)) == expected


def test_results_are_read_in_their_micro_batch() -> None:
    clocks = BatchClocks(CHAIN, INPUTS, Manifest(), _read(read_at=HOUR))

    assert _run(clocks) == [HOUR, HOUR]
    assert (clocks.results_read_at(0, HOUR), clocks.read_at) == (HOUR, HOUR)


@pytest.mark.parametrize("silence", ["idle", "ended"])
def test_only_the_end_of_all_events_advances_the_clocks_beyond_the_time(silence: str) -> None:
    clocks = BatchClocks(CHAIN, INPUTS, Manifest(), _read(read_at=HOUR, silence=silence))

    first, second = _run(clocks)

    ended = (HOUR + MINUTE + SECOND, 2 * HOUR + MINUTE + 2 * SECOND)
    assert (first, second) == (ended if silence == "ended" else (HOUR, HOUR))
    assert clocks.results_read_at(0, first) == first
    assert reading_time(1.0, Manifest(read_at=clocks.read_at)) > second


def test_a_field_of_results_is_a_clock_as_that_of_events_is() -> None:
    first = _stage(Dedupe(keys=("k",), within="1m"), pa.schema([("k", pa.int64()), *BY_READING]))
    stages = (first, _stage(_window("1m", "at"), pa.schema([("at", TIMESTAMP)]), late=1))
    inputs = (INPUTS[0], StageInput(1, 0, stages=frozenset({0}), by_field=True))
    given = _read(event_times={1: 5 * MINUTE})

    clocks = BatchClocks(stages, inputs, Manifest(), _read(read_at=HOUR))
    assert _run(clocks, given)[1] == 5 * MINUTE - SECOND
    known = Manifest(event_times=clocks.times)

    assert known.event_times == {"0.0": NEVER, "1.0": 5 * MINUTE}
    assert _run(BatchClocks(stages, inputs, known, _read(read_at=HOUR)))[1] == 5 * MINUTE - SECOND
    assert _run(BatchClocks(stages, inputs, known, _read(silence="idle")))[1] == 6 * MINUTE + SECOND
