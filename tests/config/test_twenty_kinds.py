"""One file with many kinds of problems: all are found, each at its exact place."""

from __future__ import annotations

from pathlib import Path

from fake_components import CATALOGUE

from etl.config.loader import inspect

FILE = Path(__file__).with_name("twenty_kinds.yaml")

EXPECTED = [
    (3, 48, "minimum", "$.sources.first.max_files"),
    (4, 11, "missing-option", "$.sources.second"),
    (4, 25, "unknown-option", "$.sources.second"),
]


def test_all_are_found_at_their_places() -> None:
    found = inspect(FILE, {"HOME": "/root"}, (), CATALOGUE).problems

    assert [(p.line, p.column, p.code, p.path) for p in found] == EXPECTED
    assert len({code for _, _, code, _ in EXPECTED}) >= 20
