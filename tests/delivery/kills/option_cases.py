"""Cases of `state_cases` with further options of the steps: other aggregates, lengths, ranks, joins, patterns and rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from state_cases import (
    BEGIN,
    BLOCK,
    CHANGES,
    EMITS,
    SIDES,
    Case,
    Event,
    Row,
    alerts,
    by_key,
    chained,
    counted,
    instant,
    join,
    of_keys,
    sides,
    step,
    window,
)

_BEGIN_MILLIS = round(BEGIN.timestamp()) * 1000
_LENGTH = "{field: o, default: 5s, max: 10s}"
_MANY = (
    "aggregates: {d: count(distinct o), a: 'approx_count_distinct(n, 0.01)', m: 'percentile(n, 0.5)', mode: mode(o % 3), "
    "least: 'min_by(n, v)', most: 'max_by(n, v)', set: 'collect_set(o, 3)', h: 'histogram(o, [0, 3, 8])', t: 'top(o % 3, 2)', "
    "first: first(n), last: last(n), deviation: stddev(o), x: 'correlation(o, 2 * o)'}"
)


def length(one: Event) -> int:
    """The seconds of the field ``o``, as `_LENGTH` has them."""
    return int(one["o"] or 5)


def windows_of_lengths(events: Sequence[Event]) -> list[Row]:
    found = defaultdict[tuple[int, int, str], list[Event]](list)
    for one in events:
        size = length(one) * 1000
        start = one["at"] - (one["at"] + _BEGIN_MILLIS) % size
        found[start, start + size, one["key"]].append(one)
    return [counted(*span, some) for span, some in found.items()]


def sessions_of_lengths(events: Sequence[Event]) -> Iterator[Row]:
    for (_, key), some in of_keys(events).items():
        yield counted(some[0]["at"], max(one["at"] + length(one) * 1000 for one in some), key, some)


def many(events: Sequence[Event]) -> Iterator[Row]:
    edges = [None, 0.0, 3.0, 8.0, None]
    histogram = [{"from": edges[at], "to": edges[at + 1], "count": count} for at, count in enumerate((0, 3, 5, 0))]
    top = [{"value": 0, "count": 3}, {"value": 1, "count": 3}]
    for some in of_keys(events).values():
        ranked = sorted(some, key=lambda one: one["v"])
        ends = (ranked[0]["n"], ranked[-1]["n"])
        middle = (some[3]["n"] + some[4]["n"]) / 2
        yield (8, 8, middle, 0, *ends, [0, 1, 2], histogram, top, some[0]["n"], some[-1]["n"], 2.45, 1.0)


def rounded(rows: Sequence[Row]) -> list[Row]:
    return [tuple(round(value, 2) if isinstance(value, float) else value for value in row) for row in rows]


def tied(events: Sequence[Event]) -> Iterator[Row]:
    """Two events of a key and block are the first, three the third."""
    for some in of_keys(events).values():
        yield from ((one["n"], 3 - 2 * (one["o"] % 3 == 2)) for one in some if one["o"] % 3)


def best_keys(events: Sequence[Event]) -> Iterator[Row]:
    """The best event of each of the five best keys in a block."""
    blocks = defaultdict[int, list[Event]](list)
    for (block, _), some in of_keys(events).items():
        blocks[block].append(max(some, key=lambda one: one["v"]))
    for found in blocks.values():
        yield from ((one["n"], rank) for rank, one in enumerate(sorted(found, key=lambda one: -one["v"])[:5], 1))


def first_of_all(events: Sequence[Event]) -> list[Row]:
    return [(some[0]["n"],) for some in by_key(events).values()]


def limited_pairs(events: Sequence[Event]) -> list[Row]:
    """The first events of both sides in the first block of each minute."""
    first = [(left[:1], right[:1]) for left, right in sides(events) if left and left[0]["at"] % 60_000 < 10_000]
    return [(one["n"], other["n"]) for left, right in first for one in left for other in right]


def window_pairs(events: Sequence[Event]) -> Iterator[Row]:
    for left, right in sides(events):
        if left or right:
            yield tuple(value for side in (left, right) for value in ((side[0]["n"], len(side)) if side else (None, None)))


def united(events: Sequence[Event]) -> Iterator[Row]:
    for left, right in sides(events):
        if some := left + right:
            yield (instant(some[0]["at"] // 10_000 * 10_000), some[0]["key"], sum(one["n"] for one in some))


def with_block_before(events: Sequence[Event]) -> list[Row]:
    return [(one["n"], one["n"] - BLOCK) for one in events if one["block"]]


def by_turns(events: Sequence[Event]) -> Iterator[Row]:
    for some in of_keys(events).values():
        listed = [{"event": name, "event_time": instant(of["at"]), "n": of["n"]} for name, of in zip("ababa", some, strict=False)]
        listed.append({"event": "c", "event_time": instant(some[6]["at"]), "n": some[6]["n"]})
        yield some[6]["n"], 3, 2, listed


def overlapping(events: Sequence[Event]) -> Iterator[Row]:
    for some in of_keys(events).values():
        for one in some[:3]:
            yield (
                some[6]["n"],
                one["n"],
                [{"event": name, "event_time": instant(of["at"]), "n": of["n"]} for name, of in (("a", one), ("b", some[6]))],
            )


def running_values(events: Sequence[Event]) -> Iterator[Row]:
    for some in of_keys(events).values():
        for at, one in enumerate(some):
            yield (one["n"], at < 2, some[0]["n"], max(other["v"] for other in some[: at + 1]), min(at + 1, 3))


def ranked_of_all(events: Sequence[Event]) -> Iterator[Row]:
    for some in by_key(events).values():
        ordered = sorted(some, key=lambda one: -one["v"])
        for at, one in enumerate(ordered):
            yield (one["n"], at + 1, len(some), ordered[at - 1]["n"] if at else None)


_RULES = "rules: [{name: a, where: o = 2}, {name: b, where: o = 6}, {name: all, where: n >= 0}]"


def _rule(title: str, kind: str, rules: str, condition: str) -> str:
    return f"{{title: {title}, correlation: {{type: {kind}, rules: [{rules}], group-by: [key], timespan: 5s{condition}}}}}"


_CORRELATIONS = ", ".join(
    [
        _rule("Values", "value_count", "all", ", condition: {field: o, gte: 8}"),
        _rule("Both", "temporal", "a, b", ""),
        _rule("Ordered", "temporal_ordered", "a, b", ""),
        _rule("Average", "value_avg", "all", ", condition: {field: o, lt: 4}"),
    ]
)


def every_rule(events: Sequence[Event]) -> Iterator[Row]:
    for _, key in of_keys(events):
        yield from ((key, title, count) for title, count in (("Values", 8), ("Both", 2), ("Ordered", 2), ("Average", 8)))


def with_ttl(case: Case) -> Case:
    return case.map_steps(lambda one: one[:-1] + ", ttl: 1d}")


_COUNTS = ("window_start", "window_end", "key", "count", "sum", "first", "last")
OPTIONS = {
    "window, other aggregates": Case(
        (window("size: 10s", _MANY),),
        ("d", "a", "m", "mode", "least", "most", "set", "h", "t", "first", "last", "deviation", "x"),
        many,
        reduce=rounded,
    ),
    "window, size of a field": Case((window(f"size: {_LENGTH}"),), _COUNTS, windows_of_lengths),
    "window, gap of a field": Case((window(f"gap: {_LENGTH}"),), _COUNTS, sessions_of_lengths),
    "window, when, again": replace(
        EMITS["window, when"],
        steps=(window("size: 10s, emit: [on_close, {when: count >= 5, again_after: 1d}], emit_reason: why"),),
        expected=alerts,
    ),
    "window, totals, ttl": with_ttl(CHANGES["window, totals"]),
    "dedupe, time of reading": Case(("{type: dedupe, keys: [key], within: 1d}",), ("n",), first_of_all),
    "top, ties": Case((step("top", "size: 10s, by: o % 3, ties: rank, limit: 3, rank: r"),), ("n", "r"), tied),
    "top, distinct": Case(
        ("{type: top, time: at, late: {late}, size: 10s, by: v, distinct: [key], limit: 5, rank: r}",), ("n", "r"), best_keys
    ),
    "over, other functions": Case(
        (
            step(
                "over",
                "within: 5s, aggregates: {new: is_new(o % 2), first: first(n), max: max(v), d: count(distinct o % 3)}",
            ),
        ),
        ("n", "new", "first", "max", "d"),
        running_values,
    ),
    "over_all": Case(
        (
            "{type: over_all, keys: [key], order_by: {v: descending}, "
            "aggregates: {r: row_number(), c: count(*), l: lag(n)}, "
            "frame: rows between unbounded preceding and unbounded following}",
        ),
        ("n", "r", "c", "l"),
        ranked_of_all,
    ),
    "sequence, overlapping": Case(
        (
            step(
                "sequence",
                "within: 5s, events: {a: o < 3, b: o = 6}, pattern: 'a then b', after_match: next_event, "
                "fields: {n: b.n, begin: a.n}, list: [n]",
            ),
        ),
        ("n", "begin", "events"),
        overlapping,
    ),
    "sequence, groups": Case(
        (
            step(
                "sequence",
                "within: 5s, events: {a: 'o in (0, 2, 4)', b: 'o in (1, 3)', c: o = 6}, "
                "pattern: '(a then b | c then c)+ then a then c', after_match: last(b), fields: {n: c.n}, list: [n]",
            ),
        ),
        ("n", "a_count", "b_count", "events"),
        by_turns,
    ),
    "correlate, other types": Case(
        (f"{{type: correlate, time: at, late: {{late}}, {_RULES}, correlations: [{_CORRELATIONS}]}}",),
        ("key", "rule.title", "correlation.count"),
        every_rule,
    ),
    "join, limit": Case((join("inner", "within: 5s, limit: 1"),), ("n", "right.n"), limited_pairs, SIDES),
    "join, of windows": Case(
        (join("full", "within: 0s").replace("time: at", "time: window_start"),),
        ("first", "count", "right.first", "right.count"),
        window_pairs,
        SIDES,
        (window("size: 10s"),),
    ),
    "join, with the block before": Case(
        ("{type: join, left: all, right: all, on: [key, o], time: at, late: {late}, within: 0s, shift: 10s}",),
        ("n", "right.n"),
        with_block_before,
    ),
    "join, changing, ttl": with_ttl(CHANGES["join, changing, left"]),
    "two windows, then window": Case(
        (chained("window_start", "sum"),), ("window_start", "key", "sum"), united, SIDES, (window("size: 200ms"),)
    ),
    "two windows, Spark, then window": Case(
        ("{type: set, fields: {sound: soundex(key)}}", chained("window_start", "sum")),
        ("window_start", "key", "sum"),
        united,
        SIDES,
        (window("size: 200ms"),),
    ),
}
