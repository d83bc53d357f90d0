"""Events as records of a journal, and back: a record's payload is an Arrow stream with its schema, compressed with LZ4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connectors.shared.journal.reader import RecordSlice
from connectors.shared.journal.records import HEADER_BYTES, MAX_PAYLOAD_BYTES, Record, encode_header
from etl.api import OFFSET, ComponentError, Rejects, format_type

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


def conform(events: pa.RecordBatch, fields: Mapping[str, pa.DataType]) -> list[pa.RecordBatch | Rejects]:
    """The declared fields of published events and the hidden column of offsets, in their order: null where the publisher has no
    such field, cast where the value does not change. Events with another value are rejected, the others are not."""
    found: list[pa.RecordBatch | Rejects] = []
    for name, type_ in fields.items():
        at = events.schema.get_field_index(name)
        bad = _uncastable(events.column(at), type_) if at >= 0 else []
        if bad:
            message = (
                f"{name!r} is published as {format_type(events.column(at).type)}, and its value is not a {format_type(type_)}"
            )
            mask = _mask(bad, events.num_rows)
            found.append(Rejects(events.filter(mask), "field-type", message))
            events = events.filter(pc.invert(mask))
    if events.num_rows:
        columns = [_cast(events, name, type_) for name, type_ in fields.items()]
        found.insert(0, pa.RecordBatch.from_arrays([*columns, events.column(OFFSET)], names=[*fields, OFFSET]))
    return found


def _cast(events: pa.RecordBatch, name: str, type_: pa.DataType) -> pa.Array:
    at = events.schema.get_field_index(name)
    return pc.cast(events.column(at), type_) if at >= 0 else pa.nulls(events.num_rows, type_)


def _uncastable(column: pa.Array, type_: pa.DataType, first: int = 0) -> list[tuple[int, int]]:
    """The rows whose value is not a value of a type, as ranges: halves are tried until they are cast or have one row."""
    if column.type == type_:
        return []
    try:
        pc.cast(column, type_)
        return []
    except pa.ArrowNotImplementedError:
        return [(first, first + len(column))]
    except pa.ArrowInvalid:
        if len(column) == 1:
            return [(first, first + 1)]
    half = len(column) // 2
    return _uncastable(column.slice(0, half), type_, first) + _uncastable(column.slice(half), type_, first + half)


def _mask(ranges: Sequence[tuple[int, int]], rows: int) -> pa.Array:
    import numpy as np

    mask = np.zeros(rows, bool)
    for first, end in ranges:
        mask[first:end] = True
    return pa.array(mask)


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch with the events of several of one schema."""
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
