"""The `file` source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from connectors.file.charset import charset
from connectors.file.ends import LineEnds, event_cutter, event_ends
from connectors.file.follow import Look
from connectors.file.identity import END, Position
from connectors.file.lines import BLOCK
from connectors.file.locate import LostError, located
from connectors.file.matching import is_matched
from connectors.file.multiline import Multiline
from connectors.file.places import shown
from connectors.file.probing import Inventory
from connectors.file.reach import cut_back
from connectors.file.streams import CorruptError, Stream
from connectors.file.work import SLOT, Range, splits
from etl.api import OFFSET, FieldName, Finding, Limit, Offset, Rejects, Schema, Size, Source, Split, with_columns, with_fields


class FileSource(Source):
    """Follow text files, an event a line.

    A file is known by its inode and by samples of the text that was read, not by its name. So a rotated file is
    read to its end under its new name, whether the glob matches that or not. After a copytruncate what was not read
    yet is read from the copy, which may have any name in the same folder or in the glob. A copy of a file, packed or
    not, is not read again whatever its name (``x.log.1``, ``x.bak.log``, ``saved.gz``): its text is compared with that of
    the file. Files that only begin alike, such as with one header, are all read, and so are equal files of less than
    512 bytes. A copy that goes on otherwise is a file of its own: it is read whole, or from where the copy ended when it
    had 4 KiB and was not written to for ten seconds. A file that was truncated and written anew is a new file; a warning
    says how many bytes of the old one were not read when they are nowhere. Files ending in ``.gz``, ``.zst`` and
    ``.bz2`` are read whole, once, when nothing was written to them for ten seconds.

    Directory links are followed. Below ``**`` each folder is searched once, known by device and inode, under its own name
    where the glob reaches it without a link: links in circles end, and ``exclude`` sees that name. Pipes, sockets and
    devices are passed over; a folder that cannot be listed is named in a warning and searched when it can be. A file with
    several names is read once.

    An event is a line without its newline (``\\n`` or ``\\r\\n``); an empty line is an event with an empty message.
    A last line without newline waits for it while the file is followed, and is taken when the run is bounded or the
    file was rotated away and has not changed for ten seconds. Bytes that the character set does not know become
    U+FFFD; a byte order mark at a file's beginning is dropped.

    With ``multiline`` an event is one line or more, joined by ``\\n``, and its offset is that of the first: a line that
    matches ``start`` begins an event, one that matches ``continue`` belongs to the event before it, one that matches
    ``end`` ends its event (patterns as in the `regex` parser), or a ``preset`` knows the stack traces of a language or
    the parts of container log lines: ``multiline: {preset: java}``. Events are the same whatever the parallelism and
    wherever a run was stopped. One that has ``max_lines``, or would exceed ``max_bytes``, ends there, and what follows
    is an event of its own; nothing is dropped. A line longer than ``max_line_bytes`` ends the event before it. While a
    file is followed, its last event waits for the next one to begin, at most until nothing was written for ``timeout``;
    lines that come later are an event of their own. What waits is lost when the file is deleted or truncated meanwhile
    and no copy is kept. With ``start: end`` the first event may lack its beginning.

    Delivery: exactly once, up to the sinks' guarantees, tested by killing runs at random moments, and with rotations of all
    kinds. Events of a file keep their order; a rotated file comes
    before its successor. Parallelism: byte ranges of at least 4 MiB; a compressed file is one task, small files
    share one (`_offset` then counts the n-th file's bytes from n times 2^40). Dead letters: ``line-too-long``,
    ``corrupt-archive`` for what cannot be decompressed, ``data-lost`` for what was deleted or overwritten between
    planning and reading. A run that finds no file says so at its start and waits for files; with ``--once`` it ends, and
    says what it did not find. A file that cannot be opened is named in a warning and read when it can be. A file that
    shrank or changed and then, before the next look, grew beyond what was read with the same bytes at both ends of
    it, cannot be told from one that grew.

    ```yaml
    type: file
    path: /var/log/*.log
    exclude: ["*.tmp.log"]
    ```
    """

    host_bound: ClassVar[bool] = True

    probes_here: ClassVar[bool] = True

    type: Literal["file"] = "file"
    path: str = Field(
        description="Files to read: a path or a glob, with `**` for any folders.", min_length=1, examples=["/var/log/**/*.log"]
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
    multiline: Multiline | None = Field(default=None, description="Which lines make an event; each does when nothing is said.")
    path_field: FieldName | None = Field(
        default=None, description="Field that takes the file's path.", examples=["log.file.path"]
    )

    def check(self) -> Iterable[Finding]:
        """A character set that is unknown or has no newlines to cut at; a path that is not local."""
        if "://" in self.path:
            hint = "read it with `type: spark`, or mount it"
            yield Finding("not-local", f"{self.path!r} is a URI, and this source follows local files", ("path",), hint)
        try:
            charset(self.charset)
        except ValueError as error:
            yield Finding("unknown-charset", str(error), ("charset",))

        if self.multiline:
            yield from self.multiline.findings(self.charset)

    def fields(self) -> Schema:
        """A line is a `message`."""
        schema = pa.schema([pa.field("message", pa.string())])
        return with_fields(schema, {self.path_field: pa.string()}) if self.path_field else schema

    def reads(self, target: str) -> bool:
        """Whether the glob finds the path, under its own name or behind links of folders."""
        return is_matched(target, self.path, self.exclude)

    def probe(self) -> Iterable[Finding]:
        """Whether there are files, and they can be opened."""
        yield from Inventory(self.path, self.exclude).findings()

    @property
    def skips(self) -> str | None:
        """What is there already, with ``start: end``."""
        return "start: end" if self.begin == "end" else None

    def silence(self, reached: Offset | None) -> str:
        """How many files there are, and why nothing was read of them."""
        inventory = Inventory(self.path, self.exclude)
        return inventory.obstacle or f"{inventory.matching}; {super().silence(reached if reached and reached['files'] else None)}"

    def start(self) -> Offset:
        """Nothing read; with ``start: end``, all that is there now."""
        if self.begin == "beginning":
            return Position().to_json()
        found = Look(self.path, self.exclude, LineEnds(charset(self.charset))).at(Position())
        return replace(found, files={name: replace(file, begin=file.offset) for name, file in found.files.items()}).to_json()

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Up to the last newline of each file now, or less where the limit says so."""
        begin = Position.of(start)
        ends = event_ends(self.charset, self.max_line_bytes, self.multiline)
        look = Look(self.path, self.exclude, ends, limit.bounded, limit.max_bytes)
        target = Position.of(limit.until) if limit.until else look.at(begin)
        return cut_back(begin, target, limit, ends).to_json()

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Parts of large files and packs of small ones."""
        ends = event_ends(self.charset, self.max_line_bytes, self.multiline)
        return splits(Position.of(start), Position.of(end), parallelism, ends)

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Batches of about 2 MiB."""
        packed = len(split.detail) > 1
        found = (
            self._placed(batch, part.file.path, number * SLOT if packed else 0)
            for number, part in enumerate(split.detail)
            for batch in self._part(part)
        )
        return _gathered(found) if packed else found

    def _part(self, part: Range) -> Iterator[pa.RecordBatch | Rejects]:
        """The lines of a range, and a dead letter in place of what can no longer be read."""
        try:
            stream = located(part.file)
        except LostError as error:
            yield _missing(part.begin, "data-lost", f"bytes {part.begin:,} to {part.end:,}: {error}")
            return
        with stream:
            reader = _Reader(stream, part)
            cutter = event_cutter(self.charset, self.max_line_bytes, self.multiline)
            yield from cutter.lines(reader.readinto, part.begin)
        if reader.trouble:
            yield _missing(stream.at, "corrupt-archive", reader.trouble)
        elif part.end != END and stream.at < part.end:
            yield _missing(
                stream.at, "data-lost", f"bytes {stream.at:,} to {part.end:,} of {stream.path} vanished during the read"
            )

    def _placed(self, found: pa.RecordBatch | Rejects, path: str, base: int) -> pa.RecordBatch | Rejects:
        """With the path as a field, and offsets that are unique within the split."""
        if isinstance(found, Rejects):
            return replace(found, events=self._placed(found.events, path, base))
        columns = {}
        if self.path_field:
            columns[self.path_field] = pa.repeat(pa.scalar(shown(path), pa.string()), len(found))
        if base:
            import pyarrow.compute as pc

            columns[OFFSET] = pc.add(found.column(OFFSET), base)
        return with_columns(found, columns) if columns else found


def _gathered(batches: Iterator[pa.RecordBatch | Rejects]) -> Iterator[pa.RecordBatch | Rejects]:
    """Small batches joined to ones of about a block, for every batch has its price further on."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if held and (isinstance(batch, Rejects) or size > BLOCK):
            yield pa.concat_batches(held)
            held, size = [], 0
        if isinstance(batch, Rejects):
            yield batch
        else:
            held.append(batch)
            size += batch.nbytes
    if held:
        yield pa.concat_batches(held)


class _Reader:
    """A part of a stream; compressed data that is broken ends it."""

    def __init__(self, stream: Stream, part: Range) -> None:
        self.stream, self.end, self.trouble = stream, part.end, ""
        self._guarded(lambda: stream.skip(part.begin))

    def readinto(self, view: memoryview) -> int:
        left = self.end - self.stream.at
        return self._guarded(lambda: self.stream.readinto(view[:left])) or 0 if left > 0 and not self.trouble else 0

    def _guarded(self, read: Callable[[], int | None]) -> int | None:
        try:
            return read()
        except CorruptError as error:
            self.trouble = str(error)
            return None


def _missing(at: int, code: str, reason: str) -> Rejects:
    """One dead letter without text."""
    return Rejects(pa.record_batch([pa.array([""]), pa.array([at], pa.int64())], names=["message", OFFSET]), code, reason)
