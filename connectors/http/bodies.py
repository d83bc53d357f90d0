"""Events as bodies of requests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from connectors import json_lines
from connectors.json_lines import PLAIN
from etl.api import IDENTITY

Format = Literal["json", "ndjson", "object"]


class Kind(NamedTuple):
    """How lines become a body."""

    type: str
    """For the header Content-Type."""

    join: Callable[[memoryview, Any], bytes | memoryview]
    """Lines, one behind the other, and where each ends (int64) → a body."""

    extra: int
    """Bytes that a body is longer than its lines, at most."""


def kind_of(format_: Format) -> Kind:
    """How a format's bodies are made."""
    return _KINDS[format_]


def lines_of(batch: pa.RecordBatch) -> tuple[memoryview, Any]:
    """Events as JSON lines, and their lengths (int64)."""
    lines = json_lines.framed(batch, PLAIN)
    return lines.text, lines.lengths


def key_of(batch: pa.RecordBatch) -> str:
    """The same text for the same events: the identity of a single one, a hash of those of several."""
    identities = batch.column(IDENTITY).to_pylist()
    return identities[0] if len(identities) == 1 else hashlib.sha256("\n".join(identities).encode()).hexdigest()[:32]


def _array(lines: memoryview, ends: Any) -> bytes:
    import numpy as np

    body = np.empty(len(lines) + 1, np.uint8)
    body[1:] = np.frombuffer(lines, np.uint8)
    body[ends] = ord(",")
    body[0], body[-1] = ord("["), ord("]")
    return body.tobytes()


_KINDS = {
    "json": Kind("application/json", _array, 1),
    "ndjson": Kind("application/x-ndjson", lambda lines, ends: lines, 0),
    "object": Kind("application/json", lambda lines, ends: lines[:-1], 0),
}
