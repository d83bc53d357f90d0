"""The `stdin` source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import ClassVar, Literal, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr

from connectors.shared.lines.charset import charset
from connectors.shared.lines.event_boundaries import create_boundaries, create_cutter
from connectors.shared.lines.multiline import Multiline, check_lines
from connectors.shared.lines.newlines import last_line_end
from connectors.stdin.disk_copy import StdinCopier, StdinSegments
from etl.api import Finding, Limit, Offset, ReceivingSource, Rejects, Schema, Size, Split

_MIN_SPLIT_BYTES = 4 << 20


class StdinSource(ReceivingSource):
    """Read standard input, one event a line, until it ends.

    A pipe cannot be read twice, so the driver copies it to the pipeline's state folder, and splits read the copy; data that
    all sinks have is deleted. Data that was copied but not delivered when a run was killed is delivered by the next run,
    before its own input: exactly once from the copy on, up to the sinks' guarantees. Data still in the pipe when a run is
    killed is lost. Events keep their order; parallelism: parts of the copy. At most 1 GiB waits on disk, then the pipe is
    not read.

    Lines are split like those of the `file` source: without their newline, too long ones as dead letters
    (``line-too-long``), unknown bytes as U+FFFD, the last one with or without newline; ``multiline`` joins them to events.
    While the pipe is open, its last event waits for the next one to begin, at most until no data came for ``timeout``.

    ```yaml
    type: stdin
    ```
    """

    closes: ClassVar[bool] = True

    type: Literal["stdin"] = "stdin"
    charset: str = Field(
        default="utf-8", description="Character set, by Python's name.", examples=["latin-1", "gbk", "utf-16-le"]
    )
    max_line_bytes: Size = Field(
        default=1 << 20, description="A longer line is a dead letter, which keeps its first 64 KiB.", ge=1, le=1 << 30
    )
    multiline: Multiline | None = Field(default=None, description="Which lines form an event; without it each line is one.")
    _folder: str = PrivateAttr(default="")

    def with_folder(self, folder: str) -> Self:
        """Return this source with the folder of its copy."""
        copy = self.model_copy()
        copy._folder = folder
        return copy

    def receiver(self, descriptor: int = 0) -> StdinCopier:
        """Return the thread that copies standard input, not yet started."""
        return StdinCopier(self._folder, charset(self.charset).newline, descriptor)

    def ended(self, offset: Offset) -> bool:
        """Return whether standard input has ended and ``offset`` is its end."""
        segments = StdinSegments(self._folder)
        return segments.is_complete and offset["offset"] >= segments.end

    def check(self) -> Iterable[Finding]:
        """Check the character set and the options of ``multiline``."""
        yield from check_lines(self.charset, self.multiline)

    def exclusive(self) -> Iterable[str]:
        """Return a name, because a pipe can be read only once."""
        return ("standard input",)

    def fields(self) -> Schema:
        """Return the field `message`."""
        return pa.schema([pa.field("message", pa.string())])

    def start(self) -> Offset:
        """Return the begin of the copy."""
        return {"offset": StdinSegments(self._folder).first}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the end of the last complete event, or of the input."""
        segments, begin = StdinSegments(self._folder), start["offset"]
        boundaries = create_boundaries(self.charset, self.max_line_bytes, self.multiline)
        if limit.until:
            total = limit.until["offset"]
        elif segments.is_complete:
            total = StdinSegments(self._folder).end  # read after the end mark was seen
        else:
            total = last_line_end(segments, begin, segments.end, boundaries.charset)
            if not segments.is_quiet(boundaries.idle_timeout):
                total = boundaries.batch_end(segments, begin, total, limit.max_bytes)
        end = total
        if total - begin > limit.max_bytes:
            end = boundaries.last_event_end(segments, begin, begin + limit.max_bytes)
            if end == begin:
                end, _ = boundaries.count(segments, begin, total, 1)
        if limit.max_events is not None and end > begin:
            end, _ = boundaries.count(segments, begin, end, limit.max_events) if limit.max_events else (begin, 0)
        return {"offset": end}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Divide the copy into equal parts that end where events do."""
        segments, boundaries = StdinSegments(self._folder), create_boundaries(self.charset, self.max_line_bytes, self.multiline)
        first, last = start["offset"], end["offset"]
        parts = max(1, min(parallelism, (last - first) // _MIN_SPLIT_BYTES))
        desired = [first + boundaries.charset.whole((last - first) * part // parts) for part in range(1, parts)]
        cuts = {found for at, until in pairwise([*desired, last]) if (found := boundaries.next_event_begin(segments, at, until))}
        bounds = sorted({first, last, *cuts})
        return [Split("stdin", a, b) for a, b in pairwise(bounds)]

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Read batches of about 2 MiB."""
        segments = StdinSegments(self._folder)
        segments.skip(split.start - segments.at)

        def readinto(view: memoryview) -> int:
            return segments.readinto(view[: split.end - segments.at]) if segments.at < split.end else 0

        return create_cutter(self.charset, self.max_line_bytes, self.multiline).cut_batches(readinto, split.start)

    def commit(self, ends: Sequence[Offset]) -> None:
        """Delete delivered segments."""
        StdinSegments(self._folder).delete_before(min(end["offset"] for end in ends))
