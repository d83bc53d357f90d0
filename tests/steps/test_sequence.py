"""Ordered patterns of events, against regular expressions over the letters of each key's events."""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from state.lane import Lane

from etl.api import OFFSET, TIMESTAMP, Schema
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
it could take, and in front of an element none that it could take."""

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
    """Without those that are no part of the state."""
    return events if re.search("next|consecutive", pattern) else [event for event in events if event.letter != "x"]


@pytest.mark.slow
@settings(deadline=None)
@given(STREAMS, st.sampled_from(sorted(PATTERNS)), st.sampled_from([2, 4, 1000]), st.booleans())
def test_matches_are_those_of_a_regular_expression(drawn: list, pattern: str, most: int, merges: bool) -> None:
    stream, folder = _numbered(drawn), Path(tempfile.mkdtemp())
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
