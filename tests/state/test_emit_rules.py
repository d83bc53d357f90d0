"""When windows give results, against a plain count of what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_files import folder_in_memory
from state.lane import Lane, Row
from state.test_time_windows import EPOCH, SCHEMA, event, window

from etl.api import NEVER
from etl.state.windows import pane_rows
from etl.steps.window import Window

Key = tuple[int, int, str | None]
"""A window's start and end in seconds, and a group."""


class Oracle:
    """A window step that remembers every event. Times are whole seconds."""

    def __init__(self, step: Window, shapes: Sequence[Any]) -> None:
        self.shapes = shapes
        self.set_step(step)
        self.before = self.latest = self.final = NEVER // 1_000_000
        self.events: list[tuple[int, str | None, bool]] = []
        """Time, group, whether it arrived in this micro-batch."""
        self.given: dict[tuple[str, Key], int] = {}
        self.changed: set[Key] = set()
        self.late_ones: dict[Key, int] = {}

    def set_step(self, step: Window) -> None:
        """Go on with other options."""
        self.step = step
        self.rules: list[Any] = [step.emit] if not isinstance(step.emit, tuple) else list(step.emit)
        self.late = next((rule.late for rule in self.rules if getattr(rule, "late", None)), None)
        self.keep = round(self.late.for_.total_seconds()) if self.late else 0

    def windows(self, time: int) -> Iterator[tuple[int, int]]:
        """The windows that hold a time."""
        for size, slide, cumulates in self.shapes:
            first = time // size * size if cumulates else (time - size) // slide * slide
            for number in range(1, size // slide + 2):
                edges = (first, first + number * slide) if cumulates else (first + number * slide, first + number * slide + size)
                if edges[0] <= time < edges[1] <= edges[0] + size:
                    yield edges

    def counts(self, only_new: bool = False) -> dict[Key, int]:
        found: dict[Key, int] = {}
        for time, user, is_new in self.events:
            for edges in self.windows(time):
                if is_new or not only_new:
                    found[(*edges, user)] = found.get((*edges, user), 0) + 1
        return found

    def run(
        self, rows: Sequence[tuple[int, str | None]], quiet: Sequence[int] = ()
    ) -> tuple[list[tuple[str, int, int, str | None, int]], int]:
        """The results as reason, start, end, group and count; and how many events came too late."""
        taken = [row for row in rows if any(end > max(self.before - self.keep, self.final) for _, end in self.windows(row[0]))]
        self.events = [(time, user, False) for time, user, _ in self.events] + [(*row, True) for row in taken]
        self.latest = max([self.latest, *(time for time, _ in rows)])
        now = max(self.before, self.latest - round(self.step.late.total_seconds()))
        self.quiet = quiet
        found = [(reason, *key, n) for rule in self.rules for reason, key, n in self.results(rule, now)]
        self.before, self.final = now, max(self.final, now - self.keep)
        return sorted(found, key=str), len(rows) - len(taken)

    def results(self, rule: Any, now: int) -> Iterator[tuple[str, Key, int]]:
        counts, new = self.counts(), self.counts(only_new=True)
        if rule == "on_close":
            yield from (("on_close", key, n) for key, n in counts.items() if self.before < key[1] <= now)
        elif rule == "on_change":
            yield from (("on_change", key, counts[key]) for key in new if key[1] > self.before)
        elif rule.when:
            minimum, again = int(rule.when.split()[-1]), rule.again_after
            for key in new:
                last = self.given.get((rule.when, key))
                is_again = again is not None and last is not None and now - last >= again.total_seconds()
                if key[1] > self.before and counts[key] >= minimum and (last is None or is_again):
                    self.given[rule.when, key] = now
                    yield "when", key, counts[key]
        elif rule.every:
            self.changed |= set(new)
            if self.has_tick(rule.every, now):
                chosen = counts if rule.groups == "all" else self.changed
                yield from (("every", key, counts[key]) for key in chosen if key[1] > now)
                self.changed = set()
        else:
            yield from self.late_results(now, counts, new)

    def late_results(self, now: int, counts: dict[Key, int], new: dict[Key, int]) -> Iterator[tuple[str, Key, int]]:
        assert self.late is not None
        for key, n in new.items():
            if max(self.before - self.keep, self.final) < key[1] <= self.before:
                self.late_ones[key] = self.late_ones.get(key, 0) + n
        for key, n in list(self.late_ones.items()):
            if self.late.every is None or self.has_tick(self.late.every, now) or key[1] + self.keep <= now:
                yield "late", key, n if self.late.as_ == "separate" else counts[key]
                del self.late_ones[key]

    def has_tick(self, every: timedelta, now: int) -> bool:
        seconds = round(every.total_seconds())
        return now // seconds > self.before // seconds or seconds in self.quiet


def as_tuples(results: list[Row]) -> list[tuple[str, int, int, str | None, int]]:
    edges = [[round((row[f"window_{edge}"] - EPOCH).total_seconds()) for edge in ("start", "end")] for row in results]
    return sorted(((row["why"], *e, row["user"], row["n"]) for row, e in zip(results, edges, strict=True)), key=str)


def check(
    options: dict[str, Any],
    shapes: Sequence[Any],
    batches: Sequence[Any],
    merges: bool,
    replays: bool,
    changes: Mapping[int, Any] = MappingProxyType({}),
) -> None:
    """Run micro-batches of splits on the lane, or each of them twice from the same state, and compare. From some micro-batches
    on ``emit`` has another value."""
    step = window(emit_reason="why", **options)
    assert list(step.check(SCHEMA)) == []
    oracle, offset = Oracle(step, shapes), 0
    with folder_in_memory() as folder:
        lane = Lane(step, SCHEMA, folder, merges=merges)
        for number, batch in enumerate(batches):
            if number in changes:
                lane.step = window(emit_reason="why", **{**options, "emit": changes[number]})
                oracle.set_step(lane.step)
            quiet = batch if isinstance(batch, tuple) else ()
            batch, splits = [] if quiet else batch, []
            for split in batch:
                splits.append([event(offset + at, time, user=user) for at, (time, user) in enumerate(split)])
                offset += len(split)
            expected, late, begun = oracle.run([row for split in batch for row in split], quiet), lane.late, copy(lane)
            micros = frozenset(seconds * 1_000_000 for seconds in quiet)
            assert (as_tuples(lane.run(*splits, quiet=micros)), lane.late - late) == expected
            if replays:
                assert as_tuples(begun.run(*splits, quiet=micros)) == expected[0]
                lane = begun


SHAPES = [
    ({"size": "10s"}, [(10, 10, False)]),
    ({"size": "10s", "slide": "5s"}, [(10, 5, False)]),
    ({"size": "10s", "slide": "4s"}, [(10, 4, False)]),
    ({"size": "12s", "slide": "1s"}, [(12, 1, False)]),
    ({"size": "12s", "step": "3s"}, [(12, 3, True)]),
    ({"size": ["15s", "2s", "5s"]}, [(15, 15, False), (2, 2, False), (5, 5, False)]),
    ({"size": ["8s", "10s"], "slide": "3s"}, [(8, 3, False), (10, 3, False)]),
]
EVERY = st.sampled_from([{"every": "3s"}, {"every": "5s", "groups": "all"}, {"every": "7s", "groups": "changed"}])
LATE = st.builds(
    lambda keep, every, how: {"late": {"for": keep, "as": how, **({"every": every} if every else {})}},
    st.sampled_from(["1s", "7s", "30s"]),
    st.sampled_from([None, "1s", "4s", "20s"]),
    st.sampled_from(["corrected", "separate"]),
)
WHEN = st.builds(
    lambda n, again: {"when": f"n >= {n}", **({"again_after": again} if again else {})},
    st.integers(1, 4),
    st.sampled_from([None, "3s", "20s"]),
)
EVENTS = st.tuples(st.integers(0, 12), st.sampled_from(["a", "b", None]))


@st.composite
def streams(draw: st.DrawFn) -> list[Any]:
    """Micro-batches of splits of events whose times go forward by and large, and of none for some seconds that are over."""
    begin, batches = draw(st.integers(-30, 30)), []
    for _ in range(draw(st.integers(1, 8))):
        begin += draw(st.integers(-4, 9))
        splits = draw(st.lists(st.lists(EVENTS, max_size=4), min_size=1, max_size=2))
        if draw(st.integers(0, 3)) == 0 and batches:
            batches.append(draw(st.sampled_from([(1,), (3,), (3, 4), (1, 3, 4, 5, 7, 20)])))
        batches.append([[(begin + after, user) for after, user in split] for split in splits])
    return batches


@pytest.mark.slow
@settings(deadline=None)
@given(
    shape=st.sampled_from(SHAPES),
    late=st.sampled_from(["0s", "3s"]),
    on_change=st.booleans(),
    others=st.tuples(st.none() | EVERY, st.none() | LATE, st.none() | WHEN),
    batches=streams(),
    merges=st.booleans(),
    replays=st.booleans(),
    limits=st.sampled_from(
        [{"_OVERLAP": 8}, {"_OVERLAP": 0}, {"ROWS_AT_ONCE": 3}, {"_OVERLAP": 0, "_BLOCK_ROWS": 5, "ROWS_AT_ONCE": 4}]
    ),
)
def test_every_occasion_of_a_list_gives_its_results(
    shape: Any, late: str, on_change: bool, others: Any, batches: Any, merges: bool, replays: bool, limits: dict[str, int]
) -> None:
    """Whatever the shape of windows, the cut of the stream, and the limits from which rows are merged in blocks or portions."""
    options, shapes = shape
    emit = ["on_close", *(one for one in others if one)]
    if on_change and "changed" not in str(others[0]) and "3s" not in str(others[0]):
        emit.append("on_change")
    with patch.multiple(pane_rows, **limits):
        check({**options, "late": late, "emit": emit}, shapes, batches, merges, replays)


@pytest.mark.slow
@settings(deadline=None)
@given(
    shape=st.sampled_from(SHAPES),
    first=st.none() | st.sampled_from(["1s", "4s"]),
    second=LATE,
    batches=streams(),
    at=st.integers(1, 8),
    merges=st.booleans(),
)
def test_late_results_that_are_switched_on_are_those_of_windows_that_have_all_their_events(
    shape: Any, first: str | None, second: Any, batches: Any, at: int, merges: bool
) -> None:
    """Windows that were final before ``late`` was there, or was longer, stay so: their rows may be gone."""
    options, shapes = shape
    emit = ["on_close", *([{"late": {"for": first}}] if first else [])]
    changes = (
        {at: ("on_close", second), at + 2: ("on_close", {"late": {"for": "30s"}})}
        if "every" not in second["late"]
        else {at: ("on_close", second)}
    )
    check({**options, "late": "3s", "emit": emit}, shapes, batches, merges, False, changes)


def test_a_window_that_closed_before_late_was_there_takes_no_late_events(tmp_path: Path) -> None:
    """Its events are gone: the result would be that of the late event alone."""
    lane = Lane(window(size="10s", late="0s", emit_reason="why"), SCHEMA, tmp_path)
    lane.run([event(0, 1), event(1, 2), event(2, 15)])

    lane.step = window(size="10s", late="0s", emit_reason="why", emit=("on_close", {"late": {"for": "1h"}}))
    results = [*lane.run([event(3, 3), event(4, 25)]), *lane.run([event(5, 4), event(6, 12)])]

    assert as_tuples(results) == [("late", 10, 20, "a", 2), ("on_close", 10, 20, "a", 1)]
    assert lane.late == 2


# ── Windows and sessions whose length is in a field ───────────────────────────────────────────────

LENGTHS = SCHEMA.append(pa.field("length", pa.float64()))
FIELD = {"field": "length", "default": "4s", "max": "9s"}


def seconds_of(length: float | None) -> float:
    return 4 if length is None or not length > 0 else min(length, 9)


def windows_of(events: Sequence[tuple[int, str | None, Any]]) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for time, user, length in events:
        size = int(seconds_of(length))
        key = (time // size * size, time // size * size + size, user)
        found[key] = found.get(key, 0) + 1
    return found


def sessions_of(events: Sequence[tuple[int, str | None, Any]]) -> dict[Key, int]:
    """The sessions of some events, as start, end, group and count."""
    found: list[list[Any]] = []
    for time, user, length in sorted(events, key=lambda one: (str(one[1]), one[0])):
        end = time + int(seconds_of(length))
        if found and found[-1][2] == user and found[-1][1] >= time:
            found[-1][1], found[-1][3] = max(found[-1][1], end), found[-1][3] + 1
        else:
            found.append([time, end, user, 1])
    return {(start, end, user): n for start, end, user, n in found}


LENGTH = st.sampled_from([None, -1.0, 0.0, float("nan"), 2.0, 5.0, 100.0])


@pytest.mark.slow
@pytest.mark.parametrize("option", ["size", "gap"])
@settings(deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["a", "b", None]), LENGTH), max_size=6), max_size=6),
    st.booleans(),
)
def test_lengths_in_a_field(option: str, batches: Any, merges: bool) -> None:
    emit: Any = ["on_close", "on_change"]
    shape = {"size": FIELD} if option == "size" else {"size": None, "gap": FIELD}
    step = window(late="5s", emit=emit, emit_reason="why", **shape)
    assert (list(step.check(LENGTHS)), step.max_delay()) == ([], timedelta(seconds=9))
    assert "length" in step.needs(LENGTHS)
    counted = windows_of if option == "size" else sessions_of
    kept: list[Any] = []
    now, latest = -(10**9), -(10**9)
    with folder_in_memory() as folder:
        lane = Lane(step, LENGTHS, folder, merges=merges)
        for number, batch in enumerate(batches):
            before, old = now, counted(kept)
            in_time = [one for one in batch if next(iter(counted([one])))[1] > before]
            latest = max([latest, *(one[0] for one in batch)])
            now, kept = max(now, latest - 5), kept + in_time

            rows = [event(100 * number + at, time, user=user, length=length) for at, (time, user, length) in enumerate(batch)]
            found = as_tuples(lane.run(rows))

            whole = counted(kept)
            changed = [("on_change", *key, n) for key, n in whole.items() if n != old.get(key) or key not in old]
            closed = {key for key in whole if key[1] <= now}
            assert found == sorted([*changed, *(("on_close", *key, whole[key]) for key in closed)], key=str)
            kept = [one for one in kept if not closed & (set(counted([one])) if option == "size" else sessions_with(one, whole))]


def sessions_with(one: tuple[int, str | None, Any], sessions: Any) -> set[Key]:
    return {key for key in sessions if one[1] == key[2] and key[0] <= one[0] < key[1]}


def lane_of(tmp_path: Path, before: Lane | None = None, **options: Any) -> Lane:
    """A lane, which continues the state of one with other options."""
    step = window(emit_reason="why", **options)
    if before is None:
        return Lane(step, SCHEMA, tmp_path)
    return Lane(step, SCHEMA, tmp_path, before.clock, before.event_time, before.kept, batches=before.batches, merges=True)


def test_an_alert_is_given_once_also_after_the_option_was_changed_twice(tmp_path: Path) -> None:
    alert = lane_of(tmp_path, size="1h", emit={"when": "n >= 2"})
    first = alert.run([event(0, 0), event(1, 1)])
    closing = lane_of(tmp_path, alert, size="1h", emit="on_close")
    between = closing.run([event(2, 2)])
    again = lane_of(tmp_path, closing, size="1h", emit=["on_close", {"when": "n >= 2"}, {"when": "n >= 4"}])

    later = again.run([event(3, 3)])
    end = again.run([event(4, 3600)])

    found = [[(row["why"], row["n"]) for row in results] for results in (first, between, later, end)]
    assert found == [[("when", 2)], [], [("when", 4)], [("on_close", 4)]]


def test_a_window_between_two_that_change_keeps_its_events(tmp_path: Path) -> None:
    lane = lane_of(tmp_path, size="10s", late="1h", emit="on_change")
    lane.run([event(0, 15)])

    results = lane.run([event(1, 5), event(2, 25)])

    assert [(row[1], row[-1]) for row in as_tuples(results)] == [(0, 1), (20, 1)]


def test_late_events_of_several_intervals_are_one_result_also_where_windows_overlap_much(tmp_path: Path) -> None:
    emit: Any = ["on_close", {"late": {"for": "9s", "every": "40s", "as": "separate"}}]
    lane = lane_of(tmp_path, size="12s", slide="1s", emit=emit)
    with patch.multiple(pane_rows, _OVERLAP=0, ROWS_AT_ONCE=4):
        for number, time in enumerate([20, 12, 21, 12, 22, 12, 13]):
            lane.run([event(number, time)])
        results = lane.run([event(9, 60)])

    late = sorted((start, n) for why, start, _, _, n in as_tuples(results) if why == "late")
    assert late == [*((start, 4) for start in range(2, 9)), (9, 3), (10, 2)]


def test_having_holds_back_an_alert_until_it_is_met(tmp_path: Path) -> None:
    lane = lane_of(tmp_path, size="1h", emit={"when": "n >= 2"}, having="user = 'b' or n >= 3")

    found = [lane.run([event(2 * at, at), event(2 * at + 1, at, user="b")]) for at in range(4)]

    assert [[(row["user"], row["n"]) for row in results] for results in found] == [[], [("b", 2)], [("a", 3)], []]


def test_late_results_are_in_time_for_a_downstream_step() -> None:
    operator = window(size="10s", emit=["on_close", {"late": {"for": "25s"}}]).operator(SCHEMA)

    assert [operator.watermark_after(round(at * 1e6)) / 1e6 for at in (34.999, 35, 44, 45)] == [0, 10, 10, 20]


def test_a_result_for_which_a_condition_cannot_be_computed_is_a_dead_letter(tmp_path: Path) -> None:
    lane = lane_of(tmp_path, size="1h", emit={"when": "1 div (n - 1) > 0"})

    assert lane.run([event(0, 0)]) == []
    [rejects] = lane.rejects
    assert (rejects.code, rejects.events.num_rows) == ("result-failed", 1)
    assert str(rejects.reasons[0]).startswith("when cannot be computed: ")
    assert len(lane.run([event(0, 1)])) == 1  # the condition holds now
