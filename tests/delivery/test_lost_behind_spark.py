"""A sink that loses a split whose events Spark made: they are kept, and written anew when it is there again."""

from __future__ import annotations

from pathlib import Path

import pytest
from moody import delivered, installed_here, set_mood
from running import Engine, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PIPELINE = """
    name: moods
    sources: {numbers: {type: moody, path: "{here}/from"}}
    streams:
      sounds: {from: numbers, steps: [{type: sql, query: "SELECT n, soundex(CAST(n AS STRING)) AS sound FROM events"}]}
    sinks:
      one: {from: sounds, type: moody, path: "{here}/one", ledger: true, retry: {initial_backoff: 50ms, max_backoff: 200ms}}
"""


def test_a_split_of_sparks_that_is_lost_is_written_anew(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_mood(tmp_path / "from", "good")
    (tmp_path / "from" / "count").write_text("3000")
    set_mood(tmp_path / "one", "closes")

    with installed_here(tmp_path / "site", monkeypatch), engine.following(PIPELINE, once=True) as run:
        run.says("connection reset")
        set_mood(tmp_path / "one", "good")
        wait_for(lambda: run.ended, what="the end of the run")

    assert sorted(delivered(tmp_path / "one")) == list(range(3000))
