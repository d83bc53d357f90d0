"""The source that replaces a pipeline's sources in a test: it gives the events of the test."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa

from etl.api import OFFSET, EtlError, FrameSource, Limit, Offset, Rejects, Schema, Source, Split, visible
from etl.catalogue import installed
from etl.config.cases.case import CaseInput, Event, flat_event
from etl.config.cases.case_check import path_beside
from etl.running.plain_values import to_column

_EVERYTHING = Limit(1 << 62, None, bounded=True)
_LINE_OPTIONS = ("charset", "max_line_bytes", "multiline")


class GivenSource(Source):
    """The events of a test; each list is a micro-batch.

    Between two micro-batches there is an empty one, so that the watermark includes all earlier events.
    """

    type: Literal["given"] = "given"
    columns: pa.Schema
    batches: tuple[tuple[pa.RecordBatch | Rejects, ...], ...] = ()
    pauses: Mapping[int, float] = {}
    """Number of a micro-batch → the seconds that pass before its events come."""
    begin: float | None = None
    """When the test begins, seconds since the epoch; None for the time at which it runs."""

    def fields(self) -> Schema:
        """The fields of the source that it replaces."""
        return self.columns

    def start(self) -> Offset:
        """The offset before all events."""
        return {"step": 0}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """The end of the next micro-batch, or of all."""
        last = 2 * len(self.batches) - 1
        return {"step": max(0, last) if limit.until is None else min(last, start["step"] + 1)}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """One split for each micro-batch with events."""
        return [Split("given", step, step + 1) for step in range(start["step"], end["step"]) if step % 2 == 0]

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """The events."""
        yield from self.batches[split.start // 2]

    def all(self) -> Iterator[pa.RecordBatch | Rejects]:
        """The events of all micro-batches."""
        return (part for batch in self.batches for part in batch)


def given_source(source: Source | FrameSource, given: CaseInput | None, file: str, begin: float | None = None) -> GivenSource:
    """A source with a test's events; ``file`` is the test's file, for messages. Raises EtlError for events that do not fit."""
    schema = visible(source.fields())
    if given is None:
        return GivenSource(columns=schema, begin=begin)
    if given.lines:
        path = path_beside(file, given.lines.path)
        if not path.is_file():
            raise EtlError(f"there is no file {str(path)!r}")
        reader = source.reading_sample(str(path)) if isinstance(source, Source) else None
        batches_of_file = _read_all(reader) if reader else read_lines(source, path)
        return GivenSource(columns=schema, batches=(tuple(batches_of_file),), begin=begin)
    batches: list[tuple[pa.RecordBatch | Rejects, ...]] = []
    first = 0
    for events in given.batches:
        texts = [event for event in events if isinstance(event, str)]
        if not events:
            batches.append(())
        elif getattr(source, "multiline", None) is not None and len(texts) == len(events):
            batches.append(tuple(_read_multiline(source, texts)))
        else:
            batches.append((_batch(events, schema, first),))
        first += len(events)
    pauses = {number: pause.total_seconds() for number, pause in given.pauses.items()}
    return GivenSource(columns=schema, batches=tuple(batches), pauses=pauses, begin=begin)


def _read_all(reader: Source) -> Iterator[pa.RecordBatch | Rejects]:
    """Read all that a source has now."""
    start = reader.start()
    for split in reader.splits(start, reader.latest(start, _EVERYTHING), 1):
        yield from reader.read(split)


def read_lines(source: Source | FrameSource, path: Path) -> Iterator[pa.RecordBatch | Rejects]:
    """Read the lines of a file as the source does, with its options for lines."""
    options = {name: getattr(source, name) for name in _LINE_OPTIONS if hasattr(source, name)}
    reader = installed().families["source"]["file"].model_validate({"path": glob.escape(str(path))})
    assert isinstance(reader, Source)
    reader = reader.model_copy(update=options)
    schema = visible(source.fields())
    for found in _read_all(reader):
        yield found if isinstance(found, Rejects) else _with_all_fields(found, schema)


def _read_multiline(source: Source | FrameSource, lines: Sequence[str]) -> list[pa.RecordBatch | Rejects]:
    """Join lines into events by the source's ``multiline``."""
    with tempfile.NamedTemporaryFile("wb", suffix=".log") as file:
        file.write("".join(f"{line}\n" for line in lines).encode(getattr(source, "charset", "utf-8"), "replace"))
        file.flush()
        return list(read_lines(source, Path(file.name)))


def _with_all_fields(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Add the source's other fields as nulls."""
    columns = [batch.column(f.name) if f.name in batch.schema.names else pa.nulls(batch.num_rows, f.type) for f in schema]
    return pa.RecordBatch.from_arrays([*columns, batch.column(OFFSET)], names=[*schema.names, OFFSET])


def _batch(events: Sequence[Event], schema: Schema, first: int) -> pa.RecordBatch:
    rows = [{"message": event} if isinstance(event, str) else flat_event(event, schema.names) for event in events]
    columns = [to_column(field, [row.get(field.name) for row in rows], "the test") for field in schema]
    offsets = pa.array(range(first, first + len(rows)), pa.int64())
    return pa.RecordBatch.from_arrays([*columns, offsets], names=[*schema.names, OFFSET])
