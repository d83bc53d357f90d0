"""The `stdin` source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import ClassVar, Literal, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr

from connectors.file.charset import charset
from connectors.file.ends import event_cutter, event_ends
from connectors.file.multiline import Multiline
from connectors.file.newlines import last_line_end
from connectors.spool import Segments, Spool
from etl.api import Finding, Limit, Offset, ReceivingSource, Rejects, Schema, Size, Split

_SMALLEST = 4 << 20


class StdinSource(ReceivingSource):
    """Read standard input, an event a line, until it ends.

    A pipe cannot be read twice, so the driver copies it to the pipeline's state folder first, and events are read
    from there; what all sinks hold is deleted. What was copied and not delivered when a run was killed is delivered
    by the next run, before its own input: exactly once from the copy on, up to the sinks' guarantees. What is still in the pipe
    when a run is killed is lost with it. Events keep their order; parallelism: parts of the copy. At most 1 GiB waits on disk,
    then the pipe waits.

    Lines are cut as by the `file` source: without their newline, over-long ones as dead letters (``line-too-long``),
    unknown bytes as U+FFFD, the last one with or without newline; ``multiline`` gathers them into events as there. While
    the pipe is open, its last event waits for the next one to begin, at most until nothing came for ``timeout``.

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
    multiline: Multiline | None = Field(default=None, description="Which lines make an event; each does when nothing is said.")
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
        if self.multiline:
            yield from self.multiline.findings(self.charset)

    def exclusive(self) -> Iterable[str]:
        """A line of a pipe is read once."""
        return ("standard input",)

    def fields(self) -> Schema:
        """A line is a `message`."""
        return pa.schema([pa.field("message", pa.string())])

    def start(self) -> Offset:
        """At what is kept."""
        return {"offset": Segments(self._folder).first}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Up to the last whole event that is there, or to the end of the input."""
        segments, begin = Segments(self._folder), start["offset"]
        ends = event_ends(self.charset, self.max_line_bytes, self.multiline)
        if limit.until:
            total = limit.until["offset"]
        elif segments.ended:
            total = Segments(self._folder).total  # looked at after the end was seen
        else:
            total = last_line_end(segments, begin, segments.total, ends.charset)
            if not segments.quiet(ends.patience):
                total = ends.reached(segments, begin, total, limit.max_bytes)
        end = total
        if total - begin > limit.max_bytes:
            end = ends.last(segments, begin, begin + limit.max_bytes)
            if end == begin:
                end, _ = ends.count(segments, begin, total, 1)
        if limit.max_events is not None and end > begin:
            end, _ = ends.count(segments, begin, end, limit.max_events) if limit.max_events else (begin, 0)
        return {"offset": end}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Equal parts that end where events do."""
        segments, ends = Segments(self._folder), event_ends(self.charset, self.max_line_bytes, self.multiline)
        first, last = start["offset"], end["offset"]
        parts = max(1, min(parallelism, (last - first) // _SMALLEST))
        wanted = [first + ends.charset.whole((last - first) * part // parts) for part in range(1, parts)]
        cuts = {found for at, until in pairwise([*wanted, last]) if (found := ends.after(segments, at, until))}
        bounds = sorted({first, last, *cuts})
        return [Split("stdin", a, b) for a, b in pairwise(bounds)]

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Batches of about 2 MiB."""
        segments = Segments(self._folder)
        segments.skip(split.start - segments.at)

        def readinto(view: memoryview) -> int:
            return segments.readinto(view[: split.end - segments.at]) if segments.at < split.end else 0

        return event_cutter(self.charset, self.max_line_bytes, self.multiline).lines(readinto, split.start)

    def commit(self, ends: Sequence[Offset]) -> None:
        """Delete segments that are delivered."""
        Segments(self._folder).forget(min(end["offset"] for end in ends))
