"""The journal: records are read once and in order, whatever happened to the writer."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.shared.journal import reader, writer
from connectors.shared.journal.journal_position import JournalPosition, find_batch_end
from connectors.shared.journal.options import JournalOptions
from connectors.shared.journal.reader import Journal
from connectors.shared.journal.records import complete_records, encode_header
from connectors.shared.journal.segments import Segments
from connectors.shared.journal.writer import JournalWriter
from etl.api import Limit

FAR = 1 << 62
SMALL = JournalOptions(max_bytes=1 << 20, fsync="never")


def written(folder: Path, payloads: list[bytes], options: JournalOptions = SMALL) -> None:
    journal = JournalWriter(str(folder), options)
    for payload in payloads:
        journal.append(payload, 1)
    journal.close()


def payloads(folder: Path, start: int = 0, end: int = FAR) -> list[bytes]:
    return [
        bytes(memoryview(piece.buffer)[one.begin : one.end])
        for piece in Journal(str(folder)).read_slices(start, end)
        for one in piece.records
        if one.is_intact(piece.buffer)
    ]


def test_appended_records_are_read_across_runs_and_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SEGMENT_BYTES", 100)
    monkeypatch.setattr(reader, "SLICE_BYTES", 64)
    first, second = [b"%d" % n * 9 for n in range(50)], [b"later", b"x" * 5000]

    written(tmp_path, first)
    written(tmp_path, second)

    stops = list(Journal(str(tmp_path)).walk(0))
    assert payloads(tmp_path) == first + second
    assert len(Segments(tmp_path).starts) > 10
    assert [payloads(tmp_path, stop.begin, stop.end) for stop in stops] == [[one] for one in first + second]


def test_parts_have_every_record_once(tmp_path: Path) -> None:
    written(tmp_path, [b"%03d" % n * 10 for n in range(100)])
    written(tmp_path, [b"%03d" % n * 10 for n in range(100, 150)])
    journal = Journal(str(tmp_path))
    end = find_batch_end(journal, JournalPosition(0), Limit(FAR), _none).at

    parts = journal.divide(0, end, 4, 100)

    assert len(parts) == 4
    assert [one for part in parts for one in payloads(tmp_path, *part)] == [b"%03d" % n * 10 for n in range(150)]
    assert journal.divide(0, end, 4, 1 << 20) == [(0, end)]


@pytest.mark.parametrize("keep", [1, 11, 12, 15])
def test_a_torn_record_is_removed_and_its_position_is_never_used_again(tmp_path: Path, keep: int) -> None:
    written(tmp_path, [b"one", b"two"])
    (path,) = tmp_path.glob("*.segment")
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write((encode_header(b"torn", 1) + b"torn")[:keep])

    assert payloads(tmp_path) == [b"one", b"two"]
    written(tmp_path, [b"three"])

    assert path.stat().st_size == whole
    assert payloads(tmp_path) == [b"one", b"two", b"three"]
    assert payloads(tmp_path, whole, whole + keep) == []


def test_recovery_removes_the_rest_of_a_segment_after_a_damaged_record(tmp_path: Path) -> None:
    written(tmp_path, [b"one", b"two", b"three"])
    (path,) = tmp_path.glob("*.segment")
    data = bytearray(path.read_bytes())
    data[data.index(b"two")] ^= 1
    path.write_bytes(data)

    written(tmp_path, [b"four"])

    assert payloads(tmp_path) == [b"one", b"four"]


def test_zeros_are_not_records() -> None:
    assert list(complete_records(bytes(1000))) == []


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_can_be_parsed(data: bytes) -> None:
    for record in complete_records(data):
        assert record.end <= len(data)
        record.is_intact(data)


def test_delivered_segments_are_deleted_and_free_space(tmp_path: Path) -> None:
    journal = JournalWriter(str(tmp_path), SMALL)
    while journal.has_space():
        journal.append(bytes(50_000), 1)
    stops = list(Journal(str(tmp_path)).walk(0))

    Journal(str(tmp_path)).delete_before(stops[len(stops) // 2].begin)

    wait = threading.Event()
    for _ in range(100):
        if journal.has_space():
            break
        wait.wait(0.02)
    assert journal.has_space()
    assert 0 < Segments(tmp_path).first <= stops[len(stops) // 2].begin
    Journal(str(tmp_path)).delete_before(stops[-1].end)
    assert Segments(tmp_path).starts == [max(Segments(tmp_path).starts)]
    journal.close()


def test_one_record_that_fills_the_journal_can_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_SIZE_CHECK_SECONDS", -1.0)
    journal = JournalWriter(str(tmp_path), SMALL)
    journal.append(bytes(2 << 20), 1)
    assert not journal.has_space()

    Journal(str(tmp_path)).delete_before(find_batch_end(Journal(str(tmp_path)), JournalPosition(0), Limit(FAR), _none).at)

    assert journal.has_space()
    journal.close()


def test_appending_waits_while_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, tries = os.writev, []

    def writev(file: int, buffers: Any) -> int:
        tries.append(None)
        if len(tries) == 1:
            return os.write(file, bytes(buffers[0])[:5])
        if len(tries) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, buffers)

    journal = JournalWriter(str(tmp_path), SMALL)
    monkeypatch.setattr(os, "writev", writev)
    monkeypatch.setattr(writer, "_RETRY_SECONDS", 0.0)
    journal.append(b"one", 1)
    journal.close()

    assert len(tries) == 3
    assert payloads(tmp_path) == [b"one"]


def test_a_closing_writer_gives_up_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def writev(file: int, buffers: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    journal = JournalWriter(str(tmp_path), SMALL)
    monkeypatch.setattr(os, "writev", writev)
    journal.cancel_retries()
    journal.append(b"one", 1)
    journal.close()

    assert payloads(tmp_path) == []


@pytest.mark.parametrize(("fsync", "min_syncs"), [("always", 5), ("interval", 1), ("never", 0)])
def test_appends_are_synced_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: Any, min_syncs: int) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)

    written(tmp_path, [b"x"] * 5, JournalOptions(fsync=fsync))

    assert len(synced) >= min_syncs
    assert bool(synced) == (fsync != "never")


def test_a_record_that_is_being_written_is_not_visible(tmp_path: Path) -> None:
    written(tmp_path, [b"one"])
    (path,) = tmp_path.glob("*.segment")
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write((encode_header(b"second", 1) + b"second")[:-1])

    assert find_batch_end(Journal(str(tmp_path)), JournalPosition(0), Limit(FAR), _none) == JournalPosition(whole)


def test_limits_are_exact_to_the_event(tmp_path: Path) -> None:
    journal = JournalWriter(str(tmp_path), SMALL)
    for _ in range(3):
        journal.append(b"0123456789", 10)
    journal.close()
    read = Journal(str(tmp_path))
    everything = find_batch_end(read, JournalPosition(0), Limit(FAR), _tenths)

    here, seen = JournalPosition(0), []
    while here != everything:
        here = find_batch_end(read, here, Limit(FAR, max_events=7), _tenths)
        seen.append(here)

    assert seen[0].at == 19
    assert len(seen) == 5
    assert find_batch_end(read, JournalPosition(0), Limit(1), _tenths).at == 22
    assert find_batch_end(read, JournalPosition(0), Limit(FAR, max_events=0), _tenths) == JournalPosition(0)
    assert find_batch_end(read, JournalPosition(0), Limit(FAR, until={"offset": 44}), _tenths) == JournalPosition(44)
    assert all(JournalPosition.from_offset(one.to_offset()) == one for one in seen)


def _none(piece: reader.RecordSlice) -> list[int]:
    return []


def _tenths(piece: reader.RecordSlice) -> list[int]:
    (record,) = piece.records
    return list(range(record.begin, record.end))
