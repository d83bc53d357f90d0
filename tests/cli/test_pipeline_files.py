"""Several pipelines in one command."""

from __future__ import annotations

import io
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from running import Engine, Etl

from etl.api import ComponentError, EtlError
from etl.cli.config_options import nearest_file
from etl.cli.main import cli
from etl.cli.run.pipeline_files import choose_files, load_pipelines
from etl.cli.run.progress import Progress
from etl.config.problems import ConfigError
from etl.receipts import Counts
from etl.running.messages import name_errors
from etl.running.state_folders import _state_folder
from etl.spark.reports.totals import Totals

GOOD = 'source: {type: file, path: "{here}/{name}.log"}\nsink: {type: file, path: "{here}/{name}.jsonl"}\n'
BAD = "source: {type: flie}\n"


def write(folder: Path, name: str, text: str = GOOD) -> Path:
    path = folder / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text.replace("{here}", str(folder)).replace("{name}", name))
    return path


def test_a_folder_means_its_pipelines_and_each_file_counts_once(tmp_path: Path) -> None:
    two, one = write(tmp_path / "p", "two"), write(tmp_path / "p", "one")
    (tmp_path / "p" / "one_test.yaml").write_text("pipeline: one.yaml\ntests: {}\n")
    (tmp_path / "p" / "rules.yaml").write_text("title: no pipeline\n")

    assert choose_files([tmp_path / "p", tmp_path / "p" / ".." / "p" / "two.yaml"]) == [one, two]


def test_a_folder_without_pipelines_is_named(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=f"no pipeline file in folder '{tmp_path}'"):
        choose_files([tmp_path])


def test_the_problems_of_all_files_are_reported(tmp_path: Path) -> None:
    files = [write(tmp_path, "one", BAD), write(tmp_path, "two"), write(tmp_path, "three", BAD)]

    with pytest.raises(ConfigError) as raised:
        load_pipelines(files, {}, ())

    assert {Path(problem.file).stem for problem in raised.value.problems} == {"one", "three"}


def test_a_script_without_a_query_is_named_and_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "tables.sql"
    script.write_text("CREATE TABLE t (a STRING) WITH ('type' = 'file', 'path' = 'x')")

    pipelines = load_pipelines([script, write(tmp_path, "two")], {}, ())

    assert [one.name for one in pipelines] == ["two"]
    assert "the script has no query: it declares only, and there is nothing to run" in capsys.readouterr().err


def test_two_pipelines_of_one_name_are_named_with_their_files(tmp_path: Path) -> None:
    files = [write(tmp_path / "a", "ssh"), write(tmp_path / "b", "ssh")]

    with pytest.raises(click.UsageError, match=r"both .*a/ssh.yaml and .*b/ssh.yaml have 'ssh'"):
        load_pipelines(files, {}, ())


@pytest.mark.parametrize(
    ("has_run", "several", "chosen"),
    [
        ("", False, "state"),
        ("", True, "state/ssh"),
        ("state", False, "state"),
        ("state/ssh", False, "state/ssh"),
        ("state/ssh", True, "state/ssh"),
    ],
)
def test_a_pipeline_keeps_its_state_alone_and_with_others(tmp_path: Path, has_run: str, several: bool, chosen: str) -> None:
    if has_run:
        (tmp_path / has_run).mkdir(parents=True)
        (tmp_path / has_run / "plan.json").write_text("{}")

    assert _state_folder("ssh", str(tmp_path / "state"), several) == str(tmp_path / chosen)


def test_several_pipelines_do_not_take_the_state_folder_of_one(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")

    with pytest.raises(EtlError, match=f"move its content to {tmp_path}/NAME"):
        _state_folder("ssh", str(tmp_path), several=True)


def test_an_error_begins_with_its_pipeline_where_there_are_several() -> None:
    with pytest.raises(ComponentError, match=r"^pipeline 'ssh': it is down$"), name_errors("ssh", several=True):
        raise ComponentError("it is down")
    with pytest.raises(ComponentError, match=r"^it is down$"), name_errors("ssh", several=False):
        raise ComponentError("it is down")


def test_messages_and_progress_carry_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.cli.run.progress.EVERY_SECONDS", 0.0)
    out = io.StringIO()
    progress = Progress("text", False, False, out, several=True)

    progress.say("source", "source 'in': no file is there", "warning", "ssh")
    for events in (1, 5):
        progress.show({"ssh": Totals(read={"in": Counts(events, events)}), "web": Totals()})

    first, *rest = out.getvalue().splitlines()
    assert first == "ssh: source 'in': no file is there"
    assert [line.partition(" in,")[0] for line in rest] == ["ssh: 5 events"]


def test_json_lines_carry_the_pipeline() -> None:
    out = io.StringIO()

    Progress("json", False, False, out).say("source", "no file is there", "warning", "ssh", source="in")

    line = json.loads(out.getvalue())
    assert (line["pipeline"], line["message"]) == ("ssh", "no file is there")


SAME = """
    source: {type: file, path: "{here}/NAME.log"}
    steps:
      - {type: regex, patterns: ['^(?<n>[0-9]+) (?<text>.*)$']}
    sink: {type: file, path: "{here}/NAME.jsonl"}
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_folder_of_pipelines_with_the_same_names_inside(engine: Engine, etl: Etl) -> None:
    (etl.folder / "p").mkdir()
    for name in ("one", "two"):
        etl.pipeline(SAME.replace("NAME", name), f"p/{name}.yaml")
        (etl.folder / f"{name}.log").write_text(f"1 {name}\n2 {name}\nno {name}\n")

    ran = engine.run(etl.folder / "p", "--once", "--max-dead", "40%")

    assert ran.status == 0, ran.err
    for name in ("one", "two"):
        rows = [json.loads(line) for line in (etl.folder / f"{name}.jsonl").read_text().splitlines()]
        letters = (etl.folder / "state" / name / "dead_letters.jsonl").read_text().splitlines()
        assert rows == [{"n": "1", "text": name}, {"n": "2", "text": name}]
        assert [(json.loads(line)["pipeline"], json.loads(line)["event"]) for line in letters] == [(name, f"no {name}")]
        metrics = (etl.folder / "state" / name / "metrics.prom").read_text()
        assert f'sluice_sink_events_total{{pipeline="{name}",sink="main",outcome="out"}} 2' in metrics
    events = [json.loads(line) for line in ran.err.splitlines()]
    assert sorted(event["pipeline"] for event in events if event["event"] == "done") == ["one", "two"]
    (letters_of_one, _) = [event for event in events if event["event"] == "dead_letters"]
    assert (letters_of_one["pipeline"], letters_of_one["share"]) == ("one", 0.3333)
    assert "1 at steps[0] regex (line 4): does not match (regex-failed), such as\n    no one" in letters_of_one["message"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_message_and_its_line_end_are_one_write(form: str) -> None:
    """Messages of several threads would otherwise share lines."""
    writes: list[str] = []
    out = io.StringIO()
    out.write = lambda text: writes.append(text) or len(text)  # type: ignore[method-assign, func-returns-value]

    Progress(form, False, False, out).say("source", "no file is there\n  yet", "warning", "ssh")

    assert [text.endswith("\n") for text in writes if text] == [True]


@pytest.mark.parametrize(
    ("name", "near"), [("frist.yaml", "first.yaml"), ("first", "first.yaml"), ("first.yml", "first.yaml"), ("nothere.yaml", None)]
)
def test_a_mistyped_file_is_answered_with_a_similar_name(
    name: str, near: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("first.yaml", "t8.yaml"):
        Path(file).write_text("")

    assert nearest_file(name) == (near and f"did you mean {near!r}?")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["lint", "empty"], "there is no pipeline file in 'empty'"),
        (["lint"], "there is no pipeline file in this folder or in pipelines/"),
        (["infer", "empty"], "'empty' is a folder: name a file"),
    ],
)
def test_a_folder_in_place_of_a_file_is_named(
    words: list[str], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()

    ran = CliRunner().invoke(cli, words)

    assert error in f"{ran.stderr}{ran.exception}"
