"""An event without a usable event time is one dead letter, however many stateful steps get it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import Engine, Etl

from etl.api import Sink
from etl.config.loader import load
from etl.delivery.dead_letters import SCHEMA
from etl.plan.frames import Read, state_graph_of
from etl.plan.planner import plan

WINDOW = "{type: window, time: at, size: 1m, aggregates: {n: count(*)}}"
DEDUPE = "{type: dedupe, keys: [ip], time: at, within: 1h}"
FILTER = "{type: filter, where: n > 1}"


def reports(folder: Path, *streams: str, source: str = "type: file, path: in.json") -> list[list[bool]]:
    """Of each query, whether its read reports such events, for each way to a stateful step."""
    named = {f"s{number}": steps for number, steps in enumerate(streams)}
    path = folder / "p.yaml"
    path.write_text(
        f"sources: {{in: {{{source}}}}}\nstreams:\n"
        "  all: {from: in, steps: [{type: json, fields: {at: timestamp, due: timestamp, ip: string, n: bigint}}]}\n"
        + "".join(f"  {name}: {{from: all, steps: [{steps}]}}\n" for name, steps in named.items())
        + "sinks:\n"
        + "".join(f"  o-{name}: {{from: {name}, type: discard}}\n" for name in named)
    )
    found = []
    for query in plan(load(path), Sink(type="fake"), SCHEMA).queries:
        graph = state_graph_of(query.frame)
        if graph is not None and isinstance(graph.child, Read):
            ways = [part for root in graph.child.segment.roots.values() for part in root.walk() if part.emits]
            found.append([part.reports_times for part in ways])
    return found


def test_the_first_of_two_queries_over_the_same_events_reports(tmp_path: Path) -> None:
    assert reports(tmp_path, WINDOW, DEDUPE) == [[True], [False]]


def test_the_query_that_gets_all_events_reports_those_of_one_behind_a_filter(tmp_path: Path) -> None:
    assert reports(tmp_path, f"{FILTER}, {WINDOW}", DEDUPE) == [[False], [True]]
    assert reports(tmp_path, DEDUPE, f"{FILTER}, {{type: keep, fields: [at, ip]}}, {WINDOW}") == [[True], [False]]


def test_queries_with_different_events_or_times_report_their_own(tmp_path: Path) -> None:
    other = FILTER.replace(">", "<")
    by_due = DEDUPE.replace("time: at", "time: due")

    assert reports(tmp_path, f"{FILTER}, {WINDOW}", f"{other}, {WINDOW}") == [[True], [True]]
    assert reports(tmp_path, WINDOW, by_due) == [[True], [True]]


@pytest.mark.parametrize(("sets", "expected"), [("at: due", True), ("m: n + 1", False)])
def test_a_step_that_may_change_the_time_is_a_way_of_its_own(tmp_path: Path, sets: str, expected: bool) -> None:
    assert reports(tmp_path, WINDOW, f"{{type: set, fields: {{{sets}}}}}, {DEDUPE}") == [[True], [expected]]


def test_two_steps_of_one_query_report_together_once(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "sources: {in: {type: file, path: in.json}}\nstreams:\n"
        "  all: {from: in, steps: [{type: json, fields: {at: timestamp, ip: string}}]}\n"
        "  counted: {from: all, steps: [{type: window, time: at, size: 1m, group_by: [ip], aggregates: {n: count(*)}}]}\n"
        "  joined: {from: [all, counted], steps: [{type: join, on: ip, time: at, right_time: window_start, within: 1m}]}\n"
        "sinks: {o: {from: joined, type: discard}}\n"
    )
    (query,) = plan(load(path), Sink(type="fake"), SCHEMA).queries
    graph = state_graph_of(query.frame)

    assert graph is not None
    assert isinstance(graph.child, Read)
    ways = [part.reports_times for part in graph.child.segment.roots["in"].walk() if part.emits]
    assert sorted(ways) == [False, True]


def test_a_query_that_gets_more_sources_reports_what_comes_past_the_other(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    read = "type: spark, format: json, streaming: true, fields: {at: timestamp, ip: string, n: bigint}"
    path.write_text(
        f"sources: {{a: {{{read}, path: a}}, b: {{{read}, path: b}}}}\n"
        "streams:\n"
        f"  few: {{from: a, steps: [{FILTER}]}}\n"
        f"  all: {{from: [few, b], steps: [{WINDOW}]}}\n"
        f"  one: {{from: a, steps: [{DEDUPE}]}}\n"
        "sinks: {x: {from: all, type: discard}, y: {from: one, type: discard}}\n"
    )

    queries = plan(load(path), Sink(type="fake"), SCHEMA).queries

    graphs = [graph for query in queries if (graph := state_graph_of(query.frame))]
    assert [[one.reports_times for one in graph.inputs] for graph in graphs] == [[True], [True]]


def test_steps_behind_a_stateful_one_have_times_of_their_own(tmp_path: Path) -> None:
    chain = DEDUPE.replace("1h", "2h")

    assert reports(tmp_path, WINDOW, f"{DEDUPE}, {WINDOW}", f"{DEDUPE}, {chain}") == [[True], [False], [False]]


@pytest.mark.spark
def test_one_event_with_a_bad_time_is_one_dead_letter_of_three_queries(engine: Engine, etl: Etl) -> None:
    times = ("2026-11-20T06:00:00Z", None, "2099-01-01T00:00:00Z")
    (etl.folder / "in.json").write_text("".join(json.dumps({"at": at, "ip": "a", "n": 2}) + "\n" for at in times))
    head = "streams: {all: {from: in, steps: [{type: json, fields: {at: timestamp, ip: string, n: bigint}}]},"
    ways = {"a": f"{FILTER}, {WINDOW}", "b": DEDUPE, "c": WINDOW}
    streams = ", ".join(f"{name}: {{from: all, steps: [{steps}]}}" for name, steps in ways.items()) + "}"
    sinks = "sinks: {" + ", ".join(f"o-{name}: {{from: {name}, type: discard}}" for name in ways) + "}"

    ran = engine(f"name: p\nsources: {{in: {{type: file, path: '{{here}}/in.json'}}}}\n{head} {streams}\n{sinks}\n")

    letters = [json.loads(line) for line in (etl.folder / "state" / "dead_letters.jsonl").read_text().splitlines()]
    assert sorted(letter["code"] for letter in letters) == ["event-time-out-of-range", "no-event-time"]
    assert ran.dead == 2
    assert [(one.dead, one.left) for one in ran.to_spark.values()] == [(2, 1)] * 3
