"""Packet identifiers of stored messages, as a later run reads them."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import numpy as np
import pytest

from connectors.mqtt.packet_ids import FILE_NAME, PacketIds


def opened(folder: Path, client: str = "c", in_journal: tuple[int, ...] = ()) -> PacketIds:
    ids = PacketIds(str(folder), client, syncs=False)
    ids.load(lambda at: np.array(in_journal, np.int64), 0)
    return ids


def test_identifiers_are_stored_until_they_are_released(tmp_path: Path) -> None:
    ids = opened(tmp_path)
    ids.subscribe(["a/#"])
    ids.record(np.array([1, 2, 3]), 10)
    ids.record(np.array([4]), 20)
    ids.release(np.array([2]))
    ids.close()

    later = opened(tmp_path, in_journal=(7,))
    assert np.flatnonzero(later.are_stored).tolist() == [1, 3, 4, 7]
    assert later.filters == ("a/#",)
    later.close()
    other = opened(tmp_path, client="other")
    assert not other.are_stored.any()
    other.close()


def test_a_line_that_was_not_written_completely_is_not_read(tmp_path: Path) -> None:
    ids = opened(tmp_path)
    ids.record(np.array([1]), 10)
    ids.close()
    with (tmp_path / FILE_NAME).open("ab") as file:
        file.write(b'{"at": 20, "add": [5')

    later = opened(tmp_path)
    assert np.flatnonzero(later.are_stored).tolist() == [1]
    later.close()


def test_a_subscription_while_messages_are_stored_loses_no_identifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.mqtt.packet_ids._COMPACT_BYTES", 2000)
    ids = opened(tmp_path)
    done = threading.Event()

    def subscribe() -> None:
        while not done.is_set():
            ids.subscribe(["a/#"])

    thread = threading.Thread(target=subscribe)
    thread.start()
    try:
        for number in range(1, 401):
            ids.record(np.array([number]), number)
    finally:
        done.set()
        thread.join()
    ids.close()

    later = opened(tmp_path)
    assert np.flatnonzero(later.are_stored).tolist() == list(range(1, 401))
    later.close()


def test_after_a_sync_that_failed_the_file_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = PacketIds(str(tmp_path), "c", syncs=True)
    ids.load(lambda at: np.array([], np.int64), 0)
    ids.record(np.array([1, 2]), 10)
    with monkeypatch.context() as patch:
        patch.setattr("connectors.mqtt.packet_ids.os.fsync", fail)
        with pytest.raises(OSError, match="Input/output error"):
            ids.release(np.array([1]))
    (tmp_path / FILE_NAME).write_bytes(b"")  # what the system has dropped
    ids.release(np.array([1]))
    ids.close()

    later = opened(tmp_path)
    assert np.flatnonzero(later.are_stored).tolist() == [2]
    later.close()


def fail(_: int) -> None:
    raise OSError(errno.EIO, "Input/output error")
