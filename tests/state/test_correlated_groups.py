"""The operator of `correlate` on the state lane: cuts into micro-batches and splits, merges of state files, what can be read."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_files import passing_folder
from state.lane import Lane

from etl.api import OFFSET, TIMESTAMP, ReadableState
from etl.rules.correlation import operator
from etl.running.condition_shares import condition_shares
from etl.running.thresholds import OF_CORRELATIONS
from etl.state.key_hash import PARTS
from etl.state.part_rows import MappedStateFiles
from etl.steps.detection.correlate import Correlate
from etl.steps.detection.correlate_groups import CorrelateGroups

SECOND = 1_000_000
INCOMING = pa.schema([("at", TIMESTAMP), ("action", pa.string()), ("ip", pa.string()), ("port", pa.int64())])
MANY = {"type": "event_count", "rules": ["failed"], "group-by": ["ip", "port"], "timespan": "10s", "condition": {"gte": 3}}
FEW = {"type": "event_count", "rules": ["failed"], "group-by": ["ip"], "timespan": "10s", "condition": {"lt": 3}}
THEN = {"type": "temporal_ordered", "rules": ["many", "login"], "group-by": ["port"], "timespan": "20s", "generate": True}
CORRELATIONS = [
    {"title": "Many", "name": "many", "correlation": MANY},
    {"title": "Few", "correlation": FEW},
    {"title": "Then", "correlation": THEN},
]


class Run:
    """A run over micro-batches, and what its reading tasks match."""

    def __init__(self, folder: Path, merges: bool = False, correlations: Any = CORRELATIONS, files: Sequence[str] = ()) -> None:
        rules = [{"name": name, "where": f"action = '{name}'"} for name in ("failed", "login")]
        options = {"rules": rules, "correlations": correlations, "files": files, "time": "at", "late": "5s"}
        self.step = Correlate.model_validate(options)
        matching, groups = self.step.parts(INCOMING)
        assert isinstance(groups, CorrelateGroups)
        self._match = matching.open(INCOMING)  # type: ignore[attr-defined]
        self.lane = Lane(groups, matching.fields(INCOMING), folder, merges=merges)

    def __call__(self, *splits: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The alerts of a micro-batch; the watermark follows all of its events."""
        return self.lane.run(*map(self.matched, splits))

    def matched(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the reading task hands over for these events."""
        batch = pa.RecordBatch.from_pylist(events, INCOMING.append(pa.field(OFFSET, pa.int64())))
        found: list[dict[str, Any]] = self._match(batch).events.to_pylist()
        return [*found, *({"at": event["at"]} for event in events)]

    def remembered(self) -> list[dict[str, Any]]:
        """What `etl state show` prints."""
        readable = self.lane.step.operator(self.lane.incoming)
        assert isinstance(readable, ReadableState)
        parts = MappedStateFiles(self.lane.folder, self.lane.kept).parts(*range(PARTS))
        batches = list(readable.read_state(parts, self.lane.clock.now))
        assert all(batch.schema == readable.state_fields for batch in batches)
        return [row for batch in batches for row in batch.to_pylist()]


def event(seconds: float, ip: str | None = "a", action: str = "failed", port: int | None = 22, number: int = 0) -> dict[str, Any]:
    return {"at": round(seconds * SECOND), "action": action, "ip": ip, "port": port, OFFSET: number}


def write_correlation(path: Path, correlation: dict[str, Any]) -> None:
    path.write_text(json.dumps({"title": "Many", "name": "many", "correlation": correlation}))


def as_tuples(alerts: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(one["rule.title"], one["ip"], one["port"], one["last_seen"].timestamp(), one["correlation.count"]) for one in alerts]


def test_alerts_have_the_types_of_the_groups_fields(tmp_path: Path) -> None:
    run = Run(tmp_path)

    first = run([event(n, number=n) for n in range(3)])
    second = run([event(4, action="login", number=3)], [event(60, action="other")])

    assert as_tuples(first) == [("Many", "a", 22, 2.0, 3)]
    assert as_tuples(second) == [("Then", None, 22, 4.0, 2)]


def test_a_window_closes_with_the_micro_batch_that_moves_the_watermark_past_its_end(tmp_path: Path) -> None:
    run = Run(tmp_path)

    assert run([event(0)]) == []
    assert run([event(14.9, action="other")]) == []
    assert as_tuples(run([event(15, action="other")])) == [("Few", "a", None, 0.0, 1)]
    assert run([event(90, action="other")]) == []
    assert run.lane.kept == ()


def test_late_events_are_counted_once(tmp_path: Path) -> None:
    run = Run(tmp_path)

    run([event(60)])
    run([event(54.9), event(55)])

    assert run.lane.late == 1  # it would have counted for two correlations


def test_what_is_remembered_shows_who_is_close(tmp_path: Path) -> None:
    run = Run(tmp_path)

    run([event(0, number=1), event(1, number=2), event(1, "b", number=3), event(2, "c"), event(3, "c"), event(4, "c")])

    close = [row for row in run.remembered() if row["rule.title"] == "Many" and row["correlation.measure"] >= 2]
    names = ("ip", "port", "correlation.measure", "comparison", "threshold", "alerted")
    assert sorted(tuple(row[name] for name in names) for row in close) == [
        ("a", 22, 2.0, "gte", 3.0, False),
        ("c", 22, 3.0, "gte", 3.0, True),
    ]
    rows = pa.RecordBatch.from_pylist(close)
    shares = dict(zip(rows.column("ip").to_pylist(), condition_shares(OF_CORRELATIONS, rows.schema)(rows), strict=True))
    assert shares == {"a": pytest.approx(2 / 3), "c": 1}
    chained = [row for row in run.remembered() if row["rule.title"] == "Then"]
    assert [(row["ip"], row["port"], row["correlation.measure"], row["threshold"]) for row in chained] == [(None, 22, 1.0, 2.0)]
    run([event(90, "d", action="other")])
    assert run.remembered() == []


def test_rules_that_change_between_micro_batches_count_from_the_next(tmp_path: Path) -> None:
    """The operator is the same: a worker keeps it as long as it lives."""
    rules = tmp_path / "many.yml"
    write_correlation(rules, MANY)
    lane = Run(tmp_path / "state", correlations=[], files=[str(rules)])
    lane([event(0, number=1), event(1, number=2)])

    write_correlation(rules, {**MANY, "condition": {"gte": 2}})

    (remembered,) = lane.remembered()
    assert (remembered["correlation.measure"], remembered["threshold"]) == (2.0, 2.0)
    later = [event(2, "b", number=3), event(3, "b", number=4), event(3, number=5)]
    assert sorted((alert[1], alert[-1]) for alert in as_tuples(lane(later))) == [("a", 2), ("b", 2)]


@pytest.mark.parametrize(
    "now", [[CORRELATIONS[0]], [{**CORRELATIONS[0], "title": "More"}, {"title": "New", "correlation": {**FEW, "timespan": "1m"}}]]
)
def test_a_correlation_that_stays_goes_on_when_others_change(tmp_path: Path, now: Any) -> None:
    run, changed = Run(tmp_path), Run(tmp_path, correlations=now)

    run([event(0, number=1), event(1, number=2)])
    changed.lane.kept, changed.lane.clock, changed.lane.batches = run.lane.kept, run.lane.clock, 1

    assert [alert[1:] for alert in as_tuples(changed([event(2, number=3)]))] == [("a", 22, 2.0, 3)]


# ── Laws ──────────────────────────────────────────────────────────────────────────────────────────

ACTIONS = st.sampled_from(["failed", "failed", "login", "x"])
EVENTS = st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["a", "b", None]), ACTIONS, st.integers(0, 4)), max_size=40)
"""With how late each may come."""

END = [event(1000, action="x")]
USERS = {
    "type": "value_count",
    "rules": ["failed"],
    "group-by": ["ip"],
    "timespan": "10s",
    "condition": {"field": "port", "gte": 2},
}

RULES = [*CORRELATIONS, {"title": "Users", "correlation": USERS}]
CUTS = st.lists(st.integers(1, 39), max_size=5)


@pytest.mark.slow
@settings(deadline=None)
@given(EVENTS, CUTS, st.booleans(), st.booleans())
def test_alerts_do_not_depend_on_micro_batches_splits_and_merges(
    some: list[tuple[int, str | None, str, int]],
    cuts: list[int],
    two: bool,
    merges: bool,
) -> None:
    events = events_of(sorted(some, key=lambda one: one[0]))
    whole, cut = Run(passing_folder(), False, RULES), Run(passing_folder(), merges, RULES)
    whole.lane.at_once = True

    expected = [*whole(events), *whole(END)]
    with looking_up(few_others=0):
        found = [alert for batch in batches(events, cuts) for alert in (cut(batch[::2], batch[1::2]) if two else cut(batch))]

    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert (whole.lane.kept, cut.lane.kept) == ((), ())


@pytest.mark.slow
@settings(deadline=None)
@given(EVENTS, CUTS, st.booleans())
def test_groups_that_are_looked_up_give_the_alerts_of_all_groups_evaluated(
    some: list[tuple[int, str | None, str, int]], cuts: list[int], merges: bool
) -> None:
    """Also for events that come late, after which alerts depend on the micro-batches."""
    events = events_of(sorted(some, key=lambda one: one[0] + one[3]))
    whole, parts = Run(passing_folder(), False, RULES), Run(passing_folder(), merges, RULES)
    whole.lane.at_once = True

    for batch in batches(events, cuts):
        rows = whole.matched(batch)
        with looking_up(few_others=1 << 60):
            expected = whole.lane.run(rows)
        with looking_up(few_others=0):
            assert sorted(map(str, parts.lane.run(rows))) == sorted(map(str, expected))


def events_of(rows: list[tuple[int, str | None, str, int]]) -> list[dict[str, Any]]:
    return [event(time, ip, action, port=22 + time % 3, number=n) for n, (time, ip, action, _) in enumerate(rows)]


def batches(events: list[dict[str, Any]], cuts: list[int]) -> Iterator[list[dict[str, Any]]]:
    """The events of each micro-batch, at last one that closes everything."""
    yield from (events[start:stop] for start, stop in itertools.pairwise([0, *sorted(set(cuts)), len(events)]))
    yield END


@contextmanager
def looking_up(few_others: int) -> Iterator[None]:
    """Groups are looked up where there are more stored rows for each that arrives."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator, "FEW_OTHERS", few_others)
        yield


def test_rows_of_no_known_correlation_run_all_kernels(tmp_path: Path) -> None:
    """They are compiled before a run with such rows."""
    run = Run(tmp_path)
    run([event(0)])
    parts = MappedStateFiles(tmp_path, run.lane.kept).parts(*range(PARTS))

    nobody = Run(tmp_path, correlations=[{"title": "Other", "correlation": FEW}]).lane
    (nothing,) = nobody.step.operator(nobody.incoming).run(run.lane.clock, parts, MappedStateFiles(tmp_path, ()).parts())

    assert (nothing.num_rows, nothing.schema) == (0, nobody.step.fields(nobody.incoming))
