"""Events → request bodies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from connectors.http.connection import Response
from connectors.shared import json_lines
from connectors.shared.json_lines import PLAIN
from etl.api import IDENTITY

Format = Literal["json", "ndjson", "object"]


class EncodedEvents(Protocol):
    """The events of a batch, ready to be sent."""

    def body(self, first: int, last: int) -> bytes | memoryview:
        """Return the body of a request with these rows."""


class Bodies(Protocol):
    """How an API gets events: makes the bodies of requests, and reads which event a failure concerns."""

    @property
    def method(self) -> str:
        """Method of the requests."""

    @property
    def path(self) -> str:
        """Path that is appended to that of the server; empty for the URL as it is."""

    @property
    def type(self) -> str:
        """Value of the header Content-Type."""

    @property
    def rejected_code(self) -> str:
        """Code of the dead letters of events that the server rejects."""

    def sizes(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the bytes of each event in a body, with its share of the text around it."""

    def encode(self, batch: pa.RecordBatch) -> EncodedEvents:
        """Encode the events of a batch."""

    def headers(self, rows: pa.RecordBatch) -> Mapping[str, str]:
        """Return further headers of a request with these rows."""

    def divide(self, response: Response, count: int) -> Sequence[int]:
        """Return where to divide a request that the server rejected (ascending row numbers), because the response concerns
        some of its events only; nothing if it concerns all of them. Raises ComponentError if every event would be rejected.
        """


class JsonBodies(NamedTuple):
    """JSON arrays, lines, or single objects."""

    method: str
    format: Format
    key_header: str | None

    path: str = ""
    rejected_code: str = "http-rejected"

    @property
    def type(self) -> str:
        """Value of the header Content-Type."""
        return _JSON_FORMATS[self.format].type

    def sizes(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the bytes of each event's line, with its share of brackets."""
        return pa.array(encode_lines(batch)[1] + _JSON_FORMATS[self.format].extra)

    def encode(self, batch: pa.RecordBatch) -> EncodedLines:
        """Encode the events as JSON lines."""
        return encoded_lines(*encode_lines(batch), _JSON_FORMATS[self.format].join)

    def headers(self, rows: pa.RecordBatch) -> Mapping[str, str]:
        """Return the header that identifies the events."""
        return {self.key_header: batch_key(rows)} if self.key_header else {}

    def divide(self, response: Response, count: int) -> Sequence[int]:
        """Return nothing: a status is that of all events."""
        return ()


class EncodedLines(NamedTuple):
    """Lines, and how they are joined to a body."""

    text: memoryview
    ends: Any
    """Where each line ends, after a zero (int64)."""

    join: Callable[[memoryview, Any], bytes | memoryview]
    """Makes a body from concatenated lines and their ends."""

    def body(self, first: int, last: int) -> bytes | memoryview:
        """Return the body of a request with these rows."""
        ends = self.ends
        return self.join(self.text[ends[first] : ends[last]], ends[first + 1 : last + 1] - ends[first])


def encoded_lines(text: memoryview, lengths: Any, join: Callable[[memoryview, Any], bytes | memoryview]) -> EncodedLines:
    """Return lines of these lengths (int64), which ``join`` makes a body of."""
    import numpy as np

    return EncodedLines(text, np.concatenate(([0], np.cumsum(lengths))), join)


def encode_lines(batch: pa.RecordBatch) -> tuple[memoryview, Any]:
    """Return events as JSON lines, and their lengths (int64)."""
    lines = json_lines.write_framed(batch, PLAIN)
    return lines.text, lines.lengths


def batch_key(batch: pa.RecordBatch) -> str:
    """Return a text that identifies these events: the identity of a single event, a hash of several."""
    identities = batch.column(IDENTITY)
    if len(identities) == 1:
        return str(identities[0].as_py())
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(identities)], pa.int32()), identities), "\n")
    return hashlib.sha256(joined[0].as_buffer()).hexdigest()[:32]


def _join_array(lines: memoryview, ends: Any) -> bytes:
    import numpy as np

    body = np.empty(len(lines) + 1, np.uint8)
    body[1:] = np.frombuffer(lines, np.uint8)
    body[ends] = ord(",")
    body[0], body[-1] = ord("["), ord("]")
    return body.tobytes()


def join_lines(lines: memoryview, ends: Any) -> memoryview:
    """Return the lines as they are."""
    return lines


class _JsonFormat(NamedTuple):
    type: str
    join: Callable[[memoryview, Any], bytes | memoryview]
    extra: int
    """Maximum number of bytes that a body has besides its lines."""


_JSON_FORMATS = {
    "json": _JsonFormat("application/json", _join_array, 1),
    "ndjson": _JsonFormat("application/x-ndjson", join_lines, 0),
    "object": _JsonFormat("application/json", lambda lines, ends: lines[:-1], 0),
}
