"""Ordered patterns of events, against regular expressions over the letters of each key's events."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from memory_files import passing_folder
from running import Engine, Etl
from state.lane import Lane

from etl.api import OFFSET, TIMESTAMP, ComponentError, ReadableState, Schema
from etl.state.key_hash import PARTS
from etl.state.part_rows import MappedStateFiles
from etl.steps.sequences.pattern import Pattern, PatternElement, starts
from etl.steps.sequences.pattern_reader import read_pattern
from etl.steps.sequences.sequence import Sequence

INCOMING: Schema = pa.schema({"host": pa.string(), "letter": pa.string(), "at": TIMESTAMP, "n": pa.int64()})
WITHIN, LATE = 60, 30


class Event(NamedTuple):
    host: str | None
    letter: str
    seconds: int
    number: int


PATTERNS = {
    "a then b": "(?P<a>a)[^b]*(?P<b>b)",
    "a then next b": "(?P<a>a)(?P<b>b)",
    "a{2,} then b": "(?P<a>a[^a]*a([^ab]*a)*)[^ab]*(?P<b>b)",
    "a{2} then b": "(?P<a>a[^a]*a)[^b]*(?P<b>b)",
    "a{2,3} then b": "(?P<a>a[^a]*a)([^ab]*|[^ab]*(?P<more>a)[^b]*)(?P<b>b)",
    "a{3}": "(?P<a>a[^a]*a[^a]*a)",
    "a{2,} consecutive then b": "(?P<a>aa(a)*)[^b]*(?P<b>b)",
    "a+ then next b": "(?P<a>a([^a]*a)*)(?P<b>b)",
    "a then not c then b": "(?P<a>a)[^bc]*(?P<b>b)",
    "a{2} then not c or b then a": "(?P<a>a[^a]*a[^abc]*a)",
    "a+ then not c then b": "(?P<a>a([^a]*a)*)[^abc]*(?P<b>b)",
    "a then b? then c": "(?P<a>a)[^bc]*((?P<b>b)[^c]*)?(?P<c>c)",
    "a? then b then c": "((?P<a>a)[^b]*)?(?P<b>b)[^c]*(?P<c>c)",
    "a then b* then next c": "(?P<a>a)(?P<b>([^bc][^b]*)?b([^b]*b)*)?(?P<c>c)",
    "a then not b": "(?P<a>a)[^b]*",
    "a{2,} then not b or c": "(?P<a>a[^a]*a([^a]*a)*)[^bc]*",
}
"""Patterns, and what the letters of a match are, from its first to its last event. Between the events of an element are none that
it could take, and before an element none that it could take."""

EVENTS = st.tuples(st.sampled_from(["u", "v", "", None]), st.sampled_from("aaabbcx"), st.integers(0, 400))
STREAMS = st.lists(st.lists(st.lists(EVENTS, max_size=8), min_size=1, max_size=2), max_size=8)


def _step(pattern: str, **options: Any) -> Sequence:
    events = {letter: f"letter = '{letter}'" for letter in "abc"}
    given = {"keys": ["host"], "time": "at", "within": f"{WITHIN}s", "late": f"{LATE}s", "events": events, "pattern": pattern}
    return Sequence.model_validate({**given, **options})


def _row(event: Event) -> dict[str, Any]:
    at = datetime.fromtimestamp(event.seconds, UTC)
    return {"host": event.host, "letter": event.letter, "at": at, "n": event.number, OFFSET: event.number}


def _numbered(drawn: list) -> list[list[list[Event]]]:
    """Events of each split of each micro-batch, with numbers in the order of reading; times move on with the micro-batches."""
    number, found = 0, []
    for at, splits in enumerate(drawn):
        found.append([[] for _ in splits])
        for events, into in zip(splits, found[-1], strict=True):
            for host, letter, seconds in events:
                into.append(Event(host, letter, seconds // 4 + 25 * at, number))
                number += 1
    return found


def _on_time(stream: list[list[list[Event]]]) -> dict[str | None, list[Event]]:
    """The events of each key that are not late, in their order."""
    found, latest = defaultdict(list), float("-inf")
    for splits in stream:
        events = [event for split in splits for event in split]
        for event in events:
            if event.seconds >= latest - LATE:
                found[event.host].append(event)
        latest = max([latest, *(event.seconds for event in events)])
    return {host: sorted(events, key=lambda e: (e.seconds, e.number)) for host, events in found.items()}


def _count(found: re.Match[str], name: str) -> int:
    groups = (found.groupdict().get(group) or "" for group in ((name, "more") if name == "a" else (name,)))
    return sum(group.count(name) for group in groups)


def _matches(events: list[Event], pattern: str, max_events: int) -> list[tuple[int, int, int, int]]:
    """Start, end, and how often `a` and `b` were taken."""
    letters, regex, found, begin = "".join(event.letter for event in events), re.compile(PATTERNS[pattern]), [], 0
    if re.search(r"not[^t]*$", pattern):
        return _unanswered(events, letters, regex, max_events)
    for end in range(len(events)):
        for start in range(begin, end + 1):
            if events[end].seconds - events[start].seconds < WITHIN and end - start < max_events:
                match = regex.fullmatch(letters, start, end + 1)
                if match:
                    found.append((events[start].seconds, events[end].seconds, _count(match, "a"), _count(match, "b")))
                    begin = end + 1
                    break
    return found


def _unanswered(events: list[Event], letters: str, regex: re.Pattern[str], max_events: int) -> list[tuple[int, int, int, int]]:
    found, begin = [], 0
    for start in range(len(events)):
        over = events[start].seconds + WITHIN
        end = next((at for at in range(start, len(events)) if events[at].seconds >= over), len(events))
        match = regex.fullmatch(letters, start, end) if start >= begin and end - start <= max_events else None
        if match:
            found.append((events[start].seconds, over, _count(match, "a"), 0))
            begin = match.end("a")
    return found


def _relevant(events: list[Event], pattern: str) -> list[Event]:
    """Without those that are not part of the state."""
    return events if re.search("next|consecutive", pattern) else [event for event in events if event.letter != "x"]


@pytest.mark.slow
@settings(deadline=None)
@given(STREAMS, st.sampled_from(sorted(PATTERNS)), st.sampled_from([2, 4, 1000]), st.booleans())
def test_matches_are_those_of_a_regular_expression(drawn: list, pattern: str, max_events: int, merges: bool) -> None:
    stream, folder = _numbered(drawn), passing_folder()
    lane = Lane(_step(pattern, max_events=max_events), INCOMING, folder, merges=merges)
    expected = defaultdict(list)
    for host, events in _on_time(stream).items():
        expected[host] = _matches(_relevant(events, pattern), pattern, max_events)

    found = defaultdict(list)
    for splits in [*stream, [[Event("end", "x", 10_000, 10_000)]]]:
        for row in lane.run(*([_row(event) for event in split] for split in splits)):
            times = (round(row[name].timestamp()) for name in ("sequence_start", "sequence_end"))
            found[row["host"]].append((*times, row["a_count"], row.get("b_count", 0)))

    assert {host: rows for host, rows in found.items() if rows} == {host: rows for host, rows in expected.items() if rows}


# ── Patterns and conditions of any kind, against branches that are followed one by one ──

MIXED: Schema = pa.schema(
    {"host": pa.string(), "letters": pa.string(), "at": TIMESTAMP, "u": pa.int32(), "v": pa.float64(), "n": pa.int64()}
)
NAMES = "abc"


ALL = frozenset({*NAMES, ""})


class Passed(NamedTuple):
    """What was passed since the last event that was taken."""

    follows: bool = False
    absent: frozenset[str] = frozenset()
    kept_by: frozenset[PatternElement] = frozenset()


START = Passed()


class Way(NamedTuple):
    """How the next event may be taken, or how the pattern may end, where ``element`` is None."""

    element: PatternElement | None
    breaks: frozenset[str]
    kept_by: frozenset[PatternElement]
    todo: tuple
    """What is left of the pattern afterwards: parts, with the number of times that they occurred."""


class Branch(NamedTuple):
    """Names that have taken events: name and event."""

    todo: tuple
    broken: frozenset[Way]
    """Ways that can no longer be taken."""
    taken: tuple[tuple[str, dict[str, Any]], ...] = ()

    def of(self, name: str) -> list[dict[str, Any]]:
        return [event for own, event in self.taken if own == name]


class Oracle(NamedTuple):
    pattern: Pattern
    comparisons: list[tuple[str, str, str, str, str, str]]
    """Name, field, operator, first or last, earlier name, its field."""
    max_events: int
    after: str

    def fits(self, event: dict[str, Any], branch: Branch) -> set[str]:
        """The names that an event has for a branch."""
        found = {name for name in NAMES if name in (event["letters"] or "")}
        for name, field, operator, which, earlier, other in self.comparisons:
            known = branch.of(earlier)
            if known:
                left, right = event[field], known[0 if which == "first" else -1][other]
                holds = left is not None and right is not None
                if not holds or not {"=": left == right, "<>": left != right, "<": left < right, ">=": left >= right}[operator]:
                    found.discard(name)
        return found

    def ways(self, todo: tuple, path: Passed = START) -> Iterator[Way]:
        """In the order of preference."""
        if not todo:
            yield Way(None, path.absent | set(self.pattern.absent_after), frozenset(), ())
            return
        (item, count), rest = todo[0], todo[1:]
        more: list[Way] = []
        if item.maximum is None or count < item.maximum:
            more = list(self._more(item, count, rest, path))
        over = []
        if count >= item.minimum:
            kept = set(starts((item,))) if item.possessive and more else set()
            over = list(self._over(rest, path._replace(kept_by=path.kept_by | kept)))
        yield from over + more if item.reluctant else more + over

    def _more(self, item: Any, count: int, rest: tuple, path: Passed) -> Iterator[Way]:
        again = path._replace(follows=item.consecutive) if count else path
        # as many times as a state of the automaton counts
        todo = ((item, min(count + 1, item.maximum or max(item.minimum, 1))), *rest)
        if isinstance(item, PatternElement):
            yield Way(item, ALL if again.follows else again.absent, again.kept_by, todo)
            return
        for one in item.alternatives:
            inner = [(part, 0) for part in one]
            yield from self._in_group(inner, todo, again, again.follows)

    def _in_group(self, inner: list, todo: tuple, path: Passed, begins: bool) -> Iterator[Way]:
        """The ways of the parts of a group of which none has occurred; the first that does follows as the group does."""
        (item, _), rest = inner[0], inner[1:]
        own = [way for way in self.ways((inner[0], END_OF_GROUP), path) if way.element and way.element.name]
        own = [way._replace(todo=(*way.todo[:-1], *rest, *todo)) for way in own]
        over: list[Way] = []
        if not item.minimum and rest:
            kept = set(starts((item,))) if item.possessive else set()
            absent = path.absent | set(rest[0][0].absent)
            passed = Passed(begins or rest[0][0].next, absent, path.kept_by | kept)
            over = list(self._in_group(rest, todo, passed, begins))
        yield from over + own if item.reluctant else own + over

    def _over(self, rest: tuple, path: Passed) -> Iterator[Way]:
        """The ways after a part that is over."""
        item, count = rest[0] if rest else (None, 1)
        if item is not None and not count:
            path = path._replace(follows=item.next, absent=path.absent | set(item.absent))
        yield from self.ways(rest, path)

    def run(self, events: list[dict[str, Any]], start: int) -> tuple[int, Branch] | None:
        """The seconds at which a run is decided, and what it has taken."""
        branches = [Branch(tuple((item, 0) for item in self.pattern.items), frozenset())]
        for at in range(start, len(events)):
            event, found = events[at], []
            if event["seconds"] - events[start]["seconds"] >= WITHIN:
                break
            if at - start >= self.max_events:
                return None
            for branch in branches:
                names = self.fits(event, branch)
                ways = [way for way in dict.fromkeys(self.ways(branch.todo)) if way not in branch.broken]
                kept = {way.element for way in ways if way.element and way.element.name in names}
                taken = [
                    Branch(way.todo, frozenset(), (*branch.taken, (way.element.name, event)))
                    for way in ways
                    if way.element and way.element.name in names and not way.kept_by & kept
                ]
                for one in taken:
                    if not self.pattern.absent_after and self._ends(one):
                        return event["seconds"], one
                if taken or at == start:
                    found += taken
                else:
                    broken = branch.broken | {way for way in ways if way.breaks & (names | {""})}
                    if set(ways) - broken:
                        found.append(Branch(branch.todo, broken, branch.taken))
            known: dict[Any, Branch] = {}
            for one in found:
                known.setdefault((one.todo, one.broken), one)
            branches = list(known.values())
        waiting = [one for one in branches if self._ends(one)]
        return (events[start]["seconds"] + WITHIN, waiting[0]) if waiting and self.pattern.absent_after else None

    def _ends(self, branch: Branch) -> bool:
        return any(way.element is None and way not in branch.broken for way in self.ways(branch.todo))

    def matches(self, events: list[dict[str, Any]]) -> list[tuple[int, Branch]]:
        runs = [(self.run(events, start), start) for start in range(len(events))]
        decided = sorted((self._decided(events, *run), start, run[1]) for run, start in runs if run)
        found, free = [], 0
        for _, start, branch in decided:
            if start >= free:
                found.append((runs[start][0][0], branch))
                free = self._following(events, start, branch)
        return found

    def _following(self, events: list[dict[str, Any]], start: int, branch: Branch) -> int:
        """Where the next match may begin."""
        if self.after == "next_event":
            return 0
        own = branch.of(self.after[-2]) if self.after.endswith(")") else []
        if own:
            return max(start + 1, events.index(own[0 if self.after.startswith("first") else -1]))
        return events.index(branch.taken[-1][1]) + 1

    def _decided(self, events: list[dict[str, Any]], seconds: int, branch: Branch) -> int:
        """The order in which runs are decided."""
        return seconds if self.pattern.absent_after else events.index(branch.taken[-1][1])


END_OF_GROUP = (PatternElement(at=-1, name=""), 0)
"""Stands for what follows a part of a group."""


QUANTIFIERS = st.sampled_from(
    [
        "",
        "",
        "",
        "?",
        "*",
        "+",
        "+?",
        "++",
        "*+ consecutive",
        "*?",
        "{2}",
        "{2,}",
        "{1,3}",
        "{1,3}+",
        "{2,3}?",
        "{2,} consecutive",
    ]
)
JOINED = st.sampled_from([" then ", " then ", " then next ", " then not c then ", " then not a or c then "])


@st.composite
def _patterns(draw: st.DrawFn) -> str:
    text = _parts(draw, draw(st.sampled_from([0, 0, 1, 2])))
    return text + draw(st.sampled_from(["", "", " then not b", " then not a or c"]))


def _parts(draw: st.DrawFn, depth: int) -> str:
    """Some parts, with groups in groups."""
    text = ""
    for at in range(draw(st.integers(1, 3))):
        text += draw(JOINED) if at else ""
        if depth and draw(st.booleans()):
            text += f"({' | '.join(_parts(draw, depth - 1) for _ in range(draw(st.integers(1, 2))))})"
        else:
            text += draw(st.sampled_from(NAMES))
        text += draw(QUANTIFIERS)
    return text


def _comparisons(pattern: Pattern, drawn: list[tuple[str, str, str, str]]) -> list[tuple[str, str, str, str, str, str]]:
    """Comparisons of names that are in the pattern."""
    found = []
    for name, earlier, operator, which in drawn:
        if earlier in pattern.names and name in pattern.positions and pattern.positions[earlier] <= pattern.positions[name]:
            found.append((name, "u", operator, which, earlier, "v"))
    return found


MIXED_EVENTS = st.tuples(
    st.sampled_from(["u", None]), st.sampled_from(["a", "b", "c", "ab", "abc", "", None]), st.integers(0, 300),
    st.sampled_from([0, 1, 2, None]), st.sampled_from([0.0, 1.0, None]),
)  # fmt: skip
AFTER = st.sampled_from(["past_last_event", "past_last_event", "next_event", "first(a)", "last(a)", "first(b)", "last(b)"])
COMPARED = st.tuples(
    st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(["=", "<>", "<", ">="]), st.sampled_from(["first", "last"])
)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.lists(MIXED_EVENTS, max_size=12), max_size=5), _patterns(), st.lists(COMPARED, max_size=2),
    st.sampled_from([3, 1000]), AFTER, st.booleans(),
)  # fmt: skip
def test_matches_are_those_of_branches_that_are_followed_one_by_one(
    drawn: list, text: str, compared: list, max_events: int, after: str, merges: bool
) -> None:
    pattern = read_pattern(text, dict.fromkeys(NAMES))
    assume(not pattern.findings)
    # of several ways to one state only the first is followed, and groups that are counted have states of their own
    compared = [] if "(" in text else compared
    oracle = Oracle(pattern, _comparisons(pattern, compared), max_events, after)
    where = [
        f"{name}.{field} {operator} {which}({earlier}.{other})"
        for name, field, operator, which, earlier, other in oracle.comparisons
    ]
    given = {"events": {name: f"letters like '%{name}%'" for name in NAMES}, "where": where, "max_events": max_events}
    step = _step(text, **given, after_match=after, list=["n"], list_limit=3)
    assume(not [one for one in step.check(MIXED) if one.severity == "error"])
    lane = Lane(step, MIXED, passing_folder(), merges=merges)
    strict = re.search("next|consecutive", text)

    number, found, keys, latest = 0, defaultdict(list), defaultdict(list), float("-inf")
    for at, batch in enumerate([*drawn, [("end", "", 100_000, 0, 0)]]):
        rows = []
        for host, letters, seconds, u, v in batch:
            seconds = seconds // 4 + 25 * at
            rows.append({"host": host, "letters": letters, "at": seconds * 10**6, "u": u, "v": v, "n": number, OFFSET: number})
            if seconds >= latest - LATE and (letters or strict):
                keys[host].append({**rows[-1], "seconds": seconds})
            number += 1
        latest = max([latest, *(row["at"] // 10**6 for row in rows)])
        for row in lane.run(rows):
            listed = [(one["event"], one["n"]) for one in row["events"]]
            counts = {name: row[f"{name}_count"] for name in pattern.names}
            found[row["host"]].append((round(row["sequence_end"].timestamp()), listed, counts))

    for host, events in keys.items():
        expected = []
        for end, branch in oracle.matches(sorted(events, key=lambda e: (e["seconds"], e["n"]))):
            listed = [(name, event["n"]) for name, event in branch.taken]
            expected.append((end, listed[-3:], {name: sum(one == name for one, _ in listed) for name in pattern.names}))
        assert sorted(found[host], key=str) == sorted(expected, key=str)


# ── One by one ──


def _events(*letters: str, host: str = "h", begin: int = 0) -> list[dict[str, Any]]:
    """Events a second apart; a letter may be followed by its second."""
    found = []
    for number, text in enumerate(letters):
        second = int(text[1:]) if text[1:] else begin + number
        found.append(_row(Event(host, text[0], second, second)))
    return found


def test_a_batch_that_runs_again_gives_the_same(tmp_path: Path) -> None:
    lane = Lane(_step("a{2,} then b", late="0s"), INCOMING, tmp_path)
    lane.run(_events("a1", "a2"))
    kept, clock, event_time = lane.kept, lane.clock, lane.event_time
    batch = _events("a3", "b4", "a5", "a6", "b7", "x9")

    first = lane.run(batch)
    lane.kept, lane.clock, lane.event_time, lane.batches = kept, clock, event_time, lane.batches - 1
    second = lane.run(batch)

    assert first == second
    assert [row["a_count"] for row in first] == [3, 2]


def test_a_possessive_element_keeps_no_event_that_it_can_no_longer_take(tmp_path: Path) -> None:
    lane = Lane(_step("a{2,}+ consecutive then b", late="0s", events={"a": "letter = 'a'", "b": "letter in ('a', 'b')"}),
                INCOMING, tmp_path)  # fmt: skip

    rows = lane.run(_events("a1", "a2", "c3", "a4", "x9"))

    assert [(row["a_count"], row["b_count"]) for row in rows] == [(2, 1)]


def test_a_match_of_copies_of_an_event_leaves_the_other_copies(tmp_path: Path) -> None:
    lane = Lane(_step("a{2}", late="0s", list=["n"]), INCOMING, tmp_path)

    first = lane.run(_events("a1") * 3 + _events("x2"))
    second = lane.run(_events("a3", "x4"))
    third = lane.run(_events("a5", "x6"))

    assert [[one["n"] for row in rows for one in row["events"]] for rows in (first, second, third)] == [[1, 1], [1, 3], []]


def test_events_of_the_time_of_reading_are_decided_at_once(tmp_path: Path) -> None:
    step = _step("a then b", late="10s").model_copy(update={"time": None})
    incoming = INCOMING.append(pa.field("_read_at", TIMESTAMP))
    lane = Lane(step, incoming, tmp_path)

    def batch(second: int, letters: str) -> list[dict[str, Any]]:
        at = datetime.fromtimestamp(second, UTC)
        return lane.run([{**row, "_read_at": at} for row in _events(*letters)])

    assert [len(batch(1, "ab")), len(batch(2, "a")), len(batch(61, "b")), len(batch(70, "ab"))] == [1, 0, 1, 1]


@pytest.mark.slow
def test_state_goes_when_no_sequence_can_begin_in_it(tmp_path: Path) -> None:
    lane = Lane(_step("a{5} then b", late="0s"), INCOMING, tmp_path)

    for second in range(0, 3000, 20):
        lane.run(_events("a", begin=second))

    assert sum(file.rows for file in lane.kept) <= 6


def test_who_is_close_is_seen(tmp_path: Path) -> None:
    lane = Lane(_step("a{5,} then b"), INCOMING, tmp_path)
    lane.run([*_events("a1", "a2", "a3", "x4", "a5"), *_events("a3", "b4", host="two"), *_events("b1", host="none")])
    lane.run([*_events("a9"), *_events("a1", "a2", "a3", "a4", "a5", "b6", host="over"), *_events("b70", host="none")])

    operator = lane.step.operator(INCOMING)
    assert isinstance(operator, ReadableState)
    kept = MappedStateFiles(tmp_path, lane.kept)
    rows = [
        row
        for part in range(PARTS)
        for found in operator.read_state(kept.parts(part), lane.clock.now)
        for row in found.to_pylist()
    ]

    assert operator.state_fields.names == ["sequence_start", "last_event", "host", "a_count", "b_count"]
    found = {
        row["host"]: (row["sequence_start"].second, row["last_event"].second, row["a_count"], row["b_count"]) for row in rows
    }
    assert found == {"h": (1, 9, 5, 0), "two": (3, 3, 1, 0)}


def test_a_later_version_may_use_further_fields(tmp_path: Path) -> None:
    lane = Lane(_step("a then b", late="0s"), INCOMING, tmp_path)
    lane.run(_events("a1"))
    lane.step = _step("a then b", late="0s", fields={"first": "a.n", "second": "b.n"}, list=["n"])
    (row,) = lane.run(_events("b2", "x3"))

    assert (row["first"], row["second"], [one["n"] for one in row["events"]]) == (None, 2, [None, 2])


def test_a_condition_that_cannot_be_computed_ends_the_run(tmp_path: Path) -> None:
    lane = Lane(_step("a", events={"a": "cast(letter as int) = 1"}), INCOMING, tmp_path)

    with pytest.raises(ComponentError, match=r"condition 'a' failed for an event: .*use a try_ function"):
        lane.run(_events("a"))


def test_a_pattern_of_more_than_62_events_is_an_error() -> None:
    names = [f"e{number}" for number in range(63)]
    counts = [
        len([one for one in step.check(INCOMING) if one.severity == "error"])
        for events in (62, 63)
        for step in [_step(" then ".join(names[:events]), events=dict.fromkeys(names[:events], "true"))]
    ]

    assert counts == [0, 1]


def test_a_number_of_5000_digits_is_an_error() -> None:
    (found,) = read_pattern(f"a{{{'9' * 5000}}} then b").findings

    assert (found.at, len(found.message)) == (1, 67)


def test_idle_sources_let_what_waits_be_decided() -> None:
    assert _step("a then b").idle_after() is None
    assert _step("a then b", idle="5s").idle_after() == timedelta(seconds=5)
    assert _step("a then not b").model_copy(update={"time": None}).idle_after() == timedelta(seconds=WITHIN + 1)


RUN = """
    source: {{type: file, path: "{folder}/in.jsonl"}}
    steps:
      - {{type: json, fields: {{host: string, at: timestamp, e: string, u: string}}}}
      - type: sequence
        keys: [host]
        time: at
        within: 60s
        late: 0s
        events: {{failed: "e = 'f'", accepted: "e = 's'"}}
        pattern: failed{{3,}} then accepted
        where: accepted.u <> first(failed.u)
        fields: {{user: accepted.u}}
        list: [u]
    sink: {{type: file, path: "{folder}/out.jsonl"}}
    """


@pytest.mark.spark
@pytest.mark.slow
def test_a_sequence_goes_on_in_a_later_run(engine: Engine) -> None:
    folder = engine.etl.folder

    def add(*events: str) -> None:
        with (folder / "in.jsonl").open("a") as file:
            for event in events:
                host, e, user, second = event.split()
                file.write(json.dumps({"host": host, "at": f"2026-01-01T00:00:{second}Z", "e": e, "u": user}) + "\n")

    add("h f root 01", "h f root 02", "k f root 02", "k f root 03", "k f root 04", "h f adm 05")
    engine(RUN.format(folder=folder))
    add("h s root 06", "k f root 07", "h s adm 08", "k s joe 09", "z x x 20")
    engine(RUN.format(folder=folder))

    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text("utf-8").splitlines()]
    found = {row["host"]: (row["sequence_end"][17:19], row["failed_count"], row["user"], len(row["events"])) for row in rows}
    assert found == {"h": ("08", 3, "adm", 4), "k": ("09", 4, "joe", 5)}
    assert rows[0]["events"][-1].keys() == {"event", "event_time", "u"}


def test_explain_names_time_and_state(etl: Etl) -> None:
    ran = etl.here("explain", etl.pipeline(RUN.format(folder="x")))

    assert ran.status == 0, ran.err
    assert "watermark: at, 0 s late at most\n" in ran.out
    assert "sequence: Arrow, keeps state in 16 parts" in ran.out
    assert "events of the pattern stay until the watermark is 75s later, with at, host, u\n" in ran.out
    assert "a sequence has at most 1000 events of a key within 1m\n" in ran.out
    assert "failed_count bigint, accepted_count bigint, events array<struct<event" in ran.out
