"""Objects of JSON in bytes, and columns of their members, without a loop over events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.shared.journal.batches import decode, span_texts

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def object_spans(data: bytes | memoryview, begin: int = 0) -> tuple[Array, int]:
    """Return the spans (int64[2, n]) of objects one after the other, or of an array of objects whose ``[`` is before ``begin``;
    and the position of the first byte that is neither, -1 if there is none.
    """
    import numpy as np

    from connectors.shared.receiving.json_kernel import find_objects

    raw = np.frombuffer(data, np.uint8)
    spans, error = np.empty((2, int(np.count_nonzero(raw == ord("{"))) + 1), np.int64), np.empty(1, np.int64)
    count = find_objects(raw, begin, spans, error)
    return spans[:, :count], int(error[0])


def member_spans(data: Any, starts: Array, ends: Array, names: tuple[str, ...]) -> Array:
    """Return the spans (int64[names, 2, rows]) of the values of members of objects, -1 where there is none."""
    import numpy as np

    from connectors.shared.receiving.json_kernel import find_members

    keys = [name.encode() for name in names]
    key_ends = np.cumsum([len(key) for key in keys])
    values = np.empty((len(keys), 2, len(starts)), np.int64)
    raw = np.frombuffer(data, np.uint8)
    joined = np.frombuffer(b"".join(keys), np.uint8)
    find_members(raw, starts.astype(np.int64), ends.astype(np.int64), joined, key_ends, values)
    return values


def value_texts(buffer: pa.Buffer, spans: Array) -> pa.Array:
    """Return values (int64[2, rows]) as texts: strings without quotes and escapes, other values as JSON, null and missing
    values as null.
    """
    import numpy as np

    raw = np.frombuffer(buffer, np.uint8)
    present = spans[0] >= 0
    starts, ends = np.where(present, spans[0], 0), np.where(present, spans[1], 0)
    first = raw[np.minimum(starts, len(raw) - 1)]
    quoted = present & (first == ord('"'))
    present &= ~((first == ord("n")) & ~quoted)
    texts = span_texts(buffer, starts + quoted, ends - quoted, "utf-8")
    escaped = quoted & _have_backslash(raw, starts, ends)
    if not escaped.any() and present.all():
        return texts
    rows = np.flatnonzero(escaped)
    decoded = _unescape(buffer, starts[rows], ends[rows])
    return _merge(texts, rows, decoded, present)


def _have_backslash(raw: Array, starts: Array, ends: Array) -> Array:
    import numpy as np

    at = np.flatnonzero(raw == ord("\\"))
    return np.searchsorted(at, starts) < np.searchsorted(at, ends)


def _unescape(buffer: pa.Buffer, starts: Array, ends: Array) -> pa.Array:
    """Return strings with their quotes as texts; what is not a JSON string stays as it is, which costs a loop over rows."""
    import polars as pl

    if not len(starts):
        return pa.array([], pa.string())
    quoted = span_texts(buffer, starts, ends, "utf-8")
    try:
        return pl.Series(pl.from_arrow(quoted)).str.json_decode(pl.String).to_arrow().cast(pa.string())
    except pl.exceptions.ComputeError:
        return pa.array([_unescape_one(text) for text in quoted.to_pylist()], pa.string())


def _unescape_one(text: str) -> str:
    import json

    try:
        return decode(str(json.loads(text, strict=False)).encode("utf-8", "replace"))
    except ValueError:
        return text[1:-1]


def _merge(texts: pa.Array, rows: Array, decoded: pa.Array, present: Array) -> pa.Array:
    """Return the texts with those of some rows replaced, and null where none is present."""
    import numpy as np

    plain = texts.cast(pa.string())
    take = np.arange(len(plain))
    take[rows] = len(plain) + np.arange(len(rows))
    return pa.concat_arrays([plain, decoded]).take(pa.array(take, mask=~present))
