"""How trials count, which pairs they try, and the page that they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import kill_page
import pytest
from kill_lanes import Lane
from kill_pairs import ELSEWHERE, SINKS, SOURCES, Pair, every_pair, few_groups, groups_of, pairs_named
from kill_table import Stage
from killing import Trial, outcome
from running import Engine, Etl

from connectors.components import COMPONENTS

PAIRS = {pair.name: pair for pair in every_pair()}
FILE = PAIRS["file-to-file"].source
TOLD = {"kafka-to-mariadb": "4, 3, 3", "file-to-kafka": "4, 3, 2", "file-to-mariadb-upsert": "4, 3, 1", "file-to-file": "4, 3, 0"}
"""Of three strikes of servers."""


@pytest.fixture
def lane_of(tmp_path: Path) -> Iterator[Callable[[Pair], Lane]]:
    """Pairs at work that need no server."""
    with ExitStack() as clearing:
        yield lambda pair: Lane(Stage(tmp_path, {}, "kill-1", clearing), [pair])


def test_an_outcome_tells_missing_repeated_and_foreign_events() -> None:
    found = outcome(5, [0, 1, 1, 1, 4, 9])

    assert (found.missing, found.repeats, found.foreign) == ([2, 3], 2, [9])
    assert not found.exact
    assert outcome(3, [2, 0, 1]).exact


def test_what_is_promised_decides_whether_repeats_are_faults() -> None:
    assert outcome(2, [0, 1, 1]).keeps("at least once")
    assert not outcome(2, [0, 1, 1]).keeps("exactly once")
    assert not outcome(2, [1]).keeps("at least once")


def test_every_source_and_sink_has_a_row_or_a_reason() -> None:
    there = {entry.type for entry in COMPONENTS if entry.family in ("source", "sink")}
    rows = {row.name.split("-")[0] for row in (*SOURCES, *SINKS)}
    databases, indexes = {"mariadb", "postgres", "sqlite"}, {"opensearch", "elasticsearch"}
    tried = (rows - databases - indexes) | {"database", "elasticsearch"}

    assert there == tried | ELSEWHERE.keys()


def test_few_pairs_have_every_source_and_every_sink() -> None:
    pairs = [pair for group in few_groups() for pair in group]

    assert {pair.source for pair in pairs} == set(SOURCES)
    assert {pair.sink for pair in pairs} == set(SINKS)
    assert len(PAIRS) == len(SOURCES) * len(SINKS)


@pytest.mark.parametrize(
    ("name", "claim"),
    [("file-to-sqlite", "exactly once"), ("file-to-http", "at least once"), ("postgres-unordered-to-file", "at least once")],
)
def test_a_pair_claims_what_the_weaker_of_both_promises(name: str, claim: str, etl: Etl, lane_of: Callable[[Pair], Lane]) -> None:
    lane = lane_of(Pair(replace(FILE, nature=PAIRS[name].source.nature), PAIRS[name].sink))

    assert lane.claims(etl.pipeline(lane.pipeline("claims"))) == [claim]


def test_a_page_holds_the_last_row_of_each_pair(tmp_path: Path, engine: Engine, lane_of: Callable[[Pair], Lane]) -> None:
    page = tmp_path / "page.md"
    one, other = PAIRS["file-to-sqlite"], PAIRS["file-to-file"]
    trial = Trial(engine, lane_of(one), seed=1)

    for pair, missing in ((one, [1]), (other, []), (one, [])):
        found = outcome(3, [n for n in range(3) if n not in missing])
        kill_page.write(page, kill_page.row_of(pair, "exactly once", trial, found, 61.0))

    rows = [line.split(" | ")[:9] for line in page.read_text().splitlines() if line.startswith("| file")]
    assert rows == [["| file", to, "exactly once", f"{trial.runs}", "0, 0, 0", "1", "3", "0", "0"] for to in ("file", "sqlite")]


def test_a_pair_is_told_the_strikes_of_its_own_servers(engine: Engine, lane_of: Callable[[Pair], Lane]) -> None:
    trial = Trial(engine, lane_of(PAIRS["file-to-file"]), seed=1)
    trial.kills.update(driver=4, worker=3, server=3)
    trial.restarts.update(kafka=2, mariadb=1)

    told = [kill_page.row_of(PAIRS[name], "exactly once", trial, outcome(3, range(3)), 61.0)[4] for name in TOLD]
    assert dict(zip(TOLD, told, strict=True)) == TOLD


def test_pairs_of_one_source_are_tried_together() -> None:
    some = pairs_named(["kafka-to-file", "file-to-file", "kafka-to-kafka", "kafka-to-mariadb"])

    groups = [[pair.name for pair in group] for group in groups_of(some, 2)]
    assert groups == [["kafka-to-file", "kafka-to-kafka"], ["kafka-to-mariadb"], ["file-to-file"]]
    assert pairs_named([]) == list(PAIRS.values())
