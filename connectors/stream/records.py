"""Events as records of a journal, and back: a record's payload is an Arrow stream with its schema, compressed with LZ4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connectors.shared.journal.reader import RecordSlice
from connectors.shared.journal.records import HEADER_BYTES, MAX_PAYLOAD_BYTES, Record, encode_header
from etl.api import ComponentError, Rejects, format_type

RECORD_BYTES = 8 << 20
"""Bytes of events, before compression, beyond which a batch becomes several records."""

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def encode_records(events: pa.RecordBatch) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    """Yield the records of a batch, each with its events. The bytes are empty for a single event that is too large."""
    if events.nbytes > RECORD_BYTES and events.num_rows > 1:
        half = events.num_rows // 2
        yield from encode_records(events.slice(0, half))
        yield from encode_records(events.slice(half))
        return
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, events.schema, options=_OPTIONS) as out:
        out.write_batch(events)
    payload = sink.getvalue().to_pybytes()
    yield (encode_header(payload, events.num_rows) + payload if len(payload) <= MAX_PAYLOAD_BYTES else b""), events


def decode_record(piece: RecordSlice, record: Record, folder: str) -> pa.RecordBatch:
    """The events of a record. Raises ComponentError if the record is damaged."""
    if not record.is_intact(memoryview(piece.buffer)):
        at = piece.at + record.begin - HEADER_BYTES
        raise ComponentError(
            f"the stream in {folder} is damaged at byte {at:,}: a record does not have its checksum; restore the folder, or "
            "remove it and start the subscribers with new state folders"
        )
    payload = piece.buffer.slice(record.begin, record.end - record.begin).to_pybytes()  # copied, so that it is aligned
    table = pa.ipc.open_stream(payload).read_all()
    return table.combine_chunks().to_batches()[0]


def conform(events: pa.RecordBatch, fields: Mapping[str, pa.DataType]) -> pa.RecordBatch | Rejects:
    """The declared fields of published events, in their order: null where the publisher has no such field, cast where no value
    changes; otherwise the events are rejected."""
    columns: list[pa.Array] = []
    for name, type_ in fields.items():
        at = events.schema.get_field_index(name)
        column = events.column(at) if at >= 0 else pa.nulls(events.num_rows, type_)
        try:
            columns.append(column if column.type == type_ else pc.cast(column, type_))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            message = f"{name!r} is published as {format_type(column.type)}, and not every value is a {format_type(type_)}"
            return Rejects(events, "field-type", message)
    return pa.RecordBatch.from_arrays(columns, names=list(fields))


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch with the events of several of one schema."""
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
