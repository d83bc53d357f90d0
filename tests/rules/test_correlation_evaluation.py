"""Correlations over many groups: the same alerts as group by group, and bounded memory."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from correlated import Memory, Row, event_rows, name_of
from group_by_group import Alert, Event, Group, WindowState, advance
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.rules.correlation.encoding import join_columns, split_columns
from etl.rules.correlation.families import Family
from etl.rules.correlation.model import BooleanExpression, Correlation, RulePresent, Threshold
from etl.rules.correlation.reader import MAX_EVENTS, SECOND
from etl.rules.correlation.slots import ROWS


def counted(kind: str, condition: object, rules: tuple[str, ...] = ("a", "b"), name: str = "c") -> Correlation:
    return Correlation(name, name, kind, rules, ("ip",), 10 * SECOND, condition)  # type: ignore[arg-type]


def event(seconds: float, offset: int = 0, rule: str = "a", value: str | None = None) -> Event:
    return Event(round(seconds * SECOND), offset, 0, rule, value)


def advanced(memory: Memory, one: Correlation, rows: list[Row], watermark: float = 0) -> list[tuple[str, int, int]]:
    """Of each alert whose it is, when its condition was met, and its count."""
    found = memory.run({"c": Family((one,))}, event_rows(one, rows, one), round(watermark * SECOND))
    return sorted((value, alert.last_micros // SECOND, alert.count) for value, alert in found)


TEXTS = ["", "a\\b", "x\x1fy", "\\", "\\u", "\\0", "ü"]


def test_a_name_splits_into_the_joined_texts() -> None:
    columns = [pa.array(TEXTS[at:] + TEXTS[:at]) for at in range(3)]

    names = join_columns(columns)

    assert [column.to_pylist() for column in split_columns(names, 3)] == [column.to_pylist() for column in columns]
    assert len(set(names.to_pylist())) == len(TEXTS)
    assert join_columns([pa.array(["a", None])]).to_pylist() == [name_of("a"), None]


def test_an_alert_shows_texts_as_they_are() -> None:
    one, memory = counted("value_count", Threshold("gte", 3)), Memory()
    events = [Event(n, n, 0, "a", text, text) for n, text in enumerate(TEXTS[1:4])]

    advanced(memory, one, [("\x1e\\", event) for event in events[:2]])
    ((value, alert),) = memory.run({"c": Family((one,))}, event_rows(one, [("\x1e\\", events[2])], one))

    assert value == "\x1e\\"
    assert (alert.values, alert.samples) == (tuple(TEXTS[1:4]), tuple(TEXTS[1:4]))


def test_groups_do_not_affect_one_another() -> None:
    one, memory = counted("event_count", Threshold("gte", 3)), Memory()

    first = advanced(memory, one, [("x", event(1)), ("y", event(1)), ("x", event(2))])
    second = advanced(memory, one, [("y", event(3)), ("y", event(4)), ("z", event(4))])

    assert (first, second) == ([], [("y", 4, 3)])


def test_state_is_removed_when_all_its_events_are_old() -> None:
    one, memory = counted("event_count", Threshold("gte", 3)), Memory()

    advanced(memory, one, [("x", event(1)), ("y", event(9))])
    advanced(memory, one, [], 20)

    assert (memory.events, memory.rows.num_rows) == ([], 0)


def test_state_is_due_when_a_window_closes() -> None:
    one, memory = counted("event_count", Threshold("lt", 3)), Memory()

    assert advanced(memory, one, [("x", event(1)), ("y", event(9))]) == []
    assert memory.rows.column("due").to_pylist() == [11 * SECOND, 19 * SECOND]
    assert advanced(memory, one, [], 11) == [("x", 1, 1)]
    assert [kept.micros for kept in memory.events] == [9 * SECOND]


def test_a_group_below_its_threshold_keeps_few_events() -> None:
    one, memory = counted("event_count", Threshold("gte", 3)), Memory()

    advanced(memory, one, [("x", event(n / 100, n)) for n in range(900)], 0)
    advanced(memory, one, [("y", event(9))], 8.95)

    assert sorted(kept.offset for kept in memory.events) == [0, *range(891, 900)]


@pytest.mark.slow
def test_the_events_of_a_group_are_bounded() -> None:
    one, memory = counted("value_count", Threshold("gte", 3)), Memory()

    advanced(memory, one, [("x", event(n / 5000, n, value="y")) for n in range(MAX_EVENTS + 5)])

    assert len(memory.events) == memory.rows.num_rows == MAX_EVENTS


def test_state_of_removed_or_regrouped_correlations_is_removed() -> None:
    one, other = counted("event_count", Threshold("gte", 3)), counted("event_count", Threshold("gte", 3), name="d")
    wide = Correlation("c", "c", "event_count", ("a",), ("ip", "host"), 10 * SECOND, Threshold("gte", 3))

    for now in ({"d": Family((other,))}, {"c": Family((wide,))}, {}):
        memory = Memory()
        advanced(memory, one, [("x", event(1)), ("x", event(2))])
        alerts = memory.run(now, event_rows(one, [("x", event(3))], one))
        assert (alerts, memory.events) == ([], [])


def test_a_chain_has_state_for_each_member() -> None:
    inner = counted("event_count", Threshold("gte", 2), ("a",), "inner")
    outer = counted("temporal_ordered", Threshold("gte", 2), ("inner", "b"))
    families, memory = {"c": Family((inner, outer))}, Memory()

    first = memory.run(families, event_rows(outer, [("x", event(1)), ("x", event(2)), ("y", event(2))], inner))
    ((value, alert),) = memory.run(families, event_rows(outer, [("x", event(3, rule="b")), ("y", event(3, rule="b"))], outer))

    assert first == []
    assert (value, alert.start_micros, alert.last_micros) == ("x", 2 * SECOND, 3 * SECOND)


def test_numbers_are_those_that_python_reads() -> None:
    one, memory = counted("value_sum", Threshold("lt", 1e9)), Memory()
    texts = [" 1", "+2.5", "1e1", ".5", "7.", "\t-3 "]

    memory.run({"c": Family((one,))}, event_rows(one, [("x", event(1, n, value=text)) for n, text in enumerate(texts)], one))
    ((_, alert),) = memory.run({"c": Family((one,))}, ROWS.empty_table(), 60 * SECOND)

    assert alert.measure == math.fsum(map(float, texts))


# ── A law ─────────────────────────────────────────────────────────────────────────────────────────

EVENTS = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from("xyz"), st.sampled_from("abc"), st.sampled_from(["1", "2", "-3"])), max_size=40
)
CONDITIONS = st.sampled_from(
    [
        *(counted(kind, Threshold(word, 3)) for kind in ("event_count", "value_count") for word in ("gt", "gte", "lt", "eq")),
        counted("event_count", Threshold("gte", 2.5)),
        counted("event_count", Threshold("gte", 0)),
        *(counted("value_sum", Threshold(word, number)) for word in ("gt", "gte", "lte") for number in (-1, 4)),
        counted("value_avg", Threshold("gt", 1)),
        counted("temporal", Threshold("gte", 2), ("a", "b", "c")),
        counted(
            "temporal",
            BooleanExpression("or", (RulePresent("b"), BooleanExpression("and", (RulePresent("a"), RulePresent("c"))))),
            ("a", "b", "c"),
        ),
        counted(
            "temporal", BooleanExpression("and", (RulePresent("a"), BooleanExpression("not", (RulePresent("b"),)))), ("a", "b")
        ),
        counted("temporal_ordered", Threshold("gte", 3), ("a", "a", "b")),
    ]
)


@pytest.mark.slow
@settings(deadline=None)
@given(EVENTS, CONDITIONS, st.lists(st.integers(0, 40), max_size=4), st.integers(0, 5), st.randoms(use_true_random=False))
def test_many_groups_give_the_alerts_of_each_group_alone(
    some: list[tuple[int, str, str, str]], one: Correlation, cuts: list[int], late: int, chance: random.Random
) -> None:
    counting = [row for row in sorted(some) if row[2] in one.rules]
    rows = [(ip, event(time + chance.uniform(0, late), n, rule, value)) for n, (time, ip, rule, value) in enumerate(counting)]
    together, alone = Memory(), {ip: WindowState() for ip in "xyz"}

    for batch, watermark in batches(rows, cuts, late):
        expected = {(ip, alert) for ip in "xyz" for alert in by_itself(one, alone[ip], ip, batch, watermark)}
        chance.shuffle(batch)
        assert set(together.run({"c": Family((one,))}, event_rows(one, batch, one), watermark)) == expected
        assert together.events_by_group() == {ip: memory.events for ip, memory in alone.items() if memory.events}
        assert sorted(together.bursts) == sorted(burst for memory in alone.values() for burst in memory.bursts)

    assert (together.rows.num_rows, together.events, together.bursts) == (0, [], [])


INNER = counted("event_count", Threshold("gte", 2), ("a",), "inner")
CHAINS = st.sampled_from(
    [
        Family((INNER, counted("temporal_ordered", Threshold("gte", 2), ("inner", "b")))),
        Family((INNER, counted("event_count", Threshold("gte", 2), ("inner",)))),
        Family(
            (
                counted("event_count", Threshold("lt", 3), ("a",), "inner"),
                counted("temporal", Threshold("gte", 2), ("inner", "b")),
            )
        ),
        Family(
            (
                INNER,
                counted("event_count", Threshold("gte", 1), ("inner",), "middle"),
                counted("temporal", Threshold("gte", 2), ("middle", "inner", "b")),
            )
        ),
    ]
)


@pytest.mark.slow
@settings(deadline=None)
@given(EVENTS, CHAINS, st.lists(st.integers(0, 40), max_size=4))
def test_chains_give_the_alerts_of_each_group_alone(
    some: list[tuple[int, str, str, str]], family: Family, cuts: list[int]
) -> None:
    rows = [(ip, event(time, n, rule, value)) for n, (time, ip, rule, value) in enumerate(sorted(some))]
    together, alone = Memory(), {ip: Group() for ip in "xyz"}

    for batch, watermark in batches(rows, cuts, 0):
        expected = [(ip, alert) for ip in "xyz" for alert in chained(family, alone[ip], ip, batch, watermark)]
        inner, outer = [row for row in batch if row[1].rule == "a"], [row for row in batch if row[1].rule == "b"]
        events = [event_rows(family.head, inner, family.members[0]), event_rows(family.head, outer, family.head)]
        found = together.run({"c": family}, pa.concat_tables(events), watermark)
        assert Counter(found) == Counter(expected)


def batches(rows: list[Row], cuts: list[int], late: int) -> Iterator[tuple[list[Row], int]]:
    """The rows of each micro-batch and the watermark after it, at last that which closes everything."""
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    for start, end in itertools.pairwise(edges):
        yield rows[start:end], max(0, rows[start - 1][1].micros // SECOND - late) * SECOND if start else 0
    yield [], 1000 * SECOND


def by_itself(one: Correlation, memory: WindowState, ip: str, rows: list[Row], watermark: int) -> list[Alert]:
    return advance(one, memory, [event for own, event in rows if own == ip], watermark)


def chained(family: Family, group: Group, ip: str, rows: list[Row], watermark: int) -> list[Alert]:
    for own, one in rows:
        member = family.members[0] if one.rule == "a" else family.head
        if own == ip and one.rule in "ab":
            group.states.setdefault((member.id, (ip,)), WindowState()).events.append(one)
    return group.advance(family, watermark)
