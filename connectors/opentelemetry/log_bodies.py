"""Bodies of export requests of logs (opentelemetry-proto, ``logs/v1``): records by their resource."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from connectors.http.connection import Response
from connectors.opentelemetry.values import encode_pairs, encode_values
from connectors.opentelemetry.wire_columns import (
    BYTES,
    EMPTY,
    JsonForm,
    ProtobufForm,
    WireForm,
    constant,
    fixed64,
    join,
    message,
    varints,
    where,
    without_last_comma,
)
from connectors.shared.json_objects import write_values
from connectors.shared.receiving.protobuf import write_bytes
from connectors.shared.text_template import TextTemplate, event_times, large_texts
from etl.api import visible

LOGS_PATH = "/v1/logs"

SEVERITIES = {
    **dict.fromkeys(("trace", "finest", "verbose"), 1),
    **dict.fromkeys(("debug", "fine"), 5),
    **dict.fromkeys(("info", "information", "informational"), 9),
    "notice": 10,
    **dict.fromkeys(("warn", "warning"), 13),
    **dict.fromkeys(("error", "err", "severe"), 17),
    **dict.fromkeys(("critical", "crit"), 18),
    "alert": 19,
    **dict.fromkeys(("fatal", "emergency", "emerg", "panic"), 21),
}
"""Level in small letters → SeverityNumber, as OpenTelemetry maps the levels of syslog and of loggers."""

_FIXED_BYTES = 200
"""Bytes of a record besides its values, its attributes' names and those of its resource, at most."""


class Fields(NamedTuple):
    """Fields with a place of their own in a record; None where the stream has no such field."""

    body: str | None
    time: str | None
    observed: str | None
    severity: str | None
    trace: str | None
    span: str | None
    attributes: tuple[str, ...]
    """Fields that are attributes."""


@dataclass(frozen=True)
class LogBodies:
    """How events become log records. Events of a batch are sorted by their resource: a body has each resource once."""

    format: Literal["protobuf", "json"]
    fields: Fields
    resource: Mapping[str, TextTemplate]
    scope: str
    scope_version: str

    method: ClassVar[str] = "POST"
    path: ClassVar[str] = LOGS_PATH
    rejected_code: ClassVar[str] = "otlp-rejected"

    @property
    def type(self) -> str:
        """Value of the header Content-Type."""
        return "application/json" if self.format == "json" else "application/x-protobuf"

    def resources(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the attributes of each event's resource, encoded; those without a value are left out."""
        names, texts = [*self.resource], [one.texts(batch) for one in self.resource.values()]
        pairs = encode_pairs(self._form, names, texts)
        if self.format == "json":
            return _json_array(pairs, batch.num_rows)
        parts = [where(pc.not_equal(pair, EMPTY), message(b"\x0a", pair)) for pair in pairs]
        return join(*parts) if parts else pa.repeat(EMPTY, batch.num_rows)

    def sizes(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the bytes of each event's record as if it were alone in its resource."""
        lengths = pc.add(pc.binary_length(self._records(batch)), pc.binary_length(self.resources(batch)))
        return pc.add(lengths, _FIXED_BYTES + len(self.scope.encode()) + len(self.scope_version.encode())).cast(pa.int64())

    def encode(self, batch: pa.RecordBatch) -> EncodedLogs:
        """Encode events, which are sorted by their resources."""
        resources = self.resources(batch).dictionary_encode()
        scope = {"name": self.scope, "version": self.scope_version}
        records = self._records(batch)
        return EncodedLogs(self.format, records, resources.indices.to_numpy(), resources.dictionary.to_pylist(), scope)

    def headers(self, rows: pa.RecordBatch) -> Mapping[str, str]:
        """Return nothing: OTLP has no identity of requests."""
        return {}

    def divide(self, response: Response, count: int) -> Sequence[int]:
        """Return nothing: a receiver that rejects a request does not name the records it means, and must not get the others of
        a partial success again (OTLP, "Partial Success").
        """
        return ()

    @property
    def _form(self) -> WireForm:
        return JsonForm() if self.format == "json" else ProtobufForm()

    def _records(self, batch: pa.RecordBatch) -> pa.Array:
        """Return each event as an element of the list of its scope."""
        fields, rows = self.fields, batch.num_rows
        columns = {name: batch.column(name) for name in fields.attributes}
        attributes = {name: column for name, column in columns.items() if column.null_count < rows}
        trace, span = (_ids(batch, name, length) for name, length in ((fields.trace, 32), (fields.span, 16)))
        for name, ids in ((fields.trace, trace), (fields.span, span)):
            if name is not None and ids is not None:  # what is not an id stays as an attribute
                attributes[name] = pc.if_else(ids.is_null(), large_texts(batch.column(name)), None)
        now = pa.scalar(time.time_ns(), pa.int64())
        times = _known_times(event_times(batch, fields.time))
        observed = _known_times(pa.nulls(rows, pa.int64()) if fields.observed is None else event_times(batch, fields.observed))
        for name, known in ((fields.time, times), (fields.observed, observed)):
            if name is not None:  # so does a time that a record cannot have
                unknown = pc.and_(pc.equal(known, 0), batch.column(name).is_valid())
                if unknown.true_count:
                    attributes[name] = pc.if_else(unknown, large_texts(batch.column(name)), None)
        record = _Record(
            times,
            pc.if_else(pc.greater(observed, 0), observed, now),
            pa.nulls(rows, pa.large_string()) if fields.severity is None else large_texts(batch.column(fields.severity)),
            None if fields.body is None else encode_values(self._form, batch.column(fields.body)),
            encode_pairs(self._form, [*attributes], [*attributes.values()]),
            trace,
            span,
        )
        return _json_record(record, rows) if self.format == "json" else _protobuf_record(record)


class EncodedLogs(NamedTuple):
    """Records of a batch, sorted by resources."""

    format: str
    records: pa.Array
    codes: Any
    """The resource of each record."""
    resources: list[bytes]
    scope: Mapping[str, str]

    def body(self, first: int, last: int) -> bytes:
        """Return the body of a request with these rows. Loops over its resources."""
        import numpy as np

        starts = (np.flatnonzero(np.diff(self.codes[first:last], prepend=-1)) + first).tolist()
        parts = []
        for start, stop in zip(starts, [*starts[1:], last], strict=True):
            piece = self.records.slice(start, stop - start)
            offsets = np.frombuffer(piece.buffers()[1], np.int64)[piece.offset : piece.offset + len(piece) + 1]
            records = memoryview(piece.buffers()[2])[int(offsets[0]) : int(offsets[-1])].tobytes()
            parts.append(self._resource_logs(self.resources[self.codes[start]], records))
        return b'{"resourceLogs":[%b]}' % b",".join(parts) if self.format == "json" else b"".join(parts)

    def _resource_logs(self, resource: bytes, records: bytes) -> bytes:
        if self.format == "json":
            scope = json.dumps({name: text for name, text in self.scope.items() if text}).encode()
            logs = b'{"scope":%b,"logRecords":[%b]}' % (scope, records[:-1])
            return b'{"resource":{"attributes":%b},"scopeLogs":[%b]}' % (resource, logs)
        texts = b"".join(write_bytes(number, text.encode()) for number, text in enumerate(self.scope.values(), 1) if text)
        return write_bytes(1, write_bytes(1, resource) + write_bytes(2, write_bytes(1, texts) + records))


class _Record(NamedTuple):
    """Columns of the parts of records."""

    times: pa.Array
    observed: pa.Array
    severity: pa.Array
    body: pa.Array | None
    attributes: Sequence[pa.Array]
    trace: pa.Array | None
    """Ids in hexadecimal, null where there is none."""
    span: pa.Array | None

    def severity_numbers(self) -> pa.Array:
        """Return SeverityNumber of each record, 0 where the level is unknown."""
        codes = pc.utf8_lower(self.severity).dictionary_encode()
        numbers = pa.array([SEVERITIES.get(name.strip(), 0) for name in codes.dictionary.to_pylist()], pa.int64())
        return pc.fill_null(numbers.take(codes.indices), 0)


def _protobuf_record(record: _Record) -> pa.Array:
    numbers = record.severity_numbers()
    parts = [
        where(pc.not_equal(record.times, 0), fixed64(b"\x09", record.times)),
        where(pc.greater(numbers, 0), join(constant(b"\x10"), varints(numbers.to_numpy()))),
        where(record.severity.is_valid(), message(b"\x1a", pc.fill_null(record.severity, "").view(BYTES))),
    ]
    if record.body is not None:
        parts.append(where(pc.not_equal(record.body, EMPTY), message(b"\x2a", record.body)))
    parts += [where(pc.not_equal(pair, EMPTY), message(b"\x32", pair)) for pair in record.attributes]
    for tag, ids in ((b"\x4a", record.trace), (b"\x52", record.span)):
        if ids is not None:
            parts.append(where(ids.is_valid(), message(tag, pc.fill_null(_id_bytes(ids), b""))))
    parts.append(fixed64(b"\x59", record.observed))
    return message(b"\x12", join(*parts))


def _json_record(record: _Record, rows: int) -> pa.Array:
    numbers = record.severity_numbers()
    parts = [
        where(pc.not_equal(record.times, 0), _json_member("timeUnixNano", _quoted(record.times))),
        where(pc.greater(numbers, 0), _json_member("severityNumber", numbers.cast(pa.large_string()).view(BYTES))),
        where(
            record.severity.is_valid(), _json_member("severityText", write_values(pc.fill_null(record.severity, "")).view(BYTES))
        ),
    ]
    if record.body is not None:
        parts.append(where(pc.not_equal(record.body, EMPTY), _json_member("body", record.body)))
    parts.append(_json_member("attributes", _json_array(record.attributes, rows)))
    for name, ids in (("traceId", record.trace), ("spanId", record.span)):
        if ids is not None:
            parts.append(where(ids.is_valid(), _json_member(name, _quoted(pc.fill_null(ids, "")))))
    return join(constant(b"{"), *parts, constant(b'"observedTimeUnixNano":'), _quoted(record.observed), constant(b"},"))


def _json_member(name: str, pieces: pa.Array) -> pa.Array:
    return join(constant(f'"{name}":'.encode()), pieces, constant(b","))


def _quoted(values: pa.Array) -> pa.Array:
    return join(constant(b'"'), values.cast(pa.large_string()).view(BYTES), constant(b'"'))


def _json_array(pieces: Sequence[pa.Array], rows: int) -> pa.Array:
    filled = [where(pc.not_equal(piece, EMPTY), join(piece, constant(b","))) for piece in pieces]
    if not filled:
        return pa.repeat(constant(b"[]"), rows)
    return join(constant(b"["), without_last_comma(join(*filled)), constant(b"]"))


def _ids(batch: pa.RecordBatch, name: str | None, digits: int) -> pa.Array | None:
    """Return ids in small hexadecimal digits (large_string), null where a text is none or only zeros."""
    if name is None:
        return None
    texts = pc.ascii_lower(large_texts(batch.column(name)))
    is_id = pc.and_(pc.match_substring_regex(texts, rf"^[0-9a-f]{{{digits}}}$"), pc.not_equal(texts, "0" * digits))
    return pc.if_else(is_id, texts, None)


def _known_times(nanoseconds: pa.Array) -> pa.Array:
    """Return times, 0 for null and for what is before 1970 or after 2262, which records cannot have."""
    return pc.max_element_wise(pc.fill_null(nanoseconds, 0), 0)


def _id_bytes(ids: pa.Array) -> pa.Array:
    """Return ids as bytes (large_binary); null stays null."""
    found = ids.drop_null()
    if not len(found):
        return pa.nulls(len(ids), BYTES)
    size = len(found[0].as_py()) // 2
    first = found.offset * 2 * size
    data = bytes.fromhex(memoryview(found.buffers()[2])[first : first + 2 * size * len(found)].tobytes().decode())
    values = pa.Array.from_buffers(pa.binary(size), len(found), [None, pa.py_buffer(data)]).cast(BYTES)
    return pc.replace_with_mask(pa.nulls(len(ids), BYTES), ids.is_valid(), values)


def record_fields(
    incoming: pa.Schema, body: str | None, times: tuple[str | None, str | None], ids: tuple[str, str, str],
    attributes: tuple[str, ...] | None,
) -> Fields:  # fmt: skip
    """Return which fields have a place of their own; ``times`` are the event's and the observation's, ``ids`` the fields of
    severity, trace and span; without ``attributes`` all other fields are attributes.
    """
    names = visible(incoming).names
    severity, trace, span = (name if name in names else None for name in ids)
    time_field = times[0] or ("timestamp" if "timestamp" in names else None)
    if time_field == "timestamp" and not pa.types.is_timestamp(incoming.field("timestamp").type):
        time_field = None
    observed = times[1]
    body = body or ("message" if "message" in names else None)
    own = {body, time_field, observed, severity, trace, span}
    others = tuple(name for name in names if name not in own) if attributes is None else attributes
    return Fields(body, time_field, observed, severity, trace, span, others)
