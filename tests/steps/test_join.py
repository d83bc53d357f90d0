"""Pairs of events of two streams."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_files import folder_in_memory
from running import Engine, wait_for
from state.lane import Lane

from etl.api import OFFSET, SIDE, SIDE_TIME, TIMESTAMP, Schema
from etl.spark.lane.operators import operator_of
from etl.steps.joining.join import Join

LOGINS: Schema = pa.schema({"user": pa.string(), "room": pa.int32(), "at": TIMESTAMP, "n": pa.int64()})
PAYMENTS: Schema = pa.schema({"user": pa.string(), "room": pa.float64(), "at": TIMESTAMP, "n": pa.int64(), "amount": pa.int64()})
INPUTS = {"logins": LOGINS, "payments": PAYMENTS}
KINDS = ("inner", "left", "right", "full", "semi", "anti")
LATE = 30
BEFORE, AFTER = 40, 90

Event = tuple[int, str | None, int | None, int, int]
"""Side, user, room, seconds, number of the event."""
Results = Counter[tuple[int | None, int | None]]
"""How often each pair was given, as the numbers of its left and its right event."""

EVENTS = st.tuples(st.integers(0, 1), st.sampled_from(["a", "b", None]), st.sampled_from([0, 1, None]), st.integers(0, 400))
STREAMS = st.lists(st.lists(st.lists(EVENTS, max_size=6), min_size=1, max_size=2), max_size=8)


def join(**options: Any) -> Join:
    given = {"on": ["user", "room"], "time": "at", "before": f"{BEFORE}s", "after": f"{AFTER}s", "late": f"{LATE}s"}
    return Join.model_validate(given | options)


def row(event: Event, offset: int) -> dict[str, Any]:
    """An event as the reading task makes it."""
    side, user, room, seconds, number = event
    at = datetime.fromtimestamp(seconds, UTC)
    fields = {"user": user, "room": room, "at": at, "n": number} | ({"amount": number % 7} if side else {})
    prefix = ("left.", "right.")[side]
    return {SIDE: side, SIDE_TIME: at, OFFSET: offset} | {prefix + name: value for name, value in fields.items()}


def lane(step: Join, folder: str | Path, merges: bool = False) -> Lane:
    return Lane(step, step.united(INPUTS), Path(folder), merges=merges)


def run(lane: Lane, splits: Iterable[Sequence[Event]]) -> list[dict[str, Any]]:
    return lane.run(*([row(event, at) for at, event in enumerate(split)] for split in splits))


def end(lane: Lane) -> list[dict[str, Any]]:
    """What is given when the watermark has passed everything."""
    return lane.run([{SIDE_TIME: datetime.fromtimestamp(1e6, UTC)}])


def numbers(results: Iterable[dict[str, Any]]) -> Results:
    return Counter((one["n"], one.get("right.n")) for one in results)


def numbered(stream: list) -> list[list[list[Event]]]:
    """Events of each split of each micro-batch, numbered as they are read; times move on with the micro-batches."""
    number, found = 0, []
    for at, splits in enumerate(stream):
        found.append([[] for _ in splits])
        for events, into in zip(splits, found[-1], strict=True):
            for side, user, room, seconds in events:
                into.append((side, user, room, seconds // 4 + 25 * at, number))
                number += 1
    return found


def in_time(stream: list[list[list[Event]]]) -> Iterator[Event]:
    """The events that are not late."""
    latest = float("-inf")
    for splits in stream:
        events = [event for split in splits for event in split]
        yield from (event for event in events if event[3] >= latest - LATE)
        latest = max([latest, *(event[3] for event in events)])


def pairs_of(kind: str, events: Sequence[Event], meets: Any = lambda left, right: True, shift: int = 0) -> Results:
    """A loop over all events of both sides."""
    lefts, rights = ([event for event in events if event[0] == side] for side in (0, 1))
    matches = [
        (left, right)
        for left in lefts
        for right in rights
        if left[1:3] == right[1:3]
        and None not in left[1:3]
        and -BEFORE <= right[3] + shift - left[3] <= AFTER
        and meets(left, right)
    ]
    alone = [[one for one in events if all(one != pair[side] for pair in matches)] for side, events in enumerate((lefts, rights))]
    found: Results = Counter()
    if kind in ("inner", "left", "right", "full"):
        found.update((left[4], right[4]) for left, right in matches)
    if kind in ("left", "full", "anti"):
        found.update((left[4], None) for left in alone[0])
    if kind in ("right", "full"):
        found.update((None, right[4]) for right in alone[1])
    if kind == "semi":
        found.update((left[4], None) for left in lefts if left not in alone[0])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(stream=STREAMS, merges=st.booleans(), has_condition=st.booleans(), shift=st.sampled_from([0, 20, 120]))
def test_results_are_those_of_a_loop_over_all_events(
    kind: str, stream: list, merges: bool, has_condition: bool, shift: int
) -> None:
    batches = numbered(stream)
    step = join(kind=kind, shift=f"{shift}s", **({"where": "amount > 3 or n % 2 = 0"} if has_condition else {}))
    meets = (lambda left, right: right[4] % 7 > 3 or left[4] % 2 == 0) if has_condition else (lambda left, right: True)

    with folder_in_memory() as folder:
        running = lane(step, folder, merges)
        results = [one for splits in batches for one in run(running, splits)] + end(running)

    events = list(in_time(batches))
    assert numbers(results) == pairs_of(kind, events, meets, shift)
    assert running.late == sum(len(split) for splits in batches for split in splits) - len(events)
    assert not running.kept


def limited_events(stream: list[list[list[Event]]], limit: int, span: int) -> Iterator[Event]:
    """Those of the events that are not late which a limit takes: the first ones of a side, keys and span."""
    counts: Counter[tuple[Any, ...]] = Counter()
    on_time = set(in_time(stream))
    for splits in stream:
        for event in sorted((one for split in splits for one in split if one in on_time), key=lambda one: one[3]):
            group = (*event[:3], event[3] // span)
            counts[group] += 1
            if None in event[1:3] or counts[group] <= limit:
                yield event


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(stream=STREAMS, merges=st.booleans(), limit=st.integers(1, 3), shift=st.sampled_from([0, 120]))
def test_with_a_limit_results_are_those_of_the_events_that_are_taken(
    kind: str, stream: list, merges: bool, limit: int, shift: int
) -> None:
    batches = numbered(stream)
    step = join(kind=kind, limit=limit, shift=f"{shift}s")
    span = max(BEFORE + shift, 0) + max(AFTER - shift, 0)

    with folder_in_memory() as folder:
        running = lane(step, folder, merges)
        results = [one for splits in batches for one in run(running, splits)] + end(running)

    events = list(limited_events(batches, limit, span))
    assert numbers(results) == pairs_of(kind, events, shift=shift)
    assert running.over_limit == len(list(in_time(batches))) - len(events)
    assert not running.kept


@pytest.mark.slow
def test_a_limit_bounds_the_state_and_the_pairs_of_a_key_but_of_no_other(tmp_path: Path) -> None:
    running, found, rows = lane(join(limit=5), tmp_path, merges=True), Counter(), []

    for second in range(0, 2000, 10):
        hot = [(side, "a", 1, second, second) for side in (0, 1) for _ in range(20)]
        found += numbers(run(running, [[*hot, (0, "b", second, second, -1), (1, "b", second, second, -2)]]))
        rows.append(sum(file.rows for file in running.kept))

    assert found[-1, -2] == 200
    assert max(rows) <= 3 * 2 * 5 + 2 * (BEFORE + AFTER + LATE + 60) // 10
    assert sum(found.values()) - 200 <= (2000 // (BEFORE + AFTER) + 1) * 5 * 10


def test_events_with_a_key_that_is_null_are_not_limited(tmp_path: Path) -> None:
    running = lane(join(kind="anti", limit=1), tmp_path)

    run(running, [[(0, user, 1, 100, number) for number, user in enumerate(["a", "a", None, None])]])

    assert sorted(one["n"] for one in end(running)) == [0, 2, 3]
    assert running.over_limit == 1


NO_LIMIT = "takes any number of events of a key, and gives as many pairs as their product: limit bounds them"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"within": "10m"}, ["keeps left events for 10m and right ones for 10m of event time", NO_LIMIT]),
        ({"after": "10m", "kind": "left"}, ["keeps events of both sides for 10m of event time or longer", NO_LIMIT]),
        (
            {"within": "10m", "limit": 1000},
            [
                "keeps events of both sides for 20m of event time",
                "takes at most 1,000 events of a key on each side in 20m, and drops and counts the others",
            ],
        ),
        (
            {"match": "latest"},
            [
                "keeps the last right event of every key for ever (before removes older ones), "
                "and left ones until the watermark passes them"
            ],
        ),
        (
            {"match": "latest", "before": "1d"},
            ["keeps right events for 1d, and left ones until the watermark passes them"],
        ),
    ],
)
def test_explain_says_what_bounds_the_state(options: dict[str, Any], expected: list[str]) -> None:
    step = join(**{"before": None, "after": None, "idle": "1m", **options})

    assert list(step.notes(step.united(INPUTS))) == expected


def versions_of(kind: str, events: Sequence[Event], before: int | None) -> Results:
    """Each left event with the latest right one that is not later, by a loop; of the same time the one read last."""
    found: Results = Counter()
    for left in (event for event in events if event[0] == 0):
        own = [one for one in events if one[0] == 1 and one[1:3] == left[1:3] and None not in left[1:3] and one[3] <= left[3]]
        own = [one for one in own if before is None or one[3] >= left[3] - before]
        best = max(own, key=lambda one: (one[3], one[4]), default=None)
        if best is not None or kind == "left":
            found[left[4], best[4] if best else None] += 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["inner", "left"])
@settings(max_examples=40, deadline=None)
@given(stream=STREAMS, merges=st.booleans(), before=st.sampled_from([None, 30, 200]))
def test_each_event_has_the_version_of_its_time(kind: str, stream: list, merges: bool, before: int | None) -> None:
    batches = numbered(stream)
    step = join(kind=kind, match="latest", before=before and f"{before}s", after=None)

    with folder_in_memory() as folder:
        running = lane(step, folder, merges)
        given_rows = [[[row(event, event[4]) for event in split] for split in splits] for splits in batches]
        results = [one for splits in given_rows for one in running.run(*splits)] + end(running)

    assert numbers(results) == versions_of(kind, list(in_time(batches)), before)


def test_versions_that_are_replaced_go_when_files_are_merged(tmp_path: Path) -> None:
    running = lane(join(match="latest", before=None, after=None), tmp_path, merges=True)

    for second in range(0, 2000, 100):
        run(running, [[(1, user, 1, second, second) for user in "ab"]])

    assert 2 <= sum(file.rows for file in running.kept) <= 4
    assert numbers(run(running, [[(0, "a", 1, 2000, 1)]]) + end(running)) == {(1, 1900): 1}


def test_a_pair_has_the_fields_of_both_events(tmp_path: Path) -> None:
    login, payment = (0, "a", 1, 100, 7), (1, "a", 1, 110, 8)

    (pair,) = run(lane(join(), tmp_path), [[login, payment]])

    at, paid_at = (datetime.fromtimestamp(seconds, UTC) for seconds in (100, 110))
    assert pair == {"user": "a", "room": 1, "at": at, "n": 7, "right.at": paid_at, "right.n": 8, "amount": 1}


def test_an_event_without_a_match_has_its_own_keys_and_nulls(tmp_path: Path) -> None:
    running = lane(join(kind="full", on={"user": "user", "room": "amount"}), tmp_path)

    assert run(running, [[(0, "a", 1, 100, 7), (1, "b", 1, 100, 8)]]) == []
    login, payment = sorted(end(running), key=lambda one: one["user"])

    assert (login["user"], login["room"], login["right.n"], login["right.room"]) == ("a", 1, None, None)
    assert (payment["user"], payment["n"], payment["right.n"], payment["amount"], payment["right.room"]) == ("b", None, 8, 1, 1)


def test_bounds_are_inclusive(tmp_path: Path) -> None:
    rights = [(1, "a", 1, 100 + shift, 200 + shift) for shift in (-BEFORE - 1, -BEFORE, AFTER, AFTER + 1)]

    found = run(lane(join(), tmp_path), [[(0, "a", 1, 100, 7), *rights]])

    assert numbers(found) == {(7, 200 - BEFORE): 1, (7, 200 + AFTER): 1}


def test_more_pairs_than_are_made_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.state.joins.sided_events._CANDIDATES", 5)
    lefts, rights = ([(side, user, 1, 100, 10 * side + n) for n, user in enumerate("aab")] for side in (0, 1))

    found = run(lane(join(), tmp_path), [lefts, rights])

    assert numbers(found) == pairs_of("inner", [*lefts, *rights])


def test_pairs_of_a_key_with_many_events_are_made_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.state.joins.sided_events._CANDIDATES", 7)
    monkeypatch.setattr("etl.state.joins.sided_events._PAIRS", 3)
    step = join()
    lefts, rights = ([(side, "a", 1, 100, 100 * side + n) for n in range(20)] for side in (0, 1))
    running, sizes = lane(step, tmp_path), []
    operator = operator_of(step, running.incoming)
    made = type(operator)._pair_events
    monkeypatch.setattr(type(operator), "_pair_events", lambda *given: sizes.append(len(given[1])) or made(*given))

    found = run(running, [lefts, rights])

    assert numbers(found) == pairs_of("inner", [*lefts, *rights])
    assert max(sizes) == 3


def test_state_shows_the_events_of_both_sides(tmp_path: Path) -> None:
    from etl.state.key_hash import PARTS
    from etl.state.part_rows import MappedStateFiles

    step = join(kind="left")
    running = lane(step, tmp_path)
    run(running, [[(0, "a", 1, 100, 7), (1, "b", None, 100, 8), (1, "b", 2, 100, 9)]])

    kept = MappedStateFiles(tmp_path, running.kept).parts(*range(PARTS))
    (shown,) = step.operator(running.incoming).read_state(kept, running.clock.now)  # type: ignore[attr-defined]

    rows = [(one["side"], one["left.n"], one["right.n"]) for one in shown.to_pylist()]
    assert sorted(rows, key=str) == [("left", 7, None), ("right", None, 9)]


PIPELINE = """
    sources:
      login_file: {{type: file, path: "{here}/logins.jsonl"}}
      payment_file: {{type: file, path: "{here}/payments.jsonl"}}
    streams:
      logins: {{from: login_file, steps: [{{type: json, fields: {{user: string, at: timestamp, n: bigint}}}}]}}
      payments: {{from: payment_file, steps: [{{type: json, fields: {{user: string, at: timestamp, n: bigint}}}}]}}
      paid: {{from: [logins, payments], steps: [{join}, {{type: filter, where: "user != 'root'"}}]}}
    sinks:
      out: {{from: paid, type: file, path: "{here}/out.jsonl"}}
    """


def add(folder: Path, name: str, *events: tuple[str, int, int]) -> None:
    """Add events to a file: user, second, number."""
    with (folder / f"{name}.jsonl").open("a") as file:
        for user, second, n in events:
            file.write(json.dumps({"user": user, "at": f"2026-01-01T00:00:{second:02}Z", "n": n}) + "\n")


def delivered(folder: Path) -> Results:
    path = folder / "out.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    return Counter((row.get("n"), row.get("right", {}).get("n")) for row in rows)


@pytest.mark.spark
@pytest.mark.slow
def test_pairs_across_runs(engine: Engine) -> None:
    folder = engine.etl.folder
    pipeline = PIPELINE.format(here=folder, join="{type: join, on: user, time: at, within: 10s, late: 5s}")

    add(folder, "logins", ("ann", 10, 1), ("bob", 11, 2), ("root", 12, 3))
    add(folder, "payments", ("ann", 12, 4))
    engine(pipeline)
    add(folder, "payments", ("ann", 13, 5), ("bob", 30, 6), ("root", 13, 7), ("bob", 1, 8))
    totals = engine(pipeline)

    assert delivered(folder) == {(1, 4): 1, (1, 5): 1}
    assert sum(totals.late.values()) == 1


@pytest.mark.spark
@pytest.mark.slow
def test_events_above_the_limit_of_a_key_are_in_the_totals(engine: Engine) -> None:
    folder = engine.etl.folder
    pipeline = PIPELINE.format(here=folder, join="{type: join, on: user, time: at, within: 30s, late: 30s, limit: 2}")

    add(folder, "logins", ("ann", 10, 1), ("ann", 11, 2), ("ann", 12, 3), ("bob", 11, 4))
    add(folder, "payments", ("ann", 12, 5))
    engine(pipeline)
    add(folder, "logins", ("ann", 9, 6), ("bob", 9, 7))
    add(folder, "payments", ("bob", 13, 8))
    totals = engine(pipeline)

    assert delivered(folder) == {(1, 5): 1, (2, 5): 1, (4, 8): 1, (7, 8): 1}
    assert sum(totals.over_limit.values()) == totals.as_numbers()["over_limit"].popitem()[1] == 1


@pytest.mark.spark
@pytest.mark.slow
def test_a_stream_joined_with_itself(engine: Engine) -> None:
    folder = engine.etl.folder
    pipeline = PIPELINE.format(here=folder, join="{type: join, on: user, left: logins, right: logins, time: at, after: 10s}")
    pipeline = pipeline.replace("from: [logins, payments]", "from: logins")
    add(folder, "logins", ("ann", 10, 1), ("ann", 15, 2), ("ann", 40, 3))
    add(folder, "payments")

    engine(pipeline)

    assert delivered(folder) == {(1, 1): 1, (1, 2): 1, (2, 2): 1, (3, 3): 1}


@pytest.mark.spark
@pytest.mark.slow
def test_the_side_that_is_behind_holds_the_watermark_until_it_is_idle(engine: Engine) -> None:
    folder = engine.etl.folder
    pipeline = PIPELINE.format(here=folder, join="{type: join, on: user, kind: left, time: at, after: 10s, late: 1s}")

    add(folder, "logins", ("ann", 1, 1))
    add(folder, "payments", ("ann", 59, 2))
    engine(pipeline)
    add(folder, "logins", ("ann", 50, 3), ("bob", 51, 4))
    totals = engine(pipeline)

    assert delivered(folder) == {(3, 2): 1, (1, None): 1}
    assert sum(totals.late.values()) == 0


@pytest.mark.spark
@pytest.mark.slow
def test_unmatched_events_come_while_the_other_side_is_silent(engine: Engine) -> None:
    folder = engine.etl.folder
    join = "{type: join, on: user, kind: full, time: at, within: 10s, late: 1s, idle: 2s}"
    add(folder, "logins", ("ann", 1, 1), ("bob", 2, 2))
    add(folder, "payments", ("ann", 3, 3), ("eve", 3, 4))
    seconds = iter(range(15, 60))

    def login_comes() -> bool:
        """Another login, so that only the other side is silent."""
        add(folder, "logins", ("zoe", next(seconds, 59), 99))
        return (None, 4) in delivered(folder)

    with engine.following(PIPELINE.format(here=folder, join=join)) as running:
        wait_for(lambda: (1, 3) in delivered(folder), what="the pair")
        wait_for(login_comes, what="the events without a match")

    found = {pair: count for pair, count in delivered(folder).items() if pair != (99, None)}
    assert found == {(1, 3): 1, (2, None): 1, (None, 4): 1}
    assert sum(running.totals.late.values()) == 0


WINDOWS = """
    sources:
      in: {{type: file, path: "{here}/in.jsonl"}}
    streams:
      requests: {{from: in, steps: [{{type: json, fields: {{host: string, at: timestamp, failed: boolean}}}}]}}
      all:
        from: requests
        steps: [{{type: window, time: at, late: 0s, size: 1m, group_by: [host], aggregates: {{n: count(*)}}}}]
      failures:
        from: requests
        steps:
          - {{type: filter, where: failed}}
          - {{type: window, time: at, late: 0s, size: 1m, group_by: [host], aggregates: {{failures: count(*)}}}}
{streams}
    sinks:
      out: {{from: result, type: file, path: "{here}/out.jsonl"}}
    """


def add_requests(folder: Path, *requests: tuple[str, int, bool]) -> None:
    with (folder / "in.jsonl").open("a") as file:
        for host, second, failed in requests:
            at = datetime.fromtimestamp(1_767_225_600 + second, UTC).isoformat()
            file.write(json.dumps({"host": host, "at": at, "failed": failed}) + "\n")


def results(folder: Path, *names: str) -> list[tuple[Any, ...]]:
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text("utf-8").splitlines()]
    return sorted((tuple(row.get(name) for name in names) for row in rows), key=str)


@pytest.mark.spark
@pytest.mark.slow
def test_results_of_two_windows_match_by_their_start(engine: Engine) -> None:
    folder = engine.etl.folder
    step = "{type: join, kind: left, on: [host, window_start], time: window_start, within: 0s}"
    pipeline = WINDOWS.format(here=folder, streams=f"      result: {{from: [all, failures], steps: [{step}]}}")

    add_requests(folder, ("a", 1, True), ("a", 2, False), ("b", 3, False), ("a", 61, True), ("a", 121, False))
    engine(pipeline)
    assert results(folder, "host", "n", "failures") == [("a", 1, 1), ("a", 2, 1), ("b", 1, None)]
    add_requests(folder, ("a", 181, False), ("b", 241, True))
    totals = engine(pipeline, drain=True)

    found = [("a", 1, 1), ("a", 1, None), ("a", 1, None), ("a", 2, 1), ("b", 1, 1), ("b", 1, None)]
    assert results(folder, "host", "n", "failures") == found
    assert {name: counts.incoming for name, counts in totals.read.items()} == {"in": 2}


@pytest.mark.spark
@pytest.mark.slow
def test_a_window_after_the_union_of_two_windows(engine: Engine) -> None:
    folder = engine.etl.folder
    window = "{type: window, time: window_start, size: 2m, aggregates: {n: sum(n), failures: sum(failures), rows: count(*)}}"
    pipeline = WINDOWS.format(here=folder, streams=f"      result: {{from: [all, failures], steps: [{window}]}}")

    add_requests(folder, ("a", 1, True), ("a", 2, False), ("b", 3, False), ("a", 61, True), ("a", 121, False), ("b", 190, True))
    engine(pipeline)
    add_requests(folder, ("a", 250, False))
    engine(pipeline, drain=True)

    assert results(folder, "n", "failures", "rows") == [(1, None, 1), (2, 1, 3), (4, 2, 5)]


@pytest.mark.spark
@pytest.mark.slow
def test_a_window_joined_with_itself_compares_with_the_time_before(engine: Engine) -> None:
    folder = engine.etl.folder
    step = "{type: join, left: all, right: all, on: host, time: window_start, within: 0s, shift: 2m, where: n > right.n}"
    pipeline = WINDOWS.format(here=folder, streams=f"      result: {{from: all, steps: [{step}]}}")

    add_requests(folder, *(("a", second, False) for second in (1, 61, 62, 121, 122, 181, 182)))
    engine(pipeline, drain=True)

    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text("utf-8").splitlines()]
    assert [(row["n"], row["right"]["n"]) for row in rows] == [(2, 1)]
