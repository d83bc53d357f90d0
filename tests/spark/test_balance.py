"""Whole runs with unusual input, queries or state: every event is counted once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running import Engine

from etl.api import ComponentError, EtlError
from etl.config.loader import load
from etl.running.planning import RunRequest, planned_run
from etl.spark.run import PipelineRun
from etl.spark.state.folder import StateFolder, lock_state
from etl.spark.state.json_files import write_json

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TWO_LANES = """
    name: lanes
    sources:
      log: {type: file, path: "{here}/in/*.log"}
    streams:
      spark:
        from: log
        steps:
          - {type: sql, query: "SELECT soundex(message) AS sound, message FROM events"}
          - {type: keep, fields: [message]}
      both:
        from: [log, spark]
        steps:
          - {type: regex, patterns: ['^(?<n>[0-9]+) (?<word>[a-z]+)$']}
          - {type: sql, query: "SELECT soundex(word) AS sound, n FROM events"}
    sinks:
      out: {from: both, type: file, path: "{here}/out.jsonl"}
"""

WHOLE = """
    name: whole
    source: {type: spark, format: parquet, options: {path: "{here}/table"}, fields: {n: bigint}}
    steps:
      - {type: filter, where: n >= 10}
    sink: {type: file, path: "{here}/out.jsonl"}
"""


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def planned(engine: Engine, text: str) -> PipelineRun:
    request = RunRequest(once=True, state=str(engine.etl.folder / "state"))
    return planned_run(load(engine.etl.pipeline(text)), request, "local[2]")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "table").mkdir()
    pq.write_table(pa.table({"n": list(range(25))}), tmp_path / "table" / "a.parquet")
    return tmp_path / "table"


def test_two_reads_of_one_source_count_and_reject_separately(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.log").write_text("1 one\nbad\n2 two\n")

    totals = engine(TWO_LANES)

    assert sorted(str(row["n"]) for row in rows(tmp_path / "out.jsonl")) == ["1", "1", "2", "2"]
    assert totals.read["log"].incoming == 3
    assert totals.dead == len(rows(tmp_path / "state" / "dead_letters.jsonl")) == 2
    assert totals.sinks["out"].is_balanced


def test_events_that_spark_itself_reads_are_counted(engine: Engine, table: Path) -> None:
    totals = engine(WHOLE)

    assert totals.read["main"].incoming == 25
    assert (totals.sinks["main"].accepted, totals.sinks["main"].is_balanced) == (15, True)


def test_a_step_between_two_spark_steps_of_two_queries_reports_its_rejects_once(
    engine: Engine, table: Path, tmp_path: Path
) -> None:
    totals = engine("""
        name: shared
        sources:
          numbers: {type: spark, format: parquet, options: {path: "{here}/table"}, fields: {n: bigint}}
        streams:
          words:
            from: numbers
            steps:
              - {type: sql, query: "SELECT n, soundex(CAST(n AS STRING)) AS message FROM events"}
              - {type: regex, patterns: ['^(?<digit>[0-9])$']}
          first: {from: words, steps: [{type: sql, query: "SELECT soundex(digit) AS a FROM events"}]}
          second: {from: words, steps: [{type: sql, query: "SELECT soundex(digit) AS b FROM events"}]}
        sinks:
          one: {from: first, type: file, path: "{here}/one.jsonl"}
          two: {from: second, type: file, path: "{here}/two.jsonl"}
    """)

    assert (len(rows(tmp_path / "one.jsonl")), len(rows(tmp_path / "two.jsonl"))) == (10, 10)
    assert totals.read["numbers"].incoming == 25
    assert totals.dead == len(rows(tmp_path / "state" / "dead_letters.jsonl")) == 15


def test_a_stopped_run_starts_no_further_bounded_query(engine: Engine, table: Path, tmp_path: Path) -> None:
    one = planned(engine, WHOLE)
    with one.prepared() as commits:
        one.stop()
        one.work(engine.shared.started(), commits)

    assert rows(tmp_path / "out.jsonl") == []
    assert one.totals.batches == 0


def test_the_error_for_a_query_that_cannot_start_names_it(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(EtlError, match=r"query 'main': .*missing"):
        engine("""
            name: missing
            source: {type: spark, format: parquet, streaming: true, options: {path: "{here}/missing"}, fields: {n: bigint}}
            sink: {type: file, path: "{here}/out.jsonl"}
        """)


def test_a_query_that_starts_over_delivers_to_a_sink_with_older_commits(engine: Engine, table: Path, tmp_path: Path) -> None:
    engine(WHOLE)
    shutil.rmtree(tmp_path / "state" / "queries")

    engine(WHOLE)

    assert len(rows(tmp_path / "out.jsonl")) == 30


def test_damaged_input_is_counted_and_rejected(engine: Engine, tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    (inbox / "binary.log").write_bytes(bytes(range(256)) * 4 + b"\n1 ok\n")
    (inbox / "nul.log").write_bytes(b"\0\0\0\n2 ok\n")
    (inbox / "latin.log").write_bytes(b"\xff\xfe\xe9\n3 ok\n")
    (inbox / "long.log").write_bytes(b"x" * (50 << 20) + b"\n4 ok\n")
    (inbox / "empty.log").touch()

    totals = engine("""
        name: hostile
        source: {type: file, path: "{here}/in/*.log"}
        steps:
          - {type: regex, patterns: ['^(?<n>[0-9]+) ok$']}
        sink: {type: file, path: "{here}/out.jsonl"}
    """)

    letters = rows(tmp_path / "state" / "dead_letters.jsonl")
    sink = totals.sinks["main"]
    assert sorted(str(row["n"]) for row in rows(tmp_path / "out.jsonl")) == ["1", "2", "3", "4"]
    assert sink.is_balanced
    assert (sink.accepted, sink.dead) == (4, len(letters))
    assert len([letter for letter in letters if letter["code"] != "regex-failed"]) == 1


def test_no_event_is_lost_when_an_input_folder_is_missing_during_a_run(engine: Engine, tmp_path: Path) -> None:
    pipeline = """
        name: gone
        source: {type: file, path: "{here}/in/*.log"}
        sink: {type: file, path: "{here}/out.jsonl"}
    """
    inbox = tmp_path / "in"
    inbox.mkdir()
    (inbox / "a.log").write_text("one\n")
    engine(pipeline)
    shutil.rmtree(inbox)
    engine(pipeline)
    inbox.mkdir()
    (inbox / "b.log").write_text("two\n")

    engine(pipeline)

    assert [row["message"] for row in rows(tmp_path / "out.jsonl")] == ["one", "two"]


@pytest.mark.parametrize("what", ["offsets/0", "commits/0", "metadata", "../pace.json", "../clock.json"])
def test_a_damaged_checkpoint_is_repaired_or_an_error(engine: Engine, tmp_path: Path, what: str) -> None:
    pipeline = """
        name: broken
        source: {type: file, path: "{here}/in/*.log"}
        sink: {type: file, path: "{here}/out.jsonl"}
    """
    (tmp_path / "in").mkdir()
    log = tmp_path / "in" / "a.log"
    log.write_text("one\n")
    engine(pipeline)
    file = tmp_path / "state/queries/main/checkpoint" / what
    file.write_text("garbage\n")
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    log.write_text("one\ntwo\n")

    if what.startswith("offsets"):
        with pytest.raises(EtlError, match=rf"query 'main': checkpoint file {file} is damaged .*: restore .*; or remove "):
            engine(pipeline)
    else:
        engine(pipeline)

    delivered = ["one"] if what.startswith("offsets") else ["one", "two"]
    assert [row["message"] for row in rows(tmp_path / "out.jsonl")] == delivered


def test_each_event_is_delivered_once_after_a_damaged_commit_before_an_interrupted_batch(engine: Engine, tmp_path: Path) -> None:
    pipeline = """
        name: broken
        source: {type: file, path: "{here}/in/*.log"}
        sink: {type: file, path: "{here}/out.jsonl"}
    """
    (tmp_path / "in").mkdir()
    log = tmp_path / "in" / "a.log"
    for text in ("one\n", "one\ntwo\n"):
        log.write_text(text)
        engine(pipeline)
    commits = tmp_path / "state/queries/main/checkpoint/commits"
    for name in ("0", "1"):
        (commits / f".{name}.crc").unlink(missing_ok=True)
    (commits / "1").unlink()
    (commits / "0").write_text("garbage\n")
    log.write_text("one\ntwo\nthree\n")

    engine(pipeline)

    assert [row["message"] for row in rows(tmp_path / "out.jsonl")] == ["one", "two", "three"]


@pytest.mark.parametrize("folder", ["there", "there/below"])
def test_the_error_for_a_state_folder_where_a_file_is_names_the_file(tmp_path: Path, folder: str) -> None:
    file = tmp_path / "there"
    file.touch()

    with pytest.raises(ComponentError, match=f"cannot use state folder {tmp_path / folder}: {file} is a file; choose another"):
        StateFolder(tmp_path / folder).prepare()


def test_the_error_for_a_state_folder_that_cannot_be_locked_names_it(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()

    with pytest.raises(ComponentError, match=f"cannot use state folder {tmp_path}"), lock_state(StateFolder(tmp_path)):
        pass


def test_the_error_for_a_state_folder_on_a_full_disk_names_it(tmp_path: Path) -> None:
    for name in ("lock", "small.json.new"):
        (tmp_path / name).symlink_to("/dev/full")

    with (
        pytest.raises(ComponentError, match=f"cannot write to state folder {tmp_path}: .*, and start again"),
        lock_state(StateFolder(tmp_path)),
    ):
        pass
    with pytest.raises(
        ComponentError, match=r"small.json cannot be written \(No space left on device\); nothing is lost: free disk space"
    ):
        write_json(tmp_path / "small.json", {})


def test_the_error_for_a_state_folder_that_is_a_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "state").touch()

    with pytest.raises(ComponentError, match="choose another with --state"):
        StateFolder(tmp_path / "state").prepare()
