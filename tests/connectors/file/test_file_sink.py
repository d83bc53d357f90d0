"""The file sink: the content of its files after commits, crashes, full disks and changes by other programs."""

from __future__ import annotations

import csv
import errno
import gzip
import io
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from running import wait_for

from connectors.file.sink import FileSink
from connectors.file.writing import appender, disk_sync, file_operations, ledger, part_publisher, staged_files, stores
from connectors.shared.path_template import parse_template, safe_name
from etl.api import (
    CHANGE,
    DELETE,
    INSERT,
    TIMESTAMP,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    BatchId,
    ComponentError,
    Staged,
    Task,
    visible,
)
from etl.file_modes import private_files

SCHEMA = pa.schema([("n", pa.int64()), ("host", pa.string())])


class Run:
    """A run like the engine's: stages splits and commits, with one state folder."""

    def __init__(self, folder: Path, sink: FileSink) -> None:
        self.folder, self.sink = folder, sink
        self.state = folder / "state"
        self.state.mkdir(exist_ok=True)
        self.committer = sink.committer(str(self.state))

    def stage(self, number: int, *splits: pa.RecordBatch) -> list[Staged]:
        stage = self.folder / "staging" / str(number)
        stage.mkdir(parents=True, exist_ok=True)
        staged = []
        for name, events in enumerate(splits):
            writer = self.sink.open(Task("p", "s", f"split-{name}", str(stage), visible(events.schema)))
            writer.write(events)
            output = writer.close()
            staged += [output] if output else []
        return staged

    def batch(self, number: int, *splits: pa.RecordBatch, query: str = "q") -> None:
        self.committer.commit(BatchId(query, number), self.stage(number, *splits))


def events(*numbers: int, host: str | None = "a", schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    columns = {"n": pa.array(numbers, pa.int64()), "host": pa.array([host] * len(numbers), pa.string())}
    return pa.record_batch({**columns, "_offset": pa.array(numbers, pa.int64())})


def sink(folder: Path, path: str, **options: Any) -> FileSink:
    return FileSink(path=f"{folder}/{path}", **options)


def read(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data) if data else b""
    if path.suffix == ".zst":
        return pa.input_stream(path, compression="zstd").read()
    return data


def rows(path: Path) -> list[Any]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if ".csv" in path.name:
        return list(csv.DictReader(io.StringIO(read(path).decode())))
    return [json.loads(line) for line in read(path).splitlines()]


def parts(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file()) if folder.exists() else []


def numbers(folder: Path) -> list[int]:
    files = [folder] if folder.is_file() else parts(folder)
    return [int(row["n"]) for path in files for row in rows(path)]


# ── One growing file ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["out.json", "out.json.gz", "out.json.zst", "out.csv", "out.csv.gz"])
def test_one_file_grows_in_order(tmp_path: Path, name: str) -> None:
    run = Run(tmp_path, sink(tmp_path, f"deep/{name}", format="csv" if "csv" in name else "json"))

    run.batch(0, events(1, 2), events(3))
    run.batch(1, events(4))

    assert numbers(tmp_path / "deep" / name) == [1, 2, 3, 4]
    assert parts(tmp_path / "deep") == [tmp_path / "deep" / name]


def test_json_nests_dotted_fields_and_hides_the_offset(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out.json"))

    run.batch(0, pa.record_batch({"source.ip": ["::1"], "x": pa.nulls(1, pa.string()), "_offset": [7]}))

    assert (tmp_path / "out.json").read_text() == '{"source":{"ip":"::1"},"x":null}\n'


CHANGED = [(1, "a", INSERT), (1, "a", UPDATE_BEFORE), (1, "b", UPDATE_AFTER), (2, "c", DELETE)]


def changes(folder: Path, component: FileSink) -> None:
    """Write these changes as a micro-batch."""
    n, host, kinds = zip(*CHANGED, strict=True)
    columns = {"n": pa.array(n), "host": pa.array(host), CHANGE: pa.array(kinds, pa.int8()), "_offset": pa.array(range(len(n)))}
    batch = pa.record_batch(columns)
    writer = component.open(Task("p", "s", "split", str(folder), batch.schema.remove(3)))
    writer.write(batch)
    output = writer.close()
    assert output is not None
    component.committer(str(folder)).commit(BatchId("q", 0), [output])


def test_changes_are_lines_of_debezium(tmp_path: Path) -> None:
    changes(tmp_path, sink(tmp_path, "out.json", changes="debezium"))

    found = [(row["op"], row["before"], row["after"]) for row in rows(tmp_path / "out.json")]
    assert found == [
        ("c", None, {"n": 1, "host": "a"}),
        ("d", {"n": 1, "host": "a"}, None),
        ("c", None, {"n": 1, "host": "b"}),
        ("d", {"n": 2, "host": "c"}, None),
    ]


def test_events_that_are_only_added_are_lines_of_debezium(tmp_path: Path) -> None:
    Run(tmp_path, sink(tmp_path, "out.json", changes="debezium")).batch(0, pa.record_batch({"n": [1], "_offset": [7]}))

    assert rows(tmp_path / "out.json") == [{"before": None, "after": {"n": 1}, "op": "c"}]


@pytest.mark.parametrize("name", ["out.json", "out.csv"])
def test_changes_are_events_with_their_kinds(tmp_path: Path, name: str) -> None:
    changes(tmp_path, sink(tmp_path, name, changes="kind", format=name.removeprefix("out.")))

    found = [(row["_kind"], int(row["n"]), row["host"]) for row in rows(tmp_path / name)]
    assert found == [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("-D", 2, "c")]


def test_csv_keeps_dotted_names_and_has_one_header(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out.csv", format="csv"))
    batch = pa.record_batch({"source.ip": ['a,"b'], "tags": [["x", "y"]], "t": pa.array([0], TIMESTAMP), "_offset": [7]})

    run.batch(0, batch)
    run.batch(1, batch)

    line = '"a,""b","[""x"",""y""]",1970-01-01T00:00:00.000000Z\n'
    assert (tmp_path / "out.csv").read_text() == "source.ip,tags,t\n" + line + line


def test_a_micro_batch_is_committed_once_for_each_query(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out.json"))

    run.batch(0, events(1))
    run.batch(0, events(1))
    run.batch(0, events(2), query="other")
    Run(tmp_path, run.sink).batch(0, events(1))
    run.batch(1, events(3))

    assert numbers(tmp_path / "out.json") == [1, 2, 3]


def test_nothing_staged_makes_no_file(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out.json"))

    run.batch(0, events())
    run.batch(1)

    assert not (tmp_path / "out.json").exists()


def test_the_open_file_keeps_its_inode_so_that_tail_follows_it(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out/"))
    run.batch(0, events(1))
    (part,) = parts(tmp_path / "out")

    with part.open("rb") as tail:
        tail.seek(0, os.SEEK_END)
        run.batch(1, events(2))
        run.batch(2, events(3))

        assert [json.loads(line)["n"] for line in tail] == [2, 3]


@pytest.mark.parametrize(("before", "after"), [("", ""), ("old\n", "old\n"), ("old", "old\n")])
def test_an_existing_file_is_continued(tmp_path: Path, before: str, after: str) -> None:
    (tmp_path / "out.json").write_text(before)
    run = Run(tmp_path, sink(tmp_path, "out.json"))

    run.batch(0, events(1))

    assert (tmp_path / "out.json").read_text() == after + '{"n":1,"host":"a"}\n'


def test_an_existing_csv_gets_no_second_header(tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("n,host\n0,z\n")
    run = Run(tmp_path, sink(tmp_path, "out.csv", format="csv"))

    run.batch(0, events(1))

    assert (tmp_path / "out.csv").read_text() == "n,host\n0,z\n1,a\n"


@pytest.mark.parametrize("meddle", ["rename", "delete", "truncate", "replace"])
def test_a_change_of_the_output_by_others_neither_corrupts_nor_loses_later_events(
    tmp_path: Path, meddle: str, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "out.json"
    run = Run(tmp_path, sink(tmp_path, "out.json"))
    run.batch(0, events(1, 2))

    if meddle == "rename":
        out.rename(tmp_path / "out.json.1")
    elif meddle == "delete":
        out.unlink()
    elif meddle == "truncate":
        os.truncate(out, 0)
    else:
        (tmp_path / "new").write_text('{"n":9}\n')
        (tmp_path / "new").replace(out)
    run.batch(1, events(3))
    run.batch(2, events(4))

    assert numbers(out) == ([9, 3, 4] if meddle == "replace" else [3, 4])
    assert caplog.text.count("since the last commit") == 1


def test_output_that_was_rotated_before_a_crash_is_truncated_too(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out.json"))
    run.batch(0, events(1))
    with (tmp_path / "out.json").open("a") as file:
        file.write("half a commit")
    (tmp_path / "out.json").rename(tmp_path / "out.json.1")

    again = Run(tmp_path, run.sink)
    again.batch(1, events(2))

    assert numbers(tmp_path / "out.json.1") == [1]
    assert numbers(tmp_path / "out.json") == [2]


def test_a_target_that_is_not_a_regular_file_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    run = Run(tmp_path, sink(tmp_path, "pipe"))

    with pytest.raises(ComponentError, match="not a regular file"):
        run.batch(0, events(1))


# ── Folders of parts ─────────────────────────────────────────────────────────────────────────────


def test_short_triggers_do_not_create_a_file_for_each_micro_batch(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out/"))

    for number in range(20):
        run.batch(number, events(number))

    assert len(parts(tmp_path / "out")) == 1
    assert numbers(tmp_path / "out") == list(range(20))


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_parts_roll_by_size_and_sort_in_order(tmp_path: Path, format_: str) -> None:
    limit = 4000 if format_ == "parquet" else 100
    run = Run(tmp_path, sink(tmp_path, "out/", format=format_, roll={"max_bytes": limit}))

    for number in range(30):
        run.batch(number, events(number))
    run.committer.close()

    assert 2 <= len(parts(tmp_path / "out")) <= 15
    assert numbers(tmp_path / "out") == list(range(30))


@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_parts_roll_by_age(tmp_path: Path, format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(1_800_000_000, 3000)
    run = Run(tmp_path, sink(tmp_path, "out/", format=format_, roll={"max_age": "1h"}))
    for module in (appender, part_publisher):
        monkeypatch.setattr(module.time, "time", lambda: next(clock))

    run.batch(0, events(1))
    run.committer.tick()
    run.batch(1, events(2))
    run.committer.tick()
    run.batch(2, events(3))
    run.committer.close()

    assert [[row["n"] for row in rows(part)] for part in parts(tmp_path / "out")] in ([[1], [2], [3]], [[1, 2], [3]])
    assert parts(tmp_path / "out")[0].name.startswith("part-20270115T08")


@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_parts_roll_when_the_clock_is_set_back(tmp_path: Path, format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([1_800_000_000] * 2 + [1_800_000_000 - 86_400] * 20)
    run = Run(tmp_path, sink(tmp_path, "out/", format=format_, roll={"max_age": "1h"}))
    for module in (appender, part_publisher):
        monkeypatch.setattr(module.time, "time", lambda: next(clock))

    run.batch(0, events(1))
    run.committer.tick()
    run.committer.tick()
    run.batch(1, events(2))
    run.batch(2, events(3))
    run.committer.close()

    found = sorted([row["n"] for row in rows(part)] for part in parts(tmp_path / "out"))
    assert found == [[1], [2, 3]], "a part of the time before is not kept open for a day, and later ones roll as ever"


def test_a_big_staged_file_becomes_a_part_without_being_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, sink(tmp_path, "out/", roll={"max_bytes": 100}))
    run.batch(0, events(1))
    monkeypatch.setattr(file_operations, "_copy", lambda *_: pytest.fail("copied"))

    run.batch(1, events(*range(2, 20)))

    assert [len(rows(part)) for part in parts(tmp_path / "out")] == [1, 18]


def test_an_open_part_is_continued_by_the_next_run(tmp_path: Path) -> None:
    first = Run(tmp_path, sink(tmp_path, "out/"))
    first.batch(0, events(1))
    first.committer.close()

    Run(tmp_path, first.sink).batch(1, events(2))

    assert len(parts(tmp_path / "out")) == 1
    assert numbers(tmp_path / "out") == [1, 2]


def test_another_csv_header_begins_another_part(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out/", format="csv"))

    run.batch(0, events(1))
    run.batch(1, events(2).drop_columns(["host"]))

    assert [part.read_text() for part in parts(tmp_path / "out")] == ["n,host\n1,a\n", "n\n2\n"]


def test_parts_of_two_pipelines_in_one_folder_have_different_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appender.time, "time", lambda: 1.8e9)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        Run(tmp_path / name, sink(tmp_path, "out/")).batch(0, events(1))

    assert len(parts(tmp_path / "out")) == 2


# ── Values and dates in the path ─────────────────────────────────────────────────────────────────


def test_fields_and_dates_in_the_path_choose_folders(tmp_path: Path) -> None:
    times = [datetime(2026, 1, 2, 23, 59, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC), None]
    batch = pa.record_batch({"timestamp": pa.array(times, TIMESTAMP), "host": ["a", "b/c", None], "n": [1, 2, 3]})
    run = Run(tmp_path, sink(tmp_path, "out/{yyyy-MM-dd}/h={host}"))

    run.batch(0, batch)

    found = {str(part.parent.relative_to(tmp_path / "out")): numbers(part) for part in parts(tmp_path / "out")}
    assert found == {"2026-01-02/h=a": [1], "2026-01-03/h=b%2Fc": [2], "__null__/h=__null__": [3]}


def test_a_path_with_an_extension_is_a_growing_file_for_each_value(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out/{host}.json"))

    run.batch(0, events(1, host="a"), events(2, host="b"), events(3, host="a"))
    run.batch(1, events(4, host="a"))

    assert numbers(tmp_path / "out" / "a.json") == [1, 3, 4]
    assert numbers(tmp_path / "out" / "b.json") == [2]


def test_date_without_a_time_field_is_the_time_of_writing(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out/{yyyy}/"))

    run.batch(0, events(1))

    assert abs(int(parts(tmp_path / "out")[0].parent.name) - datetime.now(UTC).year) <= 1


def test_events_of_one_value_keep_their_order(tmp_path: Path) -> None:
    hosts = ["a", "b", "c"] * 50
    batch = pa.record_batch({"n": list(range(150)), "host": hosts, "_offset": list(range(150))})
    run = Run(tmp_path, sink(tmp_path, "out/{host}/"))

    run.batch(0, batch)

    assert numbers(tmp_path / "out" / "b") == list(range(1, 150, 3))


@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_more_values_than_open_files_are_all_written(tmp_path: Path, format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_files, "MAX_OPEN_FILES", 3)
    monkeypatch.setattr(appender, "MAX_OPEN_PARTS", 4)
    batch = pa.record_batch({"n": list(range(40)), "host": [f"h{n % 10}" for n in range(40)]})
    run = Run(tmp_path, sink(tmp_path, "out/{host}/", format=format_))
    stage = tmp_path / "stage"
    stage.mkdir()
    writer: Any = run.sink.open(Task("p", "s", "x", str(stage), batch.schema))

    writer.write(batch)
    writer.write(batch)
    run.committer.commit(BatchId("q", 0), [writer.close()])
    run.committer.close()

    assert sorted(numbers(tmp_path / "out")) == sorted(2 * list(range(40)))
    assert len(run.committer.ledger.files) <= 4  # type: ignore[union-attr]


def test_events_of_paths_beyond_max_paths_are_dead_letters(tmp_path: Path) -> None:
    batch = pa.record_batch({"n": list(range(9)), "host": [f"h{n % 3}" for n in range(9)]})
    run = Run(tmp_path, sink(tmp_path, "out/{host}.json", max_paths=2))
    (stage := tmp_path / "stage").mkdir()
    writer: Any = run.sink.open(Task("p", "s", "x", str(stage), batch.schema))

    (refused,) = writer.write(batch).rejected
    assert not writer.write(batch.slice(0, 1)).rejected
    staged = writer.close()
    run.committer.commit(BatchId("q", 0), [staged])

    assert (refused.code, refused.events.column("n").to_pylist()) == ("too-many-paths", [2, 5, 8])
    assert refused.reasons == f"{tmp_path}/out/h2.json would exceed max_paths, 2"
    assert staged.events == 7
    assert sorted(numbers(tmp_path / "out")) == [0, 0, 1, 3, 4, 6, 7]


def test_many_files_are_synced_together_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(appender, "MANY_FILES", 300)
    monkeypatch.setattr(disk_sync, "sync", synced.append)
    monkeypatch.setattr(disk_sync, "_sync_file_system", lambda path: bool(synced.append("whole")) or True)
    monkeypatch.setattr(disk_sync, "_supports_syncfs", lambda device: True)
    many = pa.record_batch({"n": list(range(300)), "host": [f"h{n}" for n in range(300)], "_offset": list(range(300))})
    run = Run(tmp_path, sink(tmp_path, "out/{host}.json"))

    run.batch(0, many)
    run.batch(1, many)
    assert synced == ["whole", "whole"]
    assert len(parts(tmp_path / "out")) == 300
    assert [record.message.partition("/out/")[2][:49] for record in caplog.records] == [
        "{host}.json: this micro-batch alone writes 300 fil"[:49]
    ]

    synced.clear()
    run.batch(2, many.slice(0, 3))
    assert sorted(map(os.path.basename, synced)) == ["h0.json", "h1.json", "h2.json"]


def test_new_folders_are_synced_with_their_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(disk_sync, "sync", synced.append)
    run = Run(tmp_path, sink(tmp_path, "a/b/{host}.json"))

    run.batch(0, events(1, host="x"), events(2, host="y"))

    assert sorted(synced) == [str(tmp_path / name) for name in (".", "a", "a/b", "a/b/x.json", "a/b/y.json")]


def test_the_umask_decides_the_mode_of_output_and_the_state_is_private(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with private_files():
            for number, (path, options) in enumerate(
                {"a/x.json": {}, "b/": {"format": "parquet"}, "state/dead.jsonl": {}}.items()
            ):
                folder = tmp_path / str(number)
                folder.mkdir()
                run = Run(folder, sink(folder, path, **options))
                (folder / "state/sinks/x").mkdir(parents=True)
                run.committer = run.sink.committer(str(folder / "state/sinks/x"))
                run.batch(0, events(1))
                run.committer.close()
    finally:
        os.umask(before)

    modes = {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    public = {path: mode for path, mode in modes.items() if path.startswith(("0/a", "1/b"))}
    assert {(os.path.isdir(tmp_path / path), mode) for path, mode in public.items()} == {(True, 0o755), (False, 0o644)}
    assert {mode for path, mode in modes.items() if path not in public} == {0o700, 0o600}


HOSTILE = [
    "../../etc/passwd",
    "..",
    ".",
    "a/b",
    "a\\b",
    "x\0y",
    "line\nbreak",
    "~",
    "é" * 500,
    "-rf",
    "%2F",
    " ",
    "con:1",
    "$(x)",
    "__null__",
]


@given(st.lists(st.one_of(st.none(), st.sampled_from(HOSTILE), st.text(max_size=300)), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_no_value_leaves_its_folder(values: list[str | None]) -> None:
    batch = pa.record_batch({"host": pa.array(values, pa.string())})

    groups = list(parse_template("/base/{host}/").groups(batch, None))

    assert sum(group.events.num_rows for group in groups) == len(values)
    for group in groups:
        assert os.path.normpath(group.key) == group.key.rstrip("/")
        assert os.path.dirname(group.key.rstrip("/")) == "/base"
        assert len(os.path.basename(group.key.rstrip("/"))) <= 255


@given(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=200))
def test_different_values_have_different_names(one: str, other: str) -> None:
    assert (safe_name(one) == safe_name(other)) == (one == other)


@pytest.mark.parametrize(
    ("path", "is_folder"),
    [
        ("a", False),
        ("a/", True),
        ("a/{h}", True),
        ("a/{h}/", True),
        ("a/{h}.json", False),
        ("a.d/{h}", True),
        ("a/{h}/x.log", False),
    ],
)
def test_which_paths_are_folders(path: str, is_folder: bool) -> None:
    assert parse_template(path).is_folder is is_folder


# ── Parquet and file systems that cannot append ──────────────────────────────────────────────────


def test_parquet_events_wait_for_their_part_and_survive_restarts(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out/", format="parquet"))
    run.batch(0, events(1, 2), events(3))
    assert parts(tmp_path / "out") == []

    again = Run(tmp_path, run.sink)
    again.batch(1, events(4))
    again.committer.close()

    assert numbers(tmp_path / "out") == [1, 2, 3, 4]
    assert len(parts(tmp_path / "out")) == 1
    assert os.listdir(run.state / "pending") == []


def test_parquet_parts_nest_fields_and_are_compressed(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out/", format="parquet"))

    run.batch(0, pa.record_batch({"source.ip": ["::1"], "t": pa.array([0], TIMESTAMP), "_offset": [7]}))
    run.committer.close()

    (part,) = parts(tmp_path / "out")
    assert rows(part) == [{"source": {"ip": "::1"}, "t": datetime(1970, 1, 1, tzinfo=UTC)}]
    assert pq.read_metadata(part).row_group(0).column(0).compression == "ZSTD"


def test_a_single_parquet_file_is_extended_when_runs_end(tmp_path: Path) -> None:
    for number in range(3):
        run = Run(tmp_path, sink(tmp_path, "out.parquet", format="parquet"))
        run.batch(number, events(2 * number), events(2 * number + 1))
        run.committer.close()

    assert numbers(tmp_path / "out.parquet") == [0, 1, 2, 3, 4, 5]


def test_other_columns_than_those_of_the_single_parquet_file_are_an_error_that_loses_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out.parquet", format="parquet"))
    run.batch(0, events(1))
    run.committer.close()
    run.batch(1, events(2).drop_columns(["host"]))

    with pytest.raises(ComponentError, match="other columns"):
        run.committer.close()

    assert numbers(tmp_path / "out.parquet") == [1]
    assert len(run.committer.ledger.pending) == 1  # type: ignore[union-attr]


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A remote file system under ``mem://bucket``, which stores files in a local folder."""
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    root = tmp_path / "remote"
    root.mkdir()
    filesystem = SubTreeFileSystem(str(root), LocalFileSystem())
    monkeypatch.setattr(stores, "parse_filesystem", lambda uri: (filesystem, uri.removeprefix("mem://bucket")))
    return root


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_a_remote_folder_gets_whole_parts(tmp_path: Path, bucket: Path, format_: str) -> None:
    run = Run(tmp_path, FileSink(path="mem://bucket/logs/{host}/", format=format_))

    run.batch(0, events(1, host="a"), events(2, host="../b"))
    run.batch(1, events(3, host="a"))
    assert parts(bucket) == []
    run.committer.close()

    assert numbers(bucket / "logs" / "a") == [1, 3]
    assert numbers(bucket / "logs" / "%2E.%2Fb") == [2]


def test_events_wait_while_a_remote_file_system_is_down(
    tmp_path: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(tmp_path, FileSink(path="mem://bucket/logs/", roll={"max_age": "1ms"}))
    run.batch(0, events(1))
    bucket.rename(tmp_path / "away")
    bucket.write_text("no folder")

    wait_for(lambda: run.committer.tick() or "are stored in" in caplog.text, what="the end of the file")
    with pytest.raises(ComponentError, match="are stored in"):
        run.committer.close()
    bucket.unlink()
    (tmp_path / "away").rename(bucket)
    Run(tmp_path, run.sink)

    assert "are stored in" in caplog.text
    assert numbers(bucket) == [1]


def test_a_file_uri_is_a_local_path(tmp_path: Path) -> None:
    run = Run(tmp_path, FileSink(path=f"file://{tmp_path}/out.json"))

    run.batch(0, events(1))

    assert numbers(tmp_path / "out.json") == [1]


# ── Crashes ──────────────────────────────────────────────────────────────────────────────────────

CASES = {
    "file": ("out/x.json", {}),
    "existing": ("there.json", {}),
    "gzip": ("out/x.json.gz", {}),
    "csv": ("out/x.csv", {"format": "csv"}),
    "folder": ("out/{host}/", {"roll": {"max_bytes": 60}}),
    "parquet": ("out/", {"format": "parquet", "roll": {"max_bytes": 2500}}),
    "single parquet": ("out/x.parquet", {"format": "parquet"}),
}
STEPS = ["open", "fsync", "rename", "replace", "truncate", "copy_file_range", "unlink", "link", "pwrite"]


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def kill_at(monkeypatch: pytest.MonkeyPatch, step: int, after: bool) -> Iterator[None]:
    """The process ends at the given call that changes a file, before or after it."""
    calls = itertools.count(1)

    def last(real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            now = next(calls)
            if now > step or (now == step and not after):
                raise Killed
            result = real(*args, **kwargs)
            if now == step:
                raise Killed
            return result

        return call

    with monkeypatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, last(getattr(os, name)))
        yield


def session(folder: Path, one: FileSink, first: int) -> None:
    """Commit three batches from ``first`` on, each of two splits, unless they are committed."""
    run = Run(folder, one)
    for number in range(first, 3):
        run.batch(number, events(10 * number, 10 * number + 1, host="a"), events(10 * number + 2, host="b"))
    run.committer.close()


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("case", CASES)
def test_killed_at_any_step_every_event_is_there_once(
    tmp_path: Path, case: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", os.fstat)  # these deaths do not lose what the kernel has, and disks are slow
    path, options = CASES[case]
    expected = sorted(10 * number + k for number in range(3) for k in range(3))
    for step in itertools.count(1):
        folder = tmp_path / str(step)
        folder.mkdir()
        (folder / "there.json").write_text('{"n":-1}\n')
        one = sink(folder, path, **options)
        with kill_at(monkeypatch, step, after):
            try:
                session(folder, one, 0)
                ended = True
            except Killed:
                ended = False

        committed = ledger.load(str(folder / "state")).batches.get("q", -1) if (folder / "state").exists() else -1
        session(folder, one, max(0, committed))

        out = folder / ("there.json" if case == "existing" else "out")
        found = [n for n in numbers(out) if n >= 0]
        assert sorted(found) == expected, f"killed at step {step}"
        assert [path for path in parts(folder / "out") if path.name.startswith(".")] == []
        if ended:
            assert step > 8
            break


WORKER = """
from pathlib import Path
from test_file_sink import Run, events, sink, ledger
folder = Path({folder!r})
run = Run(folder, sink(folder, {out!r}, **{options!r}))
print("ready", flush=True)
number = ledger.load(str(run.state)).batches.get("q", -1)
for number in range(max(0, number), 100_000):
    run.batch(number, events(3 * number, 3 * number + 1), events(3 * number + 2))
    print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("out", "options"), [("out.json", {}), ("out/", {"roll": {"max_bytes": 5000}})])
def test_killed_for_real_every_event_is_there_once(tmp_path: Path, out: str, options: dict[str, Any]) -> None:
    program = WORKER.format(folder=str(tmp_path), out=out, options=options)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for kills in range(3):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout
            for _ in range(20 + 7 * kills):
                assert process.stdout.readline()
            process.send_signal(signal.SIGKILL)

    run = Run(tmp_path, sink(tmp_path, out, **options))

    last = run.committer.ledger.batches["q"]  # type: ignore[union-attr]
    assert last >= 60
    assert numbers(tmp_path / out) == list(range(3 * last + 3))


# ── Full disks ───────────────────────────────────────────────────────────────────────────────────


def full(*_: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_in_a_task_writes_nothing_of_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, sink(tmp_path, "out/{host}/"))
    (stage := tmp_path / "stage").mkdir()
    writer: Any = run.sink.open(Task("p", "s", "x", str(stage), SCHEMA))
    batch = pa.record_batch({"n": [1, 2, 3], "host": ["a", "b", "a"], "_offset": [1, 2, 3]})
    writer.write(batch)
    real, calls = os.pwrite, itertools.count()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda *args: real(*args) if next(calls) < 1 else full())
        with pytest.raises(OSError, match=r"No space left on device: .*stage"):
            writer.write(batch)

    writer.write(batch)
    run.committer.commit(BatchId("q", 0), [writer.close()])

    assert numbers(tmp_path / "out" / "a") == [1, 3, 1, 3]
    assert numbers(tmp_path / "out" / "b") == [2, 2]


@pytest.mark.parametrize(("path", "options"), [("out/x.json", {}), ("out/{host}/", {"roll": {"max_bytes": 60}})])
def test_a_full_disk_at_commit_changes_nothing_and_the_commit_can_be_repeated(
    tmp_path: Path, path: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, sink(tmp_path, path, **options))
    run.batch(0, events(1))
    before = {part: part.read_bytes() for part in parts(tmp_path / "out")}
    staged = run.stage(1, events(2, 3), events(4, host="b"), events(5))
    with monkeypatch.context() as patch:
        calls = itertools.count()
        real = os.fsync
        patch.setattr(os, "fsync", lambda handle: real(handle) if next(calls) < 4 else full())
        patch.setattr(file_operations, "_copy", full)
        with pytest.raises(ComponentError, match=r"No space left on device.*nothing is lost or repeated"):
            run.committer.commit(BatchId("q", 1), staged)
    assert {part: part.read_bytes() for part in parts(tmp_path / "out")} == before

    run.committer.commit(BatchId("q", 1), staged)

    assert sorted(numbers(tmp_path / "out")) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("path", "options"), [("out/x.json", {}), ("out/", {"format": "parquet"})])
def test_a_full_disk_leaves_no_temporary_file(
    tmp_path: Path, path: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, rename = Run(tmp_path, sink(tmp_path, path, **options)), os.rename
    run.batch(0, events(1))

    def elsewhere(source: str, target: str) -> None:
        if "/out" in target and not os.path.basename(source).startswith("."):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", elsewhere)
        patch.setattr(file_operations, "_copy", full)
        with pytest.raises(ComponentError, match="No space left on device"):  # noqa: PT012
            run.batch(1, events(2))
            run.committer.close()

    left = [name for name in os.listdir(tmp_path / "out") if name.startswith(".")] if (tmp_path / "out").exists() else []
    assert left == []
    assert not list(run.state.rglob("*.tmp"))


def test_a_real_file_size_limit_is_a_failed_write_without_half_lines(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out.json"))
    (stage := tmp_path / "stage").mkdir()
    writer: Any = run.sink.open(Task("p", "s", "x", str(stage), SCHEMA))
    writer.write(events(1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        with pytest.raises(OSError, match="File too large"):
            writer.write(events(*range(100)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)

    run.committer.commit(BatchId("q", 0), [writer.close()])

    assert numbers(tmp_path / "out.json") == [1]


def test_state_on_another_file_system_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.rename

    def elsewhere(source: str, target: str) -> None:
        if os.path.dirname(source) != os.path.dirname(target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        real(source, target)

    monkeypatch.setattr(os, "rename", elsewhere)
    monkeypatch.setattr(os, "copy_file_range", lambda *_: elsewhere("a/b", "c/d"))
    run = Run(tmp_path, sink(tmp_path, "out/"))

    run.batch(0, events(1), events(2))

    assert numbers(tmp_path / "out") == [1, 2]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"batches": 3}', "\0\0", '{"batches":{},"files":{"x":{"y":1}},"pending":[],"sequence":0}']
)
def test_an_invalid_ledger_is_an_error_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / ledger.NAME).write_text(text)

    with pytest.raises(ComponentError, match=r"committed\.json is not a valid ledger"):
        Run(tmp_path, sink(tmp_path, "out.json"))


def test_abort_removes_what_was_staged(tmp_path: Path) -> None:
    for format_ in ("json", "parquet"):
        writer: Any = sink(tmp_path, "out/", format=format_).open(Task("p", "s", "x", str(tmp_path), SCHEMA))
        writer.write(events(1))
        writer.abort()

    assert os.listdir(tmp_path) == []


# ── Findings ─────────────────────────────────────────────────────────────────────────────────────

FIELDS = pa.schema(
    [
        ("host", pa.string()),
        ("timestamp", TIMESTAMP),
        ("tags", pa.list_(pa.string())),
        ("ok", pa.bool_()),
        ("_offset", pa.int64()),
    ]
)


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({"path": "out/x.json"}, []),
        ({"path": "out/{host}/{yyyy-MM-dd}/"}, ["unbounded-paths"]),
        ({"path": "out/{host}/{yyyy-MM-dd}/", "max_paths": 50}, []),
        ({"path": "out/{ok}.json"}, []),
        ({"path": "out/x.json", "max_paths": 50}, ["unused-option"]),
        ({"path": "out/{yyyy/MM/dd}/{HH}.json.gz"}, []),
        ({"path": "out/{hots}/"}, ["unknown-field"]),
        ({"path": "out/{YYYY-MM-DD}/"}, ["unknown-field"]),
        ({"path": "out/{tags}/"}, ["wrong-type"]),
        ({"path": "{host}/x.json"}, ["no-literal-prefix"]),
        ({"path": "/{host}/x.json"}, ["no-literal-prefix"]),
        ({"path": "out/{host/x.json"}, ["bad-path"]),
        ({"path": "out/{host}/../../x.json"}, ["bad-path"]),
        ({"path": "s3://b/x/?region=eu-west-1"}, ["bad-path", "cannot-append"]),
        ({"path": "out/x.csv"}, ["extension-mismatch"]),
        ({"path": "out/x.json.gz", "compression": "none"}, ["extension-mismatch"]),
        ({"path": "out/x.parquet", "format": "parquet"}, ["parquet-single-file"]),
        ({"path": "s3://bucket/x.json"}, ["cannot-append"]),
        ({"path": "s3://bucket/x/"}, []),
        ({"path": "out/x.json", "roll": {"max_bytes": "1MB"}}, ["unused-option"]),
        ({"path": "out/x.json", "time_field": "timestamp"}, ["unused-option"]),
        ({"path": "out/{dd}/", "time_field": "host"}, ["wrong-type"]),
        ({"path": "out/{dd}/", "time_field": "time"}, ["unknown-field"]),
        ({"path": "/tmp"}, ["path-is-folder"]),
        ({"path": __file__ + "/"}, ["folder-is-file"]),
        ({"path": __file__ + "/x.json"}, ["folder-is-file"]),
        ({"path": __file__ + "/{dd}/a/x.json"}, ["folder-is-file"]),
    ],
)
def test_findings(options: dict[str, Any], codes: list[str]) -> None:
    assert [finding.code for finding in FileSink(**options).check(FIELDS)] == codes


def test_changes_of_debezium_are_json() -> None:
    given = FileSink(path="out/x.csv", format="csv", changes="debezium")

    assert [finding.code for finding in given.check_changes(FIELDS)] == ["changes-conflict"]


def test_findings_point_and_suggest() -> None:
    (unknown,) = FileSink(path="out/{hots}/").check(FIELDS)
    (date,) = FileSink(path="out/{YYYY-MM-DD}/").check(FIELDS)

    assert (unknown.path, unknown.at, unknown.hint) == (("path",), 5, "did you mean 'host'?")
    assert "{yyyy-MM-dd}" in (date.hint or "")


def test_a_file_where_a_folder_must_be_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")

    with pytest.raises(
        ComponentError, match=r"cannot write .*/out: .* a file is where a folder must be: move it away, or choose"
    ):
        Run(tmp_path, sink(tmp_path, "out/x.json")).batch(0, events(1, host="a"))


def test_bad_options_are_errors() -> None:
    for options in (
        {"path": ""},
        {"path": "x", "format": "xml"},
        {"path": "x", "roll": {"max_bytes": 0}},
        {"path": "x", "fromat": 1},
    ):
        with pytest.raises(ValidationError):
            FileSink(**options)


def test_sinks_that_share_a_file_have_the_same_target() -> None:
    paths: Iterable[str] = ("out/x", "./out/x", "out/y/../x", f"{os.getcwd()}/out/x", "out/x/")

    assert len({target for path in paths for target in FileSink(path=path).targets()}) == 1


def test_sizes_are_those_of_the_lines(tmp_path: Path) -> None:
    writer: Any = sink(tmp_path, "x").open(Task("p", "s", "x", str(tmp_path), SCHEMA))

    assert writer.sizes(events(1, 22)).to_pylist() == [len('{"n":1,"host":"a"}\n'), len('{"n":22,"host":"a"}\n')]
    assert timedelta(hours=1) == FileSink(path="x").roll.max_age


# ── Views ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path", ["out.json", "out.json.gz", "out.csv", "parts/{host}/", "parts/{yyyy-MM-dd}.json", "parts/{host}/{yyyy}.csv"]
)
def test_string_views_are_written_like_strings(tmp_path: Path, path: str) -> None:
    texts = [None, "", "short", "longer than twelve bytes", "longer than twelve bytes", '"quoted\\" and ünïcode']
    times = pa.array([day * 86_400_000_000 for day in range(len(texts))], pa.timestamp("us", tz="UTC"))
    columns = {"n": pa.array(range(len(texts))), "timestamp": times, "_offset": pa.array(range(len(texts)))}
    written = {}

    for type_ in (pa.string(), pa.string_view()):
        run = Run(tmp_path, sink(tmp_path, f"{type_}/{path}", format="csv" if path.endswith(".csv") else "json"))
        run.batch(0, pa.record_batch({**columns, "host": pa.array(texts, type_)}), query=str(type_))
        run.committer.close()
        folder = tmp_path / str(type_)
        written[type_] = [rows(part) for part in parts(folder)]

    assert sum(map(len, written[pa.string()])) == len(texts)
    assert written[pa.string_view()] == written[pa.string()]


def test_parquet_of_string_views_has_strings(tmp_path: Path) -> None:
    run = Run(tmp_path, sink(tmp_path, "out.parquet", format="parquet"))

    run.batch(0, pa.record_batch({"host": pa.array(["a", "longer than twelve bytes"], pa.string_view())}))
    run.committer.close()

    table = pq.read_table(tmp_path / "out.parquet")
    assert table.schema.field("host").type == pa.string()
    assert table.column("host").to_pylist() == ["a", "longer than twelve bytes"]
