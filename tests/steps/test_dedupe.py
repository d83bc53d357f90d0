"""One event of several with the same keys."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_files import passing_folder
from running import Engine
from state.lane import Lane

from etl.api import OFFSET, TIMESTAMP, Schema
from etl.state.state_files import StateFile
from etl.steps.keyed.dedupe import Dedupe

INCOMING: Schema = pa.schema({"host": pa.string(), "user": pa.int32(), "at": TIMESTAMP, "n": pa.int64()})
Event = tuple[str | None, int | None, int, int]
"""Host, user, seconds, number of the event."""

EVENTS = st.tuples(st.sampled_from(["a", "b", "", None]), st.sampled_from([0, 1, None]), st.integers(0, 400))
STREAMS = st.lists(st.lists(st.lists(EVENTS, max_size=6), min_size=1, max_size=2), max_size=8)
WITHIN, LATE = 60, 30


def _row(event: Event, offset: int) -> dict[str, Any]:
    host, user, seconds, number = event
    return {"host": host, "user": user, "at": datetime.fromtimestamp(seconds, UTC), "n": number, OFFSET: offset}


def _numbered(stream: list) -> list[list[list[Event]]]:
    """Events of each split of each micro-batch, with numbers in the order of reading; times move on with the micro-batches."""
    number, found = 0, []
    for at, splits in enumerate(stream):
        found.append([[] for _ in splits])
        for events, into in zip(splits, found[-1], strict=True):
            for host, user, seconds in events:
                into.append((host, user, seconds // 4 + 25 * at, number))
                number += 1
    return found


def _passed(lane: Lane, splits: list[list[Event]]) -> list[dict[str, Any]]:
    return lane.run(*([_row(event, event[3]) for event in split] for split in splits))


def _watermarks(stream: list[list[list[Event]]]) -> list[float]:
    """The watermark before each micro-batch, and after the last, in seconds."""
    found, latest = [float("-inf")], float("-inf")
    for splits in stream:
        latest = max([latest, *(event[2] for split in splits for event in split)])
        found.append(latest - LATE)
    return found


@pytest.mark.slow
@settings(deadline=None)
@given(STREAMS, st.booleans())
def test_the_first_event_of_a_key_passes_at_once(drawn: list, merges: bool) -> None:
    stream, folder = _numbered(drawn), passing_folder()
    lane = Lane(Dedupe(keys=("host", "user"), time="at", within="60s", late="30s"), INCOMING, folder, merges=merges)
    passed: dict[tuple[str | None, int | None], list[int]] = defaultdict(list)
    late = 0

    for splits, watermark in zip(stream, _watermarks(stream), strict=False):
        found = {row["n"] for row in _passed(lane, splits)}
        expected = set()
        for host, user, seconds, number in sorted((e for split in splits for e in split), key=lambda e: (e[2], e[3])):
            if seconds < watermark:
                late += 1
            elif all(abs(seconds - other) >= WITHIN for other in passed[host, user]):
                passed[host, user].append(seconds)
                expected.add(number)
        assert found == expected

    assert lane.late == late


@pytest.mark.slow
@settings(deadline=None)
@given(STREAMS, st.sampled_from(["first", "last"]), st.booleans())
def test_one_event_of_each_span_passes_when_the_span_is_over(drawn: list, keep: str, merges: bool) -> None:
    stream, folder = _numbered(drawn), passing_folder()
    step = Dedupe(keys=("host", "user"), time="at", within="60s", late="30s", keep=keep, count="repeats")
    lane, marks = Lane(step, INCOMING, folder, merges=merges), _watermarks(stream)
    end = (None, None, 10_000, -1)

    found = [row for splits in stream for row in _passed(lane, splits)]
    found += _passed(lane, [[end]])

    by_key = defaultdict(list)
    for splits, watermark in zip(stream, marks, strict=False):
        for host, user, seconds, number in (event for split in splits for event in split if event[2] >= watermark):
            by_key[host, user].append((seconds, number))
    expected = []
    for events in by_key.values():
        spans: list[list[tuple[int, int]]] = []
        for seconds, number in sorted(events):
            if not spans or seconds - spans[-1][0][0] >= WITHIN:
                spans.append([])
            spans[-1].append((seconds, number))
        expected += [(span[0 if keep == "first" else -1][1], len(span)) for span in spans]
    assert sorted((row["n"], row["repeats"]) for row in found) == sorted(expected)


def test_repeats_of_the_same_time_do_not_leave_the_reading_task(tmp_path: Path) -> None:
    lane = Lane(Dedupe(keys=("host",), time="at", within="60s"), INCOMING, tmp_path)
    flood = [("a", 1, second, 3 * n) for second in (5, 6) for n in range(100)] + [("b", 1, 6, 1), ("b", 1, 5, 2)]

    assert sorted(row["n"] for row in _passed(lane, [flood, [("a", 1, 5, 7)]])) == [0, 2]

    files = {path.name: StateFile(path) for path in tmp_path.glob("rows-0-*")}
    rows = {name: sum(len(run.rows) for part in file.parts for run in file.runs(part)) for name, file in files.items()}
    assert rows == {"rows-0-0-0": 4, "rows-0-1-0": 1}


@pytest.mark.slow
def test_state_goes_when_no_event_can_be_near_it(tmp_path: Path) -> None:
    lane = Lane(Dedupe(keys=("host",), time="at", within="60s", late="30s"), INCOMING, tmp_path)

    for second in range(0, 3000, 50):
        _passed(lane, [[("a", None, second, 0), (str(second), None, second, 1)]])

    assert sum(file.rows for file in lane.kept) <= 8
    assert lane.clock.now == (2950 - 30) * 10**6


def test_a_batch_that_runs_again_gives_the_same(tmp_path: Path) -> None:
    step = Dedupe(keys=("host",), time="at", within="60s")
    lane = Lane(step, INCOMING, tmp_path)
    _passed(lane, [[("a", 1, 0, 0)]])
    kept, clock, event_time = lane.kept, lane.clock, lane.event_time
    batch = [[("a", 2, 5, 1), ("b", 1, 6, 2), ("b", 1, 7, 3)], [("c", 1, 1, 4)]]

    first = _passed(lane, batch)
    lane.kept, lane.clock, lane.event_time, lane.batches = kept, clock, event_time, lane.batches - 1
    second = _passed(lane, batch)

    assert first == second
    assert {row["n"] for row in first} == {2, 4}


def test_events_wait_until_their_span_is_over(tmp_path: Path) -> None:
    step = Dedupe(keys=("host",), time="at", within="60s", late="0s", keep="last")
    lane = Lane(step, INCOMING, tmp_path)

    assert not _passed(lane, [[("a", 1, 0, 0), ("a", 1, 59, 1)]])
    assert not _passed(lane, [[("b", 1, 59, 2)]])
    assert [row["n"] for row in _passed(lane, [[("b", 1, 64, 3)]])] == [1]


def test_only_spans_that_change_are_written(tmp_path: Path) -> None:
    step = Dedupe(keys=("host",), time="at", within="160s", late="0s", keep="last", count="repeats")
    lane, read = Lane(step, INCOMING, tmp_path), set()
    _passed(lane, [[(f"host {number}", 1, 1, number) for number in range(100)]])

    written = []
    for number, second in enumerate((11, 21, 31, 41, 51)):
        _passed(lane, [[("host 7", 1, second, 100 + number)]])
        files = {path.name: StateFile(path).rows for path in tmp_path.glob("rows-*-state-*") if path not in read}
        read |= set(tmp_path.glob("rows-*"))
        written.append(sum(files.values()))

    assert written == [100, 1, 1, 1, 1]


def test_all_columns_pass(tmp_path: Path) -> None:
    incoming = pa.schema({"k": pa.decimal128(5, 2), "at": pa.timestamp("ms"), "t": pa.list_(pa.string()), "empty": pa.null()})
    lane = Lane(Dedupe(keys=("k",), time="at", within="1h"), incoming, tmp_path)
    row = {"k": None, "at": datetime(2026, 1, 1), "t": ["x", None], "empty": None}

    assert lane.run([{**row, OFFSET: 0}, {**row, "t": [], OFFSET: 1}]) == [row]


@pytest.mark.parametrize(
    ("options", "code", "path"),
    [
        ({"keys": ["hast"]}, "unknown-field", ("keys", 0)),
        ({"time": "n"}, "wrong-type", ("time",)),
        ({"time": "att"}, "unknown-field", ("time",)),
        ({"within": "0s"}, "bad-window", ("within",)),
        ({"count": "n"}, "name-conflict", ("count",)),
        ({"idle": "5s"}, "unused-option", ("idle",)),
        ({"keys": ["labels"]}, "wrong-type", ("keys", 0)),
    ],
)
def test_mistakes_are_found(options: dict[str, Any], code: str, path: tuple[str | int, ...]) -> None:
    step = Dedupe.model_validate({"keys": ["host"], "time": "at", "within": "1m", **options})

    findings = list(step.check(INCOMING.append(pa.field("labels", pa.map_(pa.string(), pa.string())))))

    assert [(one.code, one.path) for one in findings] == [(code, path)]


def test_waiting_events_pass_when_sources_are_idle() -> None:
    waiting = Dedupe(keys=("host",), time="at", within="60s", keep="last", idle="5s")

    assert waiting.idle_after() == timedelta(seconds=5)
    assert waiting.max_delay() > timedelta(seconds=60)
    assert Dedupe(keys=("host",), within="60s").max_delay() == timedelta(0)


@pytest.mark.spark
@pytest.mark.slow
def test_keys_are_remembered_across_runs_and_steps_with_state_follow_each_other(engine: Engine) -> None:
    log, out = engine.etl.folder / "in.jsonl", engine.etl.folder / "out.jsonl"
    pipeline = f"""
        source: {{type: file, path: {log}}}
        steps:
          - {{type: json, fields: {{host: string, at: timestamp, n: bigint}}}}
          - {{type: dedupe, keys: [host], time: at, within: 60s}}
          - {{type: set, fields: {{twice: n * 2}}}}
          - {{type: throttle, keys: [at], time: at, limit: 2, every: 1h}}
        sink: {{type: file, path: {out}}}
        """

    def add(*events: tuple[str, int]) -> None:
        with log.open("a") as file:
            for host, second in events:
                file.write(json.dumps({"host": host, "at": f"2026-01-01T00:00:{second:02}Z", "n": second}) + "\n")

    add(("a", 1), ("b", 1), ("c", 1), ("a", 2))
    engine(pipeline)
    add(("a", 3), ("d", 4), ("d", 5))
    engine(pipeline)

    passed = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert sorted((row["n"], row["twice"]) for row in passed) == [(1, 2), (1, 2), (4, 8)]
    assert len({row["host"] for row in passed}) == 3


@pytest.mark.spark
@pytest.mark.slow
def test_state_is_merged_while_a_run_goes_on(engine: Engine) -> None:
    log, out = engine.etl.folder / "in.jsonl", engine.etl.folder / "out.jsonl"
    start, keys = datetime(2026, 1, 1, tzinfo=UTC), 950
    with log.open("w") as file:
        for n in range(4000):
            at = (start + timedelta(seconds=n)).isoformat()
            file.write(json.dumps({"host": str(n // 2 % keys), "at": at, "n": n}) + "\n")

    engine(f"""
        source: {{type: file, path: {log}}}
        steps:
          - {{type: json, fields: {{host: string, at: timestamp, n: bigint}}}}
          - {{type: dedupe, keys: [host], time: at, within: 30m}}
        sink: {{type: file, path: {out}}}
        run: {{max_batch_bytes: 16KiB}}
        """)

    last: dict[int, int] = {}
    expected = []
    for n in range(4000):
        if n - last.get(n // 2 % keys, -1800) >= 1800:
            last[n // 2 % keys] = n
            expected.append(n)
    assert sorted(json.loads(line)["n"] for line in out.read_text("utf-8").splitlines()) == expected
    assert list(engine.etl.folder.glob("state/**/rows-*-merged"))
