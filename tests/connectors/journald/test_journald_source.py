"""The `journald` source over files that the tests write; `test_systemd_journals` has files of systemd."""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from journal_writer import MACHINE, START, Compression, JournalWriter, compress
from source_events import FAR, read, read_all

from connectors.journald.source import JournaldSource
from etl.api import Backlog, Limit, Rejects


def create_source(path: Path, **options: Any) -> JournaldSource:
    return JournaldSource.model_validate({"path": str(path), **options})


def messages(source: JournaldSource) -> list[Any]:
    return [row.get("code") or row["MESSAGE"] for row in read_all(source)]


def fill(path: Path, first: int, last: int, **options: Any) -> JournalWriter:
    """A file with the messages ``m<n>``, still open."""
    writer = JournalWriter(path, **options)
    for number in range(first, last):
        writer.append(("MESSAGE", f"m{number}"), ("PRIORITY", str(number % 8)))
    return writer


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("compression", [None, "xz", "lz4", "zstd"])
def test_entries_become_events(tmp_path: Path, compact: bool, compression: Compression | None) -> None:
    long = "a long message " * 100
    writer = JournalWriter(tmp_path / "system.journal", compact=compact, compression=compression)
    writer.append(("MESSAGE", "short ü"), ("PRIORITY", "3"), ("_PID", "17"), ("_HOSTNAME", "web-1"), ("EXTRA", 'a "b"\n'))
    writer.append(("MESSAGE", long), ("PRIORITY", "6"), ("_HOSTNAME", "web-1"))

    rows = read_all(create_source(tmp_path, rest="rest"))

    assert rows == [
        {
            "__REALTIME_TIMESTAMP": datetime.fromtimestamp(START / 1_000_000, UTC),
            "MESSAGE": "short ü",
            "PRIORITY": 3,
            "SYSLOG_IDENTIFIER": None,
            "_PID": 17,
            "_UID": None,
            "_COMM": None,
            "_SYSTEMD_UNIT": None,
            "_TRANSPORT": None,
            "_HOSTNAME": "web-1",
            "rest": json.dumps({"EXTRA": 'a "b"\n'}, separators=(",", ":")),
            "_offset": 0,
        },
        {**rows[1], "MESSAGE": long, "PRIORITY": 6, "_HOSTNAME": "web-1", "rest": "{}", "_offset": 1},
    ]


def test_fields_of_the_entry_and_values_of_all_types(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "system.journal")
    writer.append(
        ("TAG", "a"), ("BLOB", b"\xff\0\n"), ("TAG", "b"), ("_SOURCE_REALTIME_TIMESTAMP", "1700000000000001"), ("TEXT", b"\xff!")
    )
    types = {
        "__CURSOR": "string",
        "__SEQNUM": "bigint",
        "__SEQNUM_ID": "string",
        "__MONOTONIC_TIMESTAMP": "bigint",
        "TAG": "array<string>",
        "BLOB": "binary",
        "_SOURCE_REALTIME_TIMESTAMP": "timestamp",
        "TEXT": "string",
        "OTHER": "array<string>",
    }

    (row,) = read_all(create_source(tmp_path, fields=types))

    assert row == {
        "__CURSOR": f"s={MACHINE.hex};i=1;b=0123456789abcdef0123456789abcdef;m=3e8;t={START:x};x=0",
        "__SEQNUM": 1,
        "__SEQNUM_ID": MACHINE.hex,
        "__MONOTONIC_TIMESTAMP": 1000,
        "TAG": ["a", "b"],
        "BLOB": b"\xff\0\n",
        "_SOURCE_REALTIME_TIMESTAMP": datetime(2023, 11, 14, 22, 13, 20, 1, UTC),
        "TEXT": "\ufffd!",
        "OTHER": None,
        "_offset": 0,
    }


def test_the_rest_has_repeated_and_binary_values_as_journalctl_does(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "system.journal")
    writer.append(("TAG", "a"), ("BLOB", b"\xff\0"), ("MESSAGE", "m"), ("TAG", "b"), ("LONG", "x" * 2000))
    writer.append(("MESSAGE", "n"), ("TAG", "a"), ("EMPTY", ""))

    rows = read_all(create_source(tmp_path, fields={"MESSAGE": "string"}, rest="rest", max_field_bytes=1000))

    assert [json.loads(row["rest"]) for row in rows] == [
        {"TAG": ["a", "b"], "BLOB": [255, 0], "LONG": None},
        {"TAG": "a", "EMPTY": ""},
    ]


def test_values_that_cannot_be_read_are_dead_letters(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "system.journal")
    writer.append(("MESSAGE", "good"), ("PRIORITY", "6"))
    writer.append(("MESSAGE", "bad"), ("PRIORITY", "high"))
    writer.append(("MESSAGE", "x" * 100), ("PRIORITY", "6"))
    writer.append(("MESSAGE", "late"), ("_SOURCE_REALTIME_TIMESTAMP", str(1 << 60)))
    types = {"MESSAGE": "string", "PRIORITY": "int", "_SOURCE_REALTIME_TIMESTAMP": "timestamp"}

    rows = read_all(create_source(tmp_path, max_field_bytes=99, fields=types))

    codes = [(row["_offset"], row.get("code")) for row in rows]
    assert codes == [(2, "field-too-long"), (1, "unreadable-value"), (3, "unreadable-value"), (0, None)]
    assert rows[1]["reason"] == "PRIORITY is 'high', not int"
    assert "from 1970 to 3111" in rows[2]["reason"]


def test_a_file_that_grows_and_rotates_is_read_once(tmp_path: Path) -> None:
    path, source = tmp_path / "system.journal", create_source(tmp_path)
    writer = fill(path, 0, 10)
    at, found = source.start(), []

    def read_on() -> None:
        nonlocal at
        end = source.latest(at, FAR)
        found.extend(row["MESSAGE"] for row in read(source, at, end))
        at = end

    read_on()
    writer.append(("MESSAGE", "m10"))
    path.rename(tmp_path / "system@0001.journal")
    writer.close()
    second = fill(path, 11, 15, seqnum=11)
    read_on()
    shutil.copy(path, tmp_path / "copy.journal")
    path.rename(tmp_path / "system@0002.journal~")
    second.append(("MESSAGE", "m15"))
    read_on()
    read_on()

    assert found == [f"m{number}" for number in range(16)]


def test_a_path_of_a_file_is_followed_under_its_new_name(tmp_path: Path) -> None:
    path = tmp_path / "system.journal"
    fill(tmp_path / "user-1000.journal", 100, 102)
    writer = fill(path, 0, 2)
    source = create_source(path)
    first = source.latest(source.start(), FAR)

    writer.append(("MESSAGE", "m2"))
    path.rename(tmp_path / "system@0001.journal")
    fill(path, 3, 5, seqnum=3)
    second = source.latest(first, FAR)

    assert [row["MESSAGE"] for row in read(source, source.start(), first)] == ["m0", "m1"]
    assert [row["MESSAGE"] for row in read(source, first, second)] == ["m2", "m3", "m4"]


def test_all_archives_of_a_path_of_a_file_are_read_that_came_after_it(tmp_path: Path) -> None:
    path = tmp_path / "system.journal"

    def rotate(name: str, first: int) -> None:
        path.rename(tmp_path / name)
        fill(path, first, first + 2, seqnum=first)

    fill(path, 0, 2)
    rotate("system@0001.journal", 2)
    source = create_source(path)
    first = source.latest(source.start(), FAR)
    rotate("system@0002.journal", 4)
    rotate("system@0003.journal~", 6)
    rotate("system@0004.journal", 8)
    fill(tmp_path / "user-1000@0001.journal", 100, 102, seqnum=100)
    second = source.latest(first, FAR)
    (tmp_path / "system@0001.journal").unlink()
    (tmp_path / "system@0002.journal").unlink()

    assert [row["MESSAGE"] for row in read(source, first, second)] == [f"m{number}" for number in range(4, 10)]
    third = source.latest(first, FAR)  # also if the file that was read is gone
    assert [row["MESSAGE"] for row in read(source, first, third)] == [f"m{number}" for number in range(4, 10)]


@pytest.mark.slow
def test_a_split_gives_the_same_events_again_and_limits_hold(tmp_path: Path) -> None:
    writer = fill(tmp_path / "system.journal", 0, 50_000)
    source = create_source(tmp_path)
    at, found, ends = source.start(), [], 0

    while (end := source.latest(at, Limit(1 << 62, max_events=21_000))) != at:
        writer.append(("MESSAGE", "later"))
        rows = read(source, at, end, parallelism=4)
        assert rows == read(source, at, end, parallelism=4)
        found += [row["MESSAGE"] for row in rows]
        at, ends = end, ends + 1
        if ends == 3:
            break

    assert found == [*(f"m{number}" for number in range(50_000)), "later", "later"]
    small = source.latest(source.start(), Limit(100_000))
    assert 100 < len(read(source, source.start(), small)) < 1_000
    assert len(source.splits(source.start(), at, 2)) == 2
    assert source.backlog(source.start()) == Backlog(50_003)


def test_a_micro_batch_does_not_exceed_an_earlier_end(tmp_path: Path) -> None:
    writer = fill(tmp_path / "system.journal", 0, 3)
    source = create_source(tmp_path)
    until = source.latest(source.start(), FAR)
    writer.append(("MESSAGE", "later"))

    assert source.latest(source.start(), Limit(1 << 62, until=until)) == until
    assert source.latest(until, Limit(1 << 62, until=until)) == until


def test_machines_are_read_and_other_files_are_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for folder in ("a" * 32, "b" * 32 + ".audit", "other"):
        (tmp_path / folder).mkdir()
        fill(tmp_path / folder / "system.journal", 0, 1).append(("MESSAGE", folder))
    (tmp_path / "empty.journal").touch()
    (tmp_path / "text.journal").write_text("no journal" * 100)
    os.mkfifo(tmp_path / "pipe.journal")
    newer = JournalWriter(tmp_path / "newer.journal")
    os.pwrite(newer.file, struct.pack("<I", 1 << 9), 12)

    found = messages(create_source(tmp_path))

    assert sorted(found) == ["a" * 32, "b" * 32 + ".audit", "m0", "m0"]
    assert "text.journal: this journal file cannot be read: it does not begin as a journal does" in caplog.text
    assert "incompatible flags 0x200" in caplog.text


def test_deleted_entries_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "system@0001.journal"
    fill(path, 0, 10)
    fill(tmp_path / "system.journal", 10, 12, seqnum=10)
    source = create_source(tmp_path)
    first = source.latest(source.start(), Limit(1 << 62, max_events=4))
    path.unlink()

    second = source.latest(first, FAR)
    rows = read(source, first, second)

    assert [row.get("code") or row["MESSAGE"] for row in rows] == ["data-lost", "m10", "m11"]
    assert rows[0]["reason"].startswith("entries 4 to 9: journal file ")
    assert source.latest(second, FAR) == second
    assert messages(source) == ["m10", "m11"]


def test_a_folder_that_is_away_for_a_while_is_not_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    writer = fill(folder / "system.journal", 0, 2)
    source = create_source(folder)
    first = source.latest(source.start(), FAR)

    folder.rename(tmp_path / "away")
    assert source.latest(first, FAR) == first
    (tmp_path / "away").rename(folder)
    writer.append(("MESSAGE", "m2"))

    assert [row["MESSAGE"] for row in read(source, first, source.latest(first, FAR))] == ["m2"]


def test_begin_at_the_end_or_at_a_time(tmp_path: Path) -> None:
    writer = fill(tmp_path / "system.journal", 0, 10)
    end = create_source(tmp_path, start="end")
    start = end.start()
    writer.append(("MESSAGE", "new"))
    since = create_source(tmp_path, since=datetime.fromtimestamp((START + 7_000) / 1_000_000, UTC))

    assert end.skips == "start: end"
    assert [row["MESSAGE"] for row in read(end, start, end.latest(start, FAR))] == ["new"]
    assert messages(since) == ["m7", "m8", "m9", "new"]
    assert since.latest(since.start(), FAR)["files"][0][3] == 7  # entries before that time are not even read


def test_without_follow_the_source_ends(tmp_path: Path) -> None:
    source = create_source(tmp_path, follow=False)
    writer = fill(tmp_path / "system.journal", 0, 3)
    first = source.latest(source.start(), Limit(1 << 62, max_events=2))
    last = source.latest(first, FAR)
    writer.append(("MESSAGE", "later"))

    assert (source.ended(first), source.ended(last)) == (False, True)
    assert source.latest(last, FAR) == last
    assert create_source(tmp_path).ended(last | {"done": False}) is False


def test_filters_are_those_of_journalctl(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "system.journal")
    writer.append(("MESSAGE", "ssh"), ("_SYSTEMD_UNIT", "ssh.service"), ("PRIORITY", "4"), ("SYSLOG_IDENTIFIER", "sshd"))
    writer.append(("MESSAGE", "of systemd"), ("UNIT", "ssh.service"), ("_PID", "1"), ("PRIORITY", "6"))
    writer.append(("MESSAGE", "forged"), ("UNIT", "ssh.service"), ("_PID", "7"), ("PRIORITY", "6"))
    writer.append(("MESSAGE", "core"), ("COREDUMP_UNIT", "ssh.service"), ("_UID", "0"), ("PRIORITY", "2"))
    writer.append(("MESSAGE", "docker"), ("_SYSTEMD_UNIT", "docker-a.service"), ("_SYSTEMD_SLICE", "web.slice"))
    writer.append(("MESSAGE", "kernel"), ("_TRANSPORT", "kernel"), ("PRIORITY", "3"))

    def found(**options: Any) -> list[Any]:
        return messages(create_source(tmp_path, **options))

    assert found(units=["ssh"]) == ["ssh", "of systemd", "core"]
    assert found(units=["docker-*"]) == found(units=["web.slice"]) == ["docker"]
    assert found(units=["docker-*.scope"]) == []
    assert found(units=["ssh.*"]) == found(units=["s?h.service"]) == ["ssh", "of systemd", "core"]
    assert found(priority="warning") == ["ssh", "core", "kernel"]
    assert found(identifiers=["sshd", "cron"]) == ["ssh"]
    assert found(match={"_TRANSPORT": ["kernel"], "PRIORITY": ["3", "4"]}) == ["kernel"]
    assert found(units=["ssh"], priority="err") == ["core"]
    assert found(units=["nothing"]) == []


def test_damaged_entries_are_dead_letters_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "system@0001.journal~"
    writer = JournalWriter(path, first_array=16)
    at = [writer.append(("MESSAGE", f"m{number}"), ("SHARED", "x")) for number in range(6)]
    os.pwrite(writer.file, b"\0", at[1])  # no object of an entry any more
    os.pwrite(writer.file, struct.pack("<Q", 1 << 62), at[2] + 8)  # longer than the file
    os.pwrite(writer.file, struct.pack("<Q", at[0]), at[3] + 64)  # its value is an entry
    os.pwrite(writer.file, struct.pack("<q", -8), at[4] + 64)

    assert messages(create_source(tmp_path)) == [*["bad-journal-entry"] * 4, "m0", "m5"]


def test_a_file_that_was_cut_off_gives_what_is_left(tmp_path: Path) -> None:
    writer = fill(tmp_path / "system.journal", 0, 100)
    os.truncate(writer.path, writer.array_at)

    found = messages(create_source(tmp_path))

    assert found[-1] == "bad-journal-entry"
    assert 10 < len(found) < 100
    assert found[:-1] == [f"m{number}" for number in range(len(found) - 1)]


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["xz", "lz4", "zstd"])
def test_a_compressed_value_that_is_damaged_or_enormous(tmp_path: Path, compression: Compression) -> None:
    writer = JournalWriter(tmp_path / "system.journal", compression=compression)
    writer.append(("MESSAGE", "first"), ("BLOB", "b" * 9_000))
    damaged = writer.end
    writer.append(("MESSAGE", "d" * 9_000))
    writer.append(("MESSAGE", "0" * (64 << 20)))
    writer.append(("MESSAGE", "last"), ("BOMB", "1" * (64 << 20)))
    os.pwrite(writer.file, b"\xff" * 24, damaged + 64)

    rows = read_all(create_source(tmp_path, rest="rest"))

    found = {row["_offset"]: row.get("code") or (row["MESSAGE"], json.loads(row["rest"])) for row in rows}
    assert found == {
        0: ("first", {"BLOB": "b" * 9_000}),
        1: "bad-journal-entry",
        2: "field-too-long",
        3: ("last", {"BOMB": None}),
    }


def test_a_value_of_lz4_that_is_shorter_than_it_says_shows_no_memory_of_the_process(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "system.journal", compression="lz4")
    for said in (608, 609, 5_000):
        stored = struct.pack("<Q", said) + compress(b"MESSAGE=" + b"x" * 600, "lz4")[8:]
        writer._append_entry([writer._append(1, bytes(48) + stored, 2)], START)

    assert messages(create_source(tmp_path)) == ["bad-journal-entry", "bad-journal-entry", "x" * 600]


def test_a_value_of_xz_that_ends_early_is_damaged(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "system.journal")
    stored = compress(b"MESSAGE=" + bytes(n * n % 251 for n in range(90_000)), "xz")
    writer._append_entry([writer._append(1, bytes(48) + stored[: len(stored) // 2], 1)], START)

    assert messages(create_source(tmp_path)) == ["bad-journal-entry"]


@pytest.mark.slow
@pytest.mark.parametrize("rest", [None, "rest"])
def test_batches_stay_small_where_many_entries_have_one_compressed_value(tmp_path: Path, rest: str | None) -> None:
    writer = JournalWriter(tmp_path / "system.journal", compression="zstd")
    for _ in range(80):
        writer.append(("MESSAGE" if rest is None else "OTHER", "a" * (1 << 20)))
    source = create_source(tmp_path, rest=rest)
    (split,) = source.splits(source.start(), source.latest(source.start(), FAR), 1)

    batches = [batch for batch in source.read(split) if not isinstance(batch, Rejects)]

    assert [batch.num_rows for batch in batches] == [32, 32, 16]


def test_an_entry_that_has_one_value_many_times_is_a_dead_letter(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "system.journal")
    value = writer._data(b"OTHER=" + b"x" * 600_000)
    writer._append_entry([value] * 4096, START)  # 2.4 GB, more than an array of texts can have
    writer._append_entry([value] * 2, START)

    rows = read_all(create_source(tmp_path, rest="rest"))

    assert [(row["_offset"], row.get("code")) for row in rows] == [(0, "field-too-long"), (1, None)]
    assert rows[0]["reason"] == "its values have together more than 67,108,864 bytes"
    assert len(json.loads(rows[1]["rest"])["OTHER"]) == 2


@pytest.mark.parametrize(("at", "number"), [(152, 1 << 50), (152, (1 << 64) - 1), (136, 1 << 62)])
def test_a_header_that_lies_does_not_keep_other_files_from_being_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int, number: int
) -> None:
    lying = fill(tmp_path / "a.journal", 0, 5)
    os.pwrite(lying.file, struct.pack("<Q", number), at)
    os.pwrite(lying.file, struct.pack("<Q", 1), 184)  # the first file, by its time
    fill(tmp_path / "b.journal", 5, 7)
    source = create_source(tmp_path)
    end = source.latest(source.start(), Limit(128 << 20))

    found = [row["MESSAGE"] for row in read(source, source.start(), end) if "code" not in row]

    assert found == [f"m{number}" for number in range(7)]
    assert source.latest(end, Limit(128 << 20)) == end
    assert ("its header says that it has" in caplog.text) == (at == 152)
    assert create_source(tmp_path, since=datetime.fromtimestamp(1, UTC)).latest(source.start(), FAR)["files"]


def test_no_more_descriptors_are_no_deleted_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "system.journal", 0, 10)
    source = create_source(tmp_path)
    first = source.latest(source.start(), Limit(1 << 62, max_events=4))
    (split,) = source.splits(source.start(), first, 1)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("builtins.open", fail)

    with pytest.raises(OSError, match="Too many open files"):
        list(source.read(split))
    with pytest.raises(OSError, match="Too many open files"):
        source.latest(first, FAR)


@pytest.mark.slow
def test_random_damage_is_never_fatal(tmp_path: Path) -> None:
    import random

    writer = fill(tmp_path / "system.journal", 0, 300, compact=True)
    good = writer.path.read_bytes()
    source = create_source(tmp_path, rest="rest")
    random.seed(7)
    for _ in range(300):
        data = bytearray(good)
        for _ in range(random.randint(1, 20)):
            at = random.randrange(100 if random.random() < 0.2 else 272, len(data))
            data[at : at + 8] = random.choice([bytes(8), b"\xff" * 8, random.randbytes(8)])[: len(data) - at]
        writer.path.write_bytes(data)

        rows = read_all(source)

        numbers = [row["_offset"] for row in rows if "code" not in row]
        assert len(set(numbers)) == len(numbers)


def test_wrong_options_are_found() -> None:
    source = create_source(
        Path("/var/log/journal"),
        fields={"message": "string", "__CURSER": "string", "PRIORITY": "double", "__SEQNUM": "string"},
        rest="PRIORITY",
    )
    many = create_source(Path("x"), match={f"F{number}": ["a"] for number in range(65)})

    findings = [(finding.code, finding.path, finding.hint) for finding in source.check()]

    assert findings == [
        ("unknown-field", ("fields", "message"), "write MESSAGE"),
        ("unknown-field", ("fields", "__CURSER"), "did you mean '__CURSOR'?"),
        ("unreadable-type", ("fields", "PRIORITY"), "write string"),
        ("unreadable-type", ("fields", "__SEQNUM"), "write bigint"),
        ("duplicate-field", ("rest",), "take another name"),
    ]
    assert [finding.code for finding in many.check()] == ["maximum"]


def test_the_probe_says_what_is_missing(tmp_path: Path) -> None:
    missing, empty, bad, good = (tmp_path / name for name in ("missing", "empty", "bad", "good"))
    for folder in (empty, bad, good):
        folder.mkdir()
    (bad / "a.journal").write_text("x")
    fill(good / "system.journal", 0, 2)

    codes = [[finding.code for finding in create_source(path).probe()] for path in (missing, empty, bad, good)]

    assert codes == [["missing-input"], ["no-files"], ["unreadable-file"], []]
    assert create_source(good, units=["ssh"]).explain_no_events(None).endswith("2 entries in 1 file, and none passes the filters")
    assert "no journal file" in create_source(empty).explain_no_events(None)
