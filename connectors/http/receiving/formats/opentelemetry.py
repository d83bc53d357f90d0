"""Logs of OpenTelemetry over HTTP (OTLP 1.x), as Protocol Buffers and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import ClassVar

import pyarrow as pa

from connectors.http.receiving.formats.lines import TOO_LONG, TOO_LONG_REASON, limit_events
from connectors.http.receiving.formats.otlp_records import LogRecords, read_binary, read_json
from connectors.http.receiving.requests import (
    JSON,
    NOT_READABLE,
    AcceptedEvents,
    Reply,
    Request,
    RequestError,
    RequestProtocol,
    not_found,
)
from connectors.shared.journal.batches import FIELDS, EventRows
from connectors.shared.receiving.entries import context_column, encode_entries, entry_columns, nanosecond_times
from connectors.shared.receiving.protobuf import write_bytes, write_varint
from etl.api import OFFSET, TIMESTAMP, Schema

_PATH = "/v1/logs"
_PROTOBUF = "application/x-protobuf"
_TEXTS = {
    "log.level": "s",
    "trace.id": "i",
    "span.id": "p",
    "otel.event_name": "e",
    "otel.attributes": "a",
}
"""Field → name in the stored object."""

_CONTEXT = ("resource", "scope")


class OtlpProtocol(RequestProtocol):
    """Stores log records; records that are damaged are rejected, and the others of the request stored (partial success)."""

    form: ClassVar[str] = "opentelemetry"
    error_reasons: ClassVar[Mapping[str, str]] = {TOO_LONG: TOO_LONG_REASON}

    def __init__(self, max_event_bytes: int) -> None:
        self._max_event_bytes = max_event_bytes

    @property
    def fields(self) -> Schema:
        """The body, and what else a record has."""
        times = [pa.field("timestamp", TIMESTAMP), pa.field("otel.observed_timestamp", TIMESTAMP)]
        texts = [pa.field(name, pa.string()) for name in (*_TEXTS, *(f"otel.{name}" for name in _CONTEXT))]
        return pa.schema([*FIELDS, *times, pa.field("otel.severity_number", pa.int32()), *texts])

    def answer(self, request: Request) -> Reply | AcceptedEvents:
        """Store the records of an export request."""
        if request.path != _PATH:
            raise not_found(request, f"POST {_PATH}: only logs are received")
        if request.method != "POST":
            raise RequestError(405, f"{request.method} is not accepted: use POST")
        if request.content_type not in (JSON, _PROTOBUF):
            raise RequestError(415, f"the content type must be {_PROTOBUF} or {JSON}, not {request.content_type[:80]!r}")
        try:
            records = (read_json if request.content_type == JSON else read_binary)(request.body)
        except (*NOT_READABLE, KeyError, AttributeError) as error:
            raise RequestError(400, f"the body is not an export request of logs: {str(error)[:200]}") from None
        return self._store(records, request.content_type)

    def refuse(self, request: Request, error: RequestError) -> Reply:
        """Return a Status (google.rpc) in the form of the request."""
        code = _GRPC_CODES.get(error.status, 3)
        if request.content_type == _PROTOBUF:
            return Reply(error.status, write_varint(1, code) + write_bytes(2, error.message.encode()), _PROTOBUF)
        return Reply(error.status, json.dumps({"code": code, "message": error.message}).encode())

    def batches(self, rows: EventRows) -> Iterator[pa.RecordBatch]:
        """Yield the records."""
        import polars as pl

        values = entry_columns(rows, ("l", "t", "o", "n", *_TEXTS.values()))
        severity = pl.Series(pl.from_arrow(values["n"].cast(pa.string()))).cast(pl.Int32, strict=False).to_arrow()
        contexts = [json.loads(sender[2]) for sender in rows.senders]
        common = [context_column(rows, [json.dumps(context[name]) for context in contexts]) for name in _CONTEXT]
        times = [nanosecond_times(values["t"]), nanosecond_times(values["o"])]
        texts = [values[short] for short in _TEXTS.values()]
        columns = [values["l"], *rows.origin_columns(), *times, severity, *texts, *common, pa.array(rows.offsets)]
        yield pa.record_batch(columns, names=[*self.fields.names, OFFSET])

    def _store(self, records: LogRecords, content_type: str) -> AcceptedEvents:
        import numpy as np

        data, spans = encode_entries(records.entries)
        which = np.array(records.scope_of_entry, np.int64)
        valid_events = which[spans[1] - spans[0] <= self._max_event_bytes]
        contexts = tuple(json.dumps(scope) for scope in records.scopes) or (None,)
        return AcceptedEvents(
            limit_events(data, spans, self._max_event_bytes), _success(records, content_type), contexts, valid_events
        )


def _success(records: LogRecords, content_type: str) -> Reply:
    """Return the response of a request whose good records are stored."""
    if content_type == JSON:
        partial = {"rejectedLogRecords": str(records.rejected), "errorMessage": records.reason}
        return Reply(200, json.dumps({"partialSuccess": partial} if records.rejected else {}).encode())
    if not records.rejected:
        return Reply(200, b"", _PROTOBUF, {"content-type": _PROTOBUF})
    partial_message = write_varint(1, records.rejected) + write_bytes(2, records.reason.encode())
    return Reply(200, write_bytes(1, partial_message), _PROTOBUF)


_GRPC_CODES = {401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 413: 8, 429: 8, 500: 13, 503: 14}
"""HTTP status → code of gRPC."""
