"""Bodies without a protocol: JSON objects, JSON lines, or lines of text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa

from connectors.http.receiving.requests import AcceptedEvents, Reply, Request, RequestError, RequestProtocol, not_found
from connectors.shared.journal.batches import FIELDS, EventRows, decode, text_batch
from connectors.shared.journal.event_blocks import Frames, RejectedMessage
from etl.api import Schema

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

SAMPLE_BYTES = 64 << 10
"""Bytes kept of an event that is too long."""

TOO_LONG = "message-too-long"
TOO_LONG_REASON = "the event has {size} bytes, more than max_event_bytes"

LineFormat = Literal["json", "ndjson", "text"]


class LinesProtocol(RequestProtocol):
    """Accepts POST and PUT at one path; the reply has the number of events."""

    form: ClassVar[str] = "text"
    error_reasons: ClassVar[Mapping[str, str]] = {TOO_LONG: TOO_LONG_REASON}

    def __init__(self, format_: LineFormat, path: str, max_event_bytes: int) -> None:
        self._format, self._path, self._max_event_bytes = format_, path, max_event_bytes

    @property
    def fields(self) -> Schema:
        """The text and its sender."""
        return FIELDS

    def answer(self, request: Request) -> Reply | AcceptedEvents:
        """Find the events of the body."""
        if request.path != self._path:
            raise not_found(request, f"POST {self._path}")
        if request.method in ("GET", "HEAD"):
            return Reply(200, b'{"status":"ok"}')
        if request.method not in ("POST", "PUT"):
            raise RequestError(405, f"{request.method} is not accepted: use POST")
        spans = _json_spans(request.body) if self._format == "json" else line_spans(request.body)
        frames = limit_events(request.body, spans, self._max_event_bytes)
        return AcceptedEvents(frames, Reply(200, b'{"events":%d}' % spans.shape[1]))

    def refuse(self, request: Request, error: RequestError) -> Reply:
        """Return the message as JSON."""
        return Reply(error.status, json.dumps({"error": error.message}).encode())

    def batches(self, rows: EventRows) -> Iterator[pa.RecordBatch]:
        """Yield the events as text."""
        yield text_batch(rows)


def line_spans(data: bytes) -> Array:
    """Return the spans (int64[2, n]) of the lines that are not empty; the last one may lack its newline."""
    import numpy as np

    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])[: len(ends)]
    raw = np.frombuffer(data, np.uint8)
    stops = ends - ((ends > starts) & (raw[np.maximum(ends - 1, 0)] == 13)) if len(ends) else ends
    present = stops > starts
    return np.stack([starts, stops])[:, present]


def limit_events(data: bytes, spans: Array, max_bytes: int) -> Frames:
    """Return events, those that are too long as rejected ones."""
    long = spans[1] - spans[0] > max_bytes
    if not long.any():
        return Frames(data, [spans])
    rejects = [
        RejectedMessage(start, min(end, start + SAMPLE_BYTES), TOO_LONG, end - start) for start, end in spans[:, long].T.tolist()
    ]
    return Frames(data, [spans[:, ~long]], rejects)


def _json_spans(data: bytes) -> Array:
    """Return the spans of the objects of an array, or of objects one after the other."""
    from connectors.shared.receiving.json_members import object_spans

    begin = len(data) - len(data.lstrip())
    spans, error = object_spans(data, begin + 1 if data[begin : begin + 1] == b"[" else begin)
    if error >= 0:
        shown = decode(data[error : error + 40])
        raise RequestError(400, f"no JSON object begins at byte {error}, or it does not end: {shown!r}")
    return spans
