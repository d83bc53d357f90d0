"""A step with state is removed from a pipeline: the other steps, and the sources, go on where they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import Engine

from etl.api import ComponentError

SOURCE = """
    name: visits
    source: {type: file, path: "{here}/in.jsonl"}
    steps:
      - {type: json, fields: {n: int, user: string, at: timestamp}}
"""
BY_NUMBER = "      - {type: dedupe, keys: [n], time: at, within: 1h}\n"
BY_USER = "      - {type: dedupe, keys: [user], time: at, within: 1h}\n"
SINK = """
    sink: {type: file, path: "{here}/out.jsonl", format: json}
"""


def append(folder: Path, *events: tuple[int, str]) -> None:
    with (folder / "in.jsonl").open("a") as file:
        for n, user in events:
            file.write(json.dumps({"n": n, "user": user, "at": f"2026-01-01T00:00:{n:02}Z"}) + "\n")


def delivered(folder: Path) -> list[tuple[int, str]]:
    return [(row["n"], row["user"]) for row in map(json.loads, (folder / "out.jsonl").read_text().splitlines())]


@pytest.mark.spark
@pytest.mark.slow
def test_steps_are_removed_one_after_the_other(engine: Engine, tmp_path: Path) -> None:
    append(tmp_path, (1, "a"), (1, "b"), (2, "a"), (3, "c"))
    engine(SOURCE + BY_NUMBER + BY_USER + SINK)
    assert delivered(tmp_path) == [(1, "a"), (3, "c")]

    append(tmp_path, (1, "d"), (4, "a"))
    with pytest.raises(ComponentError, match="--new-state 'steps-dedupe-2/dedupe 1'"):
        engine(SOURCE + BY_USER + SINK)
    engine.service(SOURCE + BY_USER + SINK, once=True, new_state=("dedupe 1",)).finished()
    assert delivered(tmp_path) == [(1, "a"), (3, "c"), (1, "d")]

    append(tmp_path, (5, "a"))
    with pytest.raises(ComponentError, match="--new-state 'steps-dedupe-2/dedupe 1'"):
        engine(SOURCE + SINK)
    engine.service(SOURCE + SINK, once=True, new_state=("dedupe",)).finished()
    append(tmp_path, (6, "a"))
    engine(SOURCE + SINK)
    assert delivered(tmp_path) == [(1, "a"), (3, "c"), (1, "d"), (5, "a"), (6, "a")]
