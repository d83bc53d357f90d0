"""Events → request bodies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from connectors.shared import json_lines
from connectors.shared.json_lines import PLAIN
from etl.api import IDENTITY

Format = Literal["json", "ndjson", "object"]


class BodyFormat(NamedTuple):
    """How JSON lines become a body."""

    type: str
    """Value of the header Content-Type."""

    join: Callable[[memoryview, Any], bytes | memoryview]
    """Makes a body from concatenated lines and their ends (int64)."""

    extra: int
    """Maximum number of bytes that a body has besides its lines."""


def body_format(format_: Format) -> BodyFormat:
    """Return how bodies of a format are made."""
    return _BODY_FORMATS[format_]


def encode_lines(batch: pa.RecordBatch) -> tuple[memoryview, Any]:
    """Return events as JSON lines, and their lengths (int64)."""
    lines = json_lines.write_framed(batch, PLAIN)
    return lines.text, lines.lengths


def batch_key(batch: pa.RecordBatch) -> str:
    """Return a text that identifies these events: the identity of a single event, a hash of several."""
    identities = batch.column(IDENTITY).to_pylist()
    return identities[0] if len(identities) == 1 else hashlib.sha256("\n".join(identities).encode()).hexdigest()[:32]


def _join_array(lines: memoryview, ends: Any) -> bytes:
    import numpy as np

    body = np.empty(len(lines) + 1, np.uint8)
    body[1:] = np.frombuffer(lines, np.uint8)
    body[ends] = ord(",")
    body[0], body[-1] = ord("["), ord("]")
    return body.tobytes()


_BODY_FORMATS = {
    "json": BodyFormat("application/json", _join_array, 1),
    "ndjson": BodyFormat("application/x-ndjson", lambda lines, ends: lines, 0),
    "object": BodyFormat("application/json", lambda lines, ends: lines[:-1], 0),
}
