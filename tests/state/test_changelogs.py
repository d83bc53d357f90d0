"""Changelogs of `top`, `over` and totals, folded, are the results of all rows, however the stream is cut into micro-batches."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_files import folder_in_memory
from state.cuts import CUTS, Cut, after_restart, batches_of
from state.lane import Lane, Row

from etl.api import (
    CHANGE,
    DELETE,
    INSERT,
    OFFSET,
    SIDE,
    SIDE_PREFIXES,
    TIMESTAMP,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ComponentError,
    StatefulStep,
    change_key,
    with_changes,
)
from etl.state.changes import weighted_rows
from etl.state.keyed.time_to_live import panes_after
from etl.steps.heartbeats import ARRIVAL
from etl.steps.joining.join import Join
from etl.steps.keyed.over import Over
from etl.steps.keyed.top import Top
from etl.steps.window import Window

ROWS = pa.schema({"user": pa.string(), "room": pa.int32(), "at": TIMESTAMP, "x": pa.int64(), "n": pa.int64()})
CHANGING = with_changes(ROWS, ("n",))
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)

EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "user": st.sampled_from(["a", "b", None]),
            "room": st.sampled_from([0, 1, None]),
            "at": st.integers(0, 5).map(lambda seconds: BEGIN + timedelta(seconds=seconds)),
            "x": st.sampled_from([0, 1, 2, 5, None]),
        }
    ),
    max_size=40,
)


def inserted(drawn: Sequence[Row]) -> list[Row]:
    """The events with numbers."""
    return [{**row, "n": number} for number, row in enumerate(drawn)]


def changed(drawn: Sequence[Row]) -> list[Row]:
    """A changelog in which a row without a room replaces an earlier one, and one without a value removes one. No row comes again
    after it was removed: among rows of equal times it would have its first place or a new one, as files have been merged."""
    alive, found, versions = list[Row](), list[Row](), set[str]()
    for number, row in enumerate(drawn):
        new = {**row, "n": number}
        if row["room"] is None and alive:
            old = alive.pop(number % len(alive))
            new["n"] = old["n"] if _text({**new, "n": old["n"]}) not in versions else number
            found += [{**old, CHANGE: UPDATE_BEFORE}, {**new, CHANGE: UPDATE_AFTER}]
        elif row["x"] is None and alive:
            found.append({**alive.pop(number % len(alive)), CHANGE: DELETE})
            continue
        else:
            found.append({**new, CHANGE: INSERT})
        alive.append(new)
        versions.add(_text(new))
    return found


def folded(events: Sequence[Row]) -> Counter[str]:
    """The rows of a changelog, of which each removes only what is there."""
    rows = Counter[str]()
    for event in events:
        kind = event.get(CHANGE) or 0
        text = _text({name: value for name, value in event.items() if name not in (CHANGE, ARRIVAL, OFFSET)})
        if kind in (UPDATE_BEFORE, DELETE):
            assert rows[text] > 0, (text, rows)
            rows[text] -= 1
        else:
            rows[text] += 1
    return +rows


def _text(row: Row) -> str:
    return json.dumps(row, default=str, sort_keys=True)


def alive_rows(events: Sequence[Row]) -> list[Row]:
    """The rows of an incoming changelog, in the order in which they came."""
    rows = list[Row]()
    for event in events:
        row = {name: value for name, value in event.items() if name != CHANGE}
        if event.get(CHANGE) in (UPDATE_BEFORE, DELETE):
            rows.remove(row)
        else:
            rows.append(row)
    return rows


def run(step: StatefulStep, schema: pa.Schema, events: Sequence[Row], cuts: Sequence[Cut]) -> list[list[Row]]:
    """The results of each micro-batch."""
    with folder_in_memory() as folder:
        lane, found, read_at = Lane(step, schema.append(pa.field(ARRIVAL, TIMESTAMP)), folder), [], BEGIN
        numbered = [{**row, OFFSET: number} for number, row in enumerate(events)]
        for cut, batch in batches_of(numbered, cuts):
            lane = after_restart(lane) if cut.restarts and lane.batches else lane
            lane.at_once, lane.merges, read_at = cut.at_once, cut.merges, read_at + timedelta(seconds=1)
            size = -(-len(batch) // cut.splits)
            timed = [{**row, ARRIVAL: read_at} for row in batch]
            found.append(lane.run(*(timed[first : first + size] for first in range(0, len(timed), size))))
        return found


def checked(step: StatefulStep, schema: pa.Schema, events: Sequence[Row], cuts: Sequence[Cut]) -> Counter[str]:
    """The folded results. Of the key of a changelog there is one row, and a row is not replaced by itself."""
    batches = run(step, schema, events, cuts)
    fields = step.fields(schema)
    rows = folded([event for batch in batches for event in batch])
    if (key := change_key(fields)) is not None:
        keys = Counter(_text({name: json.loads(text)[name] for name in key}) for text in rows.elements())
        assert all(count == 1 for count in keys.values()), keys
    for batch in batches:
        for before, after in pairwise(batch):
            if before[CHANGE] == UPDATE_BEFORE:
                assert after[CHANGE] == UPDATE_AFTER
                assert {**before, CHANGE: 0} != {**after, CHANGE: 0}
    return rows


# ── What naive Python computes ─────────────────────────────────────────────────────────────────────


def ranked(rows: Sequence[Row], limit: int, ties: str = "row_number") -> Counter[str]:
    """The rows with the largest x of each user, then the smallest time, then the earliest; those with both equal are ties."""
    found = Counter[str]()
    for user in {row["user"] for row in rows}:
        own = [(-row["x"], row["at"], number) for number, row in enumerate(rows) if row["user"] == user and row["x"] is not None]
        values = [one[:2] for one in sorted(own)]
        for place, (x, at, number) in enumerate(sorted(own)):
            ranks = {"row_number": place, "rank": values.index((x, at)), "dense_rank": sorted(set(values)).index((x, at))}
            if ranks[ties] < limit:
                found[_text({**rows[number], "rank": ranks[ties] + 1})] += 1
    return found


def totals(rows: Sequence[Row], more: bool) -> Counter[str]:
    """The aggregates of each user."""
    found = Counter[str]()
    for user in {row["user"] for row in rows}:
        own = [row["x"] for row in rows if row["user"] == user]
        values = [x for x in own if x is not None]
        result: dict[str, Any] = {"user": user, "rows": len(own), "values": len(values), "sum": sum(values) if values else None}
        result["avg"] = sum(values) / len(values) if values else None
        if more:
            result |= {"least": min(values, default=None), "most": max(values, default=None), "kinds": len(set(values))}
        found[_text(result)] += 1
    return found


def running(rows: Sequence[Row], depth: int) -> Counter[str]:
    """The sum of x of the last rows of a user beside each row."""
    found = Counter[str]()
    for user in {row["user"] for row in rows}:
        own = sorted(((row["at"], number) for number, row in enumerate(rows) if row["user"] == user))
        for at, (_, number) in enumerate(own):
            values = [rows[other]["x"] for _, other in own[max(0, at - depth + 1) : at + 1]]
            known = [x for x in values if x is not None]
            found[_text({**rows[number], "sum": sum(known) if known else None})] += 1
    return found


TOTALS = {"rows": "count(*)", "values": "count(x)", "sum": "sum(x)", "avg": "avg(x)"}
MORE = TOTALS | {"least": "min(x)", "most": "max(x)", "kinds": "count(distinct x)"}
OVER = Over(keys=("user",), time="at", rows=3, aggregates={"sum": "sum(x)"}, changelog=True)


TIES = st.sampled_from(("row_number", "rank", "dense_rank"))


def best(limit: int, ties: Any = "row_number") -> Top:
    """A ranking by x, then by time."""
    return Top(keys=("user",), by="x", then={"at": "ascending"}, limit=limit, ties=ties, changelog=True)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(drawn=EVENTS, cuts=CUTS, limit=st.integers(1, 3), ties=TIES)
def test_best_rows_of_events(drawn: Sequence[Row], cuts: Sequence[Cut], limit: int, ties: str) -> None:
    events = inserted(drawn)

    found = checked(best(limit, ties), ROWS, events, cuts)

    assert found == ranked(events, limit, ties)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(drawn=EVENTS, cuts=CUTS, limit=st.integers(1, 3), ties=TIES)
def test_best_rows_of_changes(drawn: Sequence[Row], cuts: Sequence[Cut], limit: int, ties: str) -> None:
    events = changed(drawn)

    found = checked(best(limit, ties), CHANGING, events, cuts)

    assert found == ranked(alive_rows(events), limit, ties)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(drawn=EVENTS, cuts=CUTS, more=st.booleans())
def test_totals_of_events(drawn: Sequence[Row], cuts: Sequence[Cut], more: bool) -> None:
    events = inserted(drawn)

    found = checked(Window(group_by=("user",), emit="on_change", aggregates=MORE if more else TOTALS), ROWS, events, cuts)

    assert found == totals(events, more)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(drawn=EVENTS, cuts=CUTS, more=st.booleans())
def test_totals_of_changes(drawn: Sequence[Row], cuts: Sequence[Cut], more: bool) -> None:
    events = changed(drawn)

    found = checked(Window(group_by=("user",), emit="on_change", aggregates=MORE if more else TOTALS), CHANGING, events, cuts)

    assert found == totals(alive_rows(events), more)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(drawn=EVENTS, cuts=CUTS)
def test_running_values_of_changes(drawn: Sequence[Row], cuts: Sequence[Cut]) -> None:
    events = changed(drawn)

    found = checked(OVER, CHANGING, events, cuts)

    assert found == running(alive_rows(events), 3)


def test_equal_rows_are_merged_in_the_order_in_which_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [{"user": "a", "n": number % 40, CHANGE: INSERT, ARRIVAL: BEGIN, OFFSET: 0} for number in range(80)]
    events += [{"user": "a", "n": 7, CHANGE: DELETE, ARRIVAL: BEGIN, OFFSET: 0}] * 2
    schema = CHANGING.append(pa.field(ARRIVAL, TIMESTAMP)).append(pa.field(OFFSET, pa.int64()))
    operator = best(2).operator(schema.remove(schema.get_field_index(OFFSET)))

    for _ in range(3):  # of any process, whose hashes have another seed: so a micro-batch that runs again has the same changes
        monkeypatch.setattr(weighted_rows, "_SEED", weighted_rows._SEED + 1)
        rows = operator.combine(operator.prepare(pa.RecordBatch.from_pylist(events, schema=schema), 0)[0])
        assert rows.column("n").to_pylist() == [n for n in range(40) if n != 7]


@settings(max_examples=10, deadline=None)
@given(drawn=EVENTS, cuts=CUTS, more=st.booleans())
def test_totals_of_all_changes(drawn: Sequence[Row], cuts: Sequence[Cut], more: bool) -> None:
    events = changed(drawn)
    aggregates = {"rows": "count(*)", "sum": "sum(x)"} | ({"most": "max(x)"} if more else {})

    found = checked(Window(emit="on_change", aggregates=aggregates), CHANGING, events, cuts)

    values = [row["x"] for row in alive_rows(events) if row["x"] is not None]
    result = {"rows": len(alive_rows(events)), "sum": sum(values) if values else None}
    result |= {"most": max(values, default=None)} if more else {}
    assert found == (Counter([_text(result)]) if result["rows"] else Counter())


# ── Joins ──────────────────────────────────────────────────────────────────────────────────────────

SIDES: dict[str, tuple[pa.Schema, pa.Schema]] = {
    "events": (ROWS, ROWS),
    "left changes": (CHANGING, ROWS),
    "both change": (CHANGING, CHANGING),
}


def joined(left: Sequence[Row], right: Sequence[Row], kind: str, where: bool) -> Counter[str]:
    """The join of rows by user, with or without a condition on x."""

    def is_pair(one: Row, other: Row) -> bool:
        fits = not where or (one["x"] is not None and other["x"] is not None and one["x"] <= other["x"])
        return one["user"] is not None and one["user"] == other["user"] and fits

    names = [name for name in ROWS.names if name != "user"]
    found = [(one, other) for one in left for other in right if is_pair(one, other)]
    lonely = [one for one in left if not any(is_pair(one, other) for other in right)]
    rows = list[Row]()
    if kind in ("semi", "anti"):
        chosen = lonely if kind == "anti" else [one for one in left if one not in lonely]
        return Counter(map(_text, chosen))
    rows += [{**one, **{f"right.{name}": other[name] for name in names}} for one, other in found]
    if kind in ("left", "full"):
        rows += [{**one, **{f"right.{name}": None for name in names}} for one in lonely]
    if kind in ("right", "full"):
        alone = [other for other in right if not any(is_pair(one, other) for one in left)]
        rows += [
            {"user": other["user"], **dict.fromkeys(names), **{f"right.{name}": other[name] for name in names}} for other in alone
        ]
    return Counter(map(_text, rows))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    drawn=EVENTS,
    cuts=st.just([Cut(1)]) | CUTS,
    sides=st.sampled_from(list(SIDES)),
    kind=st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]),
    where=st.booleans(),
    of_right=st.integers(2, 4),
)
def test_joins(drawn: Sequence[Row], cuts: Sequence[Cut], sides: str, kind: str, where: bool, of_right: int) -> None:
    schemas = SIDES[sides]
    own = [[row for number, row in enumerate(drawn) if (number % of_right == 1) == bool(side)] for side in (0, 1)]
    streams = [changed(some) if CHANGE in schema.names else inserted(some) for some, schema in zip(own, schemas, strict=True)]
    step = Join(on={"user": "user"}, kind=kind, changelog=True, where="x <= right.x" if where else None)
    united = step.united({"l": schemas[0], "r": schemas[1]})
    events = [united_row(row, side) for side, stream in enumerate(streams) for row in stream]
    events = [
        event for pair in zip_longest(*([e for e in events if e[SIDE] == side] for side in (0, 1))) for event in pair if event
    ]

    found = checked(step, united, events, cuts)

    assert found == joined(alive_rows(streams[0]), alive_rows(streams[1]), kind, where)


def united_row(row: Row, side: int) -> Row:
    """A row before the join."""
    prefix = SIDE_PREFIXES[side]
    values = {prefix + name: value for name, value in row.items() if name != CHANGE}
    return {**values, SIDE: side, CHANGE: row.get(CHANGE, INSERT)}


# ── Large keys ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("at_once", [True, False])
def test_a_key_that_is_too_large_is_named(monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    monkeypatch.setattr(weighted_rows, "MAX_ROWS_OF_KEY", 3)
    rows = [{"user": "-", "at": BEGIN, "x": n, "n": n, CHANGE: INSERT} for n in range(5)]
    events = [*rows[:4], {**rows[0], "user": "b"}, {**rows[0], "user": "b", "n": 7}]

    assert (
        sum(folded([event for batch in run(best(1), CHANGING, events, [Cut(6, at_once=at_once)]) for event in batch]).values())
        == 2
    )
    with pytest.raises(ComponentError, match=r"the key user='-' has 4 rows .* at most 3 rows"):
        run(best(1), CHANGING, [*events, rows[4]], [Cut(6, at_once=at_once)])


@pytest.mark.slow
def test_new_rows_of_a_side_do_not_read_those_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighted_rows, "MAX_ROWS_OF_KEY", 3)
    step = Join(on={"user": "user"}, kind="left", changelog=True)
    left = [united_row({"user": "-", "at": BEGIN, "x": n, "n": n}, 0) for n in range(9)]
    right = united_row({"user": "-", "at": BEGIN, "x": 1, "n": 10}, 1)
    united = step.united({"l": ROWS, "r": ROWS})

    assert [len(batch) for batch in run(step, united, left, [Cut(1)])] == [1] * 9
    with pytest.raises(ComponentError, match="the key user='-' has 9 rows"):
        run(step, united, [*left, right], [Cut(1)])


# ── Time to live ───────────────────────────────────────────────────────────────────────────────────


def after_pauses(step: StatefulStep, schema: pa.Schema, *batches: tuple[int, Row]) -> list[list[Row]]:
    """The results of micro-batches of one event each, which are read at these seconds."""
    with folder_in_memory() as folder:
        lane, found = Lane(step, schema.append(pa.field(ARRIVAL, TIMESTAMP)), folder), []
        for number, (seconds, row) in enumerate(batches):
            lane = after_restart(lane) if number == 1 else lane
            found.append(lane.run([{**row, OFFSET: number, ARRIVAL: BEGIN + timedelta(seconds=seconds)}]))
        return found


def test_a_ranking_without_changes_is_forgotten_after_its_time_to_live() -> None:
    step = Top(keys=("user",), by="x", limit=1, changelog=True, ttl=timedelta(seconds=10))
    rows = [{"user": "a", "at": BEGIN, "x": x, "n": x} for x in (5, 3, 2)]

    found = after_pauses(step, ROWS, (0, rows[0]), (8, rows[1]), (30, rows[2]))

    assert [[(row["x"], row[CHANGE]) for row in batch] for batch in found] == [[(5, INSERT)], [], [(2, INSERT)]]


def test_rows_of_a_join_are_forgotten_after_their_time_to_live() -> None:
    step = Join(on={"user": "user"}, changelog=True, ttl=timedelta(seconds=10))
    left, right = ({"user": "a", "at": BEGIN, "x": x, "n": x} for x in (1, 2))
    events = (0, united_row(left, 0)), (8, united_row(right, 1)), (40, united_row(right, 1))

    found = after_pauses(step, step.united({"l": ROWS, "r": ROWS}), *events)

    assert [[(row["x"], row["right.x"], row[CHANGE]) for row in batch] for batch in found] == [[], [(1, 2, INSERT)], []]


TTL = timedelta(seconds=3)
"""Of micro-batches that are read a second after each other."""


def read_in_cuts(events: Sequence[Row], cuts: Sequence[Cut]) -> list[tuple[int, list[Row]]]:
    """The events of each micro-batch, first those that add rows, and when it is read, in microseconds."""
    numbered = [{**row, OFFSET: number} for number, row in enumerate(events)]
    ordered = (
        sorted(batch, key=lambda row: row.get(CHANGE) in (UPDATE_BEFORE, DELETE)) for _, batch in batches_of(numbered, cuts)
    )
    return [(number * 1_000_000, batch) for number, batch in enumerate(ordered, 1)]


def plain(event: Row) -> Row:
    return {name: value for name, value in event.items() if name not in (CHANGE, OFFSET)}


def removed_latest(rows: list[tuple[Row, int]], row: Row, oldest: int) -> None:
    """Remove the latest of equal rows, unless it was read at this time or earlier."""
    at = max((at for at, (other, time) in enumerate(rows) if other == row and time > oldest), default=None)
    if at is not None:
        del rows[at]


def netted(events: Sequence[Row], cuts: Sequence[Cut]) -> tuple[list[Row], list[Cut]]:
    """Without what comes and goes in one micro-batch, as steps give changes; and the cuts of what is left."""
    found, sizes = list[Row](), list[Cut]()
    for cut, batch in batches_of(events, cuts):
        left = list(batch)
        for event in batch:
            added = next(
                (other for other in left if other[CHANGE] in (INSERT, UPDATE_AFTER) and plain(other) == plain(event)), None
            )
            if event[CHANGE] in (UPDATE_BEFORE, DELETE) and added is not None:
                left.remove(added)
                left.remove(event)
        found += left
        sizes += [replace(cut, rows=len(left))] if left else []
    return found, sizes or list(cuts)


def by_lifetimes(events: Sequence[Row], cuts: Sequence[Cut], results: Callable[[Sequence[Row]], Counter[str]]) -> Counter[str]:
    """What is left where the rows of a user are forgotten together: the results of the last one, and those before it."""
    begin, ttl = int(BEGIN.timestamp() * 1e6), TTL // timedelta(microseconds=1)
    rows, ends, ended = dict[Any, list[tuple[Row, int]]](), dict[Any, int](), Counter[str]()
    for time, batch in read_in_cuts(events, cuts):
        now = begin + time
        for event in batch:
            user = event["user"]
            if ends.get(user, now + 1) <= now:
                ended += results([row for row, _ in rows.pop(user)])
            own = rows.setdefault(user, [])
            ends[user] = int(panes_after(np.array([now]), ttl)[0])
            if event[CHANGE] in (UPDATE_BEFORE, DELETE):
                removed_latest(own, plain(event), -1)
            else:
                own.append((plain(event), time))
    return sum((results([row for row, _ in own]) for own in rows.values()), ended)


BY_LIFETIMES: dict[str, tuple[StatefulStep, Callable[[Sequence[Row]], Counter[str]]]] = {
    "top": (best(2).model_copy(update={"ttl": TTL}), lambda rows: ranked(rows, 2)),
    "over": (OVER.model_copy(update={"ttl": TTL}), lambda rows: running(rows, 3)),
    "totals": (Window(group_by=("user",), emit="on_change", aggregates=TOTALS, ttl=TTL), lambda rows: totals(rows, False)),
    "more totals": (Window(group_by=("user",), emit="on_change", aggregates=MORE, ttl=TTL), lambda rows: totals(rows, True)),
}


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(drawn=EVENTS, cuts=CUTS, name=st.sampled_from(list(BY_LIFETIMES)), of_changes=st.booleans())
def test_rows_of_a_key_are_forgotten_together(drawn: Sequence[Row], cuts: Sequence[Cut], name: str, of_changes: bool) -> None:
    events, (step, results) = changed(drawn), BY_LIFETIMES[name]
    if "totals" in name and not of_changes:
        events = [{**row, CHANGE: INSERT} for row in inserted(drawn)]
    events, cuts = netted(events, cuts)

    found = folded([event for batch in run(step, CHANGING, events, cuts) for event in batch])

    assert found == by_lifetimes(events, cuts, results)


def joined_with_ttl(events: Sequence[Row], cuts: Sequence[Cut], kind: str) -> Counter[str]:
    """Each micro-batch changes what is given by the difference of the rows that are alive, before it and after it."""
    given, sides, ttl = Counter[str](), ([], []), TTL // timedelta(microseconds=1)
    for time, batch in read_in_cuts(events, cuts):
        before = alive_join(sides, kind, time, ttl)
        for event in batch:
            own, row = sides[event[SIDE]], {n: v for n, v in plain(event).items() if n != SIDE}
            if event[CHANGE] in (UPDATE_BEFORE, DELETE):
                removed_latest(own, row, time - ttl)
            else:
                own.append((row, time))
        given += alive_join(sides, kind, time, ttl)
        given.subtract(before)
        assert not [text for text, count in given.items() if count < 0]
    return +given


def alive_join(sides: tuple[list[tuple[Row, int]], ...], kind: str, now: int, ttl: int) -> Counter[str]:
    """The pairs of rows that have not expired, and those of them that have met no row."""
    alive = [[(row, time) for row, time in own if time + ttl > now] for own in sides]
    texts = list[str]()
    for side, own in enumerate(alive):
        for row, time in own:
            key = row[SIDE_PREFIXES[side] + "user"]
            keys = SIDE_PREFIXES[1 - side] + "user"
            met = [other for other, at in sides[1 - side] if key is not None and other[keys] == key and abs(at - time) < ttl]
            if side == 0 and kind not in ("semi", "anti"):
                pairs = [other for other, _ in alive[1] if key is not None and other[keys] == key]
                texts += [pair_text(row, other) for other in pairs]
            if not met and kind in {0: ("left", "full", "anti"), 1: ("right", "full")}[side]:
                texts.append(pair_text(*((row, {}) if side == 0 else ({}, row)), alone=kind == "anti"))
            if met and side == 0 and kind == "semi":
                texts.append(pair_text(row, {}, alone=True))
    return Counter(texts)


def pair_text(left: Row, right: Row, alone: bool = False) -> str:
    names = [name for name in ROWS.names if name != "user"]
    user = left.get(SIDE_PREFIXES[0] + "user") if left else right[SIDE_PREFIXES[1] + "user"]
    pair = {"user": user, **{name: left.get(SIDE_PREFIXES[0] + name) for name in names}}
    return _text(pair if alone else pair | {f"right.{name}": right.get(SIDE_PREFIXES[1] + name) for name in names})


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    drawn=EVENTS,
    cuts=st.just([Cut(1)]) | CUTS,
    kind=st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]),
    of_right=st.integers(2, 3),
)
def test_a_join_with_a_time_to_live_takes_back_what_it_has_given(
    drawn: Sequence[Row], cuts: Sequence[Cut], kind: str, of_right: int
) -> None:
    step = Join(on={"user": "user"}, kind=kind, changelog=True, ttl=TTL)
    own = [changed([row for number, row in enumerate(drawn) if (number % of_right == 1) == bool(side)]) for side in (0, 1)]
    pairs = zip_longest(*([united_row(row, side) for row in rows] for side, rows in enumerate(own)))
    events = [event for pair in pairs for event in pair if event]

    found = folded([event for batch in run(step, step.united({"l": CHANGING, "r": CHANGING}), events, cuts) for event in batch])

    assert found == joined_with_ttl(events, cuts, kind)
