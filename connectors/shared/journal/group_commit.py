"""Group commit: events of many senders that arrive while the disk is busy become one record with one sync.

For receivers that acknowledge: a sender is answered when its events are on the disk.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from connectors.shared.journal.event_blocks import BlockBuilder, Frames, Sender
from connectors.shared.journal.writer import JournalWriter
from etl.api import text_with_advice

MAX_GROUP_BYTES = 32 << 20
"""Bytes of events after which a record is complete; later events wait for the next one."""

MAX_ADDED_BYTES = 512 << 20
"""Bytes of events that are added at once: with those of a group they fit into a record."""

TOO_LARGE = f"the events of one message have more than {MAX_ADDED_BYTES >> 20} MiB as they are stored: send fewer at a time"
"""Why events are not stored that never fit into a record."""

STORED = ""
"""What a callback gets when the events are in the journal."""

JOURNAL_FULL = "the journal is full: sinks are slower than senders, or down"

log = logging.getLogger("sluice.journal")

OnCommit = Callable[[str], None]
"""Called in the committing thread with `STORED`, or with the reason why the events are not stored."""


class GroupCommit:
    """Appends events of any thread to a journal, in a thread of its own; with ``trims`` as texts without line ends."""

    def __init__(self, journal: JournalWriter, trims: bool = True) -> None:
        self._journal, self._trims = journal, trims
        self._groups = [_Group(trims)]
        self._changed = threading.Condition()
        self._is_closing = False
        self._has_space, self._problem = True, ""
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name="journal-commit", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str:
        """Why events cannot be stored now, or an empty text: the journal or the disk is full."""
        return self._problem

    @property
    def waiting_bytes(self) -> int:
        """Bytes of events that are not stored yet."""
        return sum(group.builder.bytes for group in self._groups)

    def add(self, frames: Frames, senders: Sequence[Sender], sender_of_row: Any, on_commit: OnCommit) -> None:
        """Store events; ``on_commit`` is called afterwards, in all cases; at once with `TOO_LARGE`.

        ``sender_of_row`` (int[n]) is the index of the sender of each event, None if all have the first; rejected events have the
        first.
        """
        if len(frames.data) + sum(_INDEX_BYTES * span.shape[1] for span in frames.spans) > MAX_ADDED_BYTES:
            on_commit(TOO_LARGE)
            return
        with self._changed:
            if self._groups[-1].builder.bytes >= MAX_GROUP_BYTES:
                self._groups.append(_Group(self._trims))
            group = self._groups[-1]
            numbers = [group.builder.sender_number(sender) for sender in senders]
            group.builder.add(frames, numbers[0], None if sender_of_row is None else _numbers_of_rows(numbers, sender_of_row))
            group.callbacks.append(on_commit)
            self._changed.notify()

    def close(self) -> None:
        """Store what was added, and end the thread. The journal stays open."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while group := self._next_group():
            problem = self._try_store(group)
            if problem and problem != self._problem:
                log.warning(
                    "received events are refused, and their senders have to send them again: %s", text_with_advice(problem)
                )
            self._problem = problem
            for callback in group.callbacks:
                with suppress(RuntimeError):  # the loop of the sender's connection has been closed
                    callback(problem)

    def _next_group(self) -> _Group | None:
        """Wait for events; None when the journal is to be closed. Meanwhile look whether there is space again."""
        with self._changed:
            while not self._groups[0].callbacks:
                if self._is_closing:
                    return None
                waited = not self._changed.wait(_SPACE_CHECK_SECONDS if self._problem else None)
                if waited and self._journal.has_space():
                    self._problem = ""
            group = self._groups.pop(0)
            if not self._groups:
                self._groups.append(_Group(self._trims))
            return group

    def _try_store(self, group: _Group) -> str:
        """Store a group; an error that nobody expects is the reason for its senders, and must not end the thread."""
        try:
            return self._store(group)
        except Exception as error:
            log.exception("received events could not be stored")
            return f"events could not be stored: {type(error).__name__}"

    def _store(self, group: _Group) -> str:
        if not self._journal.has_space():
            return JOURNAL_FULL
        payload, events = group.builder.encode(time.time_ns() // 1000)
        return (self._journal.try_append(payload, events) or STORED) if events else STORED


class _Group:
    """Events of the next record, and who waits for it."""

    def __init__(self, trims: bool) -> None:
        self.builder = BlockBuilder(trims)
        self.callbacks: list[OnCommit] = []


def _numbers_of_rows(numbers: list[int], sender_of_row: Any) -> Any:
    import numpy as np

    return np.array(numbers, np.int32)[sender_of_row]


_INDEX_BYTES = 12
"""Bytes of an event in the index of a block."""

_SPACE_CHECK_SECONDS = 0.2
"""How long senders are refused before the disk is tried again."""
