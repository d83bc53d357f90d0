"""The best events of each key, in each span of time or so far."""

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
from etl.state.part_rows import PartsOfFiles
from etl.state.state_files import StateFile
from etl.steps.keyed.top import Top

INCOMING: Schema = pa.schema({"host": pa.string(), "user": pa.string(), "at": TIMESTAMP, "x": pa.float64(), "n": pa.int64()})
EVENTS = st.tuples(
    st.sampled_from(["a", "", None]),
    st.sampled_from(["u", "v", "w", None]),
    st.integers(0, 100),
    st.sampled_from([0.0, -0.0, 1.5, float("inf"), float("nan"), None]),
)
STREAMS = st.lists(st.lists(st.lists(EVENTS, max_size=12), min_size=1, max_size=2), max_size=8)
SIZE, LATE = 10, 15
Event = dict[str, Any]


def _events(drawn: list) -> list[list[list[Event]]]:
    """Events of each split of each micro-batch; times move on with the micro-batches."""
    number, found = 0, []
    for at, splits in enumerate(drawn):
        found.append([[] for _ in splits])
        for events, into in zip(splits, found[-1], strict=True):
            for host, user, seconds, x in events:
                time = datetime.fromtimestamp(seconds // 3 + 8 * at, UTC)
                into.append({"host": host, "user": user, "at": time, "x": x, "n": number, OFFSET: number})
                number += 1
    return found


def _naive(events: list[Event], options: dict[str, Any]) -> list[tuple[int, int]]:
    """The number and the rank of the events that pass."""
    groups, found = defaultdict(list), []
    for event in events:
        if event["x"] is not None:
            groups[event["host"], event["at"].timestamp() // SIZE].append(event)
    for group in groups.values():
        sign = 1 if options["order"] == "ascending" else -1
        values = sorted({_comparable(event["x"]) for event in group}, key=lambda value: (sign * value[0], sign * value[1]))
        best = sorted(group, key=lambda event: (values.index(_comparable(event["x"])), event["at"], event["n"]))
        if options["distinct"]:
            best = [event for at, event in enumerate(best) if event["user"] not in [other["user"] for other in best[:at]]]
        own = [_comparable(event["x"]) for event in best]
        for at, value in enumerate(own):
            ranks = {"row_number": at + 1, "rank": own.index(value) + 1, "dense_rank": len(set(own[: at + 1]))}
            if ranks[options["ties"]] <= options["limit"]:
                found.append((best[at]["n"], ranks[options["ties"]]))
    return sorted(found)


def _comparable(x: float) -> tuple[int, float]:
    """NaN is the largest number."""
    return (1, 0.0) if x != x else (0, x)


@pytest.mark.slow
@settings(deadline=None)
@given(
    STREAMS,
    st.fixed_dictionaries(
        {
            "limit": st.integers(1, 3),
            "ties": st.sampled_from(["row_number", "rank", "dense_rank"]),
            "order": st.sampled_from(["ascending", "descending"]),
            "distinct": st.sampled_from([(), ("user",)]),
        }
    ),
    st.booleans(),
)
def test_the_best_events_of_a_span_pass_when_it_is_over(drawn: list, options: dict[str, Any], merges: bool) -> None:
    step = Top(keys=("host",), time="at", size="10s", late="15s", by="x", **options)
    lane, stream = Lane(step, INCOMING, passing_folder(), merges=merges), _events(drawn)
    on_time, latest, late = [], float("-inf"), 0

    found = [row for splits in stream for row in lane.run(*splits)]
    found += lane.run([{"at": datetime.fromtimestamp(10_000, UTC), "n": -1, OFFSET: 10**6}])

    for splits in stream:
        events = [event for split in splits for event in split]
        on_time += [event for event in events if (event["at"].timestamp() // SIZE + 1) * SIZE > latest - LATE]
        late += sum((event["at"].timestamp() // SIZE + 1) * SIZE <= latest - LATE for event in events)
        latest = max([latest, *(event["at"].timestamp() for event in events)])
    assert list(step.check(INCOMING)) == []
    assert sorted((row["n"], row["rank"]) for row in found) == _naive(on_time, options)
    assert all(row["window_start"] <= row["at"] < row["window_end"] for row in found)
    assert lane.late == late


def _naive_changes(events: list[Event], options: dict[str, Any]) -> list[tuple[int, int | None, str]]:
    """The number, the rank and the change of what passes."""
    best, found = defaultdict(list), []
    sign = 1 if options["order"] == "ascending" else -1

    def place(event: Event) -> tuple[float, float]:
        kind, value = _comparable(event["x"])
        return sign * kind, sign * value

    for event in sorted(events, key=lambda event: (event["at"], event["n"])):
        if event["x"] is None:
            continue
        own = best[event["host"]]
        if options["ttl"] and own and (event["at"] - max(other["at"] for other in own)).total_seconds() >= options["ttl"]:
            own = []
        before = [other for other in own if options["distinct"] and other["user"] == event["user"]]
        if before and place(before[0]) <= place(event):
            continue
        ranked = sorted([*(other for other in own if other not in before), event], key=place)
        best[event["host"]] = ranked[: options["limit"]]
        if event in ranked[: options["limit"]]:
            found += [(other["n"], None, "leave") for other in ranked[options["limit"] :]]
            found.append((event["n"], ranked.index(event) + 1, "update" if before else "enter"))
    return found


@pytest.mark.slow
@settings(deadline=None)
@given(
    STREAMS,
    st.fixed_dictionaries(
        {
            "limit": st.integers(1, 3),
            "order": st.sampled_from(["ascending", "descending"]),
            "distinct": st.sampled_from([(), ("user",)]),
            "ttl": st.sampled_from([None, 10, 26, 60]),
        }
    ),
    st.booleans(),
)
def test_changes_of_the_best_events_so_far_pass(drawn: list, options: dict[str, Any], merges: bool) -> None:
    ttl = options["ttl"] and f"{options['ttl']}s"
    step = Top(keys=("host",), time="at", late="15s", by="x", **(options | {"ttl": ttl}))
    lane, stream = Lane(step, INCOMING, passing_folder(), merges=merges), _events(drawn)
    on_time, latest = [], float("-inf")

    found = [row for splits in stream for row in lane.run(*splits)]
    found += lane.run([{"host": "end", "at": datetime.fromtimestamp(10_000, UTC), "n": -1, OFFSET: 10**6}])

    for splits in stream:
        events = [event for split in splits for event in split]
        on_time += [event for event in events if event["at"].timestamp() >= latest - LATE]
        latest = max([latest, *(event["at"].timestamp() for event in events)])
    assert list(step.check(INCOMING)) == []
    by_key: dict[str | None, list] = defaultdict(list)
    expected: dict[str | None, list] = defaultdict(list)
    hosts = {event["n"]: event["host"] for event in on_time}
    for row in found:
        by_key[row["host"]].append((row["n"], row["rank"], row["change"]))
    for change in _naive_changes(on_time, options):
        expected[hosts[change[0]]].append(change)
    assert by_key == expected


def _rows(*events: tuple[str, int, float]) -> list[Event]:
    return [
        {"host": host, "user": "u", "at": datetime.fromtimestamp(at, UTC), "x": x, "n": n, OFFSET: n}
        for n, (host, at, x) in enumerate(events)
    ]


def test_without_keys_all_events_of_a_span_are_compared_and_the_best_are_first(tmp_path: Path) -> None:
    lane = Lane(Top(time="at", size="1m", late="0s", by="x * 2", limit=2), INCOMING, tmp_path)

    found = lane.run(_rows(("a", 1, 5.0), ("b", 2, 7.0), ("c", 61, 1.0), ("d", 3, 9.0), ("e", 200, 0.0)))

    by_start = sorted(found, key=lambda row: row["window_start"])
    assert [(row["host"], row["rank"]) for row in by_start] == [("d", 1), ("b", 2), ("c", 1)]


def test_only_the_best_events_leave_the_reading_task_and_remain_in_merged_state(tmp_path: Path) -> None:
    step = Top(keys=("host",), time="at", size="1h", by="x", limit=3, ties="rank", rank="place")
    lane = Lane(step, INCOMING, tmp_path)

    for number in range(4):
        lane.run(_rows(*(("a", second, float(second + number)) for second in range(100))))

    assert [file.rows for file in lane.kept] == [3] * 4
    lane.kept = lane._merged(lane.kept)
    assert [file.rows for file in lane.kept] == [3]
    kept = PartsOfFiles([StateFile(tmp_path / file.name) for file in lane.kept], range(16))
    [batch] = step.operator(INCOMING).read_state(kept, lane.clock.now)  # type: ignore[attr-defined]
    assert batch.select(["x", "place"]).to_pylist() == [{"x": 102.0, "place": 1}, *[{"x": 101.0, "place": 2}] * 2]


def test_the_best_events_so_far_can_be_read_and_are_all_that_is_kept(tmp_path: Path) -> None:
    step = Top(keys=("host",), time="at", late="0s", by="x", limit=2)
    lane = Lane(step, INCOMING, tmp_path, merges=True)

    for number in range(5):
        lane.run(_rows(*(("a", 10 * number + second, float(second)) for second in range(5)), ("b", 10 * number + 9, -1.0)))

    kept = PartsOfFiles([StateFile(tmp_path / file.name) for file in lane.kept], range(16))
    batches = step.operator(INCOMING).read_state(kept, lane.clock.now)  # type: ignore[attr-defined]
    rows = sorted((row["host"], row["rank"], row["x"]) for batch in batches for row in batch.to_pylist())
    assert rows == [("a", 1, 4.0), ("a", 2, 4.0), ("b", 1, -1.0), ("b", 2, -1.0)]
    assert sum(file.rows for file in lane.kept) <= len(rows) + 6


@pytest.mark.slow
def test_rankings_that_do_not_change_go(tmp_path: Path) -> None:
    step = Top(keys=("host",), time="at", late="0s", by="x", limit=2, ttl="20s")
    lane, rows, found = Lane(step, INCOMING, tmp_path, merges=True), [], []

    for second in range(120):
        found += lane.run(_rows(("all", second, float(second // 5)), (f"once {second}", second, 1.0)))
        rows.append(sum(file.rows for file in lane.kept))
    kept = PartsOfFiles([StateFile(tmp_path / file.name) for file in lane.kept], range(16))
    [batch] = step.operator(INCOMING).read_state(kept, lane.clock.now)  # type: ignore[attr-defined]

    assert max(rows) < 32
    assert {row["host"] for row in batch.to_pylist()} == {"all", *(f"once {second}" for second in range(100, 119))}
    assert [row["change"] for row in found if row["host"] == "all"].count("leave") == 2 * 24 - 2


def test_without_a_time_changes_pass_at_once(tmp_path: Path) -> None:
    lane = Lane(Top(by="x", limit=1), INCOMING.append(pa.field("_read_at", TIMESTAMP)), tmp_path)

    found = []
    for second, x in enumerate((5.0, 4.0, 7.0)):
        rows = [{**row, "_read_at": datetime.fromtimestamp(second, UTC)} for row in _rows(("a", 9, x))]
        found.append([(row["x"], row["change"]) for row in lane.run(rows)])

    assert found == [[(5.0, "enter")], [], [(5.0, "leave"), (7.0, "enter")]]


def test_the_results_of_each_window_in_front_are_ranked() -> None:
    incoming = pa.schema({"window_start": TIMESTAMP, "window_end": TIMESTAMP, "user": pa.string(), "failures": pa.int64()})

    fields = Top(time="window_start", size="10m", by="failures").fields(incoming)

    assert fields.names == ["window_start", "window_end", "user", "failures", "rank"]


def test_a_further_field_is_null_in_earlier_events(tmp_path: Path) -> None:
    for size in ("10s", None):
        lane = Lane(Top(time="at", size=size, late="5s", by="x", limit=2), INCOMING, tmp_path / str(size), merges=True)
        lane.run(_rows(("a", 0, 5.0), ("a", 6, 6.0)))
        lane.incoming = INCOMING.append(pa.field("place", pa.string()))

        found = lane.run([{**row, "place": "p"} for row in _rows(("a", 7, 7.0), ("b", 99, 0.0))])

        best = [(row["x"], row["place"]) for row in found]
        assert best == ([(7.0, "p"), (6.0, None)] if size else [(6.0, None), (5.0, None), (7.0, "p")])


def test_mistakes_are_found() -> None:
    def codes(**options: Any) -> list[tuple[str, tuple[str | int, ...]]]:
        step = Top(**{"time": "at", "size": "1m", "by": "x", **options})
        incoming = INCOMING.append(pa.field("tags", pa.list_(pa.string())))
        return [(finding.code, finding.path) for finding in step.check(incoming)]

    assert codes() == []
    assert codes(size=None, ttl="7d") == []
    assert codes(ttl="7d") == [("unused-option", ("ttl",))]
    assert codes(size="0s") == [("bad-window", ("size",))]
    assert codes(by="tags") == [("wrong-type", ("by",))]
    assert codes(by="y") == [("unknown-field", ("by",))]
    assert codes(by="hash(x)") == [("bad-expression", ("by",))]
    assert codes(distinct=("tags", "usr")) == [("wrong-type", ("distinct", 0)), ("unknown-field", ("distinct", 1))]
    assert codes(rank="n") == [("name-conflict", ("rank",))]
    assert codes(rank="window_end") == [("name-conflict", ("rank",))]
    assert codes(change="kind") == [("unused-option", ("change",))]
    assert codes(size=None) == []
    assert codes(size=None, ties="rank") == [("unused-option", ("ties",))]
    assert codes(size=None, change="rank", rank="rank") == [("name-conflict", ("change",))]
    assert codes(size=None, change="n") == [("name-conflict", ("change",))]
