"""The source ``stream``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr

from connectors.stream.folders import FOLDER_DESCRIPTION, StreamName, existing_streams, stream_target, streams_folder
from etl.api import (
    OFFSET,
    Backlog,
    ComponentError,
    FieldName,
    Finding,
    Limit,
    Offset,
    PublishedEvents,
    ReceivingSource,
    Rejects,
    Schema,
    Split,
    TypeName,
    format_type,
    nearest,
    parse_type,
)

if TYPE_CHECKING:
    from connectors.stream.index import StreamIndex
    from connectors.stream.positions import StreamPosition
    from connectors.stream.subscribers import Subscription

log = logging.getLogger("sluice.stream")

LOST = "lost"
"""Partition of a split that reports events which were deleted before they were read."""


class StreamSource(ReceivingSource):
    """Subscribe to the events that another pipeline on this machine publishes with the sink `stream`.

    In this way a source is read once for several pipelines: one receives and parses, others filter and count its events.
    Publisher and subscribers run in one process or in several, at the same time or not. A subscriber stores how far it has read
    like any source: exactly once, up to the guarantees of its sinks. Tested by killing publishers and subscribers.

    ``fields`` declares the fields to read. A field that the publisher does not write is null; a value of another type is cast if
    that changes nothing, otherwise the event is a dead letter (``field-type``). `etl lint` compares the fields with those of the
    publisher, if its file is among the checked ones or in the same folder, or if it has run.

    The publisher deletes events that are too old or too many. A subscriber that has not read them ends with an error that names
    the lost range; with ``on_data_loss: continue`` it continues after them, and reports them in the log and as the dead letter
    ``data-lost``. A stream that does not exist yet has no events; the source waits for it.

    With ``--once`` it reads what is published when it starts: in a command that also runs the publisher, after that has ended
    (unless its sink has ``when_full: wait``, which could wait for this one: then both run at the same time). Parallelism:
    ranges of the journal. Order: that of the stream.

    ```yaml
    type: stream
    name: logins
    fields: {timestamp: timestamp, user_name: string, source.ip: string}
    ```
    """

    type: Literal["stream"] = "stream"
    name: StreamName = Field(description="Name of the stream.", examples=["logins"])
    declared: dict[FieldName, TypeName] = Field(
        alias="fields", min_length=1, description="Field → type.", examples=[{"user_name": "string", "failures": "bigint"}]
    )
    folder: str | None = Field(default=None, description=FOLDER_DESCRIPTION, min_length=1, examples=["/var/lib/sluice/streams"])
    begin: Literal["earliest", "latest"] = Field(
        default="earliest",
        alias="start",
        description="Where a new pipeline begins: at the first event that still exists, or after the last.",
    )
    on_data_loss: Literal["fail", "continue"] = Field(
        default="fail",
        description="What happens if events were deleted before they were read: the run ends, or continues after them.",
    )
    _folder: str = PrivateAttr(default="")

    @property
    def probes_here(self) -> bool:
        """True: streams are in folders of this machine."""
        return True

    def with_folder(self, folder: str) -> Self:
        """Return this source with the folder in the state of its pipeline, which identifies the subscriber."""
        copy = self.model_copy()
        copy._folder = folder
        return copy

    def receiver(self) -> Subscription:
        """Return what makes the subscriber known to the publisher, before the first micro-batch."""
        from connectors.stream.subscribers import Subscription

        return Subscription(self._stream, self._folder, self.begin)

    def fields(self) -> Schema:
        """Return the declared fields."""
        return pa.schema([(name, parse_type(type_)) for name, type_ in self.declared.items()])

    def reads(self, target: str) -> bool:
        """Return whether the target is this stream."""
        return target == stream_target(self.name, self.folder)

    def probe(self) -> Iterable[Finding]:
        """Check that the stream exists and has the fields."""
        return self.check_published(())

    def check_published(self, published: Sequence[PublishedEvents]) -> Iterable[Finding]:
        """Check that a pipeline publishes the stream, or has done so, with these fields."""

        mine = next((one for one in published if stream_target(self.name, self.folder) in one.targets), None)
        index = self._index() if mine is None else None
        if mine is not None:
            yield from compare_fields(self.fields(), mine.fields, f"pipeline {mine.pipeline!r}")
        elif index is not None and index.id:
            known = pa.schema([(name, parse_type(type_)) for name, type_ in index.fields.items()])
            yield from compare_fields(self.fields(), known, f"pipeline {index.publisher!r}")
        else:
            prefix = f"stream://{streams_folder(self.folder)}/"
            names = [target.removeprefix(prefix) for one in published for target in one.targets if target.startswith(prefix)]
            yield unpublished(
                self.name, streams_folder(self.folder), nearest(self.name, [*names, *existing_streams(self.folder)])
            )

    @property
    def skips(self) -> str | None:
        """The option that skips existing events, if it is set."""
        return "start: latest" if self.begin == "latest" else None

    def explain_no_events(self, committed: Offset | None) -> str:
        """Why nothing was read."""
        index = self._index()
        if index is None:
            return f"no pipeline has published to stream {self.name!r} yet"
        return f"stream {self.name!r} has no new events; they come from pipeline {index.publisher!r}"

    def start(self) -> Offset:
        """Return the begin or the end of the stream."""
        from connectors.stream.positions import StreamPosition

        index = self._index()
        if index is None:
            return StreamPosition("").to_offset()
        return (StreamPosition.first_of(index) if self.begin == "earliest" else StreamPosition.end_of(index)).to_offset()

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the end of the next batch: the last published event, or what the limit allows. After a loss the offset holds the
        begin of the batch, too, so that a batch that runs again has the same events."""
        from connectors.shared.journal.reader import Journal
        from connectors.stream.positions import StreamPosition, find_batch_end

        index, begin = self._index(), StreamPosition.from_offset(start)
        if index is None or limit.max_events == 0:
            return start
        first = StreamPosition.first_of(index)
        if begin.exists_in(index):
            begin = begin if begin.stream else first
            end = find_batch_end(Journal(str(self._stream)), begin, index, limit)
            return start if end == begin and start["stream"] else end.to_offset()
        self._check_loss(begin, first.number)
        end = find_batch_end(Journal(str(self._stream)), first, index, limit)
        return {**end.to_offset(), "begin": first.to_offset()}

    def backlog(self, after: Offset) -> Backlog | None:
        """Return the published events after the offset."""
        from connectors.stream.positions import StreamPosition

        index, position = self._index(), StreamPosition.from_offset(after)
        if index is None:
            return Backlog(0)
        return Backlog(index.events - max(position.number if position.stream else 0, index.first_event))

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Divide the range into equal parts that end where records do; lost events are a split of their own."""
        from connectors.shared.journal.reader import Journal
        from connectors.stream.positions import StreamPosition, divide

        begin, last = StreamPosition.from_offset(start), StreamPosition.from_offset(end)
        known = StreamPosition.from_offset(end.get("begin", start))
        index = self._index()
        if index is None or index.id != last.stream:
            raise ComponentError(f"stream {self.name!r} was removed during a micro-batch: start with a new state folder")
        if not known.exists_in(index) or not known.stream:
            known = StreamPosition.first_of(index)
        lost = []
        if begin.stream and known != begin:
            self._check_loss(begin, min(known.number, last.number))
            lost.append(Split(LOST, begin.number, min(known.number, last.number)))
        if known.number >= last.number:
            return lost
        return [*lost, *divide(Journal(str(self._stream)), known, last, parallelism)]

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Read batches of about 4 MiB."""
        from connectors.stream.reader import LostEventsError, StreamReader

        if split.partition == LOST:
            yield self._report_loss(split.start, split.end)
            return
        reader = StreamReader(str(self._stream), {field.name: field.type for field in self.fields()})
        try:
            yield from reader.read(split.detail, split.start, split.end)
        except LostEventsError as lost:
            if self.on_data_loss == "fail":
                raise ComponentError(self._describe_loss(lost.first, split.end)) from lost
            yield self._report_loss(lost.first, split.end)

    def commit(self, ends: Sequence[Offset]) -> None:
        """Tell the publisher how far all sinks have the events."""
        from connectors.stream.positions import StreamPosition
        from connectors.stream.subscribers import Subscriber

        index = self._index()
        if index is not None:
            positions = map(StreamPosition.from_offset, ends)
            number = min(
                one.number if one.stream == index.id else 0 for one in positions
            )  # of a removed stream it has another one
            Subscriber(self._folder, number).save(self._stream)

    @property
    def _stream(self) -> Path:
        return streams_folder(self.folder) / self.name

    def _index(self) -> StreamIndex | None:
        from connectors.stream.index import load_index

        return load_index(self._stream)

    def _check_loss(self, begin: StreamPosition, end: int) -> None:
        """Raise ComponentError for lost events unless the run is to continue after them."""
        if self.on_data_loss == "fail":
            raise ComponentError(
                f"{self._describe_loss(begin.number, end)}; `on_data_loss: continue` continues after them, "
                "a larger `retain` or `when_full: wait` in the publisher's sink avoids it"
            )

    def _report_loss(self, first: int, end: int) -> Rejects:
        text = self._describe_loss(first, end)
        log.warning("%s", text)
        nothing = pa.record_batch([pa.array([""]), pa.array([first], pa.int64())], names=["message", OFFSET])
        return Rejects(nothing, "data-lost", text)

    def _describe_loss(self, first: int, end: int) -> str:
        if end <= first:
            return f"stream {self.name!r} was removed and has begun anew: what had not been read of it before is lost"
        return f"{end - first:,} events of stream {self.name!r}, {first:,} to {end - 1:,}, were deleted before they were read"


def compare_fields(declared: Schema, published: Schema, publisher: str) -> Iterable[Finding]:
    """Findings about fields that the publisher does not write, or with a type that is never cast."""
    for field in declared:
        at = published.get_field_index(field.name)
        if at < 0:
            hint = nearest(field.name, published.names) or f"it publishes {', '.join(published.names)}"
            message = f"{publisher} publishes no field {field.name!r}: it is always null"
            yield Finding("unpublished-field", message, ("fields", field.name), hint, "warning")
            continue
        type_ = published.field(at).type
        if not _is_castable(type_, field.type):
            declared_type, published_type = format_type(field.type), format_type(type_)
            message = f"{publisher} publishes {field.name!r} as {published_type}, which is never cast to {declared_type}"
            yield Finding("unpublished-field", message, ("fields", field.name), f"declare it as {published_type}", "warning")


def unpublished(name: str, folder: Path, hint: str | None) -> Finding:
    """The finding about a stream that does not exist."""
    publish = f"add a sink to a pipeline: {{type: stream, name: {name}}}"
    message = f"no pipeline publishes stream {name!r}, and there is none in {folder}"
    return Finding("unpublished-stream", message, ("name",), hint or publish, "warning")


def _is_castable(published: pa.DataType, declared: pa.DataType) -> bool:
    """Whether some values can be cast; a type that is not known before the run fits."""
    if published == declared or pa.types.is_null(published):
        return True
    import pyarrow.compute as pc

    try:
        pc.cast(pa.nulls(0, published), declared)
    except pa.ArrowNotImplementedError:
        return False
    return True
