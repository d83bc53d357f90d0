"""Stopping while very many output files are committed."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest
from running import Engine, Etl, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES = 6_000  # of 2,000 all were committed once before the processes had ended
PIPELINE = """
    name: many
    source: {type: file, path: "{here}/in.log"}
    steps:
      - {type: grok, patterns: ["%{WORD:host} %{INT:n:int}"]}
    sink: {type: file, path: "{here}/out/{host}/", max_paths: 10000}
"""


def test_a_second_signal_ends_a_commit_of_many_files_without_loss_or_repeats(etl: Etl, engine: Engine) -> None:
    (etl.folder / "in.log").write_text("".join(f"h{number} {number}\n" for number in range(FILES)))
    pipeline, out = etl.pipeline(PIPELINE), etl.folder / "out"
    running = etl.start("run", pipeline, "--master", "local[2]", "--state", etl.folder / "state", "--once")
    wait_for(out.is_dir, what="the first file of the commit")

    running.send_signal(signal.SIGTERM)
    running.send_signal(signal.SIGINT)  # another number: the system keeps one signal of each
    _, err = running.communicate(timeout=300)
    made = len(os.listdir(out))
    again = engine.run(pipeline, "--once")

    assert running.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT), err
    assert "stopping after the current micro-batch; again to stop at once" in err
    assert made < FILES
    assert again.status == 0, again.err
    lines = Counter(line for path in out.rglob("part-*") for line in path.read_text().splitlines())
    assert len(lines) == FILES
    assert set(lines.values()) == {1}
