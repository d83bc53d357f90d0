"""Lint of streams whose results change: which steps and sinks take them, and by which key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from etl.config.loader import CheckedPipeline, inspect

FRONT = "source: {type: file, path: a.jsonl}\nsteps:\n  - {type: json, fields: {host: string, at: timestamp, n: bigint}}\n"
LAST = "  - {type: top, keys: [host], by: at, limit: 1, changelog: true}\n"
BEST = "  - {type: top, keys: [host], by: n, limit: 3, changelog: true}\n"
TOTALS = "  - {type: window, emit: on_change, group_by: [host], aggregates: {n: sum(n)}}\n"
UPSERT = "sink: {type: database, url: 'sqlite:///a.db', table: t, mode: upsert, key: [host]}\n"
DISCARD = "sink: {type: discard}\n"


@pytest.fixture
def checked(tmp_path: Path) -> Callable[[str], CheckedPipeline]:
    """Check the text of a pipeline file."""

    def check(text: str) -> CheckedPipeline:
        path = tmp_path / "a.yaml"
        path.write_text(text)
        return inspect(path, {})

    return check


@pytest.mark.parametrize(
    "steps",
    [
        "",
        "  - {type: filter, where: n > 1}\n",
        "  - {type: select, fields: {host: host, n: n + 1}}\n",
        "  - {type: set, fields: {n: n + 1}}\n",
        "  - {type: drop, fields: [at]}\n",
        "  - {type: rename, fields: {host: name}}\n  - {type: rename, fields: {name: host}}\n",
        "  - {type: convert, fields: {n: string}}\n",
    ],
)
def test_rowwise_steps_pass_changes_with_their_key(checked: Callable[[str], CheckedPipeline], steps: str) -> None:
    assert checked(FRONT + LAST + steps + UPSERT).problems == ()


@pytest.mark.parametrize(
    ("steps", "sink", "part"),
    [
        (LAST, "sink: {type: file, path: out.json}\n", "only adds events"),
        (LAST, "sink: {type: http, urls: ['http://localhost:1/x']}\n", "http only adds events"),
        (LAST, UPSERT.replace("upsert, key: [host]", "insert"), "mode insert only adds rows"),
        (LAST, UPSERT.replace("[host]", "[n]"), "replace each other by host, not by n"),
        (BEST, UPSERT, "replace each other by host, rank, not by host"),
        (LAST + "  - {type: set, fields: {host: upper(host)}}\n", UPSERT, "have no key by which"),
        (LAST + "  - {type: keep, fields: [n]}\n", UPSERT.replace("[host]", "[n]"), "have no key by which"),
        (LAST + "  - {type: dedupe, keys: [n], within: 1h}\n", DISCARD, "dedupe takes each event for a new one"),
        (LAST + "  - {type: top, keys: [host], by: n, rank: place}\n", DISCARD, "top takes each event for a new one"),
        (LAST + "  - {type: set, fields: {x: soundex(host)}}\n", DISCARD, "Spark does not know of changes"),
    ],
)
def test_others_are_refused_with_words(checked: Callable[[str], CheckedPipeline], steps: str, sink: str, part: str) -> None:
    problems = checked(FRONT + steps + sink).problems

    assert [problem.code for problem in problems] == ["changing-results"]
    assert part in problems[0].message


@pytest.mark.parametrize("steps", [LAST + TOTALS, BEST + LAST.replace("limit: 1", "limit: 1, rank: place"), TOTALS + TOTALS])
def test_steps_of_changes_follow_each_other(checked: Callable[[str], CheckedPipeline], steps: str) -> None:
    assert checked(FRONT + steps + UPSERT).problems == ()


def test_rows_of_two_streams_do_not_replace_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    path.write_text(
        "CREATE TABLE logs (host STRING, n BIGINT) WITH ('type' = 'file', 'path' = 'logs.jsonl', 'format' = 'json');"
        "CREATE TABLE totals (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)"
        " WITH ('type' = 'database', 'url' = 'postgresql://etl@localhost/db', 'table' = 'totals');"
        "INSERT INTO totals SELECT host, count(*) FROM logs GROUP BY host;"
        "INSERT INTO totals SELECT host, sum(n) FROM logs GROUP BY host"
    )

    [problem] = inspect(path, {}).problems

    assert problem.code == "changing-results"
    assert "several streams change" in problem.message
    assert problem.hint is None  # no key would do
