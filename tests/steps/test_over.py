"""Running values of a key beside each of its events."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
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
from etl.steps.keyed.over import Over

INCOMING: Schema = pa.schema(
    {"host": pa.string(), "at": TIMESTAMP, "x": pa.int64(), "f": pa.float64(), "s": pa.string(), "n": pa.int64()}
)
LATE = 30
AGGREGATES = {
    "all": "count(*)",
    "big": "count(*) filter (where x > 1)",
    "sum": "sum(x)",
    "floats": "sum(f)",
    "avg": "avg(x)",
    "low": "min(f)",
    "high": "max(s)",
    "first": "first(s)",
    "last": "last(x)",
    "before": "lag(s)",
    "third": "lag(x + 1, 3)",
    "kinds": "count(distinct s)",
    "new": "is_new(x)",
}

Event = dict[str, Any]
EVENTS = st.tuples(
    st.sampled_from(["a", "b", "", None]),
    st.integers(0, 400),
    st.sampled_from([0, 1, 2, -(2**40), None]),
    st.sampled_from([0.0, 1.5, -2.0, None]),
    st.sampled_from(["", "x", "y", None]),
)
STREAMS = st.lists(st.lists(st.lists(EVENTS, max_size=8), min_size=1, max_size=2), max_size=8)


DECIMALS: Schema = pa.schema(
    {"host": pa.string(), "at": TIMESTAMP, "d": pa.decimal128(9, 2), "w": pa.decimal128(38, 1), "n": pa.int64()}
)
OF_DECIMALS = {
    "sum": "sum(d)",
    "avg": "avg(d)",
    "low": "min(d)",
    "high": "max(w)",
    "wide": "sum(w)",
    "first": "first(d)",
    "last": "last(w)",
    "before": "lag(d)",
    "kinds": "count(distinct d)",
    "new": "is_new(w)",
}


def _events(drawn: list) -> list[list[list[Event]]]:
    """Events of each split of each micro-batch; times move on with the micro-batches, offsets with all events."""
    number, found = 0, []
    for at, splits in enumerate(drawn):
        found.append([[] for _ in splits])
        for events, into in zip(splits, found[-1], strict=True):
            for host, seconds, x, f, s in events:
                time = datetime.fromtimestamp(seconds // 4 + 25 * at, UTC)
                into.append({"host": host, "at": time, "x": x, "f": f, "s": s, "n": number, OFFSET: number})
                number += 1
    return found


def _on_time(stream: list[list[list[Event]]]) -> list[Event]:
    """The events that are not late."""
    found, latest = [], float("-inf")
    for splits in stream:
        events = [event for split in splits for event in split]
        found += [event for event in events if event["at"].timestamp() >= latest - LATE]
        latest = max([latest, *(event["at"].timestamp() for event in events)])
    return found


def _expected(frame: list[Event], rows: int | None) -> dict[str, Any]:
    """The running values of the last event of a frame."""

    def values_of(name: str) -> list[Any]:
        return [event[name] for event in frame if event[name] is not None]

    x, f, s = values_of("x"), values_of("f"), values_of("s")
    own = frame[-1]
    return {
        "n": own["n"],
        "all": len(frame),
        "big": sum(value > 1 for value in x),
        "sum": sum(x) if x else None,
        "floats": sum(f) if f else None,
        "avg": sum(x) / len(x) if x else None,
        "low": min(f, default=None),
        "high": max(s, default=None),
        "first": s[0] if s else None,
        "last": x[-1] if x else None,
        "before": frame[-2]["s"] if len(frame) > 1 else None,
        "third": frame[-4]["x"] + 1 if len(frame) > 3 and frame[-4]["x"] is not None else None,
        "kinds": len(set(s)),
        "new": None if own["x"] is None else own["x"] not in [event["x"] for event in frame[:-1]],
    }


def _naive(events: list[Event], within: int | None, rows: int | None, ttl: int | None = None) -> list[dict[str, Any]]:
    by_key, found = defaultdict(list), []
    for event in sorted(events, key=lambda event: (event["at"], event["n"])):
        past = by_key[event["host"]]
        if ttl and past and (event["at"] - past[-1]["at"]).total_seconds() >= ttl:
            past.clear()
        past.append(event)
        frame = [e for e in past if within is None or (event["at"] - e["at"]).total_seconds() < within]
        found.append(_expected(frame if rows is None else frame[-rows:], rows))
    return found


def _results(lane: Lane, stream: list[list[list[Event]]]) -> list[dict[str, Any]]:
    """What the step gives for a stream, and for an event at its end that is far away."""
    end = {"host": "end", "at": datetime.fromtimestamp(10_000, UTC), "n": -1, OFFSET: 10**6}
    found = [row for splits in stream for row in lane.run(*splits)]
    return _sorted([{name: row[name] for name in ("n", *AGGREGATES)} for row in [*found, *lane.run([end])]])


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["n"])


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(STREAMS, st.sampled_from([None, 1, 60]), st.sampled_from([None, 4, 7]), st.booleans())
def test_values_are_those_of_the_events_before_whatever_the_cuts(
    drawn: list, within: int | None, rows: int | None, merges: bool
) -> None:
    stream, folder = _events(drawn), passing_folder()
    step = Over(keys=("host",), time="at", late="30s", within=within and f"{within}s", rows=rows, aggregates=AGGREGATES)
    lane = Lane(step, INCOMING, folder, merges=merges)

    found = _results(lane, stream)

    assert list(step.check(INCOMING)) == []
    assert found == _sorted(_naive(_on_time(stream), within, rows))
    assert lane.late == sum(len(split) for splits in stream for split in splits) - len(found)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(STREAMS, st.sampled_from([10, 26, 60]), st.sampled_from([None, 4]), st.booleans())
def test_a_key_without_events_for_its_time_to_live_begins_anew_whatever_the_cuts(
    drawn: list, ttl: int, rows: int | None, merges: bool
) -> None:
    stream, folder = _events(drawn), passing_folder()
    step = Over(keys=("host",), time="at", late="30s", ttl=f"{ttl}s", rows=rows, aggregates=AGGREGATES)
    lane = Lane(step, INCOMING, folder, merges=merges)

    found = _results(lane, stream)

    assert list(step.check(INCOMING)) == []
    assert found == _sorted(_naive(_on_time(stream), None, rows, ttl))


@pytest.mark.slow
def test_state_of_keys_without_events_goes(tmp_path: Path) -> None:
    aggregates = {"number": "count(*)", "before": "lag(x, 2)", "new": "is_new(x)"}
    step = Over(keys=("host",), time="at", late="0s", ttl="20s", aggregates=aggregates)
    lane, rows, found = Lane(step, INCOMING, tmp_path, merges=True), [], []

    for second in range(120):
        found += lane.run(_times(("all", second, second % 3), (f"once {second}", second, 1)))
        rows.append(sum(file.rows for file in lane.kept))
    kept = PartsOfFiles([StateFile(tmp_path / file.name) for file in lane.kept], range(16))
    [batch] = step.operator(INCOMING).read_state(kept, lane.clock.now)  # type: ignore[attr-defined]

    assert max(rows) < 36
    assert [row["number"] for row in found if row["host"] == "all"] == [*range(1, 120)]
    assert [row["x"] for row in found if row["new"] and row["host"] == "all"] == [0, 1, 2]
    assert all(row["before"] == (row["x"] + 1) % 3 for row in found if row["host"] == "all" and row["number"] > 2)
    shown = {row["host"]: row["last_event"].timestamp() for row in batch.to_pylist()}
    assert shown == {"all": 118, **{f"once {second}": second for second in range(100, 119)}}


def _times(*rows: tuple[str | None, int, int]) -> list[Event]:
    return [{"host": h, "at": datetime.fromtimestamp(t, UTC), "x": x, "n": n, OFFSET: n} for n, (h, t, x) in enumerate(rows)]


def test_events_wait_for_the_watermark_and_pass_in_the_order_of_their_times(tmp_path: Path) -> None:
    step = Over(keys=("host",), time="at", late="10s", aggregates={"total": "sum(x)"})
    lane = Lane(step, INCOMING, tmp_path)

    assert lane.run(_times(("a", 8, 1), ("a", 5, 10))) == []
    assert [row["total"] for row in lane.run(_times(("a", 18, 100)))] == [10]
    assert [row["total"] for row in lane.run(_times(("a", 7, 1000), ("a", 8, 3), ("a", 19, 0)))] == [11, 14]
    assert lane.late == 1


def test_without_a_time_events_pass_at_once(tmp_path: Path) -> None:
    step = Over(keys=("host",), within="5s", aggregates={"total": "sum(x)", "before": "lag(x)"})
    lane, seen = Lane(step, INCOMING.append(pa.field("_read_at", TIMESTAMP)), tmp_path), []

    for second in (0, 3, 6):
        rows = [{**row, "_read_at": datetime.fromtimestamp(second, UTC)} for row in _times(("a", 9, 1), ("a", 0, 10))]
        seen.append([(row["total"], row["before"]) for row in lane.run(rows)])

    assert seen == [[(1, None), (11, 1)], [(12, 10), (22, 1)], [(12, 10), (22, 1)]]


def test_counts_and_sums_per_second_are_those_of_the_length_of_time(tmp_path: Path) -> None:
    aggregates = {"events": "per_second(count(*))", "amount": "per_second(sum(x))", "large": "per_second(sum(f))"}
    lane = Lane(Over(keys=("host",), time="at", late="0s", within="10s", aggregates=aggregates), INCOMING, tmp_path)

    found = lane.run(_times(("a", 0, 1), ("a", 9, 2), ("a", 10, 4), ("a", 99, 0)))

    assert [(row["events"], row["amount"], row["large"]) for row in found] == [
        (0.1, 0.1, None),
        (0.2, 0.3, None),
        (0.2, 0.6, None),
    ]


def test_a_batch_that_runs_again_gives_the_same(tmp_path: Path) -> None:
    lane = Lane(Over(keys=("host",), time="at", within="1m", aggregates=AGGREGATES), INCOMING, tmp_path)
    lane.run(_times(("a", 0, 1), ("a", 15, 2), ("b", 20, 3)))
    kept, clock, event_time = lane.kept, lane.clock, lane.event_time

    first = lane.run(_times(("a", 40, 5)), _times(("b", 22, 1)))
    lane.kept, lane.clock, lane.event_time, lane.batches = kept, clock, event_time, lane.batches - 1

    assert lane.run(_times(("a", 40, 5)), _times(("b", 22, 1))) == first
    assert len(first) == 3


@pytest.mark.slow
def test_state_of_totals_is_a_row_for_each_key(tmp_path: Path) -> None:
    step = Over(keys=("host",), time="at", late="0s", aggregates={"total": "sum(x)", "low": "min(f)"})
    lane = Lane(step, INCOMING, tmp_path, merges=True)

    found = [row["total"] for second in range(50) for row in lane.run(_times(("a", second, 1), ("b", second, 2)))]

    assert sorted(found[-2:]) == [49, 98]
    assert [file.rows for file in lane.kept] == [4]


@pytest.mark.slow
def test_state_goes_when_events_count_no_more(tmp_path: Path) -> None:
    step = Over(keys=("host",), time="at", late="5s", within="10s", aggregates={"number": "count(*)"})
    lane, rows = Lane(step, INCOMING, tmp_path), []

    for second in range(120):
        lane.run(_times(("a", second, 1)))
        rows.append(sum(file.rows for file in lane.kept))

    assert max(rows) < 23
    assert {row["number"] for row in lane.run(_times(("a", 125, 1)))} == {10}


def test_a_new_aggregate_counts_from_then_on(tmp_path: Path) -> None:
    lane = Lane(Over(keys=("host",), time="at", late="0s", aggregates={"total": "sum(x)"}), INCOMING, tmp_path, merges=True)
    lane.run(_times(("a", 0, 1), ("a", 1, 2), ("a", 2, 4)))
    lane.step = Over(
        keys=("host",), time="at", late="0s", aggregates={"total": "sum(x)", "count": "count(*)", "new": "is_new(x)"}
    )

    found = lane.run(_times(("a", 3, 1), ("a", 4, 0)))

    assert [(row["total"], row["count"], row["new"]) for row in found] == [(7, 1, True), (8, 2, True)]


def test_people_can_read_the_values_of_the_events_that_count_now(tmp_path: Path) -> None:
    for number, (options, expected) in enumerate([({}, (7, 2, 3)), ({"within": "10s"}, (4, None, 1)), ({"rows": 2}, (6, 2, 2))]):
        step = Over(
            keys=("host",), time="at", late="0s", aggregates={"total": "sum(x)", "old": "lag(x)", "all": "count(*)"}, **options
        )
        lane = Lane(step, INCOMING, tmp_path / str(number))
        lane.run(_times(("a", 0, 1), ("a", 9, 2), ("a", 10, 4), (None, 18, 8), ("b", 18, 8), ("end", 19, 0)))
        operator = step.operator(INCOMING)
        kept = PartsOfFiles([StateFile(lane.folder / file.name) for file in lane.kept], range(16))

        rows = [row for batch in operator.read_state(kept, lane.clock.now) for row in batch.to_pylist()]  # type: ignore[attr-defined]

        shown = {row["host"]: (row["total"], row["old"], row["all"]) for row in rows}
        assert shown == {"a": expected, "b": (8, None, 1), None: (8, None, 1)}
        assert {row["last_event"].timestamp() for row in rows} == {10, 18}


def test_a_sum_is_not_spoilt_by_values_that_have_left(tmp_path: Path) -> None:
    step = Over(keys=("host",), time="at", late="0s", rows=2, aggregates={"floats": "sum(f)", "whole": "sum(x)"})
    lane = Lane(step, INCOMING, tmp_path)
    rows = _times(*(("a", second, 2**62) for second in range(5)), ("a", 5, 1), ("a", 6, 1), ("a", 7, 1))
    for row, f in zip(rows, [1e300, float("inf"), float("nan"), 1.0, 0.1, 0.2, 0.3], strict=False):
        row["f"] = f

    found = lane.run(rows)

    assert [row["floats"] for row in found[3:]] == pytest.approx([float("nan"), 1.1, 0.3, 0.5], nan_ok=True)
    assert [row["whole"] for row in found] == [2**62, None, None, None, None, 2**62 + 1, 2]


def test_a_further_field_is_null_in_events_that_wait(tmp_path: Path) -> None:
    lane = Lane(Over(keys=("host",), time="at", late="5s", aggregates={"total": "sum(x)"}), INCOMING, tmp_path, merges=True)
    lane.run(_times(("a", 0, 1), ("a", 9, 2)))
    lane.incoming = INCOMING.append(pa.field("user", pa.string()))

    found = lane.run([{**row, "user": "u"} for row in _times(("a", 10, 4), ("b", 99, 0))])

    assert [(row["total"], row["user"]) for row in found] == [(3, None), (7, "u")]


def test_mistakes_are_found() -> None:
    def codes(**options: Any) -> list[tuple[str, tuple[str | int, ...]]]:
        step = Over(**{"keys": ("host",), "time": "at", "aggregates": {"new": "count(*)"}, **options})
        return [(finding.code, finding.path) for finding in step.check(INCOMING)]

    def wrong(text: str, **options: Any) -> list[str]:
        step = Over(**{"keys": ("host",), "time": "at", "aggregates": {"new": text}, **options})
        return [finding.message for finding in step.check(INCOMING)]

    assert codes() == []
    assert codes(ttl="7d") == []
    assert codes(ttl="0s") == [("bad-window", ("ttl",))]
    assert codes(ttl="7d", within="5m") == [("unused-option", ("ttl",))]
    assert codes(within="0s") == [("bad-window", ("within",))]
    assert codes(aggregates={"x": "count(*)"}) == [("name-conflict", ("aggregates", "x"))]
    assert codes(time=None, idle="5s") == [("unused-option", ("idle",))]
    assert wrong("lag(x, 0)") == ["lag(x, 1): the second argument is a number of events from 1 to 1000, and it is '0'"]
    assert wrong("lag(x, 3)", rows=3) == ["lag reaches beyond the last 3 events"]
    assert wrong("per_second(count(*))") == ["per_second needs the option within, by whose seconds it divides"]
    assert wrong("per_second(lag(x))", within="1m") == ["per_second takes no lag(x, 1)"]
    assert wrong("lag(*)") == ["lag is written lag(x, 1), and its arguments are (*)"]
    assert wrong("percentile(x, 0.5)") == ["there is no aggregate 'percentile'"]
    assert wrong("sum(s)") == ["sum(x) takes numbers, and this is string"]
    assert wrong("sum(hash(s))")[0].startswith("it needs Spark, which does not run this step: ")


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "b"]),
                st.none() | st.decimals(-(10**6), 10**6, places=2),
                st.none() | st.sampled_from([Decimal(0), Decimal(f"-{'9' * 37}.9"), Decimal(f"{'9' * 37}.9"), Decimal("0.5")]),
            ),
            max_size=6,
        ),
        max_size=6,
    ),
    st.sampled_from([None, 3]),
    st.sampled_from([None, 4]),
    st.booleans(),
)
def test_values_of_decimals_are_exact(drawn: list, within: int | None, rows: int | None, merges: bool) -> None:
    """As the aggregates of a window: an average is rounded half up, and a sum that its type does not hold is null."""
    stream, number = [], 0
    for at, events in enumerate(drawn):
        stream.append([])
        for host, d, w in events:
            stream[-1].append({"host": host, "at": datetime.fromtimestamp(at, UTC), "d": d, "w": w, "n": number, OFFSET: number})
            number += 1
    step = Over(keys=("host",), time="at", late="0s", within=within and f"{within}s", rows=rows, aggregates=OF_DECIMALS)
    lane = Lane(step, DECIMALS, passing_folder(), merges=merges)

    end = {"host": "end", "at": datetime.fromtimestamp(10_000, UTC), "n": -1, OFFSET: 10**6}
    found = [row for events in [*stream, [end], [{**end, "at": datetime.fromtimestamp(20_000, UTC)}]] for row in lane.run(events)]

    assert list(step.check(DECIMALS)) == []
    names = ("n", *OF_DECIMALS)
    found = _sorted([{name: row[name] for name in names} for row in found if row["n"] >= 0])
    expected, past = [], defaultdict(list)
    for event in [event for events in stream for event in events]:
        past[event["host"]].append(event)
        near = [e for e in past[event["host"]] if within is None or (event["at"] - e["at"]).total_seconds() < within]
        expected.append(_decimals_expected(near if rows is None else near[-rows:]))
    assert found == expected


def _decimals_expected(frame: list[Event]) -> dict[str, Any]:
    d, w = ([event[name] for event in frame if event[name] is not None] for name in ("d", "w"))
    with localcontext(prec=80):
        wide = sum(w) if w and abs(sum(w)) < Decimal(10) ** 37 else None
        average = (sum(d) / len(d)).quantize(Decimal("0.000001"), ROUND_HALF_UP) if d else None
    own = frame[-1]
    return {
        "n": own["n"],
        "sum": sum(d) if d else None,
        "avg": average,
        "low": min(d, default=None),
        "high": max(w, default=None),
        "wide": wide,
        "first": d[0] if d else None,
        "last": w[-1] if w else None,
        "before": frame[-2]["d"] if len(frame) > 1 else None,
        "kinds": len(set(d)),
        "new": None if own["w"] is None else own["w"] not in [event["w"] for event in frame[:-1]],
    }
