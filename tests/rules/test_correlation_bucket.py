"""Many groups remembered together: the same alerts as group by group, and no more memory."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.rules.correlation.bucket import Bucket
from etl.rules.correlation.columns import rows_of
from etl.rules.correlation.encoding import escaped, escaped_column, joined, joined_columns, packed, parted, plain, unpacked
from etl.rules.correlation.families import Family
from etl.rules.correlation.model import Correlation, Joined, Seen, Threshold
from etl.rules.correlation.reader import MOST_EVENTS, SECOND
from etl.rules.correlation.windows import Alert, Event, Memory, advance

Row = tuple[str, Event]
"""An event, and the value of its group."""


def counted(kind: str, condition: object, rules: tuple[str, ...] = ("a", "b"), name: str = "c") -> Correlation:
    return Correlation(name, name, kind, rules, ("ip",), 10 * SECOND, condition)  # type: ignore[arg-type]


def table(rows: list[Row], head: str = "c", member: str = "c") -> pa.Table:
    """As they come from Spark."""
    names = [(joined([head, ip]), joined([member] if member == head else [member, ip])) for ip, _ in rows]
    parts = [
        [*name, str(e.order), escaped(e.rule), escaped(e.value), escaped(e.sample)]
        for name, (_, e) in zip(names, rows, strict=True)
    ]
    texts = packed([pa.array([row[place] for row in parts], pa.string()) for place in range(6)])
    micros, offsets = (pa.array([e[place] for _, e in rows], pa.int64()) for place in (0, 1))
    return rows_of(texts, micros, offsets)


def event(seconds: float, offset: int = 0, rule: str = "a", value: str | None = None) -> Event:
    return Event(round(seconds * SECOND), offset, 0, rule, value)


def advanced(bucket: Bucket, one: Correlation, rows: list[Row], watermark: float = 0) -> list[tuple[str, int, int]]:
    """Of each alert whose it is, when its condition was met, and its count."""
    again = Bucket.read(bucket.written())
    bucket.rows, bucket.bursts = again.rows, again.bursts
    found = bucket.advance({"c": Family((one,))}, table(rows), round(watermark * SECOND))
    return sorted((parted(group)[1], alert.last_micros // SECOND, alert.count) for group, alert in found)


TEXTS = ["", "a\\b", "x\x1fy", "x\x1ey", "\\u", "\\0", "ü"]


def test_texts_are_joined_and_parted_again() -> None:
    assert [parted(joined(TEXTS[:n])) for n in range(8)] == [tuple(TEXTS[:n]) for n in range(8)]
    assert joined_columns([pa.array(TEXTS), "k\x1f", pa.array(TEXTS)]).to_pylist() == [joined([a, "k\x1f", a]) for a in TEXTS]
    assert escaped_column(pa.array([*TEXTS, None])).to_pylist() == [escaped(text) for text in (*TEXTS, None)]


def test_parts_are_packed_and_unpacked_again() -> None:
    first, second = escaped_column(pa.array([*TEXTS, None])), escaped_column(pa.array([None, *TEXTS]))

    found = unpacked(packed([first, second, first]), 3)

    assert [part.to_pylist() for part in found] == [part.to_pylist() for part in (first, second, first)]
    assert [plain(text) for text in found[1].to_pylist()] == [None, *TEXTS]


def test_an_alert_shows_texts_as_they_are() -> None:
    one, bucket = counted("value_count", Threshold("gte", 3)), Bucket()
    events = [Event(n, n, 0, "a", text, text) for n, text in enumerate(TEXTS[1:4])]

    advanced(bucket, one, [("\x1e\\", event) for event in events[:2]])
    ((group, alert),) = bucket.advance({"c": Family((one,))}, table([("\x1e\\", events[2])]), 0)

    assert parted(group) == ("c", "\x1e\\")
    assert (alert.values, alert.samples) == (tuple(TEXTS[1:4]), tuple(TEXTS[1:4]))


def test_groups_are_apart() -> None:
    one, bucket = counted("event_count", Threshold("gte", 3)), Bucket()

    first = advanced(bucket, one, [("x", event(1)), ("y", event(1)), ("x", event(2))])
    second = advanced(bucket, one, [("y", event(3)), ("y", event(4)), ("z", event(4))])

    assert (first, second) == ([], [("y", 4, 3)])


def test_what_is_remembered_goes_when_all_of_it_is_old() -> None:
    one, bucket = counted("event_count", Threshold("gte", 3)), Bucket()

    advanced(bucket, one, [("x", event(1)), ("y", event(9))])
    due = bucket.due
    advanced(bucket, one, [], 19)

    assert (due, bucket.rows.num_rows, bucket.due) == (19 * SECOND, 0, None)


def test_a_window_that_closes_is_looked_at_when_it_does() -> None:
    one, bucket = counted("event_count", Threshold("lt", 3)), Bucket()

    assert advanced(bucket, one, [("x", event(1)), ("y", event(9))]) == []
    assert bucket.due == 11 * SECOND
    assert advanced(bucket, one, [], 11) == [("x", 1, 1)]
    assert bucket.due == 19 * SECOND


def test_of_a_group_far_below_its_threshold_few_events_are_kept() -> None:
    one, bucket = counted("event_count", Threshold("gte", 3)), Bucket()

    advanced(bucket, one, [("x", event(n / 100, n)) for n in range(900)], 0)
    advanced(bucket, one, [("y", event(9))], 8.95)

    assert sorted(row["offset"] for row in bucket.rows.to_pylist()) == [0, *range(891, 900)]


def test_no_more_than_a_bound_is_remembered_of_a_group() -> None:
    one, bucket = counted("value_count", Threshold("gte", 3)), Bucket()

    advanced(bucket, one, [("x", event(n / 5000, n, value="y")) for n in range(MOST_EVENTS + 5)])

    assert bucket.rows.num_rows == MOST_EVENTS


def test_correlations_that_are_gone_or_group_by_other_fields_are_forgotten() -> None:
    one, other = counted("event_count", Threshold("gte", 3)), counted("event_count", Threshold("gte", 3), name="d")
    wide = Correlation("c", "c", "event_count", ("a",), ("ip", "host"), 10 * SECOND, Threshold("gte", 3))

    for now in ({"d": Family((other,))}, {"c": Family((wide,))}):
        bucket = Bucket()
        advanced(bucket, one, [("x", event(1)), ("x", event(2))])
        alerts = bucket.advance(now, table([("x", event(3))]), 0)
        assert (alerts, bucket.rows.num_rows, bucket.due) == ([], 0, None)


def test_a_chain_is_remembered_member_by_member() -> None:
    inner = counted("event_count", Threshold("gte", 2), ("a",), "inner")
    outer = counted("temporal_ordered", Threshold("gte", 2), ("inner", "b"))
    families, bucket = {"c": Family((inner, outer))}, Bucket()

    first = bucket.advance(families, table([("x", event(1)), ("x", event(2)), ("y", event(2))], "c", "inner"), 0)
    bucket = Bucket.read(bucket.written())
    ((group, alert),) = bucket.advance(families, table([("x", event(3, rule="b")), ("y", event(3, rule="b"))]), 0)

    assert first == []
    assert (parted(group), alert.start_micros, alert.last_micros) == (("c", "x"), 2 * SECOND, 3 * SECOND)


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
        counted("temporal", Joined("or", (Seen("b"), Joined("and", (Seen("a"), Seen("c"))))), ("a", "b", "c")),
        counted("temporal", Joined("and", (Seen("a"), Joined("not", (Seen("b"),)))), ("a", "b")),
        counted("temporal_ordered", Threshold("gte", 3), ("a", "a", "b")),
    ]
)


@settings(deadline=None)
@given(EVENTS, CONDITIONS, st.lists(st.integers(0, 40), max_size=4), st.integers(0, 5))
def test_many_groups_together_give_what_each_gives_alone(
    some: list[tuple[int, str, str, str]], one: Correlation, cuts: list[int], late: int
) -> None:
    rows = [(ip, event(time, n, rule, value)) for n, (time, ip, rule, value) in enumerate(sorted(some))]
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    together, alone = Bucket(), {ip: Memory() for ip in "xyz"}

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


def by_itself(one: Correlation, memory: Memory, ip: str, rows: list[Row], watermark: int) -> list[Alert]:
    return advance(one, memory, [event for own, event in rows if own == ip], watermark * SECOND)


def kept_of(bucket: Bucket) -> dict[str, list[tuple[object, ...]]]:
    found: dict[str, list[tuple[object, ...]]] = {}
    for group, _, *row in (tuple(row.values()) for row in bucket.rows.to_pylist()):
        found.setdefault(parted(group)[1], []).append((*row[:3], *map(plain, row[3:])))
    return found
