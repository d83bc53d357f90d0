"""Who is close to a threshold, over the API."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest
from cli.state_pipelines import WINDOW, Pipeline
from jobs_and_client import Client, Jobs

from etl.api import EtlError
from etl.server.boards import threshold_board
from etl.server.names import PipelineName

A = "/api/pipelines/shop/a"
SECRET = "s3cret-of-the-sink"
STEPS = WINDOW.replace(
    "having: failures >= 5",
    'having: failures >= 5 and users > 1\n    emit: {when: "failures >= 3"}\n  - {type: filter, where: users > 2}',
)


@pytest.fixture
def stored(tmp_path: Path, jobs: Jobs, client: Client, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """The pipeline of the server, with a state; answers are read again for each request."""
    monkeypatch.setattr(threshold_board, "REUSE_SECONDS", 0)
    monkeypatch.setattr(threshold_board, "REUSE_FACTOR", 0)
    (tmp_path / "other").mkdir()
    pipeline = Pipeline(tmp_path / "other", STEPS)
    secret = f"dead_letters: {{type: http, urls: 'http://localhost:1/', token: {SECRET}}}\n"
    assert client("PUT", A, pipeline.file.read_text() + secret).status == 200
    jobs.wait("shop/a", "running")
    return pipeline


def store(jobs: Jobs, pipeline: Pipeline, users: dict[str, str]) -> None:
    """The state after a micro-batch with an event for each character."""
    pipeline.read([(ip, 1, user) for ip, names in users.items() for user in names])
    copytree(pipeline.state, jobs.engine.state("shop/a").root, dirs_exist_ok=True)


def test_the_groups_that_are_nearest_to_each_condition(jobs: Jobs, client: Client, stored: Pipeline) -> None:
    before = client("GET", f"{A}/thresholds").json
    store(jobs, stored, {"a": "xxxx", "b": "xyz", "c": "xyzvw", SECRET * 20: "xy", "d": "x"})

    having, emit, where = found = client("GET", f"{A}/thresholds").json

    names = ("step", "option", "condition", "line", "batch", "groups", "met", "complete", "failure")
    assert [tuple(one[name] for name in names) for one in found] == [
        ("steps[1] window", "having", "failures >= 5 and users > 1", 4, 0, 5, 1, True, None),
        ("steps[1] window", "emit", "failures >= 3", 4, 0, 5, 3, True, None),
        ("steps[1] window", "where", "users > 2", 4, 0, 5, 2, True, None),
    ]
    assert [(one["batch"], one["groups"], one["nearest"]) for one in before] == [(None, 0, [])] * 3
    assert "only if `having` is true" in having["explanation"]
    assert [(one["share"], one["values"]["source"]["ip"][:3]) for one in having["nearest"]][:2] == [(0.8, "a"), (0.6, "b")]
    assert [one["values"]["failures"] for one in emit["nearest"]] == [2, 1]
    text = where["nearest"][0]["values"]["source"]["ip"]
    assert (text, len(text) <= 201) == ("***" * 20, True)
    limited = client("GET", f"{A}/thresholds?limit=1").json
    assert [len(one["nearest"]) for one in limited] == [1, 1, 1]
    assert client("GET", f"{A}/thresholds?limit=1000").status == 400


def test_reading_ends_in_time_and_is_done_once_for_all_viewers(
    jobs: Jobs, client: Client, stored: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(jobs, stored, {f"{n}": "x" for n in range(40)})
    monkeypatch.setattr("etl.state.reader.ROWS_AT_ONCE", 1)  # one part after the other
    monkeypatch.setattr(threshold_board, "READ_SECONDS", -1.0)
    monkeypatch.setattr(threshold_board, "REUSE_SECONDS", 60)

    cut = client("GET", f"{A}/thresholds").json

    assert [(one["complete"], 0 < one["groups"] < 40) for one in cut] == [(False, True)] * 3
    monkeypatch.setattr(threshold_board, "near_groups", lambda *_: pytest.fail("read again"))
    with jobs.server.thresholds._lock:  # as if the state of another pipeline was being read
        assert client("GET", f"{A}/thresholds").json == cut
    client("PUT", A, stored.file.read_text().replace("users > 2", "users > 3"))
    monkeypatch.undo()
    assert [one["condition"] for one in client("GET", f"{A}/thresholds").json][-1] == "users > 3"


def test_what_cannot_be_read_is_said(jobs: Jobs, client: Client, stored: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    store(jobs, stored, {"a": "x"})
    text = stored.file.read_text()
    only_spark = "soundex(source.ip) = 'A'"
    assert client("PUT", A, text.replace("users > 2", only_spark)).status == 200
    assert "only Spark computes" in client("GET", f"{A}/thresholds").json[2]["failure"]

    assert client("PUT", A, text.replace("size: 1m", "size: 2m")).status == 200
    unfit = client("GET", f"{A}/thresholds")
    assert (unfit.status, "no longer fits its state" in unfit.json["error"]["message"]) == (422, True)
    assert str(jobs.folder.parent) not in unfit.text

    monkeypatch.setattr(threshold_board, "WAIT_SECONDS", 0.0)
    pipeline = jobs.server.job(PipelineName("shop", "a")).pipeline
    assert pipeline is not None
    with jobs.server.thresholds._lock, pytest.raises(EtlError, match="being read; try later"):
        jobs.server.thresholds.look(pipeline, jobs.engine.state("shop/a"))
    client("PUT", A, jobs.text())
    assert client("GET", f"{A}/thresholds").json == []


def test_correlations_have_the_thresholds_of_their_rules(jobs: Jobs, client: Client) -> None:
    count = "{type: event_count, rules: [failed], group-by: [message], timespan: 10m, condition: {gte: 5}}"
    correlate = f"""\
- type: correlate
  rules: [{{name: failed, where: "message like '%failed%'"}}]
  correlations: [{{title: Brute force, correlation: {count}}}]
  time: at
"""
    text = jobs.text().replace("sink:", f"- {{type: set, fields: {{at: now()}}}}\n{correlate}sink:")
    assert client("PUT", A, text).status == 200

    (found,) = client("GET", f"{A}/thresholds").json

    assert (found["step"], found["option"], found["failure"]) == ("steps[2] correlate", "correlations", None)
    assert "the threshold of its rule" in found["explanation"]
