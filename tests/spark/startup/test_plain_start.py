"""Runs without the fast start: PySpark starts all processes, and the results are the same."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
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
TO_END = ("--once", "--drain")


@dataclass(frozen=True)
class PlainRun:
    """A run without the fast start: its output, and the command lines of its processes."""

    output: list[str]
    commands: set[str]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> PlainRun:
    """One run in a process of its own, which costs three times as much as a fast one, for all tests."""
    etl = Etl(tmp_path_factory.mktemp("plain"))
    (etl.folder / "in.log").write_text(LINES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(fast_start.SWITCH, "1")
        running = etl.start("run", pipeline_of(etl, "two"), *TO_END, "--master", "local[2]", "--state", etl.folder / "two", "-q")
    commands = set[str]()

    def has_ended() -> bool:
        commands.update(command_of(child) for child in children_of(running.pid))
        return running.poll() is not None

    wait_for(has_ended, 300, "the end of the run")
    _, printed = running.communicate()
    assert running.returncode == 0, printed
    return PlainRun(output_of(etl, "two"), commands)


def pipeline_of(etl: Etl, name: str) -> Path:
    """The pipeline, whose files have the run's name."""
    return etl.pipeline(PIPELINE.replace("NAME", name), f"{name}.yaml")


def output_of(etl: Etl, name: str) -> list[str]:
    """The sorted output of a run, which has one dead letter."""
    outputs = [etl.folder / f"{name}-events.jsonl", etl.folder / f"{name}-counts.jsonl"]
    letters = (etl.folder / name / "dead_letters.jsonl").read_text().splitlines()
    assert len(letters) == 1
    return sorted(line for path in outputs for line in path.read_text().splitlines())


def children_of(pid: int) -> list[psutil.Process]:
    """All processes that a process has started; none if it has ended."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def command_of(process: psutil.Process) -> str:
    """Its command line; empty if it has ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.mark.spark
@pytest.mark.slow
def test_the_results_are_the_same(engine: Engine, plain: PlainRun) -> None:
    (engine.etl.folder / "in.log").write_text(LINES)

    # the shared session is started fast: test_workers_are_forks_of_the_zygote
    ran = engine.run(pipeline_of(engine.etl, "one"), *TO_END, "--state", engine.etl.folder / "one")

    assert ran.status == 0, ran.err
    assert len(plain.output) == 80 + 8
    assert output_of(engine.etl, "one") == plain.output


@pytest.mark.spark
@pytest.mark.slow
def test_no_process_of_the_fast_start_runs(plain: PlainRun) -> None:
    assert any("pyspark.daemon" in command for command in plain.commands)
    assert any("java" in command for command in plain.commands)
    assert not any("etl.spark.startup" in command for command in plain.commands)
    assert not any("SharedArchiveFile" in command or "ArchiveClassesAtExit" in command for command in plain.commands)


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
