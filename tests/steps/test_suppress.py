"""One event of each key in a time, and how many were suppressed."""

from __future__ import annotations

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
from etl.state.part_rows import PartsOfFiles
from etl.state.state_files import StateFile
from etl.steps.keyed.suppress import Suppress

INCOMING: Schema = pa.schema({"host": pa.string(), "at": TIMESTAMP, "n": pa.int64()})
EVENTS = st.tuples(st.sampled_from(["a", "b", "", None]), st.integers(0, 120))
STREAMS = st.lists(st.lists(st.lists(EVENTS, max_size=8), min_size=1, max_size=2), max_size=10)
WITHIN, LATE = 16, 20
Event = dict[str, Any]


def _events(drawn: list) -> list[list[list[Event]]]:
    """Events of each split of each micro-batch; times move on with the micro-batches."""
    number, found = 0, []
    for at, splits in enumerate(drawn):
        found.append([[] for _ in splits])
        for events, into in zip(splits, found[-1], strict=True):
            for host, seconds in events:
                into.append({"host": host, "at": datetime.fromtimestamp(seconds // 4 + 9 * at, UTC), "n": number, OFFSET: number})
                number += 1
    return found


class _Naive:
    """Decides one event after the other."""

    def __init__(self, remember: float, summaries: bool) -> None:
        self.remember, self.summaries = remember, summaries
        self.keys: dict[str | None, dict[str, Any]] = {}
        self.watermark, self.late = float("-inf"), 0

    def batch(self, events: list[Event]) -> list[tuple[int, int, bool]]:
        """The number, the count and the mark of what passes."""
        found = []
        for event in sorted(events, key=lambda event: (event["at"], event["n"])):
            at, known = event["at"].timestamp(), self.keys.get(event["host"])
            if at < self.watermark:
                self.late += 1
            elif known is None or at - known["passed"] >= WITHIN:
                found.append((event["n"], 0 if known is None else known["waiting"], False))
                self.keys[event["host"]] = {"passed": at, "waiting": 0}
            else:
                known["waiting"] += 1
                known["last"] = event["n"]
        self.watermark = max([self.watermark, *(event["at"].timestamp() - LATE for event in events)])
        return found + self._end()

    def _end(self) -> list[tuple[int, int, bool]]:
        found = []
        for host, known in list(self.keys.items()):
            end = known["passed"] + WITHIN
            if self.summaries and end <= self.watermark:
                found += [(known["last"], known["waiting"], True)] if known["waiting"] else []
                del self.keys[host]
        return found


@pytest.mark.slow
@settings(deadline=None)
@given(STREAMS, st.booleans(), st.booleans())
def test_one_event_in_a_time_passes_with_the_number_of_those_suppressed(drawn: list, summaries: bool, merges: bool) -> None:
    options = {"summary": "sums_up"} if summaries else {}
    step = Suppress(keys=("host",), time="at", within="16s", late="20s", **options)
    lane, naive = Lane(step, INCOMING, passing_folder(), merges=merges), _Naive(86_400, summaries)

    for splits in [*_events(drawn), [[{"host": "end", "at": datetime.fromtimestamp(10_000, UTC), "n": -1, OFFSET: -1}]]]:
        found = [(row["n"], row["suppressed"], row.get("sums_up", False)) for row in lane.run(*splits)]

        assert sorted(found) == sorted(naive.batch([event for split in splits for event in split]))

    assert lane.late == naive.late
    assert list(step.check(INCOMING)) == []


def _rows(*events: tuple[str, int]) -> list[Event]:
    return [{"host": host, "at": datetime.fromtimestamp(at, UTC), "n": n, OFFSET: n} for n, (host, at) in enumerate(events)]


def test_the_number_of_suppressed_events_is_known_as_long_as_the_option_says(tmp_path: Path) -> None:
    counts = []
    for number, second in enumerate((50, 150, 300)):
        step = Suppress(keys=("host",), time="at", within="10s", late="0s", remember="100s")
        lane = Lane(step, INCOMING, tmp_path / str(number), merges=True)
        lane.run(_rows(("a", 0), ("a", 1), ("a", 9), ("b", 9)))
        lane.run(_rows(("b", second - 1)))
        counts.append([row["suppressed"] for row in lane.run(_rows(("a", second)))])

    assert counts == [[2], [0], [0]]


def test_repeats_of_the_same_time_do_not_leave_the_reading_task(tmp_path: Path) -> None:
    for summary, rows in ((None, 2), ("sums_up", 4)):
        folder = tmp_path / str(summary)
        lane = Lane(Suppress(keys=("host",), time="at", within="10s", late="0s", summary=summary), INCOMING, folder)
        flood = [("a", second) for second in (5, 6) for _ in range(100)]

        assert [(row["n"], row["suppressed"]) for row in lane.run(_rows(*flood))] == [(0, 0)]
        assert sum(len(run.rows) for part in range(16) for run in StateFile(folder / "rows-0-0-0").runs(part)) == rows
        after = [(row["n"], row["suppressed"]) for row in lane.run(_rows(("b", 99), ("a", 15)))]
        assert sorted(after) == [(0, 0), (1, 199)]


@pytest.mark.slow
def test_state_is_a_row_for_each_key_and_goes(tmp_path: Path) -> None:
    step = Suppress(keys=("host",), time="at", within="10s", late="0s", summary="sums_up")
    lane = Lane(step, INCOMING, tmp_path, merges=True)

    rows = [len(lane.run(_rows(("a", second), ("a", second), ("b", second // 50)))) for second in range(40)]
    kept = PartsOfFiles([StateFile(tmp_path / file.name) for file in lane.kept], range(16))
    [batch] = step.operator(INCOMING).read_state(kept, lane.clock.now)  # type: ignore[attr-defined]
    lane.run(_rows(("end", 500)))

    assert sum(rows) == 2 + 3 + 1  # a summary of b
    assert batch.select(["host", "suppressed"]).to_pylist() == [{"host": "a", "suppressed": 19}]
    assert [file.rows for file in lane.kept] == [1]


def test_a_further_field_is_null_in_summaries_of_earlier_events(tmp_path: Path) -> None:
    step = Suppress(keys=("host",), time="at", within="10s", late="0s", summary="sums_up")
    lane = Lane(step, INCOMING, tmp_path, merges=True)
    lane.run(_rows(("a", 0), ("a", 1), ("b", 2), ("c", 2), ("c", 3)))
    lane.incoming = INCOMING.append(pa.field("user", pa.string()))

    found = lane.run([{**row, "user": "u"} for row in _rows(("b", 3), ("c", 4))]) + lane.run(_rows(("end", 30)))

    summaries = [(row["host"], row["suppressed"], row["user"]) for row in found if row["sums_up"]]
    assert sorted(summaries) == [("a", 1, None), ("b", 1, "u"), ("c", 2, "u")]


def test_mistakes_are_found() -> None:
    def codes(**options: Any) -> list[tuple[str, tuple[str | int, ...]]]:
        step = Suppress(**{"keys": ("host",), "time": "at", "within": "1h", **options})
        return [(finding.code, finding.path) for finding in step.check(INCOMING)]

    assert codes() == []
    assert codes(within="0s", remember="0s") == [("bad-window", ("within",)), ("bad-window", ("remember",))]
    assert codes(count="n") == [("name-conflict", ("count",))]
    assert codes(summary="suppressed") == [("name-conflict", ("summary",))]
    assert codes(idle="1m") == [("unused-option", ("idle",))]
    assert codes(summary="sums_up", remember="1h") == [("unused-option", ("remember",))]
