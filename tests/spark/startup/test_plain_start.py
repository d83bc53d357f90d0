"""Runs without the fast start: PySpark starts all processes, and the results are the same."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from running import Engine, Etl, wait_for

from etl.spark.startup import fast_start
from etl.spark.startup.archive import JvmLaunch

PIPELINE = """
    name: plain
    sources:
      log: {type: file, path: "{here}/in.log"}
    streams:
      parsed:
        from: log
        steps:
          - {type: regex, patterns: ['^(?<timestamp>[^ ]+) (?<user_name>[a-z]+)$']}
          - {type: timestamp, formats: [iso8601]}
      counted:
        from: parsed
        steps:
          - {type: window, time: timestamp, size: 10m, late: 0s, group_by: [user_name], aggregates: {n: count(*)}}
    sinks:
      events: {from: parsed, type: file, path: "{here}/NAME-events.jsonl"}
      counts: {from: counted, type: file, path: "{here}/NAME-counts.jsonl"}
"""
LINES = "".join(f"2026-11-09T06:{minute:02d}:00Z {name}\n" for minute in range(40) for name in ("anna", "zoe")) + "no event\n"


def run(runner: Etl | Engine, name: str) -> list[str]:
    """Run the pipeline with its own state folder, and return its sorted output; it has one dead letter."""
    etl = runner if isinstance(runner, Etl) else runner.etl
    state = etl.folder / name
    pipeline = etl.pipeline(PIPELINE.replace("NAME", name), f"{name}.yaml")

    ran = runner.run(pipeline, "--once", "--drain", "--state", state)

    assert ran.status == 0, ran.err
    outputs = [etl.folder / f"{name}-events.jsonl", etl.folder / f"{name}-counts.jsonl"]
    letters = (state / "dead_letters.jsonl").read_text().splitlines()
    assert len(letters) == 1
    return sorted(line for path in outputs for line in path.read_text().splitlines())


def command_of(process: psutil.Process) -> str:
    """Its command line; empty if it has ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.mark.spark
@pytest.mark.slow
def test_the_results_are_the_same(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    (engine.etl.folder / "in.log").write_text(LINES)

    fast = run(engine, "one")  # the shared session is started fast: test_workers_are_forks_of_the_zygote
    monkeypatch.setenv(fast_start.SWITCH, "1")
    plain = run(engine.etl, "two")

    assert len(plain) == 80 + 8
    assert plain == fast


@pytest.mark.spark
@pytest.mark.slow
def test_no_process_of_the_fast_start_runs(etl: Etl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fast_start.SWITCH, "1")
    (etl.folder / "in.log").write_text("2026-11-09T06:00:00Z anna\n")
    pipeline = etl.pipeline(PIPELINE.replace("NAME", "one"))
    running = etl.start("run", pipeline, "--master", "local[2]", "--state", etl.folder / "state", "-q")
    out = etl.folder / "one-events.jsonl"
    wait_for(lambda: out.exists() and out.stat().st_size > 0, what="the first output")

    commands = [command_of(child) for child in psutil.Process(running.pid).children(recursive=True)]
    running.terminate()
    _, printed = running.communicate(timeout=120)

    assert running.returncode == 0, printed
    assert any("pyspark.daemon" in command for command in commands)
    assert not any("etl.spark.startup" in command for command in commands)
    assert not any("SharedArchiveFile" in command or "ArchiveClassesAtExit" in command for command in commands)


def test_the_switch_covers_all_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "")
    assert fast_start.prepare_environment()
    assert fast_start.settings(sys.executable).keys() == {"spark.python.daemon.module"}

    monkeypatch.setenv(fast_start.SWITCH, "1")

    assert fast_start.prepare_environment() == ""
    assert "PYSPARK_DRIVER_PYTHON" not in os.environ
    settings: Mapping[str, str] = fast_start.settings(str(tmp_path / "python"))
    assert settings == {}
    assert fast_start.python_program(is_local=True, compiled=True) == sys.executable
    assert fast_start.jvm_launch(tmp_path, tmp_path, {}, is_local=True) == JvmLaunch()
