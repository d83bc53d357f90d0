"""Two days of event time in every stateful step: its state is as large after the second day as after the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from state.lane import Lane, Row

from etl.api import OFFSET, SIDE, SIDE_TIME, TIMESTAMP, Schema, StatefulStep
from etl.state.manifest import Manifest, StageState
from etl.state.state_files import _opened
from etl.steps.detection.correlate import Correlate
from etl.steps.detection.correlate_groups import CorrelateGroups
from etl.steps.heartbeats import ARRIVAL
from etl.steps.joining.join import Join
from etl.steps.keyed.dedupe import Dedupe
from etl.steps.keyed.keyed_python import KeyedPython
from etl.steps.keyed.over import Over
from etl.steps.keyed.suppress import Suppress
from etl.steps.keyed.throttle import Throttle
from etl.steps.keyed.top import Top
from etl.steps.sequences.sequence import Sequence
from etl.steps.window import Window
from etl.udf.declaration import CodeFile, UserFunction
from etl.udf.parameters import FunctionDeclaration
from etl.udf.signature import read_function

pytestmark = pytest.mark.slow

EVERY = 1800
"""Seconds of event time in a micro-batch."""

BATCHES_A_DAY = 86_400 // EVERY

INCOMING = pa.schema({"host": pa.string(), "at": TIMESTAMP, "action": pa.string(), "x": pa.int64()})
TIMED: dict[str, Any] = {"time": "at", "late": "1m"}
KEYED: dict[str, Any] = {**TIMED, "keys": ["host"]}
WINDOW: dict[str, Any] = {**TIMED, "group_by": ["host"], "aggregates": {"n": "count(*)", "users": "count(distinct x)"}}
JOIN: dict[str, Any] = {**TIMED, "on": ["host"]}
EVENTS = {"failed": "action = 'failed'", "accepted": "action = 'accepted'"}

CORRELATION = {"type": "event_count", "rules": ["failed"], "group-by": ["host"], "timespan": "30m", "condition": {"gte": 3}}
correlated = Correlate.model_validate(
    {
        **TIMED,
        "rules": [{"name": "failed", "where": "action = 'failed'"}],
        "correlations": [{"title": "Many", "correlation": CORRELATION}],
    }
)
CODE = """
def f(events: list[dict], state: int | None) -> tuple[list[dict], int | None]:
    return events, (state or 0) + len(events)
"""


def calls() -> StatefulStep:
    """A step that calls a function, which counts."""
    function = read_function(FunctionDeclaration("f", CodeFile("f.py", CODE), "f", timedelta(seconds=5)))
    assert isinstance(function, UserFunction)
    return KeyedPython.model_validate({**KEYED, "function": "f", "ttl": "2h"}).with_functions({"f": function})


STEPS: dict[str, Callable[[], StatefulStep]] = {
    "window": lambda: Window(**WINDOW, size="30m"),
    "window-sliding": lambda: Window(**WINDOW, size="1h", slide="5m"),
    "window-on-change": lambda: Window(**WINDOW, size="1h", emit="on_change"),
    "window-cumulating": lambda: Window(**WINDOW, size="1h", step="15m"),
    "window-of-sizes": lambda: Window(**WINDOW, size=["15m", "1h"]),
    "totals": lambda: Window(group_by=["host"], aggregates={"n": "count(*)", "total": "sum(x)"}, emit="on_change", ttl="2h"),
    "window-every-emit": lambda: Window(
        **WINDOW,
        size="30m",
        emit=["on_close", {"every": "10m"}, {"when": "n >= 3"}, {"late": {"for": "1h", "every": "10m", "as": "corrected"}}],
    ),
    "sessions": lambda: Window(**WINDOW, gap="20m"),
    "dedupe-first": lambda: Dedupe(**KEYED, within="1h"),
    "dedupe-last": lambda: Dedupe(**KEYED, within="1h", keep="last", count="n"),
    "throttle": lambda: Throttle(**KEYED, limit=2, every="30m"),
    "suppress": lambda: Suppress(**KEYED, within="1h", remember="1h"),
    "over-within": lambda: Over(**KEYED, within="5m", aggregates={"total": "sum(x)", "kinds": "count(distinct action)"}),
    "over-rows": lambda: Over(**KEYED, rows=3, ttl="2h", aggregates={"total": "sum(x)"}),
    "over-totals": lambda: Over(**KEYED, ttl="2h", aggregates={"total": "sum(x)", "before": "lag(action)", "new": "is_new(x)"}),
    "top-of-spans": lambda: Top(**TIMED, keys=["action"], by="x", limit=2, size="30m"),
    "top-so-far": lambda: Top(**KEYED, by="x", limit=2, ttl="2h"),
    "sequence": lambda: Sequence(**KEYED, within="30m", events=EVENTS, pattern="failed{2,} then accepted"),
    "sequence-without": lambda: Sequence(**KEYED, within="30m", events=EVENTS, pattern="failed then not accepted"),
    "join-within": lambda: Join(**JOIN, kind="full", within="10m"),
    "join-latest": lambda: Join(**JOIN, match="latest", before="2h"),
    "correlate": lambda: correlated.parts(INCOMING)[1],
    "keyed-python": calls,
}


class Size(NamedTuple):
    """Of a step's state, on disk and in the process."""

    files: int
    rows: int
    bytes: int
    mapped: int
    """Files that the process has mapped."""
    results: int


def events(number: int) -> Iterator[Row]:
    """Those of a micro-batch: a host that is always there, one that comes back every two hours, and new ones."""
    hosts = ["always", f"hourly-{number % 4}", f"new-{number}", f"new-{number}"]
    for at, host in enumerate(hosts * 3):
        action = "accepted" if at % 5 == 4 else "failed"
        time = datetime.fromtimestamp(number * EVERY + at * EVERY // 12, UTC)
        yield {OFFSET: number * 12 + at, "host": host, "at": time, "action": action, "x": (number % 48 * 7 + at) % 50}


def of_sides(row: Row, side: int) -> Row:
    """An event as the task makes it that reads for a join."""
    prefix = ("left.", "right.")[side]
    fields = {prefix + name: value for name, value in row.items() if name in INCOMING.names}
    return {SIDE: side, SIDE_TIME: row["at"], OFFSET: row[OFFSET], **fields}


def prepare(step: StatefulStep) -> tuple[Schema, Callable[[list[Row]], list[Row]]]:
    """The fields that a step gets, and what makes its rows of events."""
    if isinstance(step, Join):
        sides = step.united({"l": INCOMING, "r": INCOMING})
        return sides, lambda rows: [of_sides(row, at % 3 % 2) for at, row in enumerate(rows)]
    if isinstance(step, CorrelateGroups):
        matching, _ = correlated.parts(INCOMING)
        match = matching.open(INCOMING)  # type: ignore[attr-defined]
        given = INCOMING.append(pa.field(OFFSET, pa.int64()))
        return matching.fields(INCOMING), lambda rows: match(pa.RecordBatch.from_pylist(rows, given)).events.to_pylist()
    if (step.event_time() or ("",))[0] == ARRIVAL:
        return INCOMING.append(pa.field(ARRIVAL, TIMESTAMP)), lambda rows: [{**row, ARRIVAL: row["at"]} for row in rows]
    return INCOMING, list


def sizes(step: StatefulStep, folder: Path) -> Iterator[Size]:
    """The state after each micro-batch, in which two tasks read and full tiers are merged, as in a run."""
    (folder / "seed.json").write_text("7")  # which parts have rows depends on it
    incoming, prepared = prepare(step)
    lane = Lane(step, incoming, folder, at_once=True)
    for number in range(2 * BATCHES_A_DAY):
        rows = prepared(list(events(number)))
        results = lane.run(rows[:6], rows[6:])
        lane.manifests.write(number, Manifest(lane.event_time, (StageState(lane.clock.now, lane.kept, lane.emission),)))
        on_disk = [path.stat().st_size for path in folder.glob("rows-*")]
        yield Size(len(on_disk), sum(file.rows for file in lane.kept), sum(on_disk), len(_opened.get(folder, {})), len(results))


@pytest.mark.parametrize("name", STEPS)
def test_state_does_not_grow_in_two_days(name: str, tmp_path: Path) -> None:
    found = list(sizes(STEPS[name](), tmp_path))

    first, second = (Size(*map(max, zip(*day, strict=True))) for day in (found[:BATCHES_A_DAY], found[BATCHES_A_DAY:]))
    assert first.rows > 0
    assert second.rows <= first.rows
    assert second.files <= first.files
    assert second.mapped <= first.mapped
    assert second.bytes <= 1.1 * first.bytes  # new keys are in other parts, and each part costs 500 bytes
    assert second.results >= first.results > 0
