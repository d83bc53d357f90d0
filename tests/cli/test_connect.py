"""`etl lint --connect`: what systems say, at the place in the file that names them; no secrets, no waiting without end."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from pydantic import SecretStr
from running import Etl

from etl.api import ComponentError, Finding, Schema, Sink, Source
from etl.catalogue import Catalogue, installed
from etl.cli import connect
from etl.cli.connect import probe_pipeline
from etl.config.loader import inspect

ANSWERS: dict[str, Any] = {}
"""Place → what its probe does: a list of findings, an exception, or an event it waits for."""
SEEN: list[list[str]] = []
"""The fields that sinks were asked about."""


def _answer(place: str) -> Iterable[Finding]:
    answer = ANSWERS.get(place, [])
    if isinstance(answer, Exception):
        raise answer
    if callable(answer):
        answer()
    return answer if isinstance(answer, list) else []


class Far(Source):
    """Far away."""

    type: Literal["far"] = "far"
    place: str
    password: SecretStr = SecretStr("")

    def fields(self) -> Schema:
        return pa.schema([("message", pa.string())])

    def probe(self) -> Iterable[Finding]:
        return _answer(self.place)


class FarAway(Sink):
    """Far away."""

    type: Literal["far_away"] = "far_away"
    place: str
    password: SecretStr = SecretStr("")

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        SEEN.append(incoming.names)
        return _answer(self.place)


SHORT = """\
source:
  type: far
  place: here
  password: ${PASSWORD}
steps:
  - {type: set, fields: {length: length(message)}}
sink: {type: far_away, place: there}
dead_letters: {type: far_away, place: grave}
"""


@pytest.fixture
def problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write the file, probe it, and return its problems as texts."""
    everything = Catalogue((*installed().components, Far, FarAway))
    monkeypatch.setattr("etl.config.loader.installed", lambda: everything)
    ANSWERS.clear()
    SEEN.clear()

    def probe(seconds: float = 5.0) -> list[str]:
        file = tmp_path / "far.yaml"
        file.write_text(SHORT)
        env = {**os.environ, "PASSWORD": "sesame-open"}
        checked = inspect(file, env)
        assert checked.pipeline is not None, checked.problems
        return [str(problem).removeprefix(f"{file}:") for problem in probe_pipeline(checked.pipeline, env, seconds=seconds)]

    return probe


def test_all_is_well(problems: Any) -> None:
    assert problems() == []
    assert ["message", "length"] in SEEN
    assert any("reason" in names for names in SEEN)  # the dead letters


def test_findings_have_the_location_of_the_option(problems: Any) -> None:
    ANSWERS["here"] = [Finding("unknown-topic", "there is no topic 'x'", ("place",), "topics are: y")]
    ANSWERS["there"] = ConnectionRefusedError("localhost:9200 refused the connection")
    ANSWERS["grave"] = ComponentError("localhost:9200: wrong password for 'etl'")

    assert problems() == [
        "3:10: unknown-topic: $.source.place: there is no topic 'x'\n  hint: topics are: y",
        "7:7: unreachable: $.sink: localhost:9200 refused the connection",
        "8:15: not-ready: $.dead_letters: localhost:9200: wrong password for 'etl'",
    ]


def test_tables_are_probed(tmp_path: Path) -> None:
    # given
    file = tmp_path / "p.yaml"
    file.write_text(f"""tables:
  intel: {{type: file, key: ip, path: "{tmp_path}/none.csv"}}
  web: {{type: http, url: "http://127.0.0.1:1/t.csv", key: ip, token: "${{TOKEN}}"}}
source: {{type: stdin}}
""")
    pipeline = inspect(file, {"TOKEN": "sesame-open"}).pipeline
    assert pipeline is not None

    # when
    found = [str(problem).removeprefix(f"{file}:") for problem in probe_pipeline(pipeline, {"TOKEN": "sesame-open"})]

    # then
    assert found == [
        f"2:38: unreadable-file: $.tables.intel.path: {tmp_path}/none.csv: No such file or directory",
        "3:26: unreachable: $.tables.web.url: http://127.0.0.1:1: Connection refused",
    ]


def test_secrets_are_not_shown(problems: Any) -> None:
    ANSWERS["here"] = ConnectionError("cannot log in with password 'sesame-open'")

    assert problems() == ["2:3: unreachable: $.source: cannot log in with password '***'"]


def test_who_does_not_answer_is_not_waited_for(problems: Any) -> None:
    import threading

    gate = threading.Event()
    ANSWERS["here"] = gate.wait
    try:
        found = problems(seconds=0.2)
    finally:
        gate.set()

    assert found == ["2:3: no-answer: $.source: no answer within 0.2 s"]


def test_a_probe_that_breaks_is_a_defect_of_the_component(problems: Any) -> None:
    ANSWERS["there"] = KeyError("x")

    assert problems() == ["7:7: probe-failed: $.sink: the probe of this component failed: KeyError: 'x'"]


@pytest.mark.slow
def test_lint_connects_only_where_there_are_no_errors_and_run_can_require_it(etl: Etl, tmp_path: Path) -> None:
    good = etl.pipeline("""
        source: {type: generate, count: 1}
        sink: {type: file, path: "{here}/out.jsonl"}
    """)
    bad = etl.pipeline("source: {type: generate, count: -1}\nsink: {type: discard}\n", "bad.yaml")

    linted, refused, wrong = etl("lint", good, "--connect"), etl("lint", bad, "--connect"), etl("lint", tmp_path, "--connect")

    assert (linted.status, linted.err) == (0, "1 file, no problems\n")
    assert (refused.status, wrong.status) == (1, 1)
    assert not (tmp_path / "out.jsonl").exists()
    assert connect.LIMIT_SECONDS <= 30
