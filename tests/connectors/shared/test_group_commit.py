"""Group commit: whoever waits for a sync shares it, and nobody is acknowledged without one."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import wait_for

from connectors.shared.journal import group_commit
from connectors.shared.journal.batches import FIELDS, read_blocks, text_batches
from connectors.shared.journal.event_blocks import Frames, Sender
from connectors.shared.journal.group_commit import JOURNAL_FULL, STORED, TOO_LARGE, GroupCommit
from connectors.shared.journal.options import AcknowledgedJournalOptions
from connectors.shared.journal.reader import Journal
from connectors.shared.journal.writer import JournalWriter


@pytest.fixture(autouse=True)
def short_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is tried again soon."""
    monkeypatch.setattr(group_commit, "_SPACE_CHECK_SECONDS", 0.01)


def event(text: bytes) -> Frames:
    return Frames(text, [np.array([[0], [len(text)]])])


def messages(folder: Path) -> list[str]:
    batches = read_blocks(Journal(str(folder)), 0, 0, 1 << 62, FIELDS, text_batches("utf-8"), {})
    return [row["message"] for batch in batches for row in batch.to_pylist()]  # type: ignore[union-attr]


def test_events_that_arrive_during_a_sync_share_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncing, going, synced = threading.Event(), threading.Event(), []

    def fdatasync(file: int) -> None:
        syncing.set()
        assert going.wait(120)
        synced.append(file)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    journal = JournalWriter(str(tmp_path), AcknowledgedJournalOptions())
    commits, answers = GroupCommit(journal), []
    commits.add(event(b"first"), [Sender("::1")], None, answers.append)
    assert syncing.wait(120)
    for number in range(100):
        commits.add(event(b"%d" % number), [Sender("::1", number)], None, answers.append)
    assert answers == []
    going.set()
    commits.close()

    assert answers == [STORED] * 101
    assert len(synced) == 2
    assert messages(tmp_path) == ["first", *map(str, range(100))]
    journal.close()


@pytest.mark.parametrize("failing", ["writev", "fdatasync"])
def test_what_is_not_on_the_disk_is_not_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    journal = JournalWriter(str(tmp_path), AcknowledgedJournalOptions())
    commits, answers = GroupCommit(journal), []

    def fail(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, fail)
        commits.add(event(b"lost"), [Sender("::1")], None, answers.append)
        wait_for(lambda: bool(answers))
    wait_for(lambda: not commits.problem)
    commits.add(event(b"stored"), [Sender("::1")], None, answers.append)
    commits.close()
    journal.close()

    assert answers == ["No space left on device", STORED]
    assert messages(tmp_path)[-1] == "stored"


def test_a_part_of_a_record_that_cannot_be_removed_hides_no_later_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = JournalWriter(str(tmp_path), AcknowledgedJournalOptions())
    commits, answers = GroupCommit(journal), []

    def write_half(file: int, parts: list[bytes]) -> int:
        if len(parts) == 1:  # the rest
            raise OSError(errno.EFBIG, "File too large")
        return os.write(file, b"".join(parts)[:50])

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    for text, is_failing in [(b"before", False), (b"x" * 100, True), (b"after", False), (b"last", False)]:
        with monkeypatch.context() as patch:
            if is_failing:
                patch.setattr(os, "writev", write_half)
                patch.setattr(os, "ftruncate", fail)
            done = len(answers)
            commits.add(event(text), [Sender("::1")], None, answers.append)
            wait_for(lambda done=done: len(answers) > done)  # type: ignore[misc]
    commits.close()
    journal.close()

    assert answers == [STORED, "File too large", STORED, STORED]
    assert messages(tmp_path) == ["before", "after", "last"]


def test_a_full_journal_refuses_events_until_some_are_delivered(tmp_path: Path) -> None:
    journal = JournalWriter(str(tmp_path), AcknowledgedJournalOptions(max_bytes=1 << 20))
    commits, answers = GroupCommit(journal), []
    for _ in range(2):
        commits.add(event(b"x" * (1 << 20)), [Sender("::1")], None, answers.append)
        wait_for(lambda: commits.waiting_bytes == 0)
    wait_for(lambda: len(answers) == 2)
    Journal(str(tmp_path)).delete_before(1 << 62)
    wait_for(lambda: not commits.problem)
    commits.add(event(b"more"), [Sender("::1")], None, answers.append)
    commits.close()
    journal.close()

    assert answers == [STORED, JOURNAL_FULL, STORED]


def test_events_that_fit_into_no_record_are_refused_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "MAX_ADDED_BYTES", 1000)
    journal = JournalWriter(str(tmp_path), AcknowledgedJournalOptions())
    commits, answers = GroupCommit(journal), []

    def sender_has_gone(_: str) -> None:
        raise RuntimeError("Event loop is closed")

    def fail_once(payload: bytes, events: int) -> str | None:
        monkeypatch.undo()
        raise MemoryError

    commits.add(event(b"x" * 1001), [Sender("::1")], None, answers.append)
    commits.add(event(b"gone"), [Sender("::1")], None, sender_has_gone)
    wait_for(lambda: messages(tmp_path) == ["gone"])
    monkeypatch.setattr(journal, "try_append", fail_once)
    commits.add(event(b"unlucky"), [Sender("::1")], None, answers.append)
    wait_for(lambda: len(answers) == 2)
    commits.add(event(b"stored"), [Sender("::1")], None, answers.append)
    commits.close()
    journal.close()

    assert answers == [TOO_LARGE, "events could not be stored: MemoryError", STORED]
    assert messages(tmp_path) == ["gone", "stored"]
