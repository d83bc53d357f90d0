"""Kill tests: how they count events, which pairs they test, and the page that they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import kill_page
import pytest
from kill_pairs import SINKS, SOURCES, WITHOUT_KILL_TESTS, Pair, every_pair, few_groups, groups_of, pairs_named
from kill_setup import KillSetup
from kill_table import Workspace
from kill_trial import Trial, outcome
from running import Engine, Etl

from connectors.components import COMPONENTS
from etl.config.loader import load

PAIRS = {pair.name: pair for pair in every_pair()}
FILE = PAIRS["file-to-file"].source
KILLS = {
    "kafka-to-mariadb": "4, 3, 3",
    "file-to-kafka": "4, 3, 2",
    "file-to-mariadb-upsert": "4, 3, 1",
    "file-to-file": "4, 3, 0",
}
"""Pair → kills on its page, after three restarts of servers."""


@pytest.fixture
def setup_of(tmp_path: Path) -> Iterator[Callable[[Pair], KillSetup]]:
    """Returns the setup of a pair that needs no server."""
    with ExitStack() as cleanup:
        yield lambda pair: KillSetup(Workspace(tmp_path, {}, "kill-1", cleanup), [pair])


def test_an_outcome_counts_missing_repeated_and_unexpected_events() -> None:
    found = outcome(5, [0, 1, 1, 1, 4, 9])

    assert (found.missing, found.repeats, found.unexpected) == ([2, 3], 2, [9])
    assert not found.is_exact
    assert outcome(3, [2, 0, 1]).is_exact


def test_repeats_break_exactly_once_but_not_at_least_once() -> None:
    assert outcome(2, [0, 1, 1]).fulfils("at least once")
    assert not outcome(2, [0, 1, 1]).fulfils("exactly once")
    assert not outcome(2, [1]).fulfils("at least once")


def test_every_source_and_sink_has_a_row_or_a_reason() -> None:
    components = {entry.type for entry in COMPONENTS if entry.family in ("source", "sink")}
    rows = {row.name.split("-")[0] for row in (*SOURCES, *SINKS)}
    databases, indexes = {"mariadb", "postgres", "sqlite"}, {"opensearch", "elasticsearch"}
    tested = (rows - databases - indexes) | {"database", "elasticsearch"}

    missing = components - tested - WITHOUT_KILL_TESTS.keys()
    assert not missing, (
        f"add a row, or an entry in WITHOUT_KILL_TESTS, to tests/delivery/kills/kill_pairs.py for {', '.join(missing)}"
    )
    assert components == tested | WITHOUT_KILL_TESTS.keys()


def test_few_pairs_have_every_source_and_every_sink() -> None:
    pairs = [pair for group in few_groups() for pair in group]

    assert {pair.source for pair in pairs} == set(SOURCES)
    assert {pair.sink for pair in pairs} == set(SINKS)
    assert len(PAIRS) == len(SOURCES) * len(SINKS)


def test_sources_that_are_followed_share_pipelines(tmp_path: Path) -> None:
    groups = [list(dict.fromkeys(pair.source.name for pair in group)) for group in few_groups()]

    assert groups[0] == ["kafka", "file", "rocketmq"]
    assert [group for group in groups if len(group) == 1] == [
        ["syslog"],
        ["mariadb-whole"],
        ["elasticsearch-whole"],
        ["postgres-unordered"],
    ]


def test_each_sink_gets_the_events_of_its_source(tmp_path: Path, etl: Etl) -> None:
    pairs = [PAIRS[name] for name in ("file-to-file", "file-to-sqlite", "journald-to-file")]
    with ExitStack() as cleanup:
        setup = KillSetup(Workspace(tmp_path, {}, "kill-1", cleanup), pairs)
        pipeline = load(etl.pipeline(setup.pipeline("together")))

    assert [source.type for source in pipeline.sources.values()] == ["file", "journald"]
    assert [list(sink.inputs) for sink in pipeline.sinks.values()] == [["events-0"], ["events-0"], ["events-1"]]


def test_a_setup_of_several_sources_writes_to_each(tmp_path: Path) -> None:
    with ExitStack() as cleanup:
        setup = KillSetup(Workspace(tmp_path, {}, "kill-1", cleanup), [PAIRS["file-to-file"], PAIRS["journald-to-file"]])
        setup.begin()
        setup.write_events(0, 3)

    assert len((tmp_path / "kill-1.log").read_text().splitlines()) == 3
    assert b"event number 2" in (tmp_path / "kill-1-journal" / "system.journal").read_bytes()


@pytest.mark.parametrize(
    ("name", "claim"),
    [("file-to-sqlite", "exactly once"), ("file-to-http", "at least once"), ("postgres-unordered-to-file", "at least once")],
)
def test_a_pair_claims_the_weaker_guarantee_of_both(
    name: str, claim: str, etl: Etl, setup_of: Callable[[Pair], KillSetup]
) -> None:
    setup = setup_of(Pair(replace(FILE, guarantee=PAIRS[name].source.guarantee), PAIRS[name].sink))

    assert setup.claims(etl.pipeline(setup.pipeline("claims"))) == [claim]


def test_a_page_has_the_last_row_of_each_pair(tmp_path: Path, engine: Engine, setup_of: Callable[[Pair], KillSetup]) -> None:
    page = tmp_path / "page.md"
    one, other = PAIRS["file-to-sqlite"], PAIRS["file-to-file"]
    trial = Trial(engine, setup_of(one), seed=1)

    for pair, missing in ((one, [1]), (other, []), (one, [])):
        found = outcome(3, [n for n in range(3) if n not in missing])
        kill_page.write(page, kill_page.row_of(pair, "exactly once", trial, found, 61.0))

    rows = [line.split(" | ")[:9] for line in page.read_text().splitlines() if line.startswith("| file")]
    assert rows == [["| file", to, "exactly once", f"{trial.runs}", "0, 0, 0", "1", "3", "0", "0"] for to in ("file", "sqlite")]


def test_a_page_has_a_row_for_each_step_with_state_and_route(
    tmp_path: Path, engine: Engine, setup_of: Callable[[Pair], KillSetup]
) -> None:
    page, pair = tmp_path / "page.md", PAIRS["file-to-file"]
    trial = Trial(engine, setup_of(pair), seed=1)
    trial.kills.update(driver=4, worker=3, jvm=2)
    steps = [("throttle", "several tasks"), ("window", "one task")]
    kill_page.write(page, *(kill_page.state_row_of(*one, trial, outcome(3, [0, 1, 1])) for one in steps))

    kill_page.write(page, kill_page.row_of(pair, "exactly once", trial, outcome(3, range(3)), 61.0))
    kill_page.write(page, kill_page.state_row_of("throttle", "several tasks", trial, outcome(3, range(3))))

    rows = [line.split(" | ")[:9] for line in page.read_text().splitlines() if line.startswith(("| throttle", "| window"))]
    counts = {"window": ["3", "1", "1", "0"], "throttle": ["3", "0", "0", "0"]}
    kills = [f"{trial.runs}", "4, 3, 2", "0"]
    assert rows == [[f"| {name}", route, *kills, *counts[name]] for name, route in reversed(steps)]
    assert "| file | file |" in page.read_text()


def test_a_row_counts_the_restarts_of_the_pair_s_servers(engine: Engine, setup_of: Callable[[Pair], KillSetup]) -> None:
    trial = Trial(engine, setup_of(PAIRS["file-to-file"]), seed=1)
    trial.kills.update(driver=4, worker=3, server=3)
    trial.restarts.update(kafka=2, mariadb=1)

    kills = [kill_page.row_of(PAIRS[name], "exactly once", trial, outcome(3, range(3)), 61.0)[4] for name in KILLS]
    assert dict(zip(KILLS, kills, strict=True)) == KILLS


def test_pairs_of_one_source_are_tested_together() -> None:
    some = pairs_named(["kafka-to-file", "file-to-file", "kafka-to-kafka", "kafka-to-mariadb"])

    groups = [[pair.name for pair in group] for group in groups_of(some, 2)]
    assert groups == [["kafka-to-file", "kafka-to-kafka"], ["kafka-to-mariadb"], ["file-to-file"]]
    assert pairs_named([]) == list(PAIRS.values())
