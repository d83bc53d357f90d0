"""The HTTP Event Collector of Splunk."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from connectors.http.receiving.formats.lines import TOO_LONG, TOO_LONG_REASON, limit_events, line_spans
from connectors.http.receiving.requests import NOT_READABLE, AcceptedEvents, Reply, Request, RequestError, RequestProtocol
from connectors.shared.journal.batches import FIELDS, EventRows
from etl.api import OFFSET, TIMESTAMP, Rejects, Schema

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_EVENT = re.compile(r"/services/collector(?:/event)?(?:/1\.0)?/?")
_RAW = re.compile(r"/services/collector/raw(?:/1\.0)?/?")
_HEALTH = ("/services/collector/health", "/services/collector/health/1.0")
_ACK = ("/services/collector/ack", "/services/collector/ack/1.0")

_MEMBERS = ("event", "time", "host", "source", "sourcetype", "index", "fields")
_METADATA = _MEMBERS[2:]
_METADATA_OF_REQUESTS = ("time", "host", "source", "sourcetype", "index")
"""Members that the query of a request may give for all of its events."""

_MAX_CHANNELS = 10_000
"""Channels whose number of requests is counted; beyond that all counts start again from 0."""


class HecProtocol(RequestProtocol):
    """Stores events and raw lines. An acknowledged request is stored, so every identifier of `ack` is true."""

    form: ClassVar[str] = "splunk_hec"
    needs_no_token: ClassVar[frozenset[str]] = frozenset(_HEALTH)
    error_reasons: ClassVar[Mapping[str, str]] = {TOO_LONG: TOO_LONG_REASON}

    def __init__(self, max_event_bytes: int) -> None:
        self._max_event_bytes = max_event_bytes
        self._channels: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def fields(self) -> Schema:
        """The event and its metadata."""
        names = [f"splunk.{name}" for name in _METADATA]
        return pa.schema([*FIELDS, pa.field("timestamp", TIMESTAMP), *(pa.field(name, pa.string()) for name in names)])

    def answer(self, request: Request) -> Reply | AcceptedEvents:
        """Store events, or answer about acknowledgements and health."""
        if request.path in _HEALTH:
            return _reply(200, "HEC is healthy", 17)
        if request.path in _ACK and request.method == "POST":
            return _acknowledge(request)
        is_event = bool(_EVENT.fullmatch(request.path))
        if not is_event and not _RAW.fullmatch(request.path):
            raise RequestError(404, "The requested URL was not found on this server.", 404)
        if request.method != "POST":
            raise RequestError(405, f"{request.method} is not accepted: use POST", 6)
        if not request.body.strip():
            raise RequestError(400, "No data", 5)
        spans = _event_spans(request.body) if is_event else line_spans(request.body)
        frames = limit_events(request.body, spans, self._max_event_bytes)
        return AcceptedEvents(frames, self._success(request), (_context(request, is_event),))

    def refuse(self, request: Request, error: RequestError) -> Reply:
        """Return the error with Splunk's text and code."""
        if error.status == 401:
            return _reply(401, "Token is required", 2)
        if error.status == 403:
            return _reply(403, "Invalid token", 4)
        if error.status in (429, 503):
            busy = ("HEC is unhealthy, queues are full", 18) if request.path in _HEALTH else ("Server is busy", 9)
            return _reply(503, *busy)
        if isinstance(error.detail, tuple):
            code, number = error.detail
            return Reply(400, json.dumps({"text": error.message, "code": code, "invalid-event-number": number}).encode())
        return _reply(error.status, error.message, error.detail or (8 if error.status >= 500 else 6))

    def batches(self, rows: EventRows) -> Iterator[pa.RecordBatch | Rejects]:
        """Yield events and raw lines, each with the metadata of its request where it has none."""
        import numpy as np
        import pyarrow.compute as pc

        from connectors.shared.receiving.json_members import member_spans, value_texts

        contexts = [json.loads(sender[2]) for sender in rows.senders]
        is_raw = np.array([context["raw"] for context in contexts])[rows.sender_of_row]
        spans = member_spans(rows.buffer, np.where(is_raw, rows.ends, rows.starts), rows.ends, _MEMBERS)
        own = {name: value_texts(rows.buffer, spans[at]) for at, name in enumerate(_MEMBERS)}
        which = pa.array(rows.sender_of_row)
        for name in _METADATA_OF_REQUESTS:
            if any(context.get(name) for context in contexts):
                default = pa.array([context.get(name) for context in contexts], pa.string()).take(which)
                own[name] = pc.coalesce(own[name].cast(pa.string()), default)
        if own["event"].null_count:  # raw lines
            own["event"] = pc.coalesce(own["event"].cast(pa.string()), rows.texts().cast(pa.string()))
        columns = [own["event"], *rows.origin_columns(), _timestamps(own["time"]), *(own[name] for name in _METADATA)]
        yield pa.record_batch([*columns, pa.array(rows.offsets)], names=[*self.fields.names, OFFSET])

    def _success(self, request: Request) -> Reply:
        channel = request.headers.get("x-splunk-request-channel") or request.query.get("channel")
        if not channel:
            return _reply(200, "Success", 0)
        with self._lock:
            if channel not in self._channels and len(self._channels) >= _MAX_CHANNELS:
                self._channels.clear()
            number = self._channels[channel]
            self._channels[channel] += 1
        return Reply(200, b'{"text":"Success","code":0,"ackId":%d}' % number)


def _event_spans(body: bytes) -> Array:
    """Return the spans of the objects of a body. Raises RequestError if one is damaged, or has no event."""
    import numpy as np

    from connectors.shared.receiving.json_members import member_spans, object_spans

    begin = len(body) - len(body.lstrip())
    spans, error = object_spans(body, begin + 1 if body[begin : begin + 1] == b"[" else begin)
    if error >= 0:
        raise RequestError(400, "Invalid data format", (6, spans.shape[1]))
    starts, ends = member_spans(body, spans[0], spans[1], ("event",))[0]
    raw = np.frombuffer(body, np.uint8)
    missing = (starts < 0) | (raw[np.maximum(starts, 0)] == ord("n"))
    if missing.any():
        raise RequestError(400, "Event field is required", (12, int(missing.argmax())))
    blank = (raw[starts] == ord('"')) & (ends - starts == 2)
    if blank.any():
        raise RequestError(400, "Event field cannot be blank", (13, int(blank.argmax())))
    return spans


def _context(request: Request, is_event: bool) -> str:
    """Return what the query of a request says of all of its events."""
    given = {name: request.query[name] for name in _METADATA_OF_REQUESTS if request.query.get(name)}
    return json.dumps({"raw": not is_event, **given})


def _timestamps(texts: pa.Array) -> pa.Array:
    """Return seconds since 1970, with fractions, as times; null where the text is not a number of such a time."""
    import polars as pl

    if texts.null_count == len(texts):
        return pa.nulls(len(texts), TIMESTAMP)
    seconds = pl.Series(pl.from_arrow(texts.cast(pa.string()))).cast(pl.Float64, strict=False)
    seconds = seconds.set(~seconds.is_between(*_YEARS_1_TO_9999), None)
    micros = (seconds * 1e6).round().cast(pl.Int64, strict=False).to_arrow()
    return micros.cast(TIMESTAMP)


_YEARS_1_TO_9999 = (-62_135_596_800, 253_402_300_799)
"""Seconds since 1970 that are times of the calendar."""


def _acknowledge(request: Request) -> Reply:
    """Answer which requests are stored: all that have been answered."""
    try:
        numbers = [int(number) for number in json.loads(request.body)["acks"]]
    except (*NOT_READABLE, KeyError):
        raise RequestError(400, "Invalid data format", 6) from None
    return Reply(200, json.dumps({"acks": {str(number): True for number in numbers}}).encode())


def _reply(status: int, text: str, code: int) -> Reply:
    return Reply(status, json.dumps({"text": text, "code": code}).encode())
