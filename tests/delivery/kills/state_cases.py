"""What steps with state must give of the events of the kill tests, computed in plain Python: a case is steps and their results.

A block of events has eight of each key, within a second of event time; the next one begins `Pace.block_seconds` later. Results
that depend on where micro-batches were cut, such as those of ``emit: on_change``, are reduced to what does not (`Case.reduce`).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, TypeAlias

Event: TypeAlias = Mapping[str, Any]
Row: TypeAlias = tuple[Any, ...]

KEYS, EACH = 25, 8
"""Keys, and the events of each in a block."""
BLOCK = KEYS * EACH
READ_BY_SPARK = "read by Spark"
ROUTES = {"one task": 1, "several tasks": 30, "after Spark": 1, READ_BY_SPARK: 1}
"""How rows get to state → how late events can be, in seconds: of two files one may be read some slices before the other."""
BEGIN = datetime(2023, 11, 14, tzinfo=UTC)
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"
LATE_KEY = 7
"""The key whose last events in a block have the time of the block before in the field ``old``."""


def event(number: int, block_seconds: int) -> Event:
    """The event of this number: its key ``k``, which of the key's in its block it is (``o``), and its time."""
    block, place = divmod(number, BLOCK)
    occurrence, key = divmod(place, KEYS)
    millis = block * block_seconds * 1000 + place * 1000 // BLOCK
    back = block_seconds * 1000 if key == LATE_KEY and occurrence >= EACH // 2 and block else 0
    times = {"at": millis, "old": millis - back}
    return {"n": number, "k": key, "key": f"u{key}", "o": occurrence, "v": number * 7919 % 1_000_003, "block": block} | times


def line(one: Event, padding: int) -> str:
    """The event as a line of the source."""
    times = {name: instant(one[name]) for name in ("at", "old")}
    return json.dumps({**one, **times, "padding": "." * padding}) + "\n"


def instant(millis: int) -> str:
    """A time as sinks write it."""
    return (BEGIN + timedelta(milliseconds=millis)).strftime(TIME_FORMAT)


FIELDS = "{n: bigint, k: int, key: string, o: int, v: bigint, block: bigint, at: timestamp, old: timestamp}"


@dataclass(frozen=True)
class Case:
    """The steps after the events, and what they give: ``expected`` are rows of the values of ``fields``.

    ``sides`` are the conditions of the two sides of a join; ``{late}`` in the steps is the lateness of the route.
    """

    steps: tuple[str, ...]
    fields: tuple[str, ...]
    expected: Callable[[Sequence[Event]], Iterable[Row]]
    sides: tuple[str, ...] = ()
    side_steps: tuple[str, ...] = ()
    """Steps of each side after its condition."""
    functions: tuple[str, ...] = ()
    """Functions in `function_cases` that steps call; a class is an aggregate of its name in lower case."""
    dead_letters: bool = False
    """Whether dead letters of the step are results: rows of the code and of the values of ``fields``."""
    reduce: Callable[[Sequence[Row]], Iterable[Row]] = tuple
    """Rows that were given → rows to compare; a row that must not be, such as a repeat, is not removed."""
    sink: str = ""
    """Further options of the sink."""
    table_key: str = ""
    """The key of the table that results go to, of SQLite; none for a file."""

    def map_steps(self, change: Callable[[str], str]) -> Case:
        """The case with other steps, of its own and of its sides."""
        return replace(self, steps=tuple(map(change, self.steps)), side_steps=tuple(map(change, self.side_steps)))


# windows

_AGGREGATES = "aggregates: {count: count(*), sum: sum(n), first: min(n), last: max(n)}"
_COUNTS = ("window_start", "window_end", "key", "count", "sum", "first", "last")
_KEYED = "keys: [key], time: at, late: {late}"


def window(options: str, aggregates: str = _AGGREGATES, time: str = "at", late: str = "{late}") -> str:
    return f"{{type: window, time: {time}, late: {late}, {options}, group_by: [key], {aggregates}}}"


def counted(start: int, end: int, key: str, events: Sequence[Event]) -> Row:
    numbers = [one["n"] for one in events]
    return (instant(start), instant(end), key, len(numbers), sum(numbers), min(numbers), max(numbers))


def windows_of(events: Iterable[Event], spans: Callable[[int], Iterable[tuple[int, int]]], time: str = "at") -> list[Row]:
    found = defaultdict[tuple[int, int, str], list[Event]](list)
    for one in events:
        for start, end in spans(one[time]):
            found[start, end, one["key"]].append(one)
    return [counted(*span, some) for span, some in found.items()]


def tumbling(*sizes: int) -> Callable[[int], list[tuple[int, int]]]:
    return lambda at: [(at - at % (size * 1000), at - at % (size * 1000) + size * 1000) for size in sizes]


def sliding(size: int, slide: int) -> Callable[[int], list[tuple[int, int]]]:
    def spans(at: int) -> list[tuple[int, int]]:
        last = at - at % (slide * 1000)
        return [(start, start + size * 1000) for start in range(last - size * 1000 + slide * 1000, last + 1, slide * 1000)]

    return spans


def cumulating(size: int, step: int) -> Callable[[int], list[tuple[int, int]]]:
    def spans(at: int) -> list[tuple[int, int]]:
        start = at - at % (size * 1000)
        first = at - at % (step * 1000) + step * 1000
        return [(start, end) for end in range(first, start + size * 1000 + 1, step * 1000)]

    return spans


def of_keys(events: Iterable[Event]) -> dict[tuple[int, str], list[Event]]:
    """The events of each key in each block."""
    found = defaultdict[tuple[int, str], list[Event]](list)
    for one in events:
        found[one["block"], one["key"]].append(one)
    return dict(found)


def sessions(events: Sequence[Event]) -> list[Row]:
    return [counted(some[0]["at"], some[-1]["at"] + 5000, key, some) for (_, key), some in of_keys(events).items()]


def growing(rows: Sequence[Row]) -> list[Row]:
    """The last row of each window and key. A row that does not have more events than the one before stays."""
    of_group = defaultdict[Row, list[Row]](list)
    for row in rows:
        of_group[row[:3]].append(row)
    again = [row for some in of_group.values() for before, row in pairwise(some) if row[3] <= before[3]]
    return [*(some[-1] for some in of_group.values()), *again]


def closing(rows: Sequence[Row]) -> list[Row]:
    """The rows on close, and of others those that do not have more events than the one before, or more than on close."""
    closed = [row[:-1] for row in rows if row[-1] == "on_close"]
    early = [row[:-1] for row in rows if row[-1] != "on_close"]
    final = {row[:3]: row[3] for row in closed}
    again = list((Counter(growing(early)) - Counter({row[:3]: row for row in early}.values())).elements())
    return [*closed, *again, *(row for row in early if row[3] > final.get(row[:3], 0))]


def alerts(events: Sequence[Event]) -> list[Row]:
    rows = windows_of(events, tumbling(10))
    return [*((*row[:3], "on_close") for row in rows), *((*row[:3], "when") for row in rows if row[3] >= 5)]


def numbers(rows: Sequence[Row]) -> list[Row]:
    """Each event of the lists in rows."""
    return [(number,) for row in rows for number in row[0]]


def every_number(events: Sequence[Event]) -> list[Row]:
    return [(one["n"],) for one in events]


LISTED = "aggregates: {numbers: 'collect(n, 1000)'}"

WINDOWS = {
    "window": Case((window("size: 10s"),), _COUNTS, lambda events: windows_of(events, tumbling(10))),
    "window, sliding": Case((window("size: 20s, slide: 10s"),), _COUNTS, lambda events: windows_of(events, sliding(20, 10))),
    "window, cumulating": Case((window("size: 20s, step: 10s"),), _COUNTS, lambda events: windows_of(events, cumulating(20, 10))),
    "window, several sizes": Case((window("size: [10s, 30s]"),), _COUNTS, lambda events: windows_of(events, tumbling(10, 30))),
    "window, sessions": Case((window("gap: 5s"),), _COUNTS, sessions),
    "window, lists": Case((window("size: 10s", LISTED),), ("numbers",), every_number, reduce=numbers),
    "window, time of reading": Case(
        (window("size: 1s", LISTED).replace("time: at, late: {late}, ", ""),), ("numbers",), every_number, reduce=numbers
    ),
}
EMITS = {
    "window, on_change": Case(
        (window("size: 10s, emit: on_change"),), _COUNTS, lambda events: windows_of(events, tumbling(10)), reduce=growing
    ),
    "window, every": Case(
        (window("size: 30s, emit: [on_close, {every: 5s}], emit_reason: why"),),
        (*_COUNTS, "why"),
        lambda events: windows_of(events, tumbling(30)),
        reduce=closing,
    ),
    "window, when": Case(
        (window("size: 10s, emit: [on_close, {when: count >= 5}], emit_reason: why"),), (*_COUNTS[:3], "why"), alerts
    ),
    "window, late, corrected": Case(
        (window("size: 10s, emit: [on_close, {late: {for: 1d}}]", time="old"),),
        _COUNTS,
        lambda events: windows_of(events, tumbling(10), "old"),
        reduce=growing,
    ),
    "window, late, separate": Case(
        (window("size: 10s, emit: [on_close, {late: {for: 1d, every: 5s, as: separate}}]", LISTED, time="old"),),
        ("numbers",),
        every_number,
        reduce=numbers,
    ),
}

# keys


def picked(*occurrences: int, count: int | None = None) -> Callable[[Sequence[Event]], list[Row]]:
    """The number of these events of each key and block, followed by a constant count."""
    more = () if count is None else (count,)
    return lambda events: [(one["n"], *more) for one in events if one["o"] in occurrences]


def step(type_: str, options: str) -> str:
    return f"{{type: {type_}, {_KEYED}, {options}}}"


def suppressed(events: Sequence[Event]) -> list[Row]:
    return [(one["n"], EACH - 1 if one["block"] else 0) for one in events if one["o"] == 0]


def summarized(events: Sequence[Event]) -> list[Row]:
    first = [(one["n"], 0, False) for one in events if one["o"] == 0]
    return first + [(one["n"], EACH - 1, True) for one in events if one["o"] == EACH - 1]


def told_apart(rows: Sequence[Row]) -> Iterator[Row]:
    """Rows of ``suppress``: a number that the next event has counts as the summary, which there is unless both are in one
    micro-batch."""
    for number, count, summary in rows:
        if count and not summary:
            yield (number - BLOCK + (EACH - 1) * KEYS, count, True)
        yield (number, count if summary else 0, summary)


def best(limit: int) -> Callable[[Sequence[Event]], list[Row]]:
    def rows(events: Sequence[Event]) -> list[Row]:
        ranked = (sorted(some, key=lambda one: -one["v"])[:limit] for some in of_keys(events).values())
        return [(one["n"], rank) for some in ranked for rank, one in enumerate(some, 1)]

    return rows


def best_of_all(events: Sequence[Event]) -> list[Row]:
    blocks = defaultdict[int, list[Event]](list)
    for one in events:
        blocks[one["block"]].append(one)
    ranked = (sorted(some, key=lambda one: -one["v"])[:5] for some in blocks.values())
    return [(one["n"], rank) for some in ranked for rank, one in enumerate(some, 1)]


def changes(events: Sequence[Event]) -> Iterator[Row]:
    """What enters and leaves the two best of each key."""
    standing = defaultdict[str, list[Event]](list)
    for one in events:
        ranking = sorted([*standing[one["key"]], one], key=lambda other: -other["v"])
        yield from ((left["n"], "leave") for left in ranking[2:] if left is not one)
        if one in ranking[:2]:
            yield (one["n"], "enter")
        standing[one["key"]] = ranking[:2]


KEYED = {
    "dedupe, first": Case((step("dedupe", "within: 5s"),), ("n",), picked(0)),
    "dedupe, last with count": Case(
        (step("dedupe", "within: 5s, keep: last, count: c"),), ("n", "c"), picked(EACH - 1, count=EACH)
    ),
    "dedupe, first with count": Case((step("dedupe", "within: 5s, count: c"),), ("n", "c"), picked(0, count=EACH)),
    "throttle": Case((step("throttle", "limit: 3, every: 5s"),), ("n",), picked(0, 1, 2)),
    "suppress": Case((step("suppress", "within: 5s, count: c"),), ("n", "c"), suppressed),
    "suppress, summary": Case(
        (step("suppress", "within: 5s, count: c, summary: s"),), ("n", "c", "s"), summarized, reduce=told_apart
    ),
    "top of a key": Case((step("top", "size: 10s, by: v, limit: 2, rank: r"),), ("n", "r"), best(2)),
    "top of all": Case(("{type: top, time: at, late: {late}, size: 10s, by: v, limit: 5, rank: r}",), ("n", "r"), best_of_all),
    "top, changes": Case((step("top", "by: v, limit: 2"),), ("n", "change"), changes),
}

# running values and sequences


def running(events: Sequence[Event], begins: Callable[[Event, Event], bool], rows: int = 1 << 30) -> Iterator[Row]:
    """Number, count, sum and the value before of each event, over those of its key since the last at which a count begins."""
    known = defaultdict[str, list[Event]](list)
    for one in events:
        before = known[one["key"]]
        before[:] = [] if before and begins(before[-1], one) else before[-rows + 1 :] if rows > 1 else []
        before.append(one)
        yield (one["n"], len(before), sum(other["v"] for other in before), before[-2]["v"] if len(before) > 1 else None)


def new_block(before: Event, one: Event) -> bool:
    return bool(before["block"] != one["block"])


def never(before: Event, one: Event) -> bool:
    return False


def over(options: str) -> str:
    return step("over", f"{options}aggregates: {{c: count(*), s: sum(v), l: lag(v)}}")


_VALUES = ("n", "c", "s", "l")


def sequences(events: Sequence[Event]) -> list[Row]:
    return [(one["n"], 5) for one in events if one["o"] == 6]


def not_followed(events: Sequence[Event]) -> list[Row]:
    return [(one["n"],) for one in events if one["o"] == 6 and one["k"] % 3 == 0]


def correlate(timespan: str, condition: str, where: str) -> str:
    rule = f"{{type: event_count, rules: [some], group-by: [key], timespan: {timespan}, condition: {condition}}}"
    return (
        f"{{type: correlate, time: at, late: {{late}}, sample: n, rules: [{{name: some, where: '{where}'}}], "
        f"correlations: [{{title: Many, correlation: {rule}}}]}}"
    )


def correlated(some: Callable[[Event], bool], max_matches: int) -> Callable[[Sequence[Event]], list[Row]]:
    def rows(events: Sequence[Event]) -> list[Row]:
        of_key = of_keys(one for one in events if some(one))
        return [(key, len(found), str(found[0]["n"])) for (_, key), found in of_key.items() if len(found) <= max_matches]

    return rows


def first_sample(rows: Sequence[Row]) -> list[Row]:
    return [(key, count, samples[0]) for key, count, samples in rows]


_ALERT = ("key", "correlation.count", "correlation.samples")
ORDERED = {
    "over, within": Case((over("within: 5s, "),), _VALUES, lambda events: running(events, new_block)),
    "over, rows": Case((over("rows: 3, "),), _VALUES, lambda events: running(events, never, 3)),
    "over, totals": Case((over(""),), _VALUES, lambda events: running(events, never)),
    "over, ttl": Case((over("ttl: 5s, "),), _VALUES, lambda events: running(events, new_block)),
    "sequence": Case(
        (step("sequence", "within: 5s, events: {a: o < 5, b: o = 6}, pattern: 'a{3,} then b', fields: {n: b.n}"),),
        ("n", "a_count"),
        sequences,
    ),
    "sequence, not followed by": Case(
        (step("sequence", "within: 5s, events: {b: o = 6, c: o = 7 and k % 3 > 0}, pattern: 'b then not c', fields: {n: b.n}"),),
        ("n",),
        not_followed,
    ),
    "correlate": Case((correlate("5s", "{gte: 8}", "n >= 0"),), _ALERT, correlated(lambda _: True, EACH), reduce=first_sample),
    "correlate, at most": Case(
        (correlate("5s", "{lte: 6}", "o < 5 or k % 3 > 0"),),
        _ALERT,
        correlated(lambda one: one["o"] < 5 or one["k"] % 3 > 0, 6),
        reduce=first_sample,
    ),
}

# joins

SIDES = ("o % 4 = 0 and k % 5 > 0", "o % 4 = 2 and k % 7 > 0")


def sides(events: Sequence[Event]) -> Iterator[tuple[list[Event], list[Event]]]:
    """The left and right events of each key and block."""
    for some in of_keys(events).values():
        left = [one for one in some if one["o"] % 4 == 0 and one["k"] % 5 > 0]
        yield left, [one for one in some if one["o"] % 4 == 2 and one["k"] % 7 > 0]


def pairs(events: Sequence[Event]) -> list[Row]:
    return [(one["n"], other["n"]) for left, right in sides(events) for one in left for other in right]


def unmatched(events: Sequence[Event], left: bool = True, right: bool = True) -> list[Row]:
    lefts = [(one["n"], None) for found, other in sides(events) if left and not other for one in found]
    return lefts + [(None, one["n"]) for other, found in sides(events) if right and not other for one in found]


def latest(events: Sequence[Event]) -> list[Row]:
    """Each left event with the version before it; those of key 0 have none in a block, and no left events."""
    versions: dict[str, int] = {}
    found: list[Row] = []
    for one in events:
        if one["o"] % 4 == 2 and one["k"] % 7:
            versions[one["key"]] = one["n"]
        if one["o"] % 4 == 0 and one["k"] % 5:
            found.append((one["n"], versions.get(one["key"])))
    return found


def join(kind: str, more: str = "within: 5s") -> str:
    return f"{{type: join, kind: {kind}, on: [key], time: at, late: {{late}}, {more}}}"


def joined(kind: str, expected: Callable[[Sequence[Event]], Iterable[Row]], more: str = "within: 5s") -> Case:
    fields = ("n",) if kind in ("semi", "anti") else ("n", "right.n")
    return Case((join(kind, more),), fields, expected, SIDES)


JOINS = {
    "join, inner": joined("inner", pairs),
    "join, left": joined("left", lambda events: [*pairs(events), *unmatched(events, right=False)]),
    "join, right": joined("right", lambda events: [*pairs(events), *unmatched(events, left=False)]),
    "join, full": joined("full", lambda events: [*pairs(events), *unmatched(events)]),
    "join, semi": joined("semi", lambda events: [(n,) for n in {n for n, _ in pairs(events)}]),
    "join, anti": joined("anti", lambda events: [(n,) for n, _ in unmatched(events, right=False)]),
    "join, latest": joined("left", latest, "match: latest"),
}

# chains

_MERGED = "{{type: window, time: {time}, late: {{late}}, size: 10s, group_by: [key], aggregates: {{sum: sum({of})}}}}"


def chained(time: str, of: str) -> str:
    return _MERGED.format(time=time, of=of)


def sums(value: Callable[[Sequence[Event]], int]) -> Callable[[Sequence[Event]], list[Row]]:
    """The start of the window, the key, and a number of the key's events in a block."""
    return lambda events: [
        (instant(some[0]["at"] // 10_000 * 10_000), key, value(some)) for (_, key), some in of_keys(events).items()
    ]


def count_pairs(events: Sequence[Event]) -> list[Row]:
    of_key = [(left, len(left) * len(right)) for left, right in sides(events)]
    return [(instant(left[0]["at"] // 10_000 * 10_000), left[0]["key"], count) for left, count in of_key if count]


def last_of_three(events: Sequence[Event]) -> list[Row]:
    return [(one["n"], 3) for one in events if one["o"] == 2]


_SUM = ("window_start", "key", "sum")
CHAINS = {
    "window, then window": Case(
        (window("size: 200ms"), chained("window_start", "sum")), _SUM, sums(lambda some: sum(one["n"] for one in some))
    ),
    "dedupe, then window": Case((step("dedupe", "within: 5s"), chained("at", "n")), _SUM, sums(lambda some: some[0]["n"])),
    "window, then dedupe": Case(
        (window("size: 200ms"), step("dedupe", "within: 5s").replace("time: at", "time: window_start")),
        ("first",),
        lambda events: [(some[0]["n"],) for some in of_keys(events).values()],
    ),
    "throttle, then dedupe": Case(
        (step("throttle", "limit: 3, every: 5s"), step("dedupe", "within: 5s, keep: last, count: c")), ("n", "c"), last_of_three
    ),
    "join, then window": Case((join("inner"), chained("at", "1")), _SUM, count_pairs, SIDES),
    "over, then sequence": Case(
        (
            over("within: 5s, "),
            step("sequence", "within: 5s, events: {a: c < 6, b: c = 7}, pattern: 'a{5} then b', fields: {n: b.n}"),
        ),
        ("n", "a_count"),
        sequences,
    ),
    "window, then Spark": Case(
        (window("size: 10s"), "{type: set, fields: {key: 'if(soundex(key) is null, key, key)'}}"),
        _COUNTS,
        lambda events: windows_of(events, tumbling(10)),
    ),
    "window, Spark, then window": Case(
        (window("size: 200ms"), "{type: set, fields: {sound: soundex(key)}}", chained("window_start", "sum")),
        _SUM,
        sums(lambda some: sum(one["n"] for one in some)),
    ),
}

# changelogs


def changelog(
    steps: Sequence[str],
    fields: Sequence[str],
    expected: Callable[[Sequence[Event]], Iterable[Row]],
    of: Sequence[str] | None = None,
) -> Case:
    """A case whose results change, of which the rows count that are left at the end; of a join the steps of each side."""
    case = Case((*steps,), ("_kind", *fields), expected, reduce=folded, sink=", changes: kind")
    return case if of is None else replace(case, sides=SIDES, side_steps=(*of,))


def folded(rows: Sequence[Row]) -> list[Row]:
    """The rows of a changelog that are left, and each change that removes a row that is not there."""
    left, wrong = Counter[Row](), list[Row]()
    for kind, *values in rows:
        row = tuple(values)
        if kind in ("+I", "+U"):
            left[row] += 1
        elif left[row]:
            left[row] -= 1
        else:
            wrong.append((kind, *row))
    return [*left.elements(), *wrong]


def by_key(events: Iterable[Event]) -> dict[str, list[Event]]:
    found = defaultdict[str, list[Event]](list)
    for one in events:
        found[one["key"]].append(one)
    return dict(found)


def last_rows(events: Sequence[Event]) -> list[Row]:
    return [(key, some[-1]["n"]) for key, some in by_key(events).items()]


def best_so_far(events: Sequence[Event]) -> list[Row]:
    ranked = (sorted(some, key=lambda one: -one["v"])[:3] for some in by_key(events).values())
    return [(one["n"], rank) for some in ranked for rank, one in enumerate(some, 1)]


def totals(events: Sequence[Event]) -> list[Row]:
    return [(key, len(some), sum(one["v"] for one in some), some[-1]["n"]) for key, some in by_key(events).items()]


def totals_of_best(events: Sequence[Event]) -> list[Row]:
    best = [max(one["v"] for one in some) for some in by_key(events).values()]
    return [(len(best), sum(best), min(best))] if best else []


def best_totals(events: Sequence[Event]) -> list[Row]:
    ranked = sorted(totals(events), key=lambda row: -row[2])[:3]
    return [(key, total, rank) for rank, (key, _, total, _) in enumerate(ranked, 1)]


def running_of_best(events: Sequence[Event]) -> Iterator[Row]:
    """Number, rank, count and sum of the three best events of each key, in the order of time."""
    ranks = dict(best_so_far(events))
    for row in running([one for one in events if one["n"] in ranks], never):
        yield (row[0], ranks[row[0]], *row[1:3])


def last_pairs(events: Sequence[Event]) -> Iterator[Row]:
    """The last event of each key on either side, None where a side has none."""
    last: tuple[dict[str, int], dict[str, int]] = {}, {}
    for both in sides(events):
        for known, own in zip(last, both, strict=True):
            known.update((one["key"], one["n"]) for one in own)
    return ((last[0].get(key), last[1].get(key)) for key in last[0] | last[1])


_TOTALS = "{type: window, emit: on_change, group_by: [key], aggregates: {c: count(*), s: sum(v), m: max(n)}}"
_OF_BEST = "{type: window, emit: on_change, aggregates: {c: count(*), s: sum(v), m: min(v)}}"
_LAST = "{type: top, keys: [key], by: n, limit: 1, changelog: true}"
_BEST = "{type: top, keys: [key], by: v, limit: LIMIT, rank: r, changelog: true}"
_OVER = "{type: over, keys: [key], time: at, changelog: true, aggregates: {c: count(*), s: sum(v)}}"


def join_all(kind: str) -> str:
    """A join of all events of a block, whenever they come."""
    return f"{{type: join, kind: {kind}, on: [key], changelog: true, where: 'block = right.block'}}"


CHANGES = {
    "top, last rows": changelog([_LAST], ("key", "n"), last_rows),
    "top, last rows in a table": Case((_LAST, "{type: keep, fields: [key, n]}"), ("key", "n"), last_rows, table_key="key"),
    "top, best so far": changelog([_BEST.replace("LIMIT", "3")], ("n", "r"), best_so_far),
    "window, totals": changelog([_TOTALS], ("key", "c", "s", "m"), totals),
    "window, then top of totals": changelog(
        [_TOTALS, "{type: top, by: s, limit: 3, rank: r, changelog: true}"], ("key", "s", "r"), best_totals
    ),
    "top, then over": changelog([_BEST.replace("LIMIT", "3"), _OVER], ("n", "r", "c", "s"), running_of_best),
    "join, changing, left": changelog([join_all("left")], ("n", "right.n"), JOINS["join, left"].expected, of=()),
    "join, changing, anti": changelog([join_all("anti")], ("n",), JOINS["join, anti"].expected, of=()),
    "join, changing, full, of last rows": changelog(
        ["{type: join, kind: full, on: [key], changelog: true}"], ("n", "right.n"), last_pairs, of=(_LAST,)
    ),
    "top, then totals": changelog([_BEST.replace("LIMIT", "1"), _OF_BEST], ("c", "s", "m"), totals_of_best),
}
