"""The service that runs pipelines, for its callers."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from running import Engine, wait_for

from etl.api import ComponentError, EtlError
from etl.config.loader import load
from etl.running.messages import Message
from etl.running.planning import RunRequest
from etl.running.service import RunService, session_master

COPY = """
    name: copy
    source: {type: file, path: "{here}/in/*.log"}
    steps:
      - {type: regex, patterns: ['^(?<n>[0-9]+)$']}
    sink: {type: file, path: "{here}/out.jsonl"}
    run: {trigger: 200ms}
"""


def numbers(folder: Path) -> list[int]:
    path = folder / "out.jsonl"
    return [int(json.loads(line)["n"]) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in" / "a.log"


def test_planning_starts_and_writes_nothing(engine: Engine, inbox: Path, tmp_path: Path) -> None:
    request = RunRequest(state=str(tmp_path / "state"), master="local[2]")

    service = RunService([load(engine.etl.pipeline(COPY))], request)
    service.stop()

    assert [one.plan.pipeline for one in service.runs] == ["copy"]
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("master", "pipelines", "expected"),
    [
        ("local[2]", 1, "local[2]"),
        ("local[2]", 2, "local[4]"),
        ("local[2,4]", 20, "local[6,4]"),
        ("spark://host:7077", 20, "spark://host:7077"),
    ],
)
def test_several_pipelines_have_slots_for_those_that_wait(master: str, pipelines: int, expected: str) -> None:
    assert session_master(master, pipelines) == expected


@pytest.mark.spark
def test_messages_and_totals_go_to_the_callbacks(engine: Engine, inbox: Path, capfd: pytest.CaptureFixture[str]) -> None:
    inbox.write_text("1\nnone\n2\n")
    service = engine.service(COPY.replace("*.log", "*.txt"), once=True).service
    messages: list[Message] = []
    totals_of: list[set[str]] = []

    service.work(messages.append, lambda totals: totals_of.append(set(totals)))

    assert [(one.event, one.level, one.pipeline) for one in messages] == [("source", "warning", "copy"), ("running", "info", "")]
    assert messages[0].values == {"source": "main"}
    assert totals_of[0] == {"copy"}
    assert capfd.readouterr() == ("", "")


@pytest.mark.spark
def test_a_run_in_a_thread_follows_its_source_until_it_is_stopped(engine: Engine, inbox: Path, tmp_path: Path) -> None:
    inbox.write_text("1\n")

    with engine.following(COPY) as running:
        wait_for(lambda: numbers(tmp_path) == [1], what="the first line")
        with inbox.open("a") as more:
            more.write("2\n")
        wait_for(lambda: numbers(tmp_path) == [1, 2], what="the second line")

    assert running.totals.sinks["main"].accepted == 2
    metrics = (tmp_path / "state" / "metrics.prom").read_text()
    assert 'sluice_sink_events_total{pipeline="copy",sink="main",outcome="out"} 2' in metrics


@pytest.mark.spark
def test_runs_on_one_session_report_only_messages_of_their_own_workers(engine: Engine, inbox: Path, tmp_path: Path) -> None:
    inbox.write_text("1\n")
    first, second = engine.service(COPY, once=True), engine.service(COPY, once=True)

    first.finished()
    with engine.shared.log.open("a") as log:
        log.write('\x1esluice {"level": 30, "text": "late", "process": 1, "pipeline": "copy"}\n')
    second.finished()

    assert not any(one.text == "late" for one in second.messages)


@pytest.mark.spark
def test_a_failure_is_raised_and_the_session_serves_the_next_run(engine: Engine, inbox: Path, tmp_path: Path) -> None:
    inbox.write_text("1\n")
    engine(COPY)
    (tmp_path / "state" / "plan.json").write_text("{broken")

    with pytest.raises(ComponentError, match=r"plan\.json cannot be read"):
        engine(COPY)

    (tmp_path / "state" / "plan.json").unlink()
    assert engine(COPY).read == {}


@pytest.mark.spark
def test_the_command_prints_and_exits_the_same_on_a_shared_session(engine: Engine, inbox: Path) -> None:
    inbox.write_text("1\nnone\n2\n")

    ran = engine.run(engine.etl.pipeline(COPY), "--once", "--max-dead", "10%")

    assert ran.status == 1
    assert (ran.done["pipeline"], numbers(engine.etl.folder)) == ("copy", [1, 2])
    assert "1 of 3 events became dead letters (33%), more than --max-dead 0.1 allows" in ran.err


def pair(engine: Engine, tmp_path: Path, **asked: bool) -> RunService:
    """A pipeline `copy`, and `other`, which cannot write as long as a file is where its folder must be."""
    other = COPY.replace("name: copy", "name: other").replace("{here}/out.jsonl", "{here}/blocked/out.jsonl")
    pipelines = [load(engine.etl.pipeline(text, f"{number}.yaml")) for number, text in enumerate((COPY, other))]
    (tmp_path / "blocked").write_text("a file")
    request = RunRequest(state=str(tmp_path / "state"), master=engine.shared.master, **asked)
    return RunService(pipelines, request, several=True, shared=engine.shared)


@pytest.mark.spark
def test_a_pipeline_that_fails_starts_again_and_does_not_disturb_others(engine: Engine, inbox: Path, tmp_path: Path) -> None:
    inbox.write_text("1\n")
    service = pair(engine, tmp_path)
    messages: list[Message] = []

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(service.work, messages.append)
        try:
            wait_for(lambda: any(one.event == "failed" for one in messages) or running.done(), what="the failure")
            with inbox.open("a") as more:
                more.write("2\n")
            wait_for(lambda: numbers(tmp_path) == [1, 2], what="the pipeline that works")
            (tmp_path / "blocked").unlink()
            wait_for(lambda: numbers(tmp_path / "blocked") == [1, 2] or running.done(), what="the one that failed")
        finally:
            service.stop()
        running.result()

    (first, *_) = [one for one in messages if one.event == "failed"]
    assert (first.pipeline, first.values) == ("other", {"failures": 1, "wait_seconds": 1.0})
    assert "it starts again in 1 s; the other pipelines go on" in first.text
    assert service.runs[1].totals.sinks["main"].accepted == 2


@pytest.mark.spark
def test_of_pipelines_that_read_once_one_that_fails_lets_the_others_end(engine: Engine, inbox: Path, tmp_path: Path) -> None:
    inbox.write_text("1\n2\n")
    messages: list[Message] = []

    with pytest.raises(EtlError, match=r"^pipeline 'other': .*blocked"):
        pair(engine, tmp_path, once=True).work(messages.append)

    assert numbers(tmp_path) == [1, 2]
    assert not any(one.event == "failed" for one in messages)
