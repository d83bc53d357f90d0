"""At most so many events of each key in a time."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_files import passing_folder
from state.lane import Lane

from etl.api import OFFSET, TIMESTAMP, Schema
from etl.state.state_files import StateFile
from etl.steps.keyed.throttle import Throttle

INCOMING: Schema = pa.schema({"host": pa.string(), "at": TIMESTAMP, "n": pa.int64()})
EVENTS = st.tuples(st.sampled_from(["a", "", None]), st.integers(0, 100))
STREAMS = st.lists(st.lists(st.lists(EVENTS, max_size=12), min_size=1, max_size=2), max_size=8)
EVERY, LATE = 10, 15


def _run(lane: Lane, splits: list[list[tuple[str | None, int, int]]]) -> list[dict[str, Any]]:
    rows = [
        [{"host": h, "at": datetime.fromtimestamp(s, UTC), "n": n, OFFSET: offset} for offset, (h, s, n) in enumerate(split)]
        for split in splits
    ]
    return lane.run(*rows)


@pytest.mark.slow
@settings(deadline=None)
@given(STREAMS, st.integers(1, 3), st.booleans())
def test_the_earliest_events_of_a_span_pass(stream: list, limit: int, merges: bool) -> None:
    step = Throttle(keys=("host",), time="at", limit=limit, every="10s", late="15s")
    lane = Lane(step, INCOMING, passing_folder(), merges=merges)
    passed: dict[tuple[str | None, int], int] = defaultdict(int)
    latest, late, number = float("-inf"), 0, 0

    for at, splits in enumerate(stream):
        numbered = []
        for split in splits:
            numbered.append([(host, seconds // 3 + 8 * at, number + n) for n, (host, seconds) in enumerate(split)])
            number += len(split)
        found = {row["n"] for row in _run(lane, numbered)}

        expected, events = set(), [event for split in numbered for event in split]
        for host, seconds, n in sorted(events, key=lambda event: event[1:]):
            span = seconds // EVERY
            if (span + 1) * EVERY <= latest - LATE:
                late += 1
                continue
            if passed[host, span] < limit:
                expected.add(n)
                passed[host, span] += 1
        assert found == expected
        latest = max([latest, *(event[1] for event in events)])

    assert lane.late == late


@pytest.mark.slow
def test_state_goes_when_spans_are_over(tmp_path: Path) -> None:
    lane = Lane(Throttle(keys=("host",), time="at", limit=1, every="1s", late="0s"), INCOMING, tmp_path)

    for second in range(200):
        assert len(_run(lane, [[("a", second, 0), ("a", second, 1)]])) == 1

    assert sum(file.rows for file in lane.kept) <= 17


def test_events_over_the_limit_do_not_leave_the_reading_task(tmp_path: Path) -> None:
    lane = Lane(Throttle(keys=("host",), time="at", limit=2, every="1m"), INCOMING, tmp_path)

    passed = _run(lane, [[("a", 9, 0), ("a", 8, 1), *(("a", 9 + n % 50, 5) for n in range(500)), ("a", 7, 2), ("b", 1, 3)]])

    assert sorted(row["n"] for row in passed) == [1, 2, 3]
    file = StateFile(tmp_path / "rows-0-0-0")
    assert sum(len(run.rows) for part in file.parts for run in file.runs(part)) == 4


def test_merged_state_has_a_row_for_each_key_and_span(tmp_path: Path) -> None:
    lane = Lane(Throttle(keys=("host",), time="at", limit=9, every="1m", late="0s"), INCOMING, tmp_path, merges=True)

    passed = [len(_run(lane, [[("a", second, 0), ("b", 5, 1)]])) for second in range(12)]

    assert passed == [2] * 9 + [0] * 3
    assert [file.rows for file in lane.kept] == [2]


def test_a_span_of_no_length_is_a_mistake() -> None:
    step = Throttle(keys=("host",), time="at", limit=1, every="0s")

    assert [(one.code, one.path) for one in step.check(INCOMING)] == [("bad-window", ("every",))]
