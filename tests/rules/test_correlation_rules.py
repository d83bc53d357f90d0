"""Correlation rules: what files say, what is refused and why, which rules stand alone."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest
from correlated import Memory, advance
from group_by_group import Alert, Event
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.rules.correlation.compiled_correlations import compile_correlations
from etl.rules.correlation.families import drop_silent_rules, find_families
from etl.rules.correlation.model import BooleanExpression, Correlation, RulePresent, Threshold
from etl.rules.correlation.reader import MAX_EVENTS, SECOND
from etl.rules.reader import read_rules
from etl.rules.report import report_lines
from etl.rules.rule import RuleSet
from etl.rules.sigma.taxonomy import Taxonomy
from etl.steps.detection.rules import Rules

BASE = """
    title: Failed login
    name: failed
    id: 5d8fd9da-6916-45ef-8d4d-3fa9d19d1a64
    logsource: {product: linux}
    detection: {selection: {action: failed}, condition: selection}
    ---
    title: Login
    name: success
    logsource: {product: linux}
    detection: {selection: {action: success}, condition: selection}
    ---
"""


def read(tmp_path: Path, *documents: str) -> RuleSet:
    """The base rules and further documents."""
    path = tmp_path / "rules.yml"
    path.write_text("\n---\n".join(textwrap.dedent(text).strip().removesuffix("---") for text in (BASE, *documents)))
    return read_rules([str(path)])


def correlation(**keys: str) -> str:
    """A correlation document of these keys."""
    given = {"type": "event_count", "rules": "[failed]", "group-by": "[user]", "timespan": "5m", "condition": "{gte: 3}"} | keys
    return "title: It\ncorrelation:\n" + "\n".join(f"  {key}: {value}" for key, value in given.items() if value)


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────


def test_a_correlation_is_read_with_rules_by_name_or_id(tmp_path: Path) -> None:
    text = correlation(rules="[failed, 5d8fd9da-6916-45ef-8d4d-3fa9d19d1a64]") + "\nlevel: high\ntags: [attack.t1110]"

    found = read(tmp_path, text)

    assert not found.problems
    (one,) = found.correlations
    assert one.rules == ("5d8fd9da-6916-45ef-8d4d-3fa9d19d1a64",) * 2
    assert (one.kind, one.group_by, one.span_micros) == ("event_count", ("user",), 300 * SECOND)
    assert (one.condition, one.level, one.tags, one.line) == (Threshold("gte", 3), "high", ("attack.t1110",), 13)


def test_temporal_rules_may_leave_the_condition_out_or_give_an_expression(tmp_path: Path) -> None:
    all_of = correlation(type="temporal", rules="[failed, success]", condition="")
    expression = correlation(type="temporal", rules="", condition="failed and not success").replace("It", "Other")

    first, second = read(tmp_path, all_of, expression).correlations

    assert first.condition == Threshold("gte", 2)
    assert second.condition == BooleanExpression(
        "and", (RulePresent(second.rules[0]), BooleanExpression("not", (RulePresent("success"),)))
    )
    assert (first.is_monotonic, second.is_monotonic) == (True, False)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"rules": "[failed, nobody]"}, "there is no rule 'nobody'"),
        ({"rules": "[faild]"}, "did you mean 'failed'?"),
        ({"timespan": ""}, "without timespan"),
        ({"timespan": "soon"}, "Timespan 'soon' is invalid"),
        ({"type": "value_count"}, "without field reference"),
        ({"type": "often"}, "'often' is no valid Sigma correlation type"),
        ({"condition": "{gte: 20000}"}, f"no more than {MAX_EVENTS:,} of a group are remembered"),
        ({"condition": ""}, "without condition"),
        ({"type": "temporal_ordered", "rules": "[failed, success]", "condition": "{gte: 1}"}, "asks for all of its 2 rules"),
        ({"type": "temporal_ordered", "rules": "", "condition": "failed or success"}, "'and' alone"),
        ({"aliases": "{who: {success: user}}"}, "the alias 'who' is for the rule 'success', which is not one of its rules"),
        ({"type": "value_percentile", "condition": "{gte: 1, field: port}"}, "the percentile is a whole number from 0 to 100"),
        ({"type": "value_sum", "condition": "{gte: 1, field: [a, b]}"}, "value_sum measures one field"),
        ({"rules": "[It]"}, "it builds on itself"),
    ],
)
def test_what_cannot_run_is_a_problem_of_that_rule(tmp_path: Path, keys: dict[str, str], why: str) -> None:
    found = read(tmp_path, correlation(**keys), correlation().replace("It", "Good"))

    assert [one.title for one in found.correlations] == ["Good"]
    (problem,) = found.problems
    assert why in str(problem)
    assert str(problem).startswith(f"{tmp_path}/rules.yml:13: 'It': ")


def test_a_chain_groups_by_fields_of_what_it_builds_on(tmp_path: Path) -> None:
    inner = "name: inner\n" + correlation(**{"group-by": "[user, host]"})
    outer = correlation(type="temporal_ordered", rules="[inner, success]", condition="").replace("It", "Chain")

    good = read(tmp_path, inner, outer)
    bad = read(tmp_path, inner.replace("[user, host]", "[host]"), outer)

    (family,) = find_families(good.correlations)
    assert [member.title for member in family.members] == ["It", "Chain"]
    assert [one.title for one in bad.correlations] == ["It"]
    assert "it groups by 'user', and the correlation 'inner', on which it builds, by host" in str(bad.problems[0])


def test_rules_that_are_only_parts_give_no_matches(tmp_path: Path) -> None:
    silent = read(tmp_path, correlation())
    loud = read(tmp_path, correlation(generate="true"))

    assert [rule.title for rule in drop_silent_rules(silent).rules] == ["Login"]
    assert [rule.title for rule in drop_silent_rules(loud).rules] == ["Failed login", "Login"]


def test_the_step_rules_leaves_out_rules_that_are_only_parts(tmp_path: Path) -> None:
    read(tmp_path, correlation())
    schema = pa.schema([("action", pa.string()), ("user", pa.string())])

    force = Rules(files=(str(tmp_path / "rules.yml"),)).compile_rules(schema)

    assert ([rule.title for rule in force.rules], force.problems) == (["Login"], ())


def test_a_correlation_that_changes_is_another_version(tmp_path: Path) -> None:
    versions = {read(tmp_path, correlation(timespan=span)).version for span in ("5m", "300s", "6m")}

    assert len(versions) == 2


def test_fields_that_the_stream_lacks_leave_a_correlation_out(tmp_path: Path) -> None:
    rules = read(tmp_path, correlation(), correlation(**{"group-by": "[place]"}).replace("It", "Other"))
    schema = pa.schema([("user.name", pa.string()), ("action", pa.string())])

    force = compile_correlations(rules, Taxonomy({"user": "user.name"}), schema)

    assert [family.head.title for family in force.families.values()] == ["It"]
    assert force.groups == pa.schema([("user.name", pa.string())])
    assert "the stream has no field 'place', which it groups by or measures" in str(force.problems[0])


def test_the_report_describes_correlations(tmp_path: Path) -> None:
    rules = read(tmp_path, correlation(), correlation(**{"group-by": "[place]", "condition": "{lt: 2}"}).replace("It", "Few"))

    lines = list(report_lines(rules, Taxonomy({"user": "user.name"}), ["user.name", "action"]))

    assert "2 correlations: event_count 2" in lines
    assert "1 rule is part of correlations only, without matches in the step rules" in lines
    assert (
        f"correlation: {tmp_path}/rules.yml:13: 'It': event_count of 1 rule by user within 300 s, judged with each event" in lines
    )
    assert any(
        line.endswith("'Few': event_count of 1 rule by place within 300 s, judged when its window has closed") for line in lines
    )
    assert "the stream has no field 'place', which the correlation 'Few' groups by or measures" in lines


# ── Windows ───────────────────────────────────────────────────────────────────────────────────────


def counted(kind: str, condition: object, span: int = 10, rules: tuple[str, ...] = ("a", "b")) -> Correlation:
    return Correlation("c", "C", kind, rules, (), span * SECOND, condition)  # type: ignore[arg-type]


def event(seconds: float, offset: int = 0, rule: str = "a", value: str | None = None, order: int = 0) -> Event:
    return Event(round(seconds * SECOND), offset, order, rule, value)


def seconds(alerts: list[Alert]) -> list[tuple[float, float, int]]:
    return [(one.start_micros / SECOND, one.last_micros / SECOND, one.count) for one in alerts]


def test_a_burst_gives_one_alert_when_the_condition_is_met() -> None:
    one, memory = counted("event_count", Threshold("gte", 3)), Memory()

    alerts = advance(one, memory, [event(t, t) for t in (0, 4, 8, 9, 12, 17, 20)], 0)

    assert seconds(alerts) == [(0, 8, 3)]


def test_a_window_ends_before_the_timespan_has_passed() -> None:
    one = counted("event_count", Threshold("gte", 2))

    assert seconds(advance(one, Memory(), [event(0), event(10)], 0)) == []
    assert seconds(advance(one, Memory(), [event(0), event(9.999)], 0)) == [(0, 9.999, 2)]


def test_another_burst_begins_a_timespan_after_the_last() -> None:
    one = counted("event_count", Threshold("gte", 2))

    alerts = advance(one, Memory(), [event(t, int(t)) for t in (0, 1, 9, 19, 20, 40, 41)], 0)

    assert seconds(alerts) == [(0, 1, 2), (19, 20, 2), (40, 41, 2)]


def test_a_late_event_completes_a_window_that_a_later_one_did_not() -> None:
    one, memory = counted("event_count", Threshold("gte", 3)), Memory()

    assert advance(one, memory, [event(0, 0), event(9, 1), event(30, 2)], 0) == []
    assert seconds(advance(one, memory, [event(5, 3)], 4 * SECOND)) == [(0, 9, 3)]


def test_events_that_can_no_longer_matter_are_removed() -> None:
    one, memory = counted("event_count", Threshold("gte", 3)), Memory()

    advance(one, memory, [event(t, t) for t in range(5)], 0)
    kept = len(memory.events)
    advance(one, memory, [], 14 * SECOND)

    assert (kept, memory.events, memory.bursts) == (5, [], [])


@pytest.mark.slow
def test_events_are_bounded_and_the_latest_of_each_value_stays_longest() -> None:
    one, memory = counted("value_count", Threshold("gte", 3), span=1_000_000), Memory()

    advance(one, memory, [event(0, 0, value="x"), *(event(1 + n, n, value="y") for n in range(MAX_EVENTS + 5))], 0)

    assert len(memory.events) == MAX_EVENTS
    assert memory.events[0].value == "x"
    assert len(advance(one, memory, [event(MAX_EVENTS + 9, 0, value="z")], 0)) == 1


@pytest.mark.parametrize(("condition", "alerts"), [(Threshold("lt", 3), [(20, 21, 2)]), (Threshold("eq", 3), [(0, 9, 3)])])
def test_conditions_that_events_can_undo_wait_for_the_windows_end(condition: Threshold, alerts: list[object]) -> None:
    one, memory = counted("event_count", condition), Memory()
    events = [event(t, t) for t in (0, 5, 9, 20, 21)]

    assert advance(one, memory, events, 9 * SECOND) == []
    assert min(memory.rows.column("due").to_pylist()) == 10 * SECOND
    assert seconds(advance(one, memory, [], 30 * SECOND)) == alerts


def test_a_window_without_a_rule() -> None:
    one, memory = (
        counted("temporal", BooleanExpression("and", (RulePresent("a"), BooleanExpression("not", (RulePresent("b"),))))),
        Memory(),
    )

    advance(one, memory, [event(0), event(3, rule="b"), event(20)], 0)

    assert seconds(advance(one, memory, [], 40 * SECOND)) == [(20, 20, 1)]


@pytest.mark.parametrize(
    ("kind", "values", "measure"),
    [
        ("value_avg", (1, 2, 9), 4),
        ("value_median", (1, 2, 9, 4), 3),
        ("value_percentile", (0, 10, 20), 15),
        ("value_sum", (1, 2), 3),
    ],
)
def test_numbers_are_measured_over_a_whole_window(kind: str, values: tuple[int, ...], measure: float) -> None:
    one = Correlation("c", "C", kind, ("a",), (), 10 * SECOND, Threshold("neq", -1), ("v",), 0.75 if "cent" in kind else 0.5)  # type: ignore[arg-type]

    (alert,) = advance(one, Memory(), [event(n, n, value=str(v)) for n, v in enumerate(values)], 60 * SECOND)

    assert alert.measure == measure


def test_rules_in_order_and_out_of_order() -> None:
    one = counted("temporal_ordered", Threshold("gte", 3), rules=("a", "b", "a"))
    names = {"ordered": "abba", "too late": "ab", "reversed": "aab"}

    found = {why: advance(one, Memory(), [event(n, n, rule) for n, rule in enumerate(text)], 0) for why, text in names.items()}

    assert {why: seconds(alerts) for why, alerts in found.items()} == {"ordered": [(0, 3, 4)], "too late": [], "reversed": []}


# ── A law ─────────────────────────────────────────────────────────────────────────────────────────

EVENTS = st.lists(st.tuples(st.integers(0, 60), st.sampled_from("abc"), st.sampled_from("xyz")), max_size=30)
CONDITIONS = st.sampled_from(
    [
        counted("event_count", Threshold("gte", 3)),
        counted("event_count", Threshold("gt", 1)),
        counted("value_count", Threshold("gte", 2)),
        counted("temporal", Threshold("gte", 2), rules=("a", "b", "c")),
        counted(
            "temporal",
            BooleanExpression("or", (RulePresent("b"), BooleanExpression("and", (RulePresent("a"), RulePresent("c"))))),
            rules=("a", "b", "c"),
        ),
        counted("temporal_ordered", Threshold("gte", 2), rules=("a", "c")),
        counted("temporal_ordered", Threshold("gte", 3), rules=("a", "a", "b")),
        counted("event_count", Threshold("lte", 2)),
    ]
)


@pytest.mark.slow
@settings(deadline=None)  # kernels are compiled at their first call
@given(EVENTS, CONDITIONS, st.lists(st.integers(0, 30), max_size=4))
def test_alerts_do_not_depend_on_batches_and_equal_those_of_a_naive_search(
    given_events: list[tuple[int, str, str]], one: Correlation, cuts: list[int]
) -> None:
    events = [Event(t * SECOND, n, 0, rule, value) for n, (t, rule, value) in enumerate(sorted(given_events))]
    edges = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    memory, found = Memory(), []

    for start, end in itertools.pairwise(edges):
        watermark = events[start - 1].micros if start else 0
        found += advance(one, memory, events[start:end], watermark)
    found += advance(one, memory, [], 1000 * SECOND)

    assert [alert.last_micros for alert in found] == (naive(one, events) if one.is_monotonic else naive_closed(one, events))


def naive(one: Correlation, events: list[Event]) -> list[int]:
    """Times at which bursts begin, by looking at every window anew."""
    begun: list[int] = []
    held: int | None = None
    for at, last in enumerate(events):
        window = [e for e in events[: at + 1] if e.micros > last.micros - one.span_micros]
        if true_of(one, window):
            if held is None or last.micros >= held + one.span_micros:
                begun.append(last.micros)
            held = last.micros
    return begun


def naive_closed(one: Correlation, events: list[Event]) -> list[int]:
    """The last events of windows that follow one another."""
    found, rest = [], list(events)
    while rest:
        window = [e for e in rest if e.micros < rest[0].micros + one.span_micros]
        rest = rest[len(window) :]
        if true_of(one, window):
            found.append(window[-1].micros)
    return found


def true_of(one: Correlation, window: list[Event]) -> bool:
    """The condition, straight from the specification."""
    from etl.rules.correlation.model import holds

    seen = {event.rule for event in window}
    if not isinstance(one.condition, Threshold):
        return holds(one.condition, seen)
    if one.kind == "temporal_ordered":
        rest = iter(event.rule for event in window)
        return window[-1].rule == one.rules[-1] and all(rule in rest for rule in one.rules)
    amounts = {"event_count": len(window), "value_count": len({e.value for e in window}), "temporal": len(seen)}
    return one.condition.holds(amounts[one.kind])
