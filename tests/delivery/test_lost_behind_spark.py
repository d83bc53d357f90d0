"""A sink that loses a split whose events Spark made: they are kept, and written anew when it is there again."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from moody import delivered, installed_in, set_mood
from running import Etl, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PIPELINE = """
    name: moods
    sources: {numbers: {type: moody, path: "{here}/from"}}
    streams:
      sounds: {from: numbers, steps: [{type: sql, query: "SELECT n, soundex(CAST(n AS STRING)) AS sound FROM events"}]}
    sinks:
      one: {from: sounds, type: moody, path: "{here}/one", ledger: true, retry: {initial_backoff: 50ms, max_backoff: 200ms}}
"""


def test_a_split_of_sparks_that_is_lost_is_written_anew(etl: Etl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", installed_in(tmp_path / "site"))
    set_mood(tmp_path / "from", "good")
    (tmp_path / "from" / "count").write_text("3000")
    set_mood(tmp_path / "one", "closes")

    said = tmp_path / "err.log"
    words = ("run", str(etl.pipeline(PIPELINE)), "--once", "--master", "local[2]", "--state", str(tmp_path / "state"))
    with said.open("wb") as err:
        running = subprocess.Popen([sys.executable, "-m", "etl", *words], stdin=subprocess.DEVNULL, stdout=err, stderr=err)
    with ExitStack() as stack:
        stack.callback(lambda: running.kill() if running.poll() is None else None)
        wait_for(lambda: "connection reset" in said.read_text() or running.poll() is not None, what=said.read_text())
        set_mood(tmp_path / "one", "good")

        assert running.wait(60) == 0, said.read_text()

    assert sorted(delivered(tmp_path / "one")) == list(range(3000))
