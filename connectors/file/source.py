"""The `file` source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Literal, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr

from connectors.file.notifications.inbox import Inbox
from connectors.file.notifications.queue_options import QueueOptions
from connectors.file.objects.object_checks import check_objects, describe_objects, is_object_matched, probe_objects
from connectors.file.objects.object_path import SCHEMES, is_object, without_options
from connectors.file.objects.object_scan import ObjectScan
from connectors.file.reading.batch_limit import apply_limit, unread_bytes
from connectors.file.reading.file_location import FileLostError, open_tracked
from connectors.file.reading.file_probe import FileProbe
from connectors.file.reading.file_scan import FileScan
from connectors.file.reading.file_stat import path_as_text
from connectors.file.reading.file_stream import CorruptError, FileStream
from connectors.file.reading.globs import is_matched
from connectors.file.reading.split_planner import PACK_SLOT, FileRange, plan_splits
from connectors.file.reading.tracked_files import END, FileOffsets
from connectors.shared.lines.charset import charset
from connectors.shared.lines.event_boundaries import LineBoundaries, create_boundaries, create_cutter
from connectors.shared.lines.line_cutter import BLOCK_BYTES
from connectors.shared.lines.multiline import Multiline, check_lines
from etl.api import (
    OFFSET,
    Backlog,
    Duration,
    FieldName,
    Finding,
    Limit,
    Offset,
    Receiver,
    Rejects,
    Schema,
    Size,
    Source,
    Split,
    with_columns,
    with_fields,
)

MOUNTED = "file://"
"""Begins a path that every host of a cluster mounts at the same place."""


_ALL = Limit(1 << 62)
_RESCAN, _RESCAN_WITH_NOTIFICATIONS = timedelta(seconds=10), timedelta(hours=1)


class FileSource(Source):
    """Follow text files, one event a line.

    A file is identified by its inode and by samples of the text that was read, not by its name. So a rotated file is read to
    its end under its new name, whether the glob matches that or not. After a copytruncate the unread rest is read from the
    copy, which may have any name in the same folder or in the glob. A copy of a file, compressed or not, is not read again
    whatever its name (``x.log.1``, ``x.bak.log``, ``saved.gz``): its text is compared with that of the file. Files that only
    have the same beginning, such as a header, are all read, and so are equal files of less than 512 bytes. A copy that
    continues differently is a file of its own: it is read completely, or from the end of the copy if that had 4 KiB and was
    not written for ten seconds. A file that was truncated and written again is a new file; a warning gives the number of
    unread bytes of the old one if they are lost. Files ending in ``.gz``, ``.zst`` and ``.bz2`` are read once, after they
    were not written for ten seconds.

    Directory links are followed. Below ``**`` each folder is searched once, identified by device and inode, under its own
    name if the glob reaches it without a link: circular links end, and ``exclude`` applies to that name. Pipes, sockets and
    devices are skipped; a warning names a folder that cannot be listed, and it is searched as soon as it can. A file with
    several names is read once.

    An event is a line without its newline (``\\n`` or ``\\r\\n``); an empty line is an event with an empty message.
    A last line without newline waits for it while the file is followed, and is read if the run is bounded, or if the file
    was rotated and has not changed for ten seconds. Bytes that are invalid in the character set become U+FFFD; a byte order
    mark at a file's beginning is dropped.

    With ``multiline`` an event is one line or more, joined by ``\\n``, and its offset is that of the first: a line that
    matches ``start`` begins an event, one that matches ``continue`` belongs to the event before it, one that matches
    ``end`` ends its event (patterns as in the `regex` parser), or a ``preset`` has the patterns for the stack traces of a
    language or the parts of container log lines: ``multiline: {preset: java}``. Events do not depend on the parallelism or
    on where a run was stopped. An event that reaches ``max_lines`` or would exceed ``max_bytes`` ends there, and the next
    lines form another event; nothing is dropped. A line longer than ``max_line_bytes`` ends the event before it. While a
    file is followed, its last event waits for the next one to begin, at most until nothing was written for ``timeout``;
    later lines form another event. The waiting event is lost if the file is deleted or truncated meanwhile and there is no
    copy. With ``start: end`` the first event may lack its beginning.

    Delivery: exactly once, up to the sinks' guarantees, tested by killing runs at random moments, and with rotations of all
    kinds. Events of a file keep their order; a rotated file comes
    before its successor. Parallelism: byte ranges of at least 4 MiB; a compressed file is one task, small files
    share one (`_offset` then counts the n-th file's bytes from n times 2^40). Dead letters: ``line-too-long``,
    ``corrupt-archive`` for what cannot be decompressed, ``data-lost`` for what was deleted or overwritten between
    planning and reading. A run that finds no file reports it at its start and waits for files. With ``--once`` it ends with
    a message, and fails if ``path`` has no wildcards and the file was never there. A warning names a file that cannot be
    opened, and it is read as soon as it can. A file that was truncated or changed and then, before the next scan, grew
    beyond the read part with the same bytes at both ends of that part, cannot be distinguished from one that grew.

    **Objects.** ``path: s3://logs/**/*.json.gz`` reads objects of a store: S3 and what speaks its protocol, ``gs://``,
    ``abfs://`` and ``hdfs://``. An object is written once, and read from its beginning to its end, its last line with or without
    a newline; one that is written again is read again as a whole. Only folders that can hold matches are listed, so
    ``s3://logs/AWSLogs/*/CloudTrail/*/2026/**`` does not list other years. Objects are read in the order of their times; one that
    appears with a time before that of an object already read, as after a long upload, is read if it is not older by more than
    ``late``. Login and region come from the environment, as for the store's own tools (``AWS_ACCESS_KEY_ID``, ``AWS_REGION``, a
    role of the machine …), and so does the address of another server than Amazon's (``AWS_ENDPOINT_URL``); further options of the
    connection follow a question mark: ``s3://logs/*.log?region=eu-west-1``. For Azure write
    ``abfss://container@account.dfs.core.windows.net/*.log``, which is tested without a server. A whole cluster can read a store.

    With ``notifications`` new objects of S3 are found by the messages that S3 sends to a queue of SQS, directly, by SNS or by
    EventBridge: within about a second, and without listing a large store again and again. A message is deleted when all sinks
    have the objects that it announces; until then its visibility timeout is extended, and after a kill the queue gives it again.
    Delivery stays exactly once: an object that several messages and a listing name is read once. The store is listed when a run
    starts and then every ``rescan`` (an hour): a lost notification delays an object that long. Messages about deletions, tests of
    S3 and objects that
    ``path`` does not match are deleted; one that is not a notification stays in the queue, and its dead letter queue takes it.
    The offset names the objects of the last ``rescan`` and ``late``. The login needs `sqs:ReceiveMessage`, `sqs:DeleteMessage`,
    `sqs:ChangeMessageVisibility` and `sqs:GetQueueAttributes`; how many messages the queue holds is the metric
    ``sluice_source_lag_notifications``. Needs the extra ``sluice-etl[sqs]``.

    ```yaml
    type: file
    path: /var/log/*.log
    exclude: ["*.tmp.log"]
    ```
    """

    type: Literal["file"] = "file"
    path: str = Field(
        description="Files to read: a path or a glob, with `**` for any folders; or objects of a store: `s3://bucket/*.gz`. "
        "`file://` says that all hosts of a cluster mount the path.",
        min_length=1,
        examples=["/var/log/**/*.log"],
    )
    exclude: tuple[str, ...] = Field(default=(), description="Globs of paths or base names that are not read.")
    begin: Literal["beginning", "end"] = Field(
        default="beginning",
        alias="start",
        description="Where to begin in files that exist when the pipeline first starts.",
    )
    charset: str = Field(
        default="utf-8", description="Character set, by Python's name.", examples=["latin-1", "gbk", "utf-16-le"]
    )
    max_line_bytes: Size = Field(
        default=1 << 20, description="A longer line is a dead letter, which keeps its first 64 KiB.", ge=1, le=1 << 30
    )
    multiline: Multiline | None = Field(default=None, description="Which lines form an event; without it each line is one.")
    rescan: Duration | None = Field(
        default=None,
        description="A store is listed at most this often while it is followed; default: `10s`, with `notifications` `1h`.",
        gt=timedelta(),
        examples=["10s"],
    )
    late: Duration = Field(
        default=timedelta(hours=1),
        description="How long after a later object of a store an object may appear, and is still read.",
        ge=timedelta(),
    )
    notifications: QueueOptions | None = Field(
        default=None,
        description="A queue of SQS whose messages say which objects of S3 are new; without it they are found by listing.",
    )
    path_field: FieldName | None = Field(default=None, description="Field for the file's path.", examples=["log.file.path"])
    _folder: str = PrivateAttr(default="")

    @property
    def in_store(self) -> bool:
        """Whether it reads objects of a store rather than files."""
        return is_object(self.path)

    @property
    def probes_here(self) -> bool:
        """Whether this host has the files; a run waits for a store as for every other system."""
        return not self.in_store

    @property
    def pattern(self) -> str:
        """The path or glob without ``file://``."""
        return self.path.removeprefix(MOUNTED)

    @property
    def host_bound(self) -> bool:
        """Whether only this host has the files."""
        return not (self.path.startswith(MOUNTED) or self.in_store)

    def check(self) -> Iterable[Finding]:
        """Check the character set, the path, and the options of ``multiline``."""
        if self.in_store:
            yield from check_objects(self.path)
        elif "://" in self.pattern:
            hint = f"stores are {', '.join(f'{scheme}://' for scheme in SCHEMES)}; read others with `type: spark`, or mount them"
            yield Finding("not-local", f"{self.path!r} is the URI of a store that this source does not know", ("path",), hint)
        elif not self.host_bound and not self.pattern.startswith("/"):
            hint = f"write {MOUNTED}/…, with the whole path"
            yield Finding("not-absolute", f"{self.path!r} is not an absolute path after {MOUNTED}", ("path",), hint)
        if self.notifications is not None:
            yield from self.notifications.check("notifications")
            if not self.path.startswith("s3://"):
                hint = "remove notifications; other stores are listed every `rescan`"
                yield Finding("notifications-unused", "only S3 sends notifications to SQS", ("notifications",), hint)
        yield from check_lines(self.charset, self.multiline)

    def exclusive(self) -> Iterable[str]:
        """Return the queue: a message is given to one reader."""
        return [f"the queue {self.notifications.queue}"] if self.notifications else []

    def with_folder(self, folder: str) -> Self:
        """Return this source with the folder of announced objects."""
        if self.notifications is None:
            return self
        copy = self.model_copy()
        copy._folder = folder
        return copy

    @property
    def has_receiver(self) -> bool:
        """Whether it receives notifications."""
        return self.notifications is not None

    def receiver(self) -> Receiver:
        """Return what receives notifications."""
        assert self.notifications is not None
        from connectors.file.notifications.receiver import NotificationReceiver
        from connectors.file.notifications.sqs_queue import SqsQueue

        return NotificationReceiver(SqsQueue(self.notifications), self._object_scan(), Inbox(self._folder))

    def fields(self) -> Schema:
        """Return the field `message`, and the path if requested."""
        schema = pa.schema([pa.field("message", pa.string())])
        return with_fields(schema, {self.path_field: pa.string()}) if self.path_field else schema

    def reads(self, target: str) -> bool:
        """Return whether the glob matches the path, under its own name or through links to folders."""
        if self.in_store:
            return is_object(target) and is_object_matched(target, self.path, self.exclude)
        return is_matched(target, self.pattern, self.exclude)

    def probe(self) -> Iterable[Finding]:
        """Check that there are files and that they can be opened."""
        yield from probe_objects(self.path, self.exclude) if self.in_store else FileProbe(self.pattern, self.exclude).check()
        if self.notifications is not None:
            from connectors.file.notifications.sqs_queue import probe_queue

            yield from probe_queue(self.notifications)

    @property
    def skips(self) -> str | None:
        """The option that skips existing text, if it is set."""
        return "start: end" if self.begin == "end" else None

    def explain_no_events(self, committed: Offset | None) -> str:
        """Return how many files there are, and why nothing of them was read."""
        if self.in_store:
            return f"{describe_objects(self._object_scan())}; {super().explain_no_events(committed)}"
        files = FileProbe(self.pattern, self.exclude)
        return (
            files.obstacle
            or f"{files.summary}; {super().explain_no_events(committed if committed and committed['files'] else None)}"
        )

    def start(self) -> Offset:
        """Return the offset where nothing is read; with ``start: end``, where all current text is."""
        if self.begin == "beginning":
            return FileOffsets().to_json()
        if self.in_store:
            return self._object_scan().skip_all().to_json()
        found = FileScan(self.pattern, self.exclude, LineBoundaries(charset(self.charset))).update_offsets(FileOffsets())
        return replace(found, files={name: replace(file, begin=file.offset) for name, file in found.files.items()}).to_json()

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the end of the next batch: the last newline of each file, or what the limit allows."""
        begin = FileOffsets.from_json(start)
        boundaries = create_boundaries(self.charset, self.max_line_bytes, self.multiline)
        scan: FileScan | ObjectScan = (
            self._object_scan(0.0 if limit.bounded else self._rescan_seconds)
            if self.in_store
            else FileScan(self.pattern, self.exclude, boundaries, limit.bounded, limit.max_bytes)
        )
        target = FileOffsets.from_json(limit.until) if limit.until else scan.update_offsets(begin)
        return apply_limit(begin, target, limit, boundaries).to_json()

    def backlog(self, after: Offset) -> Backlog | None:
        """Return the bytes after the offset, up to the last newline of each file; of compressed files they are estimated."""
        unread = unread_bytes(FileOffsets.from_json(after), FileOffsets.from_json(self.latest(after, _ALL)))
        return Backlog(bytes=unread, notifications=Inbox(self._folder).depth() if self.notifications else None)

    def commit(self, ends: Sequence[Offset]) -> None:
        """Let the receiver delete the messages about objects that all sinks have."""
        if self.notifications is not None and self._folder:
            Inbox(self._folder).note_delivered(ends)

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Divide large files, and pack small ones."""
        boundaries = create_boundaries(self.charset, self.max_line_bytes, self.multiline)
        return plan_splits(FileOffsets.from_json(start), FileOffsets.from_json(end), parallelism, boundaries)

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Read batches of about 2 MiB."""
        packed = len(split.detail) > 1
        found = (
            self._add_columns(batch, part.file.path, number * PACK_SLOT if packed else 0)
            for number, part in enumerate(split.detail)
            for batch in self._part(part)
        )
        return _join_small(found) if packed else found

    def _object_scan(self, max_age_seconds: float = 0.0) -> ObjectScan:
        inbox = Inbox(self._folder) if self.notifications else None
        return ObjectScan(self.path, self.exclude, charset(self.charset), self.late.total_seconds(), max_age_seconds, inbox)

    @property
    def _rescan_seconds(self) -> float:
        rescan = self.rescan or (_RESCAN_WITH_NOTIFICATIONS if self.notifications else _RESCAN)
        return rescan.total_seconds()

    def _part(self, part: FileRange) -> Iterator[pa.RecordBatch | Rejects]:
        """Read the lines of a range, with a dead letter for text that can no longer be read."""
        try:
            stream = open_tracked(part.file)
        except FileLostError as error:
            yield _reject_missing(part.begin, "data-lost", f"bytes {part.begin:,} to {part.end:,}: {error}")
            return
        with stream:
            reader = _Reader(stream, part)
            cutter = create_cutter(self.charset, self.max_line_bytes, self.multiline)
            yield from cutter.cut_batches(reader.readinto, part.begin)
        if reader.error:
            yield _reject_missing(stream.at, "corrupt-archive", reader.error)
        elif part.end != END and stream.at < part.end:
            yield _reject_missing(
                stream.at, "data-lost", f"bytes {stream.at:,} to {part.end:,} of {stream.path} vanished during the read"
            )

    def _add_columns(self, found: pa.RecordBatch | Rejects, path: str, base: int) -> pa.RecordBatch | Rejects:
        """Add the path as a field, and make offsets unique within the split."""
        if isinstance(found, Rejects):
            return replace(found, events=self._add_columns(found.events, path, base))
        columns = {}
        if self.path_field:
            columns[self.path_field] = pa.repeat(pa.scalar(path_as_text(without_options(path)), pa.string()), len(found))
        if base:
            import pyarrow.compute as pc

            columns[OFFSET] = pc.add(found.column(OFFSET), base)
        return with_columns(found, columns) if columns else found


def _join_small(batches: Iterator[pa.RecordBatch | Rejects]) -> Iterator[pa.RecordBatch | Rejects]:
    """Join small batches to about a block, because each batch has a fixed cost."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if waiting and (isinstance(batch, Rejects) or size > BLOCK_BYTES):
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
        if isinstance(batch, Rejects):
            yield batch
        else:
            waiting.append(batch)
            size += batch.nbytes
    if waiting:
        yield pa.concat_batches(waiting)


class _Reader:
    """Reads a part of a stream; ends at corrupt compressed data."""

    def __init__(self, stream: FileStream, part: FileRange) -> None:
        self.stream, self.end, self.error = stream, part.end, ""
        self._read_guarded(lambda: stream.skip(part.begin))

    def readinto(self, view: memoryview) -> int:
        left = self.end - self.stream.at
        return self._read_guarded(lambda: self.stream.readinto(view[:left])) or 0 if left > 0 and not self.error else 0

    def _read_guarded(self, read: Callable[[], int | None]) -> int | None:
        try:
            return read()
        except CorruptError as error:
            self.error = str(error)
            return None


def _reject_missing(at: int, code: str, reason: str) -> Rejects:
    """Return one dead letter without text."""
    return Rejects(pa.record_batch([pa.array([""]), pa.array([at], pa.int64())], names=["message", OFFSET]), code, reason)
