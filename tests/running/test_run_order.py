"""With --once, pipelines run after those that write what they read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import Engine

from etl.config.loader import load
from etl.running.messages import Message
from etl.running.planning import RunRequest
from etl.running.run_order import upstream_of_each
from etl.running.service import RunService


def files(folder: Path, **pipelines: tuple[str, str]) -> list[Path]:
    """Pipeline files with a source and a sink each; ``<name`` and ``>name`` are streams, ``>name!`` waits for readers."""
    paths = []
    for name, (source, sink) in pipelines.items():
        path = folder / f"{name}.yaml"
        path.write_text(f"name: {name}\nsource: {_source(source, folder)}\nsink: {_sink(sink, folder)}\n")
        paths.append(path)
    return paths


def _source(text: str, folder: Path) -> str:
    if text.startswith("<"):
        return f'{{type: stream, name: {text[1:]}, folder: "{folder}/streams", fields: {{message: string}}}}'
    return f'{{type: file, path: "{folder}/{text}"}}'


def _sink(text: str, folder: Path) -> str:
    if text.startswith(">"):
        name, waits, _ = text[1:].partition("!")
        return f'{{type: stream, name: {name}, folder: "{folder}/streams"{", when_full: wait" if waits else ""}}}'
    return f'{{type: file, path: "{folder}/{text}"}}'


def upstream(folder: Path, **pipelines: tuple[str, str]) -> dict[str, set[str]]:
    service = RunService([load(path) for path in files(folder, **pipelines)], RunRequest(once=True), several=True)
    return {name: set(one.pipelines) for name, one in upstream_of_each([run.plan for run in service.runs]).items()}


def test_pipelines_wait_for_all_that_feed_them(tmp_path: Path) -> None:
    assert upstream(
        tmp_path,
        c=("<two", "c.jsonl"),
        b=("<one", ">two"),
        a=("in.log", ">one"),
        d=("c.jsonl", "d.jsonl"),
        e=("in.log", "e.jsonl"),
    ) == {"a": set(), "b": {"a"}, "c": {"a", "b"}, "d": {"a", "b", "c"}, "e": set()}


def test_nobody_waits_in_a_circle_or_for_one_that_waits_for_its_readers(tmp_path: Path) -> None:
    found = upstream(tmp_path, a=("<two", ">one"), b=("<one", ">two"), c=("<two", ">three!"), d=("<three", "d.jsonl"))

    assert found == {"a": set(), "b": set(), "c": {"a", "b"}, "d": set()}


@pytest.mark.spark
def test_subscribers_get_all_in_the_first_run(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "in.log").write_text("".join(f"{n}\n" for n in range(1000)))
    paths = files(tmp_path, last=("copy.jsonl", "last.jsonl"), copy=("<lines", "copy.jsonl"), read=("in.log", ">lines"))
    request = RunRequest(once=True, state=str(tmp_path / "state"), master=engine.shared.master)
    messages: list[Message] = []

    RunService([load(path) for path in paths], request, several=True, shared=engine.shared).work(messages.append)

    assert [json.loads(line)["message"] for line in (tmp_path / "copy.jsonl").read_text().splitlines()] == [
        str(n) for n in range(1000)
    ]
    assert len((tmp_path / "last.jsonl").read_text().splitlines()) == 1000
    assert not [one for one in messages if one.level != "info"]
