"""The law of the optimiser: what it finds is what each rule finds by itself, event by event."""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etl.rules.conditions.tree import And, Condition, Leaf, Or, all_of, any_of
from etl.rules.engine import deferred_literals, program, text_cache
from etl.rules.engine.batch_engine import Engine, Matches, Switches
from etl.rules.predicates.network import Network
from etl.rules.predicates.number import Number
from etl.rules.predicates.pattern import Pattern
from etl.rules.predicates.predicate import Predicate
from etl.rules.predicates.present import Present
from etl.rules.predicates.same_field import SameField
from etl.rules.predicates.text import Text
from etl.rules.search.literals import forms_of
from etl.rules.search.regex_literals import all_required_literals, exact_required_literals, required_literals

SCHEMA = pa.schema([("a", pa.string()), ("b", pa.string()), ("n", pa.int64()), ("tags", pa.list_(pa.string()))])

Event = dict[str, Any]

# ── Naive ─────────────────────────────────────────────────────────────────────────────────────────


def holds(condition: Condition, event: Event) -> bool:
    if isinstance(condition, Leaf):
        return predicate_holds(condition.predicate, event) != condition.negated
    return (all if isinstance(condition, And) else any)(holds(part, event) for part in condition.parts)


def predicate_holds(one: Predicate, event: Event) -> bool:
    if isinstance(one, Present):
        return event[one.field] is not None
    values = event[one.field] if isinstance(event[one.field], list) else [event[one.field]]  # type: ignore[union-attr]
    return any(value is not None and holds_for_value(one, value, event) for value in values)


def holds_for_value(one: Predicate, value: Any, event: Event) -> bool:
    if isinstance(one, Text):
        return text_holds(one, str(value))
    if isinstance(one, Pattern):
        return re.search(one.pattern.replace(r"\z", r"\Z"), str(value)) is not None
    if isinstance(one, Number):
        return {"=": value == one.value, "<": value < one.value, ">=": value >= one.value}[one.order]
    if isinstance(one, SameField):
        return event[one.other] is not None and event[one.other].lower() in value.lower()
    assert isinstance(one, Network)
    try:
        return ipaddress.ip_address(value) in ipaddress.ip_network(one.network)
    except ValueError:
        return False


def text_holds(one: Text, value: str) -> bool:
    size = len(one.text)
    starts = {
        "equals": [0] if len(value) == size else [],
        "startswith": [0],
        "endswith": [len(value) - size],
        "contains": range(len(value) - size + 1),
    }[one.kind]
    return any(start >= 0 and alike(value[start : start + size], one) for start in starts)


def alike(value: str, one: Text) -> bool:
    if len(value) != len(one.text):
        return False
    return all(char == want or (not one.cased and char in forms_of(want)) for char, want in zip(value, one.text, strict=True))


def naive(conditions: list[Condition], events: list[Event]) -> list[list[int]]:
    return [[n for n, condition in enumerate(conditions) if holds(condition, event)] for event in events]


# ── Generated ─────────────────────────────────────────────────────────────────────────────────────

LETTERS = "abAB.\\ äÄ€k"
words = st.text(LETTERS, max_size=7)
addresses = st.sampled_from(["10.0.0.1", "10.0.1.200", "192.168.7.7", "10.0.0.01", "::1", "2001:db8::5", "300.1.1.1", "10.0.0"])
texts = st.one_of(st.none(), words, addresses)
fields = st.sampled_from(["a", "b", "tags"])
events = st.fixed_dictionaries(
    {"a": texts, "b": texts, "n": st.none() | st.integers(-3, 3), "tags": st.none() | st.lists(st.none() | words, max_size=3)}
)
predicates = st.one_of(
    st.builds(
        Text, fields, st.sampled_from(["equals", "contains", "startswith", "endswith"]), st.text(LETTERS, min_size=1, max_size=5),
        st.booleans(),
    ),
    st.builds(Text, st.just("n"), st.just("equals"), st.sampled_from(["1", "-2", "x"]), st.booleans()),
    st.builds(
        lambda field, text: Pattern(field, rf"\A{re.escape(text)}.?\z", (text,) if len(text) > 1 else ()),
        st.sampled_from(["a", "b"]), st.text("abAB.", min_size=1, max_size=4),
    ),
    st.builds(
        lambda field, parts: Pattern(field, ".*".join(parts), required_literals(".*".join(parts))),
        st.sampled_from(["a", "b", "tags"]), st.lists(st.text("abAB", min_size=1, max_size=3), min_size=2, max_size=3),
    ),
    st.builds(Number, st.just("n"), st.sampled_from(["=", "<", ">="]), st.integers(-3, 3)),
    st.builds(
        Network, st.sampled_from(["a", "b"]),
        st.sampled_from(["10.0.0.0/8", "10.0.0.0/24", "0.0.0.0/0", "192.168.7.7/32", "::/0", "2001:db8::/32"]),
    ),
    st.builds(Present, st.sampled_from(["a", "n", "tags"])),
    st.builds(SameField, st.just("a"), st.just("contains"), st.just("b")),
)  # fmt: skip
literals = st.builds(Text, st.just("a"), st.sampled_from(["contains", "startswith", "endswith", "equals"]), words, st.booleans())
leaves = st.builds(Leaf, predicates, st.booleans())
conditions = st.recursive(
    leaves, lambda part: st.builds(all_of, st.lists(part, max_size=4)) | st.builds(any_of, st.lists(part, max_size=4))
)


def batch_of(found: list[Event]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(found, SCHEMA)


def as_lists(found: Matches) -> list[list[int]]:
    bounds = found.offsets.tolist()
    return [found.rule[first:last].tolist() for first, last in itertools.pairwise(bounds)]


OFF = [Switches(), *(replace(Switches(), **{name: False}) for name in Switches.__dataclass_fields__)]


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Compiled outside of hypothesis, which watches every line."""
    every = [
        Text("a", "contains", "x"),
        Pattern("a", "x"),
        Number("n", "=", 1),
        Network("a", "10.0.0.0/8"),
        Network("a", "::/0"),
        Present("n"),
        SameField("a", "contains", "b"),
    ]
    Engine([Leaf(one) for one in every], SCHEMA).run(batch_of([{"a": "xx", "b": "x", "n": 1, "tags": None}]))
    with planned_at_once(4):
        lazily([all_of([Leaf(Text("a", "contains", "xy")), Leaf(Text("a", "contains", "x"))])], [{"a": "xx"}, {"a": "xxy"}] * 2)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.lists(conditions, min_size=1, max_size=8), st.lists(events, min_size=1, max_size=80), st.sampled_from(OFF))
def test_every_optimization_gives_the_naive_matches(
    given_conditions: list[Condition], given_events: list[Event], switches: Switches
) -> None:
    # given
    engine = Engine(given_conditions, SCHEMA, switches)
    batch = batch_of(given_events)

    # when
    first, again = engine.run(batch), engine.run(batch)

    # then
    assert as_lists(first) == naive(given_conditions, given_events)
    assert as_lists(again) == as_lists(first)


@contextmanager
def planned_at_once(max_deferred: float) -> Iterator[None]:
    """No text is remembered, and whatever is not a witness is left out of scans from the second batch on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_cache, "MIN_VALUES", 0)
        patch.setattr(text_cache, "MOSTLY_NEW", -1)
        patch.setattr(program, "FIRST_CHOICE_ROWS", 1)
        patch.setattr(deferred_literals, "FIRST_PLANNED", 1)
        patch.setattr(deferred_literals, "SPARE", 100)
        patch.setattr(deferred_literals, "COMMON", -1)
        patch.setattr(deferred_literals, "MAX_SEARCHES", max_deferred)
        yield


def lazily(given_conditions: list[Condition], given_events: list[Event]) -> tuple[list[list[int]], int]:
    """What is found in events, a few at a time, and how many literals were left out of scans at the end."""
    engine = Engine(given_conditions, SCHEMA)
    found = [engine.run(batch_of(given_events[first : first + 3])) for first in range(0, len(given_events), 3)]
    return [rules for one in found for rules in as_lists(one)], engine.left_out


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.lists(conditions, min_size=1, max_size=8), st.lists(events, min_size=1, max_size=30), st.sampled_from([0, 1000]))
def test_deferred_literals_are_found(given_conditions: list[Condition], given_events: list[Event], max_deferred: int) -> None:
    # when
    with planned_at_once(max_deferred):
        found, _ = lazily(given_conditions, given_events)

    # then
    assert found == naive(given_conditions, given_events)


@pytest.mark.parametrize("size", range(1, 40))
def test_literals_that_are_not_witnesses_are_left_out_of_scans_and_found(size: int) -> None:
    # given
    common, rare = f"{'x' * (size - 1)}Y", "rare"
    rule = all_of([Leaf(Text("a", "contains", common)), Leaf(Text("a", "contains", rare))])
    begins = ["", "x" * 7, "é" * 16]
    texts = [f"{begin}{common}{rare * (n % 7 == 0)}".swapcase() for n, begin in enumerate(begins * 9)]
    texts += [f"rare{begin}{common[:-1]}" for begin in begins]

    # when
    with planned_at_once(1000):
        found, left_out = lazily([rule], [{"a": text} for text in texts])

    # then
    assert found == [[0] * (n % 7 == 0) for n in range(27)] + [[]] * 3
    assert left_out == 1


def test_a_changed_stream_is_scanned_for_all_literals_again() -> None:
    # given
    rule = all_of([Leaf(Text("a", "contains", "common")), Leaf(Text("a", "contains", "rare"))])

    # when
    with planned_at_once(0):
        found, left_out = lazily([rule], [{"a": "common"}] * 6 + [{"a": "rare, common"}] * 6)

    # then
    assert found == [[]] * 6 + [[0]] * 6
    assert left_out == 0


@settings(max_examples=40, deadline=None)
@given(st.lists(literals, max_size=60), st.lists(st.text(LETTERS, max_size=40), min_size=1, max_size=40))
def test_many_literals_are_found_in_long_texts(expected: list[Text], values: list[str]) -> None:
    # given
    found_by = [one for one in expected if one.text]
    engine = Engine([Leaf(one) for one in found_by], SCHEMA)

    # when
    found = engine.run(batch_of([{"a": value} for value in values]))

    # then
    assert as_lists(found) == [[n for n, one in enumerate(found_by) if text_holds(one, value)] for value in values]


def test_constant_conditions() -> None:
    # given
    engine = Engine([all_of([]), any_of([]), Or(())], SCHEMA)

    # when
    found = engine.run(batch_of([{"a": "x"}] * 70))

    # then
    assert as_lists(found) == [[0]] * 70


def test_more_hits_than_there_is_room_for() -> None:
    # given
    engine = Engine([Leaf(Text("a", "contains", "ab" * (1 + n % 50), bool(n % 2))) for n in range(100)], SCHEMA)
    values = [{"a": "ab" * 5000}, {"a": "b"}, {"a": "ab" * 3}]

    # when
    found = as_lists(engine.run(batch_of(values)))

    # then
    assert [len(rules) for rules in found] == [100, 0, 6]


@pytest.mark.parametrize("views", [pa.string_view(), pa.large_string(), pa.string()])
def test_texts_in_any_layout_and_slices(views: pa.DataType) -> None:
    # given
    engine = Engine([Leaf(Text("a", "endswith", "B.EXE")), Leaf(Pattern("a", "^C:"))], SCHEMA)
    texts = pa.array(["x", "c:\\a b.exe", None, "C:\\some longer path\\b.exe"]).cast(views)
    batch = pa.RecordBatch.from_arrays([texts], names=["a"]).slice(1)

    # when
    found = engine.run(batch)

    # then
    assert as_lists(found) == [[0], [], [0, 1]]


PATTERNS = [
    r"ab+c",
    r"(?:ab|cd)e",
    r"a(?:bc)+d?",
    r"(ab){2,3}",
    r"x?abc",
    r"(?i)aBc",
    r"a[bB]c\b",
    r"^abc$",
    r"ab.cd",
    r"(?:ab|c)d",
    r"a|bc",
    r"\s-c\s",
    r"[aA][bB]c",
    r"ab(?=c)cd",
    r"a{3}b",
    r"(a(bc|cb))d",
    r"ab\.c",
    r"(?:abc)?",
    r"(?:ab){0,2}cd",
    r"[ab][cd]e",
    r"a[bB.-]+c",
    r"\s[-x]\s",
    r"[ab]{2}[bc]d",
    r"-(A|b)\s?c",
    r"(?i)(?:a|x)b-",
    r"a&&b|ab&&c",
    r"\w+`(?:a|-)`",
    r"a(?:bc)+d",
    r"a(b[cd]){2}(?:cd){1,2}",
    r"b(?:a(?:bc)+b?)+a",
]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PATTERNS), st.text("aAbBcCde.- x&`", max_size=12))
def test_every_match_contains_a_required_literal(pattern: str, text: str) -> None:
    # when
    known = required_literals(pattern)

    # then
    found = re.search(pattern, text)
    assert not (known and found) or any(one.lower() in text.lower() for one in known)
    for some in all_required_literals(pattern):
        assert not found or any(one.lower() in text.lower() for one in some)
    for some in exact_required_literals(pattern):
        assert not found or any(one in text for one in some)


def test_required_literals() -> None:
    assert required_literals(r"netsh\s+interface show interface") == ("interface show interface",)
    assert required_literals(r"(?:ab|cd)e") == ("ab", "cd")
    assert required_literals(r"a|bc") == required_literals(r"\d+") == required_literals("(") == ()
    assert required_literals(r"-(W|R)\s?") == ("-W", "-R")
    assert required_literals(r"\w+`\w?`") == ("`",)
    assert required_literals(r"(?:a|b)&&x?") == ("a&&", "b&&")
    assert required_literals(r"[a\]&&b]cd") == required_literals("[]&&b]cd") == ()
    assert all_required_literals(r"ping.*\|\s*find") == [("ping",), ("find",), ("|",)]
    assert all_required_literals("a|bc") == []
    assert all_required_literals(r'x"(?:\{\d\})+";')[:2] == [('x"{',), ('}";',)]
    assert exact_required_literals(r"-(W|R)\s?") == [("-W", "-R")]
    assert exact_required_literals(r"(?i)-W") == exact_required_literals(r"\d-\d") == []
    assert exact_required_literals(r"[Nn]et\s+use") == [("use",), ("et",)]
    assert required_literals("[[.]]bc") == required_literals("[b&&b]cd") == ()  # not of one meaning in all dialects


def test_a_list_is_not_compared_with_a_text() -> None:
    # given
    engine = Engine([Leaf(SameField("tags", "contains", "a"))], SCHEMA)

    # when
    found = engine.run(batch_of([{"a": "x", "b": None, "n": 1, "tags": ["x", "y"]}] * 3))

    # then
    assert as_lists(found) == [[], [], []]
