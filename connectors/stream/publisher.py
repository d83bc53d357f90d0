"""Appends the staged events of a micro-batch to the journal, commits them, and deletes old events."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from uuid import uuid4

from connectors.file.writing.file_operations import append
from connectors.shared.journal.segments import SUFFIX, Segments
from connectors.stream.index import StreamIndex, StreamSegment, load_index
from connectors.stream.subscribers import slowest_subscriber
from etl.api import BatchId, ComponentError, Staged

WhenFull = Literal["delete", "wait"]

SEGMENTS = 16
"""Number of segments of a full journal, or of one with events of all ages; events are deleted segment by segment."""

_MAX_SEGMENT_BYTES = 64 << 20
_MAX_SEGMENTS = 512


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """How much a stream keeps."""

    max_bytes: int
    max_seconds: float
    when_full: WhenFull

    @property
    def segment_bytes(self) -> int:
        """Size after which a new segment begins."""
        return max(min(self.max_bytes // SEGMENTS, _MAX_SEGMENT_BYTES), self.max_bytes // _MAX_SEGMENTS)

    @property
    def segment_seconds(self) -> float:
        """Age after which a new segment begins."""
        return self.max_seconds / SEGMENTS


class Publisher:
    """Committer of a stream, the only writer of its folder."""

    def __init__(self, folder: Path, limits: RetentionLimits, clock: Callable[[], float] = time.time) -> None:
        self.folder, self.limits, self._clock = folder, limits, clock
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _lock(folder)
        try:
            self.index = load_index(folder) or StreamIndex(id=uuid4().hex)
            self._recover()
        except BaseException:
            os.close(self._lock)
            raise

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Append the micro-batch and make it visible; committing it again changes nothing. Raises OSError while the stream is
        full and waits for a subscriber."""
        if not staged or self.index.holds(batch):
            return
        coming = sum(item.bytes for item in staged)
        self._delete_old(coming)
        if self.limits.when_full == "wait":
            self._check_space(coming)
        index = self.index
        for item in staged:
            index = self._append(index, item)
        self._sync(index)
        self._save(replace(index, batches={**index.batches, batch.query: batch.number}))

    def tick(self) -> None:
        """Delete events that are too old."""
        self._delete_old(0)

    def close(self) -> None:
        """Release the stream."""
        os.close(self._lock)

    def _append(self, index: StreamIndex, item: Staged) -> StreamIndex:
        """The index after a staged file was appended; it is not saved yet, so that a failure leaves nothing."""
        now = self._clock()
        segments = index.segments
        last = segments[-1] if segments else None
        if last is None or index.end - last.start >= self.limits.segment_bytes or now - last.begun >= self.limits.segment_seconds:
            last = StreamSegment(index.end, index.events, now, now)
            segments = (*segments, last)
        handle = os.open(self._path(last), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            append(item.path, 0, item.bytes, handle, index.end - last.start)
        finally:
            os.close(handle)
        publisher, fields = item.detail
        return replace(
            index,
            publisher=publisher,
            fields=fields,
            end=index.end + item.bytes,
            events=index.events + item.events,
            segments=(*segments[:-1], replace(last, written=now)),
        )

    def _sync(self, index: StreamIndex) -> None:
        """Make the segments durable that were written since the last commit."""
        ends = [*(segment.start for segment in index.segments[1:]), index.end]
        for segment, end in zip(index.segments, ends, strict=True):
            if end > self.index.end:
                handle = os.open(self._path(segment), os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fdatasync(handle)
                finally:
                    os.close(handle)

    def _delete_old(self, coming: int) -> None:
        """Delete the segments whose events are too old, or for which there is no space beside ``coming`` bytes."""
        oldest = self._clock() - self.limits.max_seconds
        delivered, segments = self._delivered(), self.index.segments
        count = 0
        for segment in segments:
            is_full = self.index.end - segment.start + coming > self.limits.max_bytes
            end = segments[count + 1].first_event if count + 1 < len(segments) else self.index.events
            if not (segment.written < oldest or (is_full and (delivered is None or end <= delivered))):
                break
            count += 1
        if count:
            self._save(replace(self.index, segments=segments[count:]))
            for segment in segments[:count]:
                with suppress(FileNotFoundError):
                    os.unlink(self._path(segment))

    def _delivered(self) -> int | None:
        """The event before which full streams may delete; None for any."""
        if self.limits.when_full == "delete":
            return None
        slowest = slowest_subscriber(self.folder)
        return slowest.event if slowest else None

    def _check_space(self, coming: int) -> None:
        """Raise OSError if events that a subscriber has not delivered leave no space."""
        index, slowest = self.index, slowest_subscriber(self.folder)
        if slowest is None or not index.segments or index.end - index.first + coming <= self.limits.max_bytes:
            return
        raise OSError(
            f"the stream in {self.folder} is full ({index.end - index.first:,} bytes): it waits for subscriber {slowest.name}, "
            f"which has {max(index.events - slowest.event, 0):,} events to read; start it, or remove its file in "
            f"{self.folder / 'subscribers'} if it does not come back"
        )

    def _save(self, index: StreamIndex) -> None:
        index.save(self.folder)
        self.index = index

    def _recover(self) -> None:
        """Remove what a killed run has not committed."""
        known = {segment.start for segment in self.index.segments}
        on_disk = Segments(self.folder)
        for start in on_disk.starts:
            if start not in known:
                on_disk.path(start).unlink()
        if not self.index.segments:
            return
        last = self.index.segments[-1]
        length, size = self.index.end - last.start, on_disk.size(last.start)
        if size < length:
            raise ComponentError(
                f"{self._path(last)} has {size:,} bytes of {length:,} that were committed; restore it, or remove the folder "
                "of the stream: it then begins anew, and its subscribers need new state folders"
            )
        os.truncate(self._path(last), length)

    def _path(self, segment: StreamSegment) -> str:
        return str(self.folder / f"{segment.start:020d}{SUFFIX}")


def _lock(folder: Path) -> int:
    """Lock the stream. Raises ComponentError if another run publishes to it."""
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise ComponentError(
            f"another run publishes to the stream in {folder}: a stream has one publisher; give this sink another name"
        ) from error
    return handle
