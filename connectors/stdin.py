"""The `stdin` source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr

from connectors.file.charset import charset
from connectors.file.lines import Cutter
from connectors.file.newlines import count_lines, last_line_end, next_line_end
from connectors.spool import Segments, Spool
from etl.api import Finding, Limit, Offset, ReceivingSource, Rejects, Schema, Size, Split

_SMALLEST = 4 << 20


class StdinSource(ReceivingSource):
    """Read standard input, an event a line, until it ends.

    A pipe cannot be read twice, so the driver copies it to the pipeline's state folder first, and events are read
    from there; what all sinks hold is deleted. What was copied and not delivered when a run was killed is delivered
    by the next run, before its own input. At most 1 GiB waits on disk, then the pipe waits.

    Lines are cut as by the `file` source: without their newline, over-long ones as dead letters (``line-too-long``),
    unknown bytes as U+FFFD, the last one with or without newline.

    ```yaml
    type: stdin
    ```
    """

    type: Literal["stdin"] = "stdin"
    charset: str = Field(
        default="utf-8", description="Character set, by Python's name.", examples=["latin-1", "gbk", "utf-16-le"]
    )
    max_line_bytes: Size = Field(
        default=1 << 20, description="A longer line is a dead letter, which keeps its first 64 KiB.", ge=1, le=1 << 30
    )
    _folder: str = PrivateAttr(default="")

    def placed(self, folder: str) -> Self:
        """This source, with the folder that its `Spool` fills."""
        copy = self.model_copy()
        copy._folder = folder
        return copy

    def receiver(self, descriptor: int = 0) -> Spool:
        """The thread that copies standard input, not yet started."""
        return Spool(self._folder, charset(self.charset).newline, descriptor)

    def ended(self, offset: Offset) -> bool:
        """Whether standard input has ended and ``offset`` is behind all of it."""
        segments = Segments(self._folder)
        return segments.ended and offset["offset"] >= segments.total

    def check(self) -> Iterable[Finding]:
        """A character set that is unknown or has no newlines to cut at."""
        try:
            charset(self.charset)
        except ValueError as error:
            yield Finding("unknown-charset", str(error), ("charset",))

    def fields(self) -> Schema:
        """A line is a `message`."""
        return pa.schema([pa.field("message", pa.string())])

    def start(self) -> Offset:
        """At what is kept."""
        return {"offset": Segments(self._folder).first}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Up to the last newline that is there, or to the end of the input."""
        segments, form, begin = Segments(self._folder), charset(self.charset), start["offset"]
        segments.skip(begin - segments.at)
        if limit.until:
            total = limit.until["offset"]
        elif segments.ended:
            total = Segments(self._folder).total  # looked at after the end was seen
        else:
            total = last_line_end(segments, begin, segments.total, form)
        end = total
        if total - begin > limit.max_bytes:
            end = last_line_end(segments, begin, begin + limit.max_bytes, form)
            if end == begin:
                end = next_line_end(segments, begin, total, form) or total
        if limit.max_events is not None and end > begin:
            segments.skip(begin - segments.at)
            end, _ = count_lines(segments, end, limit.max_events, form) if limit.max_events else (begin, 0)
        return {"offset": end}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Equal parts that end at lines."""
        segments, form = Segments(self._folder), charset(self.charset)
        first, last = start["offset"], end["offset"]
        parts = max(1, min(parallelism, (last - first) // _SMALLEST))
        wanted = [first + form.whole((last - first) * part // parts) - form.unit for part in range(1, parts)]
        cuts = {found for at in wanted if (found := next_line_end(segments, at, last, form))}
        bounds = sorted({first, last, *cuts})
        return [Split("stdin", a, b) for a, b in pairwise(bounds)]

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Batches of about 4 MiB."""
        segments = Segments(self._folder)
        segments.skip(split.start - segments.at)

        def readinto(view: memoryview) -> int:
            return segments.readinto(view[: split.end - segments.at]) if segments.at < split.end else 0

        return Cutter(charset(self.charset), self.max_line_bytes).lines(readinto, split.start)

    def commit(self, end: Offset) -> None:
        """Delete segments that are delivered."""
        Segments(self._folder).forget(end["offset"])
