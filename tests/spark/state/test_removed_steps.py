"""A step with state is removed from a pipeline: the other steps, and the sources, go on where they were."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
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


KILLED = """
import os, signal, sys
from etl.cli.main import main
from etl.spark.state import fingerprint

moment, change = sys.argv.pop(1), fingerprint.write_step_changes

def kill(*arguments):
    if moment == "after":
        change(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

fingerprint.write_step_changes = kill
sys.exit(main())
"""
"""`etl run` that is killed before or after it changes the state, as its first argument says."""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("killed", ["before", "after"])
def test_a_step_is_added_to_a_query_that_has_lost_its_only_one(engine: Engine, tmp_path: Path, killed: str) -> None:
    append(tmp_path, (1, "a"), (1, "b"))
    engine(SOURCE + BY_NUMBER + SINK)
    append(tmp_path, (2, "a"), (2, "b"))
    engine.service(SOURCE + SINK, once=True, new_state=("dedupe",)).finished()
    append(tmp_path, (3, "a"))
    engine(SOURCE + SINK)

    append(tmp_path, (2, "c"), (4, "a"), (5, "a"))
    with pytest.raises(ComponentError, match=r"--new-state 'steps-dedupe/steps\[1\] dedupe'"):
        engine(SOURCE + BY_USER + SINK)
    file = engine.etl.pipeline(SOURCE + BY_USER + SINK)
    words = ["run", str(file), "--state", str(tmp_path / "state"), "--once", "--new-state", "dedupe"]
    ended = subprocess.run([sys.executable, "-c", KILLED, killed, *words], cwd=tmp_path, check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    engine(SOURCE + BY_USER + SINK)
    append(tmp_path, (6, "c"), (6, "d"))
    engine(SOURCE + BY_USER + SINK)

    assert delivered(tmp_path) == [(1, "a"), (2, "a"), (2, "b"), (3, "a"), (2, "c"), (4, "a"), (6, "d")]
