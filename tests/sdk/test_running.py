"""Runs from Python, inside the Spark session of the caller."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from running import wait_for

from etl.sdk import EtlError, fn, pipeline, read, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_second_run_continues_from_the_committed_offsets(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "in.log").write_text("1\n2\nx\n")
    numbers = read.file(tmp_path / "in.log").regex("^(?P<n>[0-9]+)$")
    built = pipeline("numbers", numbers.to_file(tmp_path / "out.jsonl").named("out"))
    zone = spark.conf.get("spark.sql.session.timeZone")

    first = built.run(spark=spark, state=tmp_path / "state")
    again = built.run(spark=spark, state=tmp_path / "state")

    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == [{"n": "1"}, {"n": "2"}]
    assert (first.sinks["out"].incoming, first.sinks["out"].accepted, first.totals.dead) == (3, 2, 1)
    assert "running" in [message.event for message in first.messages]
    assert "<td>out</td><td>3</td>" in first._repr_html_()
    assert str(first).splitlines()[0] == "numbers: ended, 3 events read, 1 dead letters"
    assert again.totals.as_numbers()["events"] == 0
    assert spark.conf.get("spark.sql.session.timeZone") == zone
    assert spark.range(3).count() == 3


def test_a_run_in_the_background_is_watched_and_stopped(tmp_path: Path, spark: SparkSession) -> None:
    path = tmp_path / "in.log"
    path.write_text("1\n")
    built = pipeline("follow", read.file(path).to_file(tmp_path / "out.jsonl"), run={"trigger": "100ms"})

    with built.start(spark=spark, state=tmp_path / "state") as run:
        wait_for(lambda: run.totals.as_numbers()["events"] == 1)
        with path.open("a") as file:
            file.write("2\n")
        wait_for(lambda: run.totals.as_numbers()["events"] == 2)
        assert run.is_running
        assert run.wait(0.01).is_running
        assert "2 read" in run._repr_html_()

    assert not run.is_running
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2


def test_a_run_that_fails_raises_its_error(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "in.log").write_text("x\n" * 200)
    built = pipeline("dead", read.file(tmp_path / "in.log").regex("(?P<n>[0-9]+)").to_discard())

    with pytest.raises(EtlError, match=r"more than max_dead=0\.1 allows"):
        built.run(spark=spark, state=tmp_path / "state", max_dead=0.1)


def test_a_windowed_count_in_the_callers_session(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "in.log").write_text("".join(f"2026-11-20T06:00:0{n}Z {word}\n" for n, word in enumerate("abab")))
    words = read.file(tmp_path / "in.log").grok("%{TIMESTAMP_ISO8601:time} %{WORD:word}").timestamp(field="time")
    counts = words.window(time="time", size="1m", group_by=["word"], aggregates={"count": fn.count()})

    pipeline("counts", counts.to_file(tmp_path / "out.jsonl")).run(spark=spark, state=tmp_path / "state", drain=True)

    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted((row["word"], row["count"]) for row in rows) == [("a", 2), ("b", 2)]


def test_a_session_of_spark_connect_is_refused() -> None:
    class Remote:
        """Has no SparkContext."""

    with pytest.raises(EtlError, match="Spark Connect runs no pipelines"):
        pipeline("p", read.generate(count=1).to_discard()).run(spark=Remote())  # type: ignore[arg-type]


def test_a_session_that_its_owner_has_stopped_is_named(tmp_path: Path) -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))

    with pytest.raises(EtlError, match="this SparkSession has been stopped: start another one"):
        pipeline("p", read.generate(count=1).to_discard()).run(spark=session, state=tmp_path / "state")
    failed = running.Run("p", {}, None, None, session)._explain(AttributeError("'NoneType' object"))  # type: ignore[arg-type]
    assert str(failed).startswith("the SparkSession was stopped before the run; nothing is lost")


def test_a_trial_uses_the_session_of_the_process_and_a_run_requires_it_as_argument(tmp_path: Path, spark: SparkSession) -> None:
    lines = ['{"t": "2026-11-20T06:00:01Z", "k": "a"}', '{"t": "2026-11-20T06:00:02Z", "k": "a"}']
    events = read.file(tmp_path / "in.log").json({"t": "timestamp", "k": "string"})
    counts = events.window(time="t", size="1m", group_by=["k"], aggregates={"n": fn.count()})

    pool = spark.sparkContext.getLocalProperty("spark.scheduler.pool")

    assert [(row["k"], row["n"]) for row in counts.test(lines).events] == [("a", 2)]
    assert spark.range(2).count() == 2
    assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") == pool
    with pytest.raises(EtlError, match="run on it with spark=session"):
        pipeline("p", counts.to_discard()).run(state=tmp_path / "state")


def test_a_run_holds_its_latest_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MAX_MESSAGES", 2)
    run = running.Run("p", {}, None, None)  # type: ignore[arg-type]

    for text in ("a", "b", "c"):
        run._report(text)  # type: ignore[arg-type]

    assert run.messages == ["b", "c"]
