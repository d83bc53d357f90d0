"""The state of many groups: the same alerts as group by group, and bounded memory."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.rules.correlation.bucket import Bucket
from etl.rules.correlation.columns import ROWS
from etl.rules.correlation.encoding import join_columns, join_name, split_name
from etl.rules.correlation.families import Family
from etl.rules.correlation.model import BooleanExpression, Correlation, RulePresent, Threshold
from etl.rules.correlation.reader import MAX_EVENTS, SECOND
from etl.rules.correlation.windows import Alert, Event, WindowState, advance

Row = tuple[str, Event]
"""An event, and the value of its group."""


def counted(kind: str, condition: object, rules: tuple[str, ...] = ("a", "b"), name: str = "c") -> Correlation:
    return Correlation(name, name, kind, rules, ("ip",), 10 * SECOND, condition)  # type: ignore[arg-type]


def table(rows: list[Row], head: str = "c", member: str = "c") -> pa.Table:
    """As they come from the reading tasks."""
    found = [
        {"group": join_name([head, ip]), "member": join_name([member] if member == head else [member, ip]), **event._asdict()}
        for ip, event in rows
    ]
    return pa.Table.from_pylist(found, ROWS)


def event(seconds: float, offset: int = 0, rule: str = "a", value: str | None = None) -> Event:
    return Event(round(seconds * SECOND), offset, 0, rule, value)


def ran(bucket: Bucket, families: Mapping[str, Family], events: pa.Table, watermark: float = 0) -> list[tuple[str, Alert]]:
    """The alerts of a micro-batch: the state is stored in between."""
    before = Bucket.of(pa.concat_tables([bucket.state(), events]))
    found = before.advance(families, round(watermark * SECOND))
    bucket.rows, bucket.bursts, bucket.due = before.rows, before.bursts, before.due
    return found


def advanced(bucket: Bucket, one: Correlation, rows: list[Row], watermark: float = 0) -> list[tuple[str, int, int]]:
    """Of each alert whose it is, when its condition was met, and its count."""
    found = ran(bucket, {"c": Family((one,))}, table(rows), watermark)
    return sorted((split_name(group)[1], alert.last_micros // SECOND, alert.count) for group, alert in found)


TEXTS = ["", "a\\b", "x\x1fy", "\\", "\\u", "\\0", "ü"]


def test_a_name_splits_into_the_joined_texts() -> None:
    assert [split_name(join_name(TEXTS[:n])) for n in range(8)] == [tuple(TEXTS[:n]) for n in range(8)]
    assert join_columns([pa.array(TEXTS), "k\x1f", pa.array(TEXTS)]).to_pylist() == [join_name([a, "k\x1f", a]) for a in TEXTS]
    assert join_columns([pa.array(["a", None])]).to_pylist() == [join_name(["a"]), None]


def test_an_alert_shows_texts_as_they_are() -> None:
    one, bucket = counted("value_count", Threshold("gte", 3)), Bucket()
    events = [Event(n, n, 0, "a", text, text) for n, text in enumerate(TEXTS[1:4])]

    advanced(bucket, one, [("\x1e\\", event) for event in events[:2]])
    ((group, alert),) = ran(bucket, {"c": Family((one,))}, table([("\x1e\\", events[2])]))

    assert split_name(group) == ("c", "\x1e\\")
    assert (alert.values, alert.samples) == (tuple(TEXTS[1:4]), tuple(TEXTS[1:4]))


def test_groups_do_not_affect_one_another() -> None:
    one, bucket = counted("event_count", Threshold("gte", 3)), Bucket()

    first = advanced(bucket, one, [("x", event(1)), ("y", event(1)), ("x", event(2))])
    second = advanced(bucket, one, [("y", event(3)), ("y", event(4)), ("z", event(4))])

    assert (first, second) == ([], [("y", 4, 3)])


def test_a_bucket_is_removed_when_all_its_events_are_old() -> None:
    one, bucket = counted("event_count", Threshold("gte", 3)), Bucket()

    advanced(bucket, one, [("x", event(1)), ("y", event(9))])
    due = bucket.due
    advanced(bucket, one, [], 19)

    assert (due, bucket.rows.num_rows, bucket.due) == (19 * SECOND, 0, None)


def test_a_bucket_is_due_when_a_window_closes() -> None:
    one, bucket = counted("event_count", Threshold("lt", 3)), Bucket()

    assert advanced(bucket, one, [("x", event(1)), ("y", event(9))]) == []
    assert bucket.due == 11 * SECOND
    assert advanced(bucket, one, [], 11) == [("x", 1, 1)]
    assert bucket.due == 19 * SECOND


@pytest.mark.slow
def test_a_group_below_its_threshold_keeps_few_events() -> None:
    one, bucket = counted("event_count", Threshold("gte", 3)), Bucket()

    advanced(bucket, one, [("x", event(n / 100, n)) for n in range(900)], 0)
    advanced(bucket, one, [("y", event(9))], 8.95)

    assert sorted(row["offset"] for row in bucket.rows.to_pylist()) == [0, *range(891, 900)]


def test_the_events_of_a_group_are_bounded() -> None:
    one, bucket = counted("value_count", Threshold("gte", 3)), Bucket()

    advanced(bucket, one, [("x", event(n / 5000, n, value="y")) for n in range(MAX_EVENTS + 5)])

    assert bucket.rows.num_rows == MAX_EVENTS


def test_state_of_removed_or_regrouped_correlations_is_removed() -> None:
    one, other = counted("event_count", Threshold("gte", 3)), counted("event_count", Threshold("gte", 3), name="d")
    wide = Correlation("c", "c", "event_count", ("a",), ("ip", "host"), 10 * SECOND, Threshold("gte", 3))

    for now in ({"d": Family((other,))}, {"c": Family((wide,))}):
        bucket = Bucket()
        advanced(bucket, one, [("x", event(1)), ("x", event(2))])
        alerts = ran(bucket, now, table([("x", event(3))]))
        assert (alerts, bucket.rows.num_rows, bucket.due) == ([], 0, None)


def test_a_chain_has_state_for_each_member() -> None:
    inner = counted("event_count", Threshold("gte", 2), ("a",), "inner")
    outer = counted("temporal_ordered", Threshold("gte", 2), ("inner", "b"))
    families, bucket = {"c": Family((inner, outer))}, Bucket()

    first = ran(bucket, families, table([("x", event(1)), ("x", event(2)), ("y", event(2))], "c", "inner"))
    ((group, alert),) = ran(bucket, families, table([("x", event(3, rule="b")), ("y", event(3, rule="b"))]))

    assert first == []
    assert (split_name(group), alert.start_micros, alert.last_micros) == (("c", "x"), 2 * SECOND, 3 * SECOND)


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
@given(EVENTS, CONDITIONS, st.lists(st.integers(0, 40), max_size=4), st.integers(0, 5))
def test_many_groups_give_the_alerts_of_each_group_alone(
    some: list[tuple[int, str, str, str]], one: Correlation, cuts: list[int], late: int
) -> None:
    rows = [(ip, event(time, n, rule, value)) for n, (time, ip, rule, value) in enumerate(sorted(some))]
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    together, alone = Bucket(), {ip: WindowState() for ip in "xyz"}

    for start, end in [*itertools.pairwise(edges), (len(rows), len(rows))]:
        time = max(0, rows[start - 1][1].micros // SECOND - late) if start else 0
        watermark = time if end > start else 1000
        expected = [
            (ip, alert.last_micros // SECOND, alert.count)
            for ip in "xyz"
            for alert in by_itself(one, alone[ip], ip, rows[start:end], watermark)
        ]
        assert advanced(together, one, rows[start:end], watermark) == sorted(expected)
        remembered = {ip: [tuple(e) for e in memory.events] for ip, memory in alone.items() if memory.events}
        assert kept_of(together) == remembered

    assert (together.rows.num_rows, together.due) == (0, None)


def by_itself(one: Correlation, memory: WindowState, ip: str, rows: list[Row], watermark: int) -> list[Alert]:
    return advance(one, memory, [event for own, event in rows if own == ip], watermark * SECOND)


def kept_of(bucket: Bucket) -> dict[str, list[tuple[object, ...]]]:
    found: dict[str, list[tuple[object, ...]]] = {}
    for row in bucket.rows.to_pylist():
        found.setdefault(split_name(row["group"])[1], []).append(tuple(row[name] for name in Event._fields))
    return found
