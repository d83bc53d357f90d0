"""One file with many kinds of problems: all are found, each at its exact place."""

from __future__ import annotations

from pathlib import Path

from fake_components import CATALOGUE

from etl.config.codes import PROBLEMS
from etl.config.loader import inspect

FILE = Path(__file__).with_name("twenty_kinds.yaml")

EXPECTED = [
    (3, 48, "minimum", "$.sources.first.max_files", "0"),
    (4, 3, "unused-source", "$.sources.second", "second"),
    (4, 25, "unknown-option", "$.sources.second", "pth"),
    (5, 3, "unused-source", "$.sources.third", "third"),
    (5, 17, "unknown-type", "$.sources.third.type", "lnes"),
    (6, 49, "maximum", "$.sources.fourth.max_files", "101"),
    (6, 62, "type", "$.sources.fourth.follow", "yes"),
    (7, 3, "unused-source", "$.sources.idle", "idle"),
    (7, 30, "undefined-env", "$.sources.idle.path", "$"),
    (8, 3, "duplicate-key", "$.sources.fourth", "fourth"),
    (9, 3, "bad-name", "$.sources['9lives']", "9lives"),
    (9, 3, "unused-source", "$.sources['9lives']", "9lives"),
    (15, 33, "bad-pattern", "$.streams.parsed.steps[0].pattern", "(?P<wh"),
    (16, 45, "max-items", "$.streams.parsed.steps[1].names", "[a, b,"),
    (20, 29, "unknown-field", "$.streams.picked.steps[0].where", "mesage"),
    (21, 3, "unused-stream", "$.streams.one", "one"),
    (22, 3, "unused-stream", "$.streams.two", "two"),
    (22, 15, "cycle", "$.streams.two.from", "one"),
    (23, 3, "unused-stream", "$.streams.lost", "lost"),
    (23, 52, "slow-pattern", "$.streams.lost.steps[0].where", "message"),
    (24, 3, "duplicate-name", "$.streams.third", "third"),
    (25, 18, "unknown-from", "$.streams.fifth.from[0]", "fourht"),
    (27, 52, "enum", "$.sinks.a.format", "jsn"),
    (28, 3, "shared-target", "$.sinks.b", "b"),
    (29, 61, "invalid-value", "$.sinks.c.batch.timeout", "5"),
    (30, 6, "missing-option", "$.sinks.d", "{from:"),
    (31, 16, "invalid-value", "$.run.trigger", "{}}"),
    (32, 1, "unknown-option", "$", "surplus"),
]
"""Line, column, code, path, and what stands there."""


def test_all_are_found_at_their_locations() -> None:
    found = inspect(FILE, {"HOME": "/root"}, (), CATALOGUE).problems

    assert [(p.line, p.column, p.code, p.path) for p in found] == [row[:4] for row in EXPECTED]
    assert len({row[2] for row in EXPECTED}) >= 20


def test_locations_lead_to_the_wrong_text() -> None:
    lines = FILE.read_text().splitlines()

    assert [lines[line - 1][column - 1 :].startswith(text) for line, column, _, _, text in EXPECTED] == [True] * len(EXPECTED)


def test_every_code_is_documented() -> None:
    assert {row[2] for row in EXPECTED} <= set(PROBLEMS)
