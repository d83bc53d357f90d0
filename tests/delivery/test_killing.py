"""Kill -9 at random points: file to file, and the counting of what a trial found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from killing import kills, outcome
from running import Etl

COPY = """
    name: copy
    source: {type: file, path: "{here}/in.log"}
    steps:
      - {type: regex, patterns: ['^(?<n>[0-9]+) (?<text>.*)$']}
    sink: {type: file, path: "{here}/out.jsonl"}
    run: {trigger: 100ms}
"""


def test_an_outcome_tells_missing_repeated_and_foreign_events() -> None:
    found = outcome(5, [0, 1, 1, 1, 4, 9])

    assert (found.missing, found.repeats, found.foreign) == ([2, 3], 2, [9])
    assert not found.exact
    assert outcome(3, [2, 0, 1]).exact


@pytest.mark.spark
@pytest.mark.slow
def test_file_to_file_is_exactly_once(etl: Etl, tmp_path: Path) -> None:
    source, out = tmp_path / "in.log", tmp_path / "out.jsonl"
    source.touch()

    def fill(first: int, last: int) -> None:
        with source.open("a") as log:
            log.write("".join(f"{n} line number {n}\n" for n in range(first, last)))

    def delivered() -> list[int]:
        return [int(json.loads(line)["n"]) for line in out.read_text().splitlines()]

    found = kills(etl, etl.pipeline(COPY), fill, delivered)

    assert found.exact, found
    assert delivered() == list(range(found.total))
