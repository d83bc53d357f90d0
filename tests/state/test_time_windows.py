"""Windows on the state lane: many panes, unusual columns, changed pipelines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from state.lane import Lane, Row

from etl.api import TIMESTAMP
from etl.state.key_hash import PARTS, key_hashes, part_of
from etl.state.manifest import Manifests
from etl.state.part_rows import MappedStateFiles
from etl.state.row_files import RowWriter
from etl.steps.window import Window

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema([("time", TIMESTAMP), ("user", pa.string()), ("host", pa.string())])


def event(offset: int, seconds: float, **fields: Any) -> Row:
    return {"_offset": offset, "time": EPOCH + timedelta(seconds=seconds), "user": "a", "host": "h", **fields}


def window(**options: Any) -> Window:
    return Window.model_validate(
        {"time": "time", "size": "10s", "late": "0s", "group_by": ["user"], "aggregates": {"n": "count(*)"}, **options}
    )


def starts(results: list[Row]) -> list[tuple[float, int]]:
    found = [((row["window_start"] - EPOCH).total_seconds(), row["n"]) for row in results]
    return sorted(found)


YEAR = 365 * 86_400


@pytest.mark.parametrize("emit", ["on_close", "on_change"])
def test_windows_without_events_cost_nothing_when_event_time_jumps_by_a_century(tmp_path: Path, emit: str) -> None:
    lane = Lane(window(size="1s", emit=emit), SCHEMA, tmp_path)

    results = lane.run([event(0, -50 * YEAR), event(1, 0), event(2, 100 * YEAR), event(3, 100 * YEAR + 1)])

    closed = [(-50.0 * YEAR, 1), (0.0, 1), (100.0 * YEAR, 1)]
    assert starts(results) == (closed if emit == "on_close" else [*closed, (100.0 * YEAR + 1, 1)])


@pytest.mark.slow
@pytest.mark.parametrize("emit", ["on_close", "on_change"])
def test_many_windows_of_one_micro_batch_have_their_own_results(tmp_path: Path, emit: str) -> None:
    lane = Lane(window(size="1s", emit=emit), SCHEMA, tmp_path)

    results = lane.run([event(number, number // 2, user=str(number % 3)) for number in range(20_000)])

    counts: dict[tuple[float, str], int] = {}
    for row in results:
        key = ((row["window_start"] - EPOCH).total_seconds(), row["user"])
        counts[key] = counts.get(key, 0) + row["n"]
    expected = {(float(number // 2), str(number % 3)): 1 for number in range(20_000)}
    assert counts == {key: n for key, n in expected.items() if emit == "on_change" or key[0] < 9_999}


@pytest.mark.slow
def test_a_day_that_slides_by_a_second_costs_what_its_results_cost(tmp_path: Path) -> None:
    times = [number * 600 for number in range(150)]
    lane = Lane(window(size="1d", slide="1s"), SCHEMA, tmp_path)

    results = lane.run([event(number, time) for number, time in enumerate(times)]) + lane.run([event(150, 10 * 86_400)])

    counts = dict(starts(results))
    assert len(results) == times[-1] - times[0] + 86_400
    assert [counts[start] for start in (-86_399, 0, 1, 3_000, 3_001, 89_400)] == [1, 144, 144, 144, 144, 1]


def test_a_window_of_a_year_with_events_of_a_second(tmp_path: Path) -> None:
    lane = Lane(window(size="365d", slide="1h", group_by=[]), SCHEMA, tmp_path)
    lane.run([event(number, number / 1000) for number in range(1000)])

    results = lane.run([event(1000, 2 * YEAR)])

    assert [n for _, n in starts(results)] == [1000] * (365 * 24)


def test_windows_before_1970_whose_slide_does_not_divide_their_size(tmp_path: Path) -> None:
    times = [-0.000001, -1, -7, -13, -20, -21.5]
    lane = Lane(window(size="10s", slide="4s"), SCHEMA, tmp_path)

    results = lane.run([event(number, time) for number, time in enumerate(times)], [event(9, 100)])

    expected = {first: count for first in range(-40, 0, 4) if (count := sum(first <= time < first + 10 for time in times))}
    assert starts(results) == sorted((float(first), count) for first, count in expected.items())


def test_an_event_is_late_when_its_last_window_has_closed(tmp_path: Path) -> None:
    lane = Lane(window(size="10s", slide="5s"), SCHEMA, tmp_path)
    lane.run([event(0, 20)])

    results = lane.run([event(1, 14.999999), event(2, 15), event(3, 35)])

    assert lane.late == 1
    assert starts(results) == [(15.0, 2), (20.0, 1)]


@pytest.mark.parametrize("name", ["__pane", "__hash", "__start", "__end", "__time", "a.b", "@x-y"])
@pytest.mark.parametrize("shape", [{"size": "10s"}, {"size": None, "gap": "10s"}, {"size": "10s", "emit": "on_change"}])
def test_fields_may_have_any_name(tmp_path: Path, name: str, shape: dict[str, Any]) -> None:
    schema = pa.schema([("time", TIMESTAMP), (name, pa.string())])
    lane = Lane(window(group_by=[name], aggregates={"n": "count(*)", "__changed": "max(time)"}, **shape), schema, tmp_path)

    results = lane.run([{"_offset": 0, "time": EPOCH, name: "x"}, {"_offset": 1, "time": EPOCH, name: "y"}])
    results += lane.run([{"_offset": 2, "time": EPOCH + timedelta(seconds=60), name: "z"}])

    assert {(row[name], row["n"]) for row in results} >= {("x", 1), ("y", 1)}


KEYS = {
    "large_string": pa.large_string(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "binary": pa.binary(),
    "null": pa.null(),
    "nanoseconds": pa.timestamp("ns"),
    "milliseconds": pa.timestamp("ms", "UTC"),
}


@pytest.mark.parametrize("shape", [{"size": "10s"}, {"size": None, "gap": "10s"}])
@pytest.mark.parametrize("kind", KEYS)
def test_groups_of_every_type(tmp_path: Path, kind: str, shape: dict[str, Any]) -> None:
    type_ = KEYS[kind]
    values: list[Any] = [None, None, None]
    if pa.types.is_timestamp(type_):
        values = [EPOCH, EPOCH + timedelta(days=1), None] if type_.tz else [datetime(1970, 1, 1), datetime(1970, 1, 2), None]
    elif not pa.types.is_null(type_):
        values = [b"x", b"y", None] if pa.types.is_binary(type_) else ["x", "y", None]
    schema = pa.schema([("time", TIMESTAMP), ("key", type_)])
    step = window(group_by=["key"], **shape)
    lane = Lane(step, schema, tmp_path, merges=True)

    for batch in range(3):
        lane.run([{"_offset": n, "time": EPOCH, "key": value} for n, value in enumerate(reversed(values) if batch else values)])
    results = lane.run([{"_offset": 9, "time": EPOCH + timedelta(seconds=60), "key": values[0]}])

    expected = [(value, 3) for value in values] if values[0] is not None else [(None, 9)]
    assert sorted(((row["key"], row["n"]) for row in results), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("type_", [pa.timestamp("ns"), pa.timestamp("ms", "UTC"), pa.timestamp("s"), pa.timestamp("us")], ids=str)
def test_event_times_of_every_unit(tmp_path: Path, type_: pa.DataType) -> None:
    lane = Lane(window(size="10s"), pa.schema([("time", type_), ("user", pa.string())]), tmp_path)
    times = [EPOCH + timedelta(seconds=seconds) for seconds in (-1, 1, 2, 60)]

    results = lane.run(
        [{"_offset": n, "time": time if type_.tz else time.replace(tzinfo=None), "user": "a"} for n, time in enumerate(times)]
    )

    assert [row["n"] for row in results] == [1, 2]
    assert pa.Table.from_pylist(results, schema=lane.step.fields(lane.incoming)).num_rows == 2


@pytest.mark.parametrize("merges", [False, True])
def test_sessions_of_all_events_need_no_group(tmp_path: Path, merges: bool) -> None:
    step = window(size=None, gap="10s", group_by=[])
    lane = Lane(step, SCHEMA, tmp_path, merges=merges)
    assert list(step.check(SCHEMA)) == []

    results = lane.run([event(0, 0), event(1, 25)], [event(2, 9), event(3, 18)]) + lane.run([event(4, 34), event(5, 90)])

    assert starts(results) == [(0.0, 5)]


def test_a_new_aggregate_can_be_merged_into_files_that_lack_it(tmp_path: Path) -> None:
    before = Lane(window(size="1h"), SCHEMA, tmp_path)
    for number in range(3):
        before.run([event(number, number)])
    both = {"n": "count(*)", "hosts": "count(distinct host)", "latest": "last(host)"}
    after = Lane(window(size="1h", aggregates=both), SCHEMA, tmp_path, before.clock, before.event_time, before.kept, batches=3)

    after.kept = after._merged(after.kept)
    results = after.run([event(3, 3, host="i")]) + after.run([event(4, 7200)])

    assert [(row["n"], row["hosts"], row["latest"]) for row in results] == [(4, 1, "i")]


def test_reordered_groups_stay_in_their_parts() -> None:
    events = pa.table({"user": [str(n) for n in range(100)], "host": [str(n % 7) for n in range(100)]})
    orders = [window(group_by=group_by, **shape).operator(SCHEMA).keys for group_by in (["user", "host"], ["host", "user"])
              for shape in ({"size": "10s"}, {"size": None, "gap": "10s"})]  # fmt: skip

    parts = [part_of(key_hashes(events, keys)).tolist() for keys in orders]

    assert all(one == parts[0] for one in parts)


def test_large_keys_are_written_before_they_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.state.row_files.BYTES_IN_MEMORY", 10_000)
    operator = window(size="1h").operator(SCHEMA)
    writer = RowWriter(operator, Manifests(tmp_path), "rows")

    for number in range(30):
        rows = [{"time": number, "user": f"{key}{'x' * 1000}"} for key in (1, 1 + number % 15)]
        writer.add(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    files = writer.close()

    assert len(files) > 1
    assert all(file.bytes < 40_000 for file in files)
    tables = MappedStateFiles(tmp_path, files).parts(*range(PARTS)).tables()
    assert len({user for table in tables for user in table.column("user").to_pylist()}) == 15
