"""Unusual keys, times and amounts in every stateful step: results are those of ordinary ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from memory_files import passing_folder
from state.lane import Lane, Row

from etl.api import OFFSET, SIDE, SIDE_TIME, TIMESTAMP, Schema, StatefulStep
from etl.spark.lane.operators import operator_of
from etl.state.manifest import Manifests, StateFileEntry
from etl.state.row_files import RowWriter
from etl.state.state_file_writer import write_state_file
from etl.steps.joining.join import Join
from etl.steps.keyed.dedupe import Dedupe
from etl.steps.keyed.over import Over
from etl.steps.keyed.suppress import Suppress
from etl.steps.keyed.throttle import Throttle
from etl.steps.keyed.top import Top
from etl.steps.sequences.sequence import Sequence
from etl.steps.window import Window

pytestmark = pytest.mark.slow

TIMED: dict[str, Any] = {"time": "at", "late": "1m"}
KEYED: dict[str, Any] = {**TIMED, "keys": ["k"]}
WINDOW: dict[str, Any] = {**TIMED, "group_by": ["k"], "aggregates": {"n": "count(*)", "users": "count(distinct x)"}}
EVENTS = {"odd": "x % 2 = 1", "even": "x % 2 = 0"}
STEPS: dict[str, Callable[[], StatefulStep]] = {
    "window": lambda: Window(**WINDOW, size="1m"),
    "window-sliding": lambda: Window(**WINDOW, size="2m", slide="1m"),
    "window-on-change": lambda: Window(**WINDOW, size="1m", emit="on_change"),
    "window-when": lambda: Window(**WINDOW, size="10m", emit=["on_close", {"when": "n >= 3"}]),
    "sessions": lambda: Window(**WINDOW, gap="1m"),
    "dedupe-first": lambda: Dedupe(**KEYED, within="3m"),
    "dedupe-last": lambda: Dedupe(**KEYED, within="3m", keep="last", count="n"),
    "throttle": lambda: Throttle(**KEYED, limit=2, every="5m"),
    "suppress": lambda: Suppress(**KEYED, within="3m", summary="s"),
    "over-within": lambda: Over(**KEYED, within="3m", aggregates={"total": "sum(x)", "kinds": "count(distinct x)"}),
    "over-rows": lambda: Over(**KEYED, rows=3, aggregates={"total": "sum(x)"}),
    "over-totals": lambda: Over(**KEYED, aggregates={"total": "sum(x)", "before": "lag(x)", "new": "is_new(x)"}),
    "top-of-spans": lambda: Top(**KEYED, by="x", limit=2, size="10m"),
    "top-so-far": lambda: Top(**KEYED, by="x", limit=2),
    "sequence": lambda: Sequence(**KEYED, within="10m", events=EVENTS, pattern="odd then even"),
    "join": lambda: Join(**TIMED, on=["k"], kind="full", within="1m"),
    "join-latest": lambda: Join(**TIMED, on=["k"], kind="left", match="latest"),
}
START = datetime(2026, 1, 1, tzinfo=UTC)


def incoming(key: pa.DataType) -> Schema:
    return pa.schema({"k": key, "at": TIMESTAMP, "x": pa.int64()})


def lane(step: StatefulStep, key: pa.DataType, folder: Path) -> Lane:
    fields = incoming(key)
    folder.mkdir()
    return Lane(step, step.united({"l": fields, "r": fields}) if isinstance(step, Join) else fields, folder, at_once=True)


def stream(keys: list[Any], start: datetime = START) -> Iterator[list[Row]]:
    """Micro-batches in which each key occurs several times, near and far apart, out of order; the last one closes all."""
    number = 0
    for batch in range(4):
        rows: list[Row] = []
        for turn in range(2):
            for at, key in enumerate(keys):
                seconds = batch * 100 + (turn * 37 + at * 11) % 70
                rows.append({OFFSET: number, "k": key, "at": start + timedelta(seconds=seconds), "x": number * 7 // 3 % 5})
                number += 1
        yield rows
    yield [{OFFSET: number, "k": keys[-1], "at": start + timedelta(hours=2), "x": 0}]


def run(name: str, keys: list[Any], type_: pa.DataType, folder: Path, start: datetime = START) -> list[list[Row]]:
    """The results of each micro-batch, whose two halves are read by a task each."""
    step = STEPS[name]()
    one, found = lane(step, type_, folder), []
    for rows in stream(keys, start):
        prepared = [_of_side(row) for row in rows] if isinstance(step, Join) else rows
        found.append(one.run(prepared[::2], prepared[1::2]))
    return found


def _of_side(row: Row) -> Row:
    side = row[OFFSET] // 3 % 2
    prefix = ("left.", "right.")[side]
    return {SIDE: side, SIDE_TIME: row["at"], OFFSET: row[OFFSET], **{prefix + name: row[name] for name in ("k", "at", "x")}}


def with_keys(results: list[list[Row]], name_of: Callable[[Any], Any]) -> list[Counter[str]]:
    """Results with other keys, and without the order that depends on them."""
    return [
        Counter(
            str({field: name_of(value) if field in ("k", "right.k") else value for field, value in sorted(row.items())})
            for row in batch
        )
        for batch in results
    ]


KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "floats": (pa.float64(), [math.nan, -0.0, math.inf, -math.inf, None, 5e-324, 0.0, -math.nan, 1e308]),
    "decimals": (pa.decimal128(38, 0), [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(0), None, Decimal(1)]),
    "large-decimals": (pa.decimal256(76, 38), [Decimal("9" * 38), Decimal("1e-38"), None, Decimal(0)]),
    "texts": (pa.string(), ["", "\0", "\0\0", "a\0b", "a", None, "e\u0301", "é", "\U0010ffff", " "]),
    "bytes": (pa.binary(), [b"", b"\0", b"\xff\xfe", b"\xc3", None, b"\xed\xa0\x80"]),
    "megabytes": (pa.string(), ["x" * 2**20, "x" * 2**20 + "y", "y" + "x" * 2**20, None]),
    "booleans": (pa.bool_(), [True, False, None]),
    "times": (
        TIMESTAMP,
        [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC), None],
    ),
    "nothing": (pa.null(), [None]),
}


def kind_of(value: Any) -> Any:
    """Equal for keys that are the same."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return hash(value) if isinstance(value, str) and len(value) > 99 else value


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("name", STEPS)
def test_results_do_not_depend_on_what_keys_are(name: str, kind: str, tmp_path: Path) -> None:
    type_, keys = KEYS[kind]
    numbers = {kind_of(key): None if key is None else number for number, key in reversed(list(enumerate(keys)))}
    plain = [numbers[kind_of(key)] for key in keys]

    found = with_keys(run(name, keys, type_, tmp_path / "unusual"), lambda value: numbers[kind_of(value)])

    assert found == with_keys(run(name, plain, pa.int64(), tmp_path / "plain"), lambda value: value)
    assert sum(map(len, found)) > 0


@pytest.mark.parametrize(
    "start", [datetime(1, 1, 2), datetime(1582, 10, 15), datetime(1969, 12, 31, 23, 50), datetime(9999, 12, 1)]
)
@pytest.mark.parametrize("name", STEPS)
def test_results_do_not_depend_on_the_century(name: str, start: datetime, tmp_path: Path) -> None:
    start = start.replace(tzinfo=UTC)

    found = results_since(start, name, tmp_path)

    assert found == usual_results(name)


@cache
def usual_results(name: str) -> list[Counter[str]]:
    """Those of this century, to which the tests of all others compare theirs."""
    return results_since(START, name, passing_folder())


def results_since(start: datetime, name: str, folder: Path) -> list[Counter[str]]:
    """The results of a stream that begins then, with times since the start."""
    results = run(name, ["a", "b", None], pa.string(), folder / "run", start)
    return [
        Counter(str({f: v - start if isinstance(v, datetime) else v for f, v in row.items()}) for row in batch)
        for batch in results
    ]


@pytest.mark.parametrize("name", STEPS)
def test_results_do_not_depend_on_how_much_a_task_holds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"k{number}" for number in range(40)]
    whole = run(name, keys, pa.string(), tmp_path / "whole")
    monkeypatch.setattr("etl.state.row_files.ROWS_IN_MEMORY", 8)
    monkeypatch.setattr("etl.state.row_files.BYTES_IN_MEMORY", 4096)

    assert with_keys(run(name, keys, pa.string(), tmp_path / "pieces"), str) == with_keys(whole, str)


def test_a_task_that_reads_large_keys_holds_few_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 MB of keys of 1 MB, of which a task holds 4 MB and, while it writes, copies of these."""
    monkeypatch.setattr("etl.state.row_files.BYTES_IN_MEMORY", 4 << 20)
    held: list[int] = []

    def write(path: Path, rows: pa.Table, *others: Any) -> StateFileEntry | None:
        held.append(pa.total_allocated_bytes() - before)
        return write_state_file(path, rows, *others)

    monkeypatch.setattr("etl.state.row_files.write_state_file", write)
    step, schema = STEPS["window"](), incoming(pa.string())
    writer = RowWriter(operator_of(step, schema), Manifests(tmp_path, durable=False), "rows-0")
    before = pa.total_allocated_bytes()

    for number in range(64):
        row = {"k": f"{number:06}" + "k" * (1 << 20), "at": START, "x": number}
        writer.add(pa.RecordBatch.from_pylist([row], schema=schema))
    files = writer.close()

    assert sum(file.rows for file in files) == 64
    assert max(held) < 16 << 20


@pytest.mark.parametrize("lengths", [{"size": "365d"}, {"size": "365d", "slide": "73d"}])
def test_the_state_of_a_window_of_a_year_does_not_grow_with_its_events(lengths: dict[str, Any], tmp_path: Path) -> None:
    year = datetime(1970, 1, 1, tzinfo=UTC) + 56 * timedelta(days=365)
    one = lane(Window(time="at", late="0s", group_by=["k"], aggregates={"n": "count(*)"}, **lengths), pa.string(), tmp_path / "s")

    found, rows = list[Row](), 0
    for day in range(364):  # fifty events a second after each other, each day
        times = [year + timedelta(days=day, seconds=second) for second in range(50)]
        found += one.run([{OFFSET: day * 50 + n, "k": "ab"[n % 2], "at": at, "x": n} for n, at in enumerate(times)])
        rows = max(rows, sum(file.rows for file in one.kept))
    found += one.run([{"k": "a", "at": year + timedelta(days=3 * 365), "x": 0, OFFSET: None}])

    whole = [row["n"] for row in found if row["window_start"] == year]
    assert whole == [364 * 25] * 2
    assert rows <= 2 * 5 * 8 * 3  # groups, panes, files of a tier, tiers
