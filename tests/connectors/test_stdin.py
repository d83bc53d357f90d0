"""The `stdin` source and the thread that copies it to disk."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from connectors.stdin import disk_copy
from connectors.stdin.disk_copy import StdinCopier, StdinSegments
from connectors.stdin.source import StdinSource
from etl.api import Limit, Offset, Rejects

FAR = Limit(1 << 40)


@pytest.fixture
def source(tmp_path: Path) -> StdinSource:
    return StdinSource().with_folder(str(tmp_path / "stdin"))


def piped(source: StdinSource, data: bytes) -> None:
    """Copy standard input with ``data`` to its end."""
    reading, writing = os.pipe()
    thread = source.receiver(reading)
    thread.start()
    with os.fdopen(writing, "wb") as file:
        file.write(data)
    thread.join()
    os.close(reading)


def texts(source: StdinSource, start: Offset, end: Offset, parallelism: int = 2) -> list[Any]:
    found: list[Any] = []
    for split in pickle.loads(pickle.dumps(source.splits(start, end, parallelism))):
        for batch in pickle.loads(pickle.dumps(source)).read(split):
            found += [batch.code] if isinstance(batch, Rejects) else batch.column("message").to_pylist()
    return found


def test_lines_of_a_pipe_with_the_last_one_unfinished(source: StdinSource) -> None:
    piped(source, b"one\r\ntwo\nthree")
    start = source.start()

    end = source.latest(start, FAR)

    assert texts(source, start, end) == ["one", "two", "three"]
    assert source.ended(end)
    assert not source.ended(start)


def test_a_line_waits_for_its_newline_while_the_pipe_is_open(source: StdinSource) -> None:
    reading, writing = os.pipe()
    thread = source.receiver(reading)
    thread.start()
    os.write(writing, b"one\ntw")
    limit = threading.Event()
    while StdinSegments(source._folder).end < 6:
        limit.wait(0.01)

    assert source.latest(source.start(), FAR) == {"offset": 4}
    assert not source.ended({"offset": 4})
    os.close(writing)
    thread.join()
    os.close(reading)
    assert source.latest(source.start(), FAR) == {"offset": 6}


def test_undelivered_input_comes_first_in_the_next_run(source: StdinSource) -> None:
    piped(source, b"one\ntwo\ncut of")
    delivered = source.latest(source.start(), Limit(1 << 30, max_events=1))
    source.commit([delivered])

    piped(source, b"three\n")

    assert texts(source, delivered, source.latest(delivered, FAR)) == ["two", "cut of", "three"]


def test_delivered_segments_are_deleted(source: StdinSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_copy, "SEGMENT_BYTES", 10)
    monkeypatch.setattr(disk_copy, "_READ_BYTES", 7)
    lines = [f"{n}" for n in range(50)]
    piped(source, "\n".join(lines).encode())
    start = source.start()
    middle = source.latest(start, Limit(60))
    end = source.latest(middle, FAR)

    assert texts(source, start, middle) + texts(source, middle, end) == lines
    source.commit([middle])
    assert 0 < source.start()["offset"] <= middle["offset"]
    assert texts(source, middle, end) == lines[len(lines) - len(texts(source, middle, end)) :]
    source.commit([end])
    assert len(StdinSegments(source._folder).starts) == 1


def test_limits(source: StdinSource) -> None:
    piped(source, b"aaaa\nbb\ncc\n")
    start = source.start()

    assert source.latest(start, Limit(1)) == {"offset": 5}
    assert source.latest(start, Limit(9)) == {"offset": 8}
    assert source.latest(start, Limit(99, max_events=2)) == {"offset": 8}
    assert source.latest(start, Limit(99, max_events=0)) == start
    assert source.latest(start, Limit(99, until={"offset": 8})) == {"offset": 8}


def test_large_input_is_split_at_lines(source: StdinSource) -> None:
    lines = [f"{n:09d}" * 11 for n in range(100_000)]
    piped(source, "\n".join(lines).encode())
    start, end = source.start(), source.latest(source.start(), FAR)

    assert len(source.splits(start, end, 2)) == 2
    assert texts(source, start, end) == lines


def test_overlong_line_is_a_dead_letter(tmp_path: Path) -> None:
    source = StdinSource(max_line_bytes=3).with_folder(str(tmp_path))
    piped(source, b"long\nok\n")

    assert texts(source, source.start(), source.latest(source.start(), FAR)) == ["ok", "line-too-long"]


def test_the_pipe_waits_when_the_copy_is_full(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    thread = StdinCopier(str(tmp_path), descriptor=reading, max_bytes=3)
    thread.start()
    os.write(writing, b"aaaa\n")
    limit = threading.Event()
    while StdinSegments(str(tmp_path)).end < 5:
        limit.wait(0.01)
    os.write(writing, b"b\n")
    os.close(writing)
    limit.wait(0.05)
    assert (StdinSegments(str(tmp_path)).end, thread.is_alive()) == (5, True)

    thread.max_bytes = None
    thread.join()
    os.close(reading)
    assert StdinSegments(str(tmp_path)).end == 7


def test_unknown_charset_is_a_finding() -> None:
    (finding,) = StdinSource(charset="utf-17").check()

    assert finding.code == "unknown-charset"
