"""Sinks and sources in each other's way: in one file, and in the files of one command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from connectors.database.sink import DatabaseSink
from connectors.database.source import DatabaseSource
from connectors.elasticsearch.sink import ElasticsearchSink
from connectors.elasticsearch.source import ElasticsearchSource
from connectors.file.reading.globs import is_matched
from connectors.file.sink import FileSink
from connectors.file.source import FileSource
from connectors.kafka.sink import KafkaSink
from connectors.kafka.source import KafkaSource
from connectors.rocketmq.sink import RocketmqSink
from connectors.rocketmq.source import RocketmqSource
from etl.api import Sink, Source
from etl.config import check
from etl.config.checks.targets import find_conflicts, find_new_conflicts, read_target
from etl.config.loader import inspect

COPY = "source: {type: file, path: PATH}\nsink: {type: file, path: OUT}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lint_problems(*texts: str) -> list[tuple[str, int, int, str, str]]:
    """File, line, column, code and severity of what lint says about files a.yaml, b.yaml …, named in one command."""
    names = [f"{letter}.yaml" for letter in "abc"[: len(texts)]]
    for name, text in zip(names, texts, strict=True):
        Path(name).write_text(text)
    found = [(p.file, p.line, p.column, p.code, p.severity) for p in check(names, {}, "error")]
    check_beside(names)
    return found


def check_beside(names: list[str]) -> None:
    """The last file has the same problems beside the others as together with them."""
    pipelines = [one for name in names if (one := inspect(name, {}).pipeline) is not None]
    if len(pipelines) == len(names):
        places = [(one.file, one.line, one.column, one.code) for one in find_conflicts(pipelines)]
        found = [(one.file, one.line, one.column, one.code) for one in find_new_conflicts(pipelines[-1], pipelines[:-1])]
        assert found == [place for place in places if place[0] == names[-1]]


def copy(path: str, out: str) -> str:
    return COPY.replace("PATH", f'"{path}"').replace("OUT", f'"{out}"')


@pytest.mark.parametrize(
    ("path", "out"),
    [
        ("in.log", "in.log"),
        ("logs/*.log", "./logs/out.log"),
        ("logs/**/*.jsonl", "logs/a/b/out.jsonl"),
        ("logs/**", "logs/out/"),
        ("logs/*.log", "logs/{message}.log"),
        ("logs/2???-*.log", "logs/{yyyy-MM-dd}.log"),
    ],
)
def test_a_sink_that_feeds_its_own_source_is_an_error_at_the_sink(path: str, out: str) -> None:
    errors = [one for one in lint_problems(copy(path, out)) if one[-1] == "error"]

    assert errors == [("a.yaml", 2, 1, "reads-own-output", "error")]


@pytest.mark.parametrize(
    ("path", "out"),
    [
        ("logs/*.log", "logs/out.jsonl"),
        ("logs/*.log", "logs/deep/out.log"),
        ("logs/*.log", "logs/out/"),
        ("logs/*", "logs/.hidden"),
        ("in.log", "in.log.jsonl"),
    ],
)
def test_a_sink_beside_the_glob_is_none(path: str, out: str) -> None:
    assert lint_problems(copy(path, out)) == []


def test_what_the_source_excludes_it_does_not_read() -> None:
    assert lint_problems(copy("logs/*", "logs/out.jsonl").replace('"}\nsink', '", exclude: ["*.jsonl"]}\nsink')) == []


def test_a_sink_is_found_through_a_link(folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "link").symlink_to(folder / "real")

    assert lint_problems(copy("link/*.log", "real/out.log")) == [("a.yaml", 2, 1, "reads-own-output", "error")]


def test_dead_letters_in_the_glob_are_found() -> None:
    text = copy("logs/*", "out.jsonl") + "dead_letters: {type: file, path: logs/dead.jsonl}\n"

    assert lint_problems(text) == [("a.yaml", 3, 1, "reads-own-output", "error")]


CHAIN = """
sources:
  one: {type: file, path: one.log}
  two: {type: file, path: two.jsonl}
sinks:
  first: {from: one, type: file, path: two.jsonl}
  last: {from: two, type: file, path: out.jsonl}
"""


def test_a_source_may_read_what_another_one_of_the_file_became() -> None:
    assert lint_problems(CHAIN) == []


def test_a_file_in_the_folder_of_another_sink_is_found() -> None:
    text = "source: {type: file, path: in.log}\nsinks:\n  all: {type: file, path: out/}\n  few: {type: file, path: out/x.jsonl}\n"
    long = (
        text.replace("source:", "sources: {in:")
        .replace("in.log}", "in.log}}")
        .replace("{type: file, path: out", "{from: in, type: file, path: out")
    )

    assert lint_problems(long) == [("a.yaml", 4, 3, "shared-target", "error")]


@pytest.mark.parametrize("wrong", ["path: a.log, formt: json", "pth: a.log"])
def test_a_misspelt_option_hides_no_shared_file(wrong: str) -> None:
    text = f"source: {{type: file, path: a.log}}\nsink: {{type: file, {wrong}}}\n"

    assert [code for *_, code, _ in lint_problems(text)] == ["reads-own-output", "unknown-option"]


@pytest.mark.parametrize("out", ["out.jsonl", "./out.jsonl", "x/../out.jsonl"])
def test_two_pipelines_of_one_command_do_not_write_one_file(out: str) -> None:
    assert lint_problems(copy("a.log", "out.jsonl"), copy("b.log", out)) == [("b.yaml", 2, 1, "shared-target", "error")]


def test_two_pipelines_of_one_command_have_two_files_of_dead_letters() -> None:
    letters = "dead_letters: {type: file, path: dead.jsonl}\n"

    assert lint_problems(copy("a.log", "a.jsonl") + letters, copy("b.log", "dead.jsonl"), copy("c.log", "c.jsonl") + letters) == [
        ("b.yaml", 2, 1, "shared-target", "error"),
        ("c.yaml", 3, 1, "shared-target", "error"),
        ("c.yaml", 3, 1, "shared-target", "error"),
    ]


def test_one_pipeline_may_read_what_another_writes_but_not_in_a_circle() -> None:
    chain = copy("a.log", "b.log"), copy("b.log", "c.log")

    assert lint_problems(*chain) == []
    assert lint_problems(*chain, copy("c.log", "a.log")) == [("c.yaml", 2, 1, "reads-own-output", "warning")]
    first = copy("in.log", "in.jsonl")
    assert lint_problems(first, copy("b.log", "c.log"), copy("c.log", "b.log"))[0][:4] == ("c.yaml", 2, 1, "reads-own-output")


def test_pipelines_of_one_name_share_a_state_folder() -> None:
    texts = [f"name: same\n{copy(letter + '.log', letter + '.jsonl')}" for letter in "ab"]

    assert lint_problems(*texts) == [("b.yaml", 1, 1, "same-pipeline-name", "warning")]


def test_standard_input_and_addresses_have_one_reader() -> None:
    stdin = "source: {type: stdin}\n"
    syslog = 'source: {type: syslog, listen: ["udp://127.0.0.1:5514", "tcp://127.0.0.1:5514"]}\n'

    assert lint_problems(stdin, stdin) == [("b.yaml", 1, 1, "shared-input", "error")]
    assert lint_problems(syslog, syslog) == [("b.yaml", 1, 1, "shared-input", "error")]


def test_a_folder_may_hold_alternatives() -> None:
    Path("a.yaml").write_text(copy("a.log", "out.jsonl"))
    Path("b.yaml").write_text(copy("b.log", "out.jsonl"))

    assert [problem.severity for problem in check(["a.yaml", "b.yaml"], {}, "warning")] == ["warning"]
    assert check(["a.yaml", "b.yaml"], {}) == []


KAFKA = {"servers": ["k1:9092", "k2:9092"]}
ROCKET = {"servers": ["r:9876"]}
DATABASE = {"url": "mysql://h/d", "table": "t"}
ELASTIC = {"urls": ["http://e:9200"]}
FOLLOW = {"fields": {"id": "long"}, "follow": True, "id": "id"}


@pytest.mark.parametrize(
    ("source", "sink", "target"),
    [
        (KafkaSource(**KAFKA, topics=["t"]), KafkaSink(servers=["k2:9092"], topic="t"), "kafka://k2:9092/t"),
        (KafkaSource(**KAFKA, pattern="t.*"), KafkaSink(**KAFKA, topic="tee"), "kafka://k1:9092/tee"),
        (KafkaSource(**KAFKA, topics=["t"]), KafkaSink(**KAFKA, topic="u"), None),
        (KafkaSource(**KAFKA, topics=["t"]), KafkaSink(servers=["k3:9092"], topic="t"), None),
        (RocketmqSource(**ROCKET, topics=["t"]), RocketmqSink(**ROCKET, topic="t"), "rocketmq://r:9876/t"),
        (DatabaseSource(**DATABASE, **FOLLOW), DatabaseSink(**DATABASE), "mysql://h:3306/d/t"),
        (DatabaseSource(**DATABASE, fields={"id": "long"}), DatabaseSink(**DATABASE), None),
        (
            ElasticsearchSource(**ELASTIC, index="logs-*", time_field="@timestamp"),
            ElasticsearchSink(**ELASTIC, index="logs-{yyyy.MM.dd}"),
            "index http://e:9200/logs-2026.01.01",
        ),
        (FileSource(path="*"), KafkaSink(**KAFKA, topic="t"), None),
    ],
)
def test_what_a_source_would_read_of_a_sink(source: Source, sink: Sink, target: str | None) -> None:
    assert read_target(source, sink.writes()) == target


TOPIC = "source: {type: kafka, servers: [k:9092], topics: [t]}\nsink: {type: kafka, servers: [k:9092], topic: t}\n"


def test_a_topic_that_is_read_and_written_is_a_warning() -> None:
    assert lint_problems(TOPIC) == [("a.yaml", 2, 1, "reads-own-output", "warning")]


def test_the_example_of_a_folder_is_a_part() -> None:
    (target,) = FileSink(path="out/{host}/{yyyy-MM}/").writes()

    assert target == f"{os.getcwd()}/out/x/2026-01/part-20260101T000000Z-000000.json"


def test_two_stars_match_any_number_of_folders() -> None:
    assert is_matched("/a/b/c.log", "/a/**/c.log")
    assert is_matched("/a/c.log", "/a/**/c.log")
    assert not is_matched("/a/.b/c.log", "/a/**/c.log")
