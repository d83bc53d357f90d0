"""The push API of Loki: JSON, or Protocol Buffers in Snappy, as Promtail, Grafana Alloy, Fluent Bit and Vector send it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from connectors.http.receiving.formats.lines import TOO_LONG, TOO_LONG_REASON, limit_events
from connectors.http.receiving.requests import (
    NOT_READABLE,
    TEXT,
    AcceptedEvents,
    Reply,
    Request,
    RequestError,
    RequestProtocol,
    check_count,
    not_found,
)
from connectors.shared.journal.batches import FIELDS, EventRows
from connectors.shared.receiving.decompression import decompress_snappy
from connectors.shared.receiving.entries import context_column, encode_entries, entry_columns, nanosecond_times
from connectors.shared.receiving.protobuf import read_fields
from etl.api import OFFSET, TIMESTAMP, Schema

_PUSH = ("/loki/api/v1/push", "/api/prom/push")
_READY = "/ready"
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*("(?:[^"\\]|\\.)*")\s*(?:,|(?=\}))')


class LokiStream(NamedTuple):
    """Labels as JSON, and the entries of a stream."""

    labels: str
    entries: list[dict[str, Any]]


class LokiProtocol(RequestProtocol):
    """Stores the entries of push requests."""

    form: ClassVar[str] = "loki"
    needs_no_token: ClassVar[frozenset[str]] = frozenset({_READY})
    error_reasons: ClassVar[Mapping[str, str]] = {TOO_LONG: TOO_LONG_REASON}

    def __init__(self, max_event_bytes: int, max_body_bytes: int) -> None:
        self._max_event_bytes, self._max_body_bytes = max_event_bytes, max_body_bytes

    @property
    def fields(self) -> Schema:
        """The line, its time and labels."""
        labels = [pa.field("loki.labels", pa.string()), pa.field("loki.metadata", pa.string())]
        return pa.schema([*FIELDS, pa.field("timestamp", TIMESTAMP), *labels])

    def answer(self, request: Request) -> Reply | AcceptedEvents:
        """Store the entries of a push request."""
        if request.path == _READY:
            return Reply(200, b"ready\n", TEXT)
        if request.path not in _PUSH:
            raise not_found(request, f"POST {_PUSH[0]}")
        if request.method != "POST":
            raise RequestError(405, f"{request.method} is not accepted: use POST")
        try:
            streams = self._streams(request)
        except (*NOT_READABLE, KeyError, AttributeError) as error:
            raise RequestError(400, f"the body is not a push request of Loki: {str(error)[:200]}") from None
        import numpy as np

        data, spans = encode_entries([entry for stream in streams for entry in stream.entries])
        which = np.repeat(np.arange(len(streams)), [len(stream.entries) for stream in streams])
        valid_events = which[spans[1] - spans[0] <= self._max_event_bytes]
        contexts = tuple(stream.labels for stream in streams) or (None,)
        return AcceptedEvents(limit_events(data, spans, self._max_event_bytes), Reply(204), contexts, valid_events)

    def refuse(self, request: Request, error: RequestError) -> Reply:
        """Return the message as text."""
        return Reply(error.status, f"{error.message}\n".encode(), TEXT)

    def batches(self, rows: EventRows) -> Iterator[pa.RecordBatch]:
        """Yield the lines with their labels."""
        values = entry_columns(rows, ("l", "t", "m"))
        labels = context_column(rows, [sender[2] for sender in rows.senders])
        columns = [values["l"], *rows.origin_columns(), nanosecond_times(values["t"]), labels, values["m"]]
        yield pa.record_batch([*columns, pa.array(rows.offsets)], names=[*self.fields.names, OFFSET])

    def _streams(self, request: Request) -> list[LokiStream]:
        if request.content_type == "application/json":
            streams = [_json_stream(stream) for stream in json.loads(request.body)["streams"]]
            check_count(len(streams) + sum(len(stream.entries) for stream in streams))
            return streams
        body = request.body
        if request.headers.get("content-encoding", "") != "snappy":
            body = decompress_snappy(body, self._max_body_bytes)
        return list(_binary_streams(body))


def _json_stream(stream: Mapping[str, Any]) -> LokiStream:
    labels = stream.get("stream", stream.get("labels", {}))
    if not isinstance(labels, dict):
        labels = parse_labels(str(labels))
    return LokiStream(json.dumps(labels, allow_nan=False), [_entry(*value) for value in stream["values"]])


def _entry(time: Any, line: Any, metadata: Any = None) -> dict[str, Any]:
    if not isinstance(line, str):
        raise ValueError(f"a line must be a text, not {str(line)[:40]!r}")
    return {"t": str(int(time)), "l": line, "m": json.dumps(metadata, allow_nan=False) if metadata else None}


def _binary_streams(body: bytes) -> Iterator[LokiStream]:
    count = 0
    for field in read_fields(body):
        if field.number == 1:
            stream = _binary_stream(field.data)
            count += 1 + len(stream.entries)
            check_count(count)
            yield stream


def _binary_stream(message: bytes) -> LokiStream:
    labels, entries = "{}", []
    for field in read_fields(message):
        if field.number == 1:
            labels = field.data.decode("utf-8", "replace")
        elif field.number == 2:
            entries.append(_binary_entry(field.data))
            check_count(len(entries))
    return LokiStream(json.dumps(parse_labels(labels)), entries)


def _binary_entry(message: bytes) -> dict[str, Any]:
    seconds = nanos = 0
    line, metadata = "", {}
    for field in read_fields(message):
        if field.number == 1:
            times = {part.number: part.value for part in read_fields(field.data)}
            seconds, nanos = times.get(1, 0), times.get(2, 0)
        elif field.number == 2:
            line = field.data.decode("utf-8", "replace")
        elif field.number == 3:
            pair = {part.number: part.data.decode("utf-8", "replace") for part in read_fields(field.data)}
            metadata[pair.get(1, "")] = pair.get(2, "")
    return {"t": str(seconds * 1_000_000_000 + nanos), "l": line, "m": json.dumps(metadata) if metadata else None}


def parse_labels(text: str) -> dict[str, str]:
    """Parse labels as Loki writes them: ``{job="app", env="prod"}``. Raises ValueError."""
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise ValueError(f'labels are {{name="value", …}}, not {text[:80]!r}')
    labels: dict[str, str] = {}
    at = 1
    while at < len(inner) - 1 and inner[at:-1].strip():
        found = _LABEL.match(inner, at)
        if not found:
            raise ValueError(f'labels are {{name="value", …}}, not {text[:80]!r}')
        labels[found[1]] = json.loads(found[2], strict=False)
        at = found.end()
    return labels
