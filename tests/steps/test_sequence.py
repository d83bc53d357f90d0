"""Ordered patterns of events, against regular expressions over the letters of each key's events."""

from __future__ import annotations

import json
import re
from collections import defaultdict
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
from etl.steps.sequences.pattern import Pattern, read_pattern
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


def _matches(events: list[Event], pattern: str, most: int) -> list[tuple[int, int, int, int]]:
    """Start, end, and how often `a` and `b` were taken."""
    letters, regex, found, begin = "".join(event.letter for event in events), re.compile(PATTERNS[pattern]), [], 0
    if re.search(r"not[^t]*$", pattern):
        return _unanswered(events, letters, regex, most)
    for end in range(len(events)):
        for start in range(begin, end + 1):
            if events[end].seconds - events[start].seconds < WITHIN and end - start < most:
                match = regex.fullmatch(letters, start, end + 1)
                if match:
                    found.append((events[start].seconds, events[end].seconds, _count(match, "a"), _count(match, "b")))
                    begin = end + 1
                    break
    return found


def _unanswered(events: list[Event], letters: str, regex: re.Pattern[str], most: int) -> list[tuple[int, int, int, int]]:
    found, begin = [], 0
    for start in range(len(events)):
        over = events[start].seconds + WITHIN
        end = next((at for at in range(start, len(events)) if events[at].seconds >= over), len(events))
        match = regex.fullmatch(letters, start, end) if start >= begin and end - start <= most else None
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
def test_matches_are_those_of_a_regular_expression(drawn: list, pattern: str, most: int, merges: bool) -> None:
    stream, folder = _numbered(drawn), passing_folder()
    lane = Lane(_step(pattern, max_events=most), INCOMING, folder, merges=merges)
    expected = defaultdict(list)
    for host, events in _on_time(stream).items():
        expected[host] = _matches(_relevant(events, pattern), pattern, most)

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


class Branch(NamedTuple):
    """Elements that have taken events: element and event."""

    element: int
    broken: frozenset[int]
    """Elements that can no longer be reached."""
    taken: tuple[tuple[int, dict[str, Any]], ...] = ()

    def of(self, names: list[str], name: str) -> list[dict[str, Any]]:
        return [event for element, event in self.taken if names[element] == name]


class Oracle(NamedTuple):
    pattern: Pattern
    comparisons: list[tuple[str, str, str, str, str, str]]
    """Name, field, operator, first or last, earlier name, its field."""
    most: int
    overlap: bool

    @property
    def names(self) -> list[str]:
        return [element.name for element in self.pattern.elements]

    def fits(self, event: dict[str, Any], branch: Branch) -> set[str]:
        """The names that an event has for a branch."""
        found = {name for name in NAMES if name in (event["letters"] or "")}
        for name, field, operator, which, earlier, other in self.comparisons:
            known = branch.of(self.names, earlier)
            if known:
                left, right = event[field], known[0 if which == "first" else -1][other]
                holds = left is not None and right is not None
                if not holds or not {"=": left == right, "<>": left != right, "<": left < right, ">=": left >= right}[operator]:
                    found.discard(name)
        return found

    def ways(self, branch: Branch) -> list[tuple[int, Any]]:
        """The elements that may take the next event, in the order of preference, and after which names they may not any more."""
        elements, at = self.pattern.elements, branch.element
        count = sum(element == at for element, _ in branch.taken)
        loop, onward = [], []
        if at >= 0 and (elements[at].most is None or count < elements[at].most):
            loop = [(at, set(NAMES) | {""} if elements[at].consecutive else set())]
        if at < 0 or count >= elements[at].least:
            absent: set[str] = set()
            for later in range(at + 1, len(elements)):
                absent = absent | set(elements[later].absent)
                onward.append((later, set(NAMES) | {""} if elements[later].next else absent))
                if elements[later].least:
                    break
            else:
                onward.append((len(elements), absent | set(self.pattern.absent_after)))
        found = onward + loop if at >= 0 and elements[at].reluctant else loop + onward
        return [(to, breaks) for to, breaks in found if to not in branch.broken]

    def run(self, events: list[dict[str, Any]], start: int) -> tuple[int, Branch] | None:
        """The seconds at which a run is decided, and what it has taken."""
        branches, end = [Branch(-1, frozenset())], len(self.pattern.elements)
        for at in range(start, len(events)):
            event, found = events[at], []
            if event["seconds"] - events[start]["seconds"] >= WITHIN:
                break
            if at - start >= self.most:
                return None
            for branch in branches:
                names, ways = self.fits(event, branch), self.ways(branch)
                taken = [
                    Branch(to, frozenset(), (*branch.taken, (to, event)))
                    for to, _ in ways
                    if to < end and self.names[to] in names
                ]
                for one in taken:
                    if not self.pattern.absent_after and any(to == end for to, _ in self.ways(one)):
                        return event["seconds"], one
                if taken or at == start:
                    found += taken
                else:
                    broken = branch.broken | {to for to, breaks in ways if breaks & (names | {""})}
                    if {to for to, _ in ways} - broken:
                        found.append(Branch(branch.element, broken, branch.taken))
            branches, known = [], set()
            for one in found:
                key = (one.element, min(sum(to == one.element for to, _ in one.taken), self._counted(one.element)), one.broken)
                if key not in known:
                    known.add(key)
                    branches.append(one)
        waiting = [one for one in branches if any(to == end for to, _ in self.ways(one))]
        return (events[start]["seconds"] + WITHIN, waiting[0]) if waiting and self.pattern.absent_after else None

    def _counted(self, element: int) -> int:
        one = self.pattern.elements[element]
        return one.most or max(one.least, 1)

    def matches(self, events: list[dict[str, Any]]) -> list[tuple[int, Branch]]:
        runs = [(self.run(events, start), start) for start in range(len(events))]
        decided = sorted((self._decided(events, *run), start, run[1]) for run, start in runs if run)
        found, free = [], 0
        for _, start, branch in decided:
            if self.overlap or start >= free:
                found.append((runs[start][0][0], branch))
                free = events.index(branch.taken[-1][1]) + 1
        return found

    def _decided(self, events: list[dict[str, Any]], seconds: int, branch: Branch) -> int:
        """The order in which runs are decided."""
        return seconds if self.pattern.absent_after else events.index(branch.taken[-1][1])


QUANTIFIERS = st.sampled_from(["", "", "", "?", "*", "+", "+?", "{2}", "{2,}", "{1,3}", "{2,3}?", "{2,} consecutive"])
JOINED = st.sampled_from([" then ", " then ", " then next ", " then not c then ", " then not a or c then "])


@st.composite
def _patterns(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from("ab")) + draw(QUANTIFIERS)
    for _ in range(draw(st.integers(0, 2))):
        text += draw(JOINED) + draw(st.sampled_from(NAMES)) + draw(QUANTIFIERS)
    return text + draw(st.sampled_from(["", "", " then not b", " then not a or c"]))


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
COMPARED = st.tuples(
    st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(["=", "<>", "<", ">="]), st.sampled_from(["first", "last"])
)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.lists(MIXED_EVENTS, max_size=12), max_size=5), _patterns(), st.lists(COMPARED, max_size=2),
    st.sampled_from([3, 1000]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_matches_are_those_of_branches_that_are_followed_one_by_one(
    drawn: list, text: str, compared: list, most: int, overlap: bool, merges: bool
) -> None:
    pattern = read_pattern(text, dict.fromkeys(NAMES))
    assume(not pattern.findings)
    oracle = Oracle(pattern, _comparisons(pattern, compared), most, overlap)
    where = [
        f"{name}.{field} {operator} {which}({earlier}.{other})"
        for name, field, operator, which, earlier, other in oracle.comparisons
    ]
    given = {"events": {name: f"letters like '%{name}%'" for name in NAMES}, "where": where, "max_events": most}
    after = "next_event" if overlap else "past_last_event"
    step = _step(text, **given, after_match=after, list=["n"], list_limit=3)
    assert not [one for one in step.check(MIXED) if one.severity == "error"]
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
            listed = [(oracle.names[element], event["n"]) for element, event in branch.taken]
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
    assert "failed_count bigint, accepted_count bigint, events array<struct<event" in ran.out
