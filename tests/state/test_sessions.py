"""Sessions over micro-batches, beside sessions of a list of events."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_files import folder_in_memory
from state.lane import Lane, Row

from etl.api import TIMESTAMP
from etl.steps.window import Window

SCHEMA = pa.schema([("time", TIMESTAMP), ("host", pa.string()), ("size", pa.int64())])
GAP = 10
Result = tuple[float, float, str | None, int, int, list[int]]
"""Start, end, group, events, distinct sizes, offsets of the first events."""


def sessions(late: int, gap: int = GAP, emit: str = "on_close") -> Window:
    return Window.model_validate(
        {
            "time": "time",
            "gap": f"{gap}s",
            "late": f"{late}s",
            "emit": emit,
            "group_by": ["host"],
            "aggregates": {"n": "count(*)", "sizes": "count(distinct size)", "offsets": "collect(size, 1000)"},
        }
    )


def event(offset: int, second: float, host: str | None) -> Row:
    return {"_offset": offset, "time": round(second * 1e6), "host": host, "size": offset}


@dataclass
class Oracle:
    """Sessions of each group as lists of events."""

    late: int
    watermark: float = -1e9
    latest: float = -1e9
    open: list[tuple[str | None, list[Row]]] = field(default_factory=list)
    lost: int = 0
    changed: list[Result] = field(default_factory=list)
    """Of the last micro-batch: the sessions that have new events."""

    def run(self, *splits: list[Row]) -> list[Result]:
        events = [row for split in splits for row in split]
        for row in sorted(events, key=lambda row: row["time"]):
            if row["time"] / 1e6 + GAP <= self.watermark:
                self.lost += 1
            else:
                self._add(row)
        self.latest = max([self.latest, *(row["time"] / 1e6 for row in events)])
        self.watermark = max(self.watermark, self.latest - self.late)
        new = {row["_offset"] for row in events}
        self.changed = sorted((result(*one) for one in self.open if new & {row["_offset"] for row in one[1]}), key=repr)
        closed = [one for one in self.open if edges(one[1])[1] <= self.watermark]
        self.open = [one for one in self.open if edges(one[1])[1] > self.watermark]
        return sorted((result(*one) for one in closed), key=repr)

    def _add(self, row: Row) -> None:
        joined = [row]
        touched = [one for one in self.open if one[0] == row["host"] and touches(one[1], row)]
        for one in touched:
            self.open.remove(one)
            joined += one[1]
        self.open.append((row["host"], joined))


def edges(rows: list[Row]) -> tuple[float, float]:
    times = [row["time"] / 1e6 for row in rows]
    return min(times), max(times) + GAP


def touches(rows: list[Row], row: Row) -> bool:
    start, end = edges(rows)
    return row["time"] / 1e6 <= end and row["time"] / 1e6 + GAP >= start


def result(host: str | None, rows: list[Row]) -> Result:
    offsets = [row["_offset"] for row in sorted(rows, key=lambda row: (row["time"], row["_offset"]))]
    return (*edges(rows), host, len(rows), len(rows), offsets)


def of_lane(rows: list[Row]) -> list[Result]:
    found = [
        (row["window_start"].timestamp(), row["window_end"].timestamp(), row["host"], row["n"], row["sizes"], row["offsets"])
        for row in rows
    ]
    return sorted(found, key=repr)


def typed(rows: list[Row]) -> list[Row]:
    return [{**row, "time": pa.scalar(row["time"], pa.int64()).cast(TIMESTAMP).as_py()} for row in rows]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(-25, 25), st.sampled_from(["a", "b", None])), max_size=12), min_size=1, max_size=14),
    st.integers(0, 30),
    st.integers(0, 12),
    st.booleans(),
    st.sampled_from(["on_close", "on_change"]),
    st.randoms(use_true_random=False),
)
def test_sessions_are_those_of_all_events(
    batches: list[list[tuple[int, str | None]]], late: int, step: int, merges: bool, emit: str, chance: random.Random
) -> None:
    oracle, offset = Oracle(late), 0
    with folder_in_memory() as folder:
        lane = Lane(sessions(late, emit=emit), SCHEMA, folder, merges=merges)
        for number, batch in enumerate([*batches, [(1000, "z")]]):
            rows = []
            for moved, host in batch:
                rows.append(event(offset, number * step + moved, host))
                offset += 1
            cut = chance.randint(0, len(rows))
            found, closed = of_lane(lane.run(typed(rows[:cut]), typed(rows[cut:]))), oracle.run(rows)
            assert found == (closed if emit == "on_close" else oracle.changed)
            operator = lane.step.operator(SCHEMA)
            assert all(not operator.is_over(file.last, lane.clock.now) for file in lane.kept)
        assert lane.late == oracle.lost


@pytest.mark.parametrize("merges", [False, True])
def test_a_late_event_joins_two_sessions(merges: bool, tmp_path: Path) -> None:
    lane = Lane(sessions(12), SCHEMA, tmp_path, merges=merges)

    assert lane.run(typed([event(0, 0, "a"), event(1, 16, "a")])) == []
    assert lane.run(typed([event(2, 21, "b")])) == []
    assert lane.run(typed([event(3, 8, "a")])) == []
    assert of_lane(lane.run(typed([event(4, 38, "b")]))) == [(0, 26, "a", 3, 3, [0, 3, 1])]


def test_a_micro_batch_writes_only_what_goes_on_with_what_ends(tmp_path: Path) -> None:
    lane = Lane(sessions(0), SCHEMA, tmp_path)
    lane.run(typed([event(number, number / 100, f"h{number}") for number in range(1000)]))
    rows = sum(file.rows for file in lane.kept)

    found = lane.run(typed([event(1000, 12, "h999")]))  # h0 to h200 are over

    assert len(found) == 201
    assert [file for file in lane.kept if "state" in file.name] == []
    assert sum(file.rows for file in lane.kept) == rows + 1
    lane.run(typed([event(1001, 19.995, "x")]))  # of h999, which goes on, the first row ends
    [written] = [file for file in lane.kept if "state" in file.name]
    assert written.rows == 1


@pytest.mark.slow
@pytest.mark.parametrize("merges", [False, True])
def test_state_does_not_grow_in_two_days(merges: bool, tmp_path: Path) -> None:
    lane = Lane(sessions(60, gap=3600), SCHEMA, tmp_path, merges=merges)
    sizes, ended = [], 0

    for number in range(2 * 24 * 3):  # every 20 minutes
        rows = [event(10 * number + k, 1200 * number + 100 * k, host) for k, host in enumerate(["always", f"h{number}"])]
        ended += len(lane.run(typed(rows[:1]), typed(rows[1:])))
        sizes.append(sum(file.rows for file in lane.kept))

    assert max(sizes[20:]) <= max(sizes[:20]) <= 16
    assert ended == 2 * 24 * 3 - 4
