"""The `file` source, called as Spark calls it: offsets as JSON, splits planned and read twice."""

from __future__ import annotations

import bz2
import gzip
import json
import logging
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.file.reading import copy_detection, file_location, file_samples, file_scan, file_warnings
from connectors.file.reading.file_stream import FileStream
from connectors.file.source import FileSource
from etl.api import OFFSET, Backlog, ComponentError, Limit, Offset, Rejects, Split

OLD = 1_000_000_000
"""An old modification time: a file with it counts as complete."""

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


class Run:
    """A query over one source."""

    def __init__(self, path: Path | str, parallelism: int = 2, **options: Any) -> None:
        self.source = FileSource(path=str(path), **options)
        self.parallelism = parallelism
        self.offset: Offset = json.loads(json.dumps(self.source.start()))

    def plan(self, **limit: Any) -> tuple[Offset, list[Split]]:
        """Plan the next micro-batch."""
        limit = {"max_bytes": 1 << 40, **limit}
        end = json.loads(json.dumps(self.source.latest(self.offset, Limit(**limit))))
        splits = self.source.splits(self.offset, end, self.parallelism)
        assert splits == self.source.splits(self.offset, end, self.parallelism)
        assert len({(split.partition, split.start, split.end) for split in splits}) == len(splits)
        return end, pickle.loads(pickle.dumps(splits))

    def read(self, splits: list[Split]) -> list[Any]:
        """Return texts of events, and tuples of code and text of dead letters, in order."""
        found: list[Any] = []
        for split in splits:
            once, again = (self._split(split) for _ in range(2))
            assert once == again
            found += once
        return found

    def _split(self, split: Split) -> list[Any]:
        found: list[Any] = []
        offsets: list[int] = []
        for batch in self.source.read(split):
            if isinstance(batch, Rejects):
                found += [(batch.code, text) for text in batch.events.column("message").to_pylist()]
                continue
            batch.validate(full=True)
            assert batch.schema.names == [*self.source.fields().names[:1], OFFSET, *self.source.fields().names[1:]]
            offsets += batch.column(OFFSET).to_pylist()
            found += batch.column("message").to_pylist()
        assert len(set(offsets)) == len(offsets)
        return found

    def next(self, **limit: Any) -> list[Any]:
        """Plan and read a micro-batch."""
        end, splits = self.plan(**limit)
        found = self.read(splits)
        self.source.commit([end])
        self.offset = end
        return found

    def restart(self) -> None:
        """Continue as another process, which has the offset and nothing else."""
        for memory in (
            file_samples._match_cache,
            file_scan._without_newline,
            copy_detection._head_cache,
            copy_detection._copy_cache,
            file_warnings._last_sizes,
        ):
            memory.clear()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "x.log"


@pytest.fixture(autouse=True)
def fresh_caches() -> None:
    """Clear the caches, so that each test begins like a new process."""
    for memory in (
        file_samples._match_cache,
        file_scan._without_newline,
        copy_detection._head_cache,
        copy_detection._copy_cache,
        file_warnings._last_sizes,
        file_warnings._warned,
    ):
        memory.clear()  # type: ignore[attr-defined]


def add(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def age(path: Path) -> None:
    os.utime(path, (OLD, OLD))


def test_lines_appended_are_read_once(log: Path) -> None:
    add(log, "one", "two")
    run = Run(log)

    assert run.next() == ["one", "two"]
    assert run.next() == []
    add(log, "three")
    assert run.next() == ["three"]


def test_the_bytes_that_wait_are_known(log: Path) -> None:
    run = Run(log)
    assert run.source.backlog(run.offset) == Backlog(bytes=0)
    add(log, "one", "two")
    with log.open("a") as file:
        file.write("half a line")

    assert run.source.backlog(run.offset) == Backlog(bytes=8)
    assert run.next() == ["one", "two"]
    assert run.source.backlog(run.offset) == Backlog(bytes=0)


def test_nothing_new_is_the_same_offset(log: Path) -> None:
    add(log, "one")
    run = Run(log)
    run.next()

    assert run.plan() == (run.offset, [])


def test_last_line_waits_for_its_newline_while_following(log: Path) -> None:
    log.write_text("one\ntw")
    run = Run(log)

    assert run.next() == ["one"]
    assert run.next() == []
    add(log, "o")
    assert run.next() == ["two"]


def test_a_bounded_run_reads_a_last_line_without_newline(log: Path) -> None:
    log.write_text("one\ntwo")

    assert Run(log).next(bounded=True) == ["one", "two"]


def test_rename_rotation_reads_the_rest_of_the_old_file_first(tmp_path: Path, log: Path) -> None:
    for pattern in ("x.log", "x.log*"):
        add(log, "one")
        run = Run(tmp_path / pattern)
        assert run.next() == ["one"]

        add(log, "two")
        log.rename(tmp_path / "x.log.1")
        add(log, "three")
        assert run.next() == ["two", "three"]
        add(tmp_path / "x.log.1", "late")
        add(log, "four")
        assert run.next() == ["late", "four"]

        log.unlink()
        (tmp_path / "x.log.1").unlink()


def test_two_rotations_between_two_scans(tmp_path: Path, log: Path) -> None:
    add(log, "one")
    run = Run(tmp_path / "x.log*")
    run.next()

    add(log, "two")
    log.rename(tmp_path / "x.log.2")
    add(tmp_path / "x.log.1", "three")
    os.utime(tmp_path / "x.log.1", (OLD, OLD))
    add(log, "four")

    assert run.next() == ["two", "three", "four"]


@pytest.mark.parametrize("pattern", ["x.log", "x.log*"])
def test_copytruncate_reads_the_rest_from_the_copy(tmp_path: Path, log: Path, pattern: str) -> None:
    add(log, "one", "two")
    run = Run(tmp_path / pattern)
    run.next()

    add(log, "three")
    shutil.copy(log, tmp_path / "x.log.1")
    log.write_text("four\n")

    assert run.next() == ["three", "four"]
    assert run.next() == []


def test_a_copy_is_not_read_before_the_original_is_truncated(tmp_path: Path, log: Path) -> None:
    add(log, "one", "two")
    run = Run(tmp_path / "x.log*")
    run.next()

    shutil.copy(log, tmp_path / "x.log.1")
    assert run.next() == []
    log.write_text("")
    assert run.next() == []
    add(log, "three")
    assert run.next() == ["three"]


def test_truncate_and_rewrite_is_a_new_file(log: Path) -> None:
    for rewritten in (["a"], ["other", "longer than before", "and more"]):
        log.unlink(missing_ok=True)
        add(log, "first", "second")
        run = Run(log)
        run.next()

        log.write_text("".join(f"{line}\n" for line in rewritten))
        os.utime(log, ns=(OLD, OLD + len(rewritten)))
        assert run.next() == rewritten
        assert run.next() == []


def test_a_rewritten_file_with_the_same_first_line_is_new(log: Path) -> None:
    add(log, "# header", "one", "two")
    run = Run(log)
    run.next()

    log.write_text("# header\nthree and some more\n")

    assert run.next() == ["# header", "three and some more"]


def test_file_replaced_by_an_equal_one_is_new(tmp_path: Path, log: Path) -> None:
    add(log, "one")
    run = Run(log)
    run.next()

    add(tmp_path / "y", "one")
    (tmp_path / "y").rename(log)

    assert run.next() == ["one"]


def test_files_created_later_are_read_from_the_beginning(tmp_path: Path, log: Path) -> None:
    add(log, "old")
    run = Run(tmp_path / "**" / "*.log", start="end")
    assert run.next() == []

    (tmp_path / "deep").mkdir()
    add(tmp_path / "deep" / "y.log", "new")
    add(log, "newer")
    assert run.next() == ["newer", "new"]


def test_small_equal_files_are_different_files(tmp_path: Path) -> None:
    add(tmp_path / "a.log", "same")
    run = Run(tmp_path / "*.log")
    assert run.next() == ["same"]

    add(tmp_path / "b.log", "same")
    add(tmp_path / "c.log", "same", "more")
    assert sorted(run.next()) == ["more", "same", "same"]
    add(tmp_path / "a.log", "x")
    assert run.next() == ["x"]


def test_a_deleted_file_is_no_longer_tracked_and_its_successor_is_read(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(log, "one")
    run = Run(log)
    run.next()

    log.unlink()
    assert run.next() == []
    monkeypatch.setattr(file_scan, "MISSING_FILE_SECONDS", -1.0)
    assert run.next() == []
    assert run.offset["files"] == {}
    add(log, "two")
    assert run.next() == ["two"]


def test_a_folder_that_disappears_and_returns_repeats_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    add(folder / "x.log", "one")
    run = Run(folder / "*.log")
    run.next()

    folder.rename(tmp_path / "away")
    assert [run.next(), run.next()] == [[], []]
    (tmp_path / "away").rename(folder)
    add(folder / "x.log", "two")

    assert run.next() == ["two"]
    assert [record.message for record in caplog.records] == [
        f"{folder}: the folder does not exist; its files are read as soon as it does"
    ]


@pytest.mark.parametrize("ending", PACK)
def test_compressed_file_is_read_once(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x{ending}"
    path.write_bytes(PACK[ending](b"one\ntwo\n") + PACK[ending](b"three"))
    age(path)
    run = Run(tmp_path / "*")

    assert run.next() == ["one", "two", "three"]
    assert run.next() == []
    path.rename(tmp_path / f"x.1{ending}")
    assert run.next() == []


def test_compressed_file_is_read_when_it_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "x.log.gz"
    path.write_bytes(gzip.compress(b"one\n"))
    run = Run(path)

    assert run.next() == []
    age(path)
    assert run.next() == ["one"]


@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize("pattern", ["x.log", "x.log*"])
def test_rotated_file_is_not_read_again_when_compressed(tmp_path: Path, log: Path, ending: str, pattern: str) -> None:
    add(log, *(f"line {n}" for n in range(5000)))
    run = Run(tmp_path / pattern)
    assert len(run.next()) == 5000

    log.rename(tmp_path / "x.log.1")
    add(log, "next")
    assert run.next() == ["next"]
    packed = tmp_path / f"x.log.2{ending}"
    packed.write_bytes(PACK[ending]((tmp_path / "x.log.1").read_bytes()))
    age(packed)
    assert run.next() == []
    (tmp_path / "x.log.1").unlink()
    assert [run.next(), run.next()] == [[], []]


@pytest.mark.parametrize("pattern", ["x.log", "x.log*"])
def test_rest_is_read_from_the_archive(tmp_path: Path, log: Path, pattern: str) -> None:
    lines = [f"line {n}" for n in range(5000)]
    add(log, *lines[:3000])
    run = Run(tmp_path / pattern)
    run.next()

    add(log, *lines[3000:])
    packed = tmp_path / "x.log.1.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()

    assert run.next() == lines[3000:]
    assert run.next() == []


@pytest.mark.parametrize("ending", PACK)
def test_a_corrupt_archive_gives_its_intact_lines_and_one_dead_letter(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x{ending}"
    path.write_bytes(PACK[ending](b"one\ntwo\n") + b"garbage")
    age(path)
    run = Run(path)

    assert run.next() == ["one", "two", ("corrupt-archive", "")]
    assert run.next() == []


def test_text_named_like_an_archive_is_one_dead_letter(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_text("plain\n")
    run = Run(tmp_path / "x.gz")

    assert run.next(bounded=True) == [("corrupt-archive", "")]
    assert run.next(bounded=True) == []


def test_exclude_accepts_paths_and_names(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "c.log"):
        add(tmp_path / name, name)

    assert Run(tmp_path / "*.log", exclude=["b.*", f"{tmp_path}/c*"]).next() == ["a.log"]


def test_max_bytes_ends_at_lines_and_is_divided_over_files(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        add(tmp_path / name, *(f"{name}{n}" for n in range(100)))
    run = Run(tmp_path / "*")

    first = run.next(max_bytes=60)
    assert {text[0] for text in first} == {"a", "b", "c"}
    assert sum(len(text) + 1 for text in first) <= 60
    rest = [text for _ in range(200) for text in run.next(max_bytes=60)]
    assert sorted(first + rest) == sorted(f"{name}{n}" for name in "abc" for n in range(100))
    assert [text for text in first + rest if text[0] == "a"] == [f"a{n}" for n in range(100)]


def test_max_bytes_smaller_than_a_line_makes_progress(log: Path) -> None:
    add(log, "a" * 1000, "b")
    run = Run(log)

    assert run.next(max_bytes=1) == ["a" * 1000]
    assert run.next(max_bytes=1) == ["b"]


def test_max_events_is_exact(tmp_path: Path) -> None:
    for name in ("a", "b"):
        add(tmp_path / name, *(f"{name}{n}" for n in range(10)))
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"".join(b"c%d\n" % n for n in range(10))))
    run = Run(tmp_path / "*")

    sizes = [len(run.next(max_events=7, bounded=True)) for _ in range(6)]
    assert sizes == [7, 7, 7, 7, 2, 0]


def test_until_is_not_exceeded(tmp_path: Path, log: Path) -> None:
    add(log, *(f"{n}" for n in range(10)))
    run = Run(tmp_path / "*")
    until, _ = run.plan(bounded=True)

    add(log, "later")
    add(tmp_path / "a.log", "later")
    found = [text for _ in range(10) for text in run.next(max_bytes=6, bounded=True, until=until)]

    assert found == [f"{n}" for n in range(10)]
    assert run.offset == until


def test_large_file_is_split_at_lines(log: Path) -> None:
    lines = [f"{n:09d}" * 11 for n in range(100_000)]
    add(log, *lines)
    run = Run(log, parallelism=2)
    _, splits = run.plan()

    assert len(splits) == 2
    assert [split.end - split.start > 4_000_000 for split in splits] == [True, True]
    assert run.read(splits) == lines


def test_small_files_share_a_task(tmp_path: Path) -> None:
    for n in range(300):
        add(tmp_path / f"{n:03d}.log", f"{n}")
        os.utime(tmp_path / f"{n:03d}.log", (OLD, OLD))
    run = Run(tmp_path / "*.log", parallelism=4)
    _, splits = run.plan()

    assert len(splits) == 1
    assert run.read(splits) == [f"{n}" for n in range(300)]


def test_batch_planned_before_a_rotation_is_read_after_it(tmp_path: Path, log: Path) -> None:
    add(log, *(f"line {n}" for n in range(2000)))
    run = Run(log)
    _, splits = run.plan()

    log.rename(tmp_path / "x.log.1")
    add(log, "new")
    assert len(run.read(splits)) == 2000
    (tmp_path / "x.log.1.gz").write_bytes(gzip.compress((tmp_path / "x.log.1").read_bytes()))
    (tmp_path / "x.log.1").unlink()
    assert len(run.read(splits)) == 2000


def test_data_deleted_before_it_was_read_is_a_dead_letter(log: Path) -> None:
    add(log, "one")
    run = Run(log)
    _, splits = run.plan()

    log.unlink()

    assert run.read(splits) == [("data-lost", "")]


def test_path_field(log: Path) -> None:
    add(log, "one")
    source = FileSource(path=str(log), path_field="log.file.path")
    end = source.latest(source.start(), Limit(1 << 30))

    (batch,) = source.read(source.splits(source.start(), end, 1)[0])

    assert isinstance(batch, pa.RecordBatch)
    assert batch.column("log.file.path").to_pylist() == [str(log)]
    assert source.fields().names == ["message", "log.file.path"]


def test_unreadable_file_is_warned_about_once_and_read_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path / "a.log", "a")
    add(tmp_path / "b.log", "b")

    def refuse(path: str, codec: Any = None) -> Any:
        if path.endswith("a.log"):
            raise PermissionError(13, "Permission denied")
        return FileStream(path, codec)

    run = Run(tmp_path / "*.log")
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(file_samples, "FileStream", refuse)
        assert [run.next(), run.next()] == [["b"], []]
    assert [record.message for record in caplog.records] == [
        f"{tmp_path}/a.log: it cannot be opened, and is read as soon as it can: Permission denied"
    ]
    assert run.next() == ["a"]


def test_known_file_that_becomes_unreadable_is_not_read_again(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(log, "one")
    run = Run(log)
    run.next()

    def refuse(path: str, codec: Any = None) -> Any:
        raise PermissionError(13, "Permission denied")

    add(log, "two")
    with monkeypatch.context() as patch:
        patch.setattr(file_samples, "FileStream", refuse)
        assert run.next() == []
    assert run.next() == ["two"]


def test_planned_file_that_becomes_unreadable_stops_the_run(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(log, "one")
    run = Run(log)
    _, splits = run.plan()

    def refuse(path: str, codec: Any = None) -> Any:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(file_location, "FileStream", refuse)
        with pytest.raises(ComponentError, match="cannot be opened: Permission denied; grant the right"):
            run.read(splits)
    assert run.read(splits) == ["one"]


def test_shrunken_file_of_equal_lines_is_new(log: Path) -> None:
    log.write_text("x\n" * 10_000)
    run = Run(log)
    run.next()

    log.write_text("x\n" * 5_000)

    assert len(run.next()) == 5_000


def test_a_planned_batch_of_a_shrunken_file_is_lost(log: Path) -> None:
    log.write_text("x\n" * 10_000)
    run = Run(log)
    _, splits = run.plan()

    log.write_text("x\n" * 5_000)

    assert run.read(splits) == [("data-lost", "")]


@pytest.mark.slow
def test_parts_of_a_large_file_are_the_same_after_it_was_compressed(tmp_path: Path, log: Path) -> None:
    lines = [f"{n:09d}" * 11 for n in range(100_000)]
    add(log, *lines)
    run = Run(log)
    end, splits = run.plan()

    (tmp_path / "x.log.1.gz").write_bytes(gzip.compress(log.read_bytes(), 1))
    log.unlink()

    assert run.source.splits(run.offset, end, 2) == splits
    assert run.read(splits) == lines


def test_a_new_file_that_is_not_read_yet_is_recognised_after_rotation(tmp_path: Path) -> None:
    add(tmp_path / "a.log", "a")
    add(tmp_path / "b.log", "bbb")
    run = Run(tmp_path / "*.log")
    assert run.next(max_bytes=2) == ["a"]

    (tmp_path / "b.log").rename(tmp_path / "b.log.1")

    assert run.next() == ["bbb"]


def test_path_that_is_a_uri_is_a_finding() -> None:
    (finding,) = FileSource(path="ftp://host/x").check()

    assert finding.code == "not-local"


def test_a_path_that_all_hosts_mount_is_read_as_without_its_prefix(log: Path) -> None:
    log.write_text("a\n")

    assert Run(f"file://{log}").next() == ["a"]
    assert not FileSource(path=f"file://{log}").host_bound
    assert [finding.code for finding in FileSource(path="file://logs/x.log").check()] == ["not-absolute"]


def test_a_file_system_that_is_mounted_again_as_another_device_is_not_read_again(log: Path) -> None:
    log.write_text("first line\n")
    run = Run(log)
    assert run.next() == ["first line"]

    for file in run.offset["files"].values():
        file["dev"] += 1
    with log.open("a") as out:
        out.write("second line\n")

    assert run.next() == ["second line"]
    assert run.offset["files"]["x.log#1"]["dev"] == log.stat().st_dev


def test_a_warning_names_a_folder_that_matches_the_glob(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    log.mkdir()
    run = Run(log)

    assert [run.next(), run.next()] == [[], []]
    assert [record.message for record in caplog.records] == [f"{log}: it is not a regular file, and is read as soon as it is one"]
    log.rmdir()
    add(log, "one")
    assert run.next() == ["one"]


def test_empty_files_and_empty_archives(tmp_path: Path) -> None:
    (tmp_path / "a.log").touch()
    (tmp_path / "b.log.gz").touch()
    (tmp_path / "c.log.gz").write_bytes(gzip.compress(b""))
    run = Run(tmp_path / "*")

    assert [run.next(bounded=True), run.next(bounded=True)] == [[], []]


def test_binary_data_becomes_events(log: Path) -> None:
    data = bytes(range(256)) * 50 + b"\n\x00\x00\n\xff\xfe\n"
    log.write_bytes(data)

    assert Run(log).next() == [
        line.decode("utf-8", "replace").removesuffix("\r") for line in data.removesuffix(b"\n").split(b"\n")
    ]


def test_a_line_of_50_megabytes_is_a_dead_letter_and_reading_continues(log: Path) -> None:
    with log.open("wb") as file:
        file.write(b"before\n")
        file.write(b"x" * 50_000_000)
    run = Run(log, max_line_bytes="1MiB")
    assert run.next() == ["before"]
    assert run.next() == []

    add(log, "", "after")
    assert run.next() == [("line-too-long", "x" * 65536), "after"]


def test_utf16_with_byte_order_mark(log: Path) -> None:
    log.write_bytes("\ufeffeins ਊ\r\nzwei\nhalf".encode("utf-16-le"))
    run = Run(log, charset="utf-16-le")

    assert run.next() == ["eins ਊ", "zwei"]
    assert run.next(bounded=True) == ["half"]


@pytest.mark.parametrize(("charset", "hint"), [("utf-17", "unknown"), ("utf-16", "utf-16-le"), ("cp037", "0A"), ("rot13", "0A")])
def test_charsets_that_cannot_be_split_into_lines_are_findings(charset: str, hint: str) -> None:
    (finding,) = FileSource(path="x", charset=charset).check()

    assert (finding.code, finding.path) == ("unknown-charset", ("charset",))
    assert hint in finding.message


def test_a_file_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.log")
    Path(path).write_text("one\n")

    assert Run(tmp_path / "*.log").next() == ["one"]


PADDING = "of a length that makes these files long enough to be known by their text, and then some"


class Writer:
    """A program that logs numbered lines, and a log rotation. Every change has a different, old modification time."""

    def __init__(self, folder: Path) -> None:
        self.log, self.lines, self.clock = folder / "x.log", 0, OLD * 10**9

    def touch(self, path: Path) -> None:
        self.clock += 10**9
        os.utime(path, ns=(self.clock, self.clock))

    def write(self) -> None:
        self.lines += 7
        with self.log.open("a") as file:
            file.write("".join(f"line {n} {PADDING}\n" for n in range(self.lines - 7, self.lines)))
        self.touch(self.log)

    def old(self, number: int) -> list[Path]:
        return list(self.log.parent.glob(f"x.log.{number}*"))

    def shift(self) -> None:
        for number in range(9, 0, -1):
            for path in self.old(number):
                path.rename(str(path).replace(f".log.{number}", f".log.{number + 1}"))

    def rename(self) -> None:
        if self.log.exists():
            self.shift()
            self.log.rename(f"{self.log}.1")

    def copy_truncate(self) -> None:
        if self.log.exists():
            self.shift()
            shutil.copy(self.log, f"{self.log}.1")
            self.touch(Path(f"{self.log}.1"))
            os.truncate(self.log, 0)
            self.touch(self.log)

    def copy(self) -> None:
        if self.log.exists():
            copied = Path(f"{self.log}.copy{self.clock}")
            shutil.copy(self.log, copied)
            self.touch(copied)

    def compress(self) -> None:
        for number in range(1, 10):
            plain = Path(f"{self.log}.{number}")
            if plain.exists():
                packed = Path(f"{plain}.gz")
                packed.write_bytes(gzip.compress(plain.read_bytes()))
                self.touch(packed)
                plain.unlink()


Act = st.sampled_from(["write", "write", "rename", "copy_truncate", "compress", "copy", "read", "read", "read little", "restart"])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(Act, max_size=25), st.sampled_from(["x.log*", "x.log"]))
def test_any_sequence_of_rotations_gives_every_line_once(acts: list[str], pattern: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        writer, run, found = Writer(Path(folder)), Run(Path(folder) / pattern), []
        run.restart()
        for act in acts:
            if act.startswith("read"):
                found += run.next(max_bytes=400 if act == "read little" else 1 << 30)
            elif act == "restart":
                run.restart()
            else:
                # a file that no look ever saw under a name of the glob cannot be known
                if act in ("rename", "copy_truncate") and pattern == "x.log":
                    found += run.next(max_bytes=400)
                getattr(writer, act)()
        found += [text for _ in range(3) for text in run.next(bounded=True)]

        assert sorted(found, key=lambda text: int(text.split()[1])) == [f"line {n} {PADDING}" for n in range(writer.lines)]


def test_pipes_and_devices_under_a_glob_are_not_opened(tmp_path: Path, log: Path) -> None:
    add(log, "one")
    os.mkfifo(tmp_path / "x.log.1")
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "null.log").symlink_to("/dev/null")
    run = Run(tmp_path / "*")

    assert run.next() == ["one"]
    log.unlink()  # its successors are looked for, and x.log.1 has the name of one
    assert run.next() == []


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_file_that_was_replaced_before_it_was_read_is_read_from_its_copy_or_lost(
    log: Path, make: Callable[[Path], None]
) -> None:
    add(log, "one")
    run = Run(log)
    _, splits = run.plan()
    log.rename(f"{log}.1")
    make(log)

    assert run.read(splits) == ["one"]
    Path(f"{log}.1").unlink()
    assert run.read(splits) == [("data-lost", "")]


def test_circular_links_are_searched_once(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    add(tmp_path / "a/x.log", "one")
    for name in ("a/loop", "a/b/loop", "loop"):
        (tmp_path / name).symlink_to(tmp_path)

    assert Run(f"{tmp_path}/**/*.log").next() == ["one"]


def test_folder_that_cannot_be_listed_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "own").mkdir()
    add(tmp_path / "own/x.log", "one")
    run, scandir = Run(f"{tmp_path}/**/*.log"), os.scandir

    def refuse(path: str) -> Any:
        if path == f"{tmp_path}/own":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        assert [run.next(), run.next()] == [[], []]
    assert [record.message for record in caplog.records] == [
        f"{tmp_path}/own: this folder cannot be listed, and is searched as soon as it can: Permission denied"
    ]
    assert run.next() == ["one"]


def test_a_second_name_of_a_file_does_not_count_as_rotation(tmp_path: Path, log: Path) -> None:
    add(log, "one")
    run = Run(tmp_path / "*.log")
    assert run.next() == ["one"]
    (tmp_path / "a.log").hardlink_to(log)
    with log.open("a") as file:
        file.write("begun")
    age(log)

    assert run.next() == []
    add(log, " and ended")
    assert run.next() == ["begun and ended"]


def test_dangling_link_beside_a_file_does_not_hide_its_rotation(tmp_path: Path, log: Path) -> None:
    (tmp_path / "gone").symlink_to("nowhere")
    add(log, "one")
    run = Run(log)
    assert run.next() == ["one"]
    add(log, "two")
    log.rename(tmp_path / "x.log.1")
    add(log, "three")

    assert run.next() == ["two", "three"]


def long(*words: str, count: int = 100) -> list[str]:
    """Return lines with enough text to identify a file."""
    return [f"{number} {word} is a line of some length" for word in words for number in range(count)]


@pytest.mark.parametrize("name", ["x.log.copy3", "x.bak.log", "copy of x", "x.log.1", "deep/y"])
@pytest.mark.parametrize("quiet", [True, False])
def test_copy_of_a_followed_file_is_not_read_again(tmp_path: Path, log: Path, name: str, quiet: bool) -> None:
    lines = long("one")
    add(log, *lines)
    run = Run(f"{tmp_path}/**")
    assert run.next() == lines
    copied = tmp_path / name
    copied.parent.mkdir(exist_ok=True)
    shutil.copy(log, copied)
    if quiet:
        age(copied)

    assert run.next() == run.next(bounded=True) == []
    add(log, "two")
    assert run.next() == ["two"]
    run.restart()
    assert run.next(bounded=True) == []


@pytest.mark.parametrize("ending", PACK)
def test_compressed_copy_under_any_name_is_not_read_again(tmp_path: Path, log: Path, ending: str) -> None:
    lines = long("one")
    add(log, *lines)
    run = Run(f"{tmp_path}/*")
    assert run.next() == lines
    packed = tmp_path / f"saved{ending}"
    packed.write_bytes(PACK[ending](log.read_bytes()[:5000]))
    age(packed)
    again = tmp_path / f"again{ending}"
    again.write_bytes(packed.read_bytes())

    assert run.next() == run.next(bounded=True) == []


def test_of_copies_that_exist_at_the_start_one_is_read(tmp_path: Path, log: Path) -> None:
    lines = long("one", "two")
    add(tmp_path / "a.bak", *lines[:100])
    age(tmp_path / "a.bak")
    add(log, *lines)
    shutil.copy2(log, tmp_path / "b.copy")
    run = Run(f"{tmp_path}/*")

    assert run.next(max_bytes=2000) + run.next() == lines
    assert run.next(bounded=True) == []
    add(log, "three")
    assert run.next() == ["three"]


def test_a_copy_that_continues_is_read_from_its_end_and_a_short_one_completely(tmp_path: Path, log: Path) -> None:
    header = ["#" + ",".join(f"field {number}" for number in range(100))]
    for name, lines in {"x.log": long("one", "two"), "y.log": header}.items():
        add(tmp_path / name, *lines)
    run = Run(f"{tmp_path}/*")
    assert len(run.next()) == 201
    for name in ("x", "y"):
        shutil.copy(tmp_path / f"{name}.log", tmp_path / f"{name}.2")
        age(tmp_path / f"{name}.2")
    assert run.next() == []

    add(tmp_path / "x.2", "own")
    add(tmp_path / "y.2", "1,2,3")
    assert sorted(run.next()) == sorted(["own", *header, "1,2,3"])


def test_files_with_the_same_beginning_and_short_files_are_all_read(tmp_path: Path) -> None:
    header = "#" + ",".join(f"field {number}" for number in range(400))
    run, found = Run(f"{tmp_path}/*"), []
    for number in range(4):
        add(tmp_path / f"{number}.csv", header, *(f"{number},{row}" for row in range(number)))
        add(tmp_path / f"{number}.txt", "done")
        found += run.next()
    found += run.next(bounded=True)

    rows = [f"{number},{row}" for number in range(4) for row in range(number)]
    assert sorted(text for text in found if text != header) == sorted([*rows, *["done"] * 4])
    assert found.count(header) == 4


def test_a_copy_is_recognised_after_its_original_was_removed(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_scan, "MISSING_FILE_SECONDS", -1.0)
    lines = long("one", "two")
    add(log, *lines)
    run = Run(f"{tmp_path}/*")
    assert run.next() == lines
    shutil.copy(log, tmp_path / "old")
    age(tmp_path / "old")
    assert run.next() == []
    add(log, "two")
    assert run.next() == ["two"]

    log.unlink()
    assert run.next() == run.next(bounded=True) == []


@pytest.mark.parametrize("count", [20, 60])
@pytest.mark.parametrize("settled", [True, False])
def test_a_short_copy_is_recognised_after_its_original_was_removed(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, count: int, settled: bool
) -> None:
    monkeypatch.setattr(file_scan, "MISSING_FILE_SECONDS", -1.0)
    lines = long("one", count=count)
    add(log, *lines)
    run = Run(f"{tmp_path}/*")
    assert run.next() == lines
    copied = tmp_path / "old"
    shutil.copy(log, copied)
    assert 512 < copied.stat().st_size < 4096
    if settled:
        age(copied)
    assert run.next() == []
    add(log, "two")
    assert run.next() == ["two"]

    log.unlink()
    run.restart()
    assert run.next() == run.next(bounded=True) == []

    copied.rename(tmp_path / "older")
    assert run.next(bounded=True) == []
    add(tmp_path / "older", "its own")
    assert run.next() == [*lines, "its own"]


def test_a_short_copy_that_is_made_again_is_not_a_new_file(tmp_path: Path, log: Path) -> None:
    lines = long("one", count=20)
    add(log, *lines)
    run = Run(f"{tmp_path}/*")
    assert run.next() == lines
    shutil.copy(log, tmp_path / "saved")
    assert run.next() == []
    add(log, "two")
    shutil.copy(log, tmp_path / "saved")

    assert run.next() == ["two"]
    add(tmp_path / "saved", "three")
    assert run.next() == [*lines, "two", "three"]


@pytest.mark.parametrize(("name", "pattern"), [("x.copy", "*"), ("x.log.before", "x.log"), ("y", "*")])
def test_rest_is_read_from_a_copy_under_any_name(
    tmp_path: Path, log: Path, name: str, pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    lines = long("one", "two")
    add(log, *lines[:100])
    run = Run(tmp_path / pattern)
    assert run.next() == lines[:100]
    add(log, *lines[100:])
    shutil.copy(log, tmp_path / name)
    log.write_text("new\n")

    found = run.next(max_bytes=3000)
    run.restart()
    assert sorted(found + run.next() + run.next()) == sorted([*lines[100:], "new"])
    assert "lost" not in caplog.text


def test_planned_batch_is_read_from_a_copy_under_any_name(tmp_path: Path, log: Path) -> None:
    lines = long("one")
    add(log, *lines)
    run = Run(log)
    _, splits = run.plan()
    shutil.copy(log, tmp_path / "saved")
    log.write_text("new\n")

    assert run.read(splits) == lines


def test_a_warning_counts_lost_bytes_and_gives_advice(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    add(log, *long("one"))
    size = log.stat().st_size
    run = Run(log)
    end, splits = run.plan(max_bytes=1000)
    run.read(splits)
    run.offset = end
    (read,) = [file["offset"] for file in end["files"].values()]

    log.write_text("new\n")
    assert run.next() == ["new"]
    assert caplog.records[-1].message == (
        f"{log}: it was truncated to 4 bytes; {size - read:,} of its {size:,} bytes were not read, and there is no copy "
        "in its folder: they are lost; let rotation rename the file (logrotate: `create` instead of `copytruncate`), or keep "
        "the copy, compressed or not, in the same folder"
    )
    log.write_text("")
    run.next()
    assert "; its 4 bytes were read; anything written since the last scan is lost; " in caplog.records[-1].message


def test_a_file_that_is_truncated_before_it_is_read_is_a_loss(
    tmp_path: Path, log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add(log, *long("one"))
    add(tmp_path / "y.log", *long("two"))
    run = Run(f"{tmp_path}/*.log")
    run.next(max_bytes=1)
    waiting = next(file["path"] for file in run.offset["files"].values() if not file["offset"])

    size = os.path.getsize(waiting)
    Path(waiting).write_text("new\n")
    run.next()

    (record,) = caplog.records
    assert record.message.startswith(f"{waiting}: it was truncated to 4 bytes; {size:,} of its {size:,} bytes were not read")


def test_a_file_that_is_not_read_yet_is_read_from_its_copy(tmp_path: Path, log: Path) -> None:
    for name in ("x", "y"):
        add(tmp_path / f"{name}.log", *long(name))
    run = Run(f"{tmp_path}/*.log")
    found = run.next(max_bytes=1)
    waiting = next(file["path"] for file in run.offset["files"].values() if not file["offset"])
    shutil.copy(waiting, f"{waiting}.saved")
    os.truncate(waiting, 0)
    run.restart()

    assert sorted(found + run.next() + run.next()) == sorted(long("x") + long("y"))


def test_a_deleted_file_that_was_read_is_not_a_loss(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    add(log, "one")
    run = Run(log)
    run.next()
    log.unlink()
    run.next()

    assert caplog.text == ""


def test_file_that_grows_while_it_is_copied_is_read_once(tmp_path: Path, log: Path) -> None:
    lines = long("one", "two", "three")
    add(log, *lines[:200])
    run, found = Run(f"{tmp_path}/*"), []
    copied = tmp_path / "copy"
    for count in (50, 120, 200):
        copied.write_text("".join(f"{line}\n" for line in lines[:count])[: -3 if count < 200 else None])
        add(log, *lines[200 + len(found) // 1000 : 200])
        found += run.next()
    add(log, *lines[200:])
    found += run.next()

    assert sorted(found) == sorted(lines)


def test_files_of_equal_lines_are_not_copies(tmp_path: Path, log: Path) -> None:
    """Repeated text does not identify a file: the original was removed, and the other file may be independent."""
    add(log, *["tick"] * 1000)
    run = Run(f"{tmp_path}/*")
    assert len(run.next()) == 1000
    add(tmp_path / "other", *["tick"] * 1200)
    log.unlink()

    assert len(run.next()) == 1200
