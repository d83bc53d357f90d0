"""A sink that loses a split of Spark's results: the buffered events are written again when it works again."""

from __future__ import annotations

from pathlib import Path

import pytest
from faulty import delivered, installed_here, set_fault
from running import Engine, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PIPELINE = """
    name: faults
    sources: {numbers: {type: faulty, path: "{here}/from"}}
    streams:
      sounds: {from: numbers, steps: [{type: sql, query: "SELECT n, soundex(CAST(n AS STRING)) AS sound FROM events"}]}
    sinks:
      one: {from: sounds, type: faulty, path: "{here}/one", ledger: true, retry: {initial_backoff: 50ms, max_backoff: 200ms}}
"""


def test_a_lost_split_of_spark_results_is_written_again(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_fault(tmp_path / "from", "none")
    (tmp_path / "from" / "count").write_text("3000")
    set_fault(tmp_path / "one", "closes")

    with installed_here(tmp_path / "site", monkeypatch), engine.following(PIPELINE, once=True) as run:
        run.says("connection reset")
        set_fault(tmp_path / "one", "none")
        wait_for(lambda: run.ended, what="the end of the run")

    assert sorted(delivered(tmp_path / "one")) == list(range(3000))
