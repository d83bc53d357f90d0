"""Columns of encoded values: each row is a piece of a Protocol Buffers message or of its JSON form.

A piece is large_binary. No row is null; a piece that is left out is empty. All work is on columns: lengths and integers
become variable-length integers at once, and the pieces of a list are those of its elements between its offsets.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from connectors.shared.json_objects import write_values
from connectors.shared.receiving.protobuf import write_bytes
from etl.columns.json.values import as_text

BYTES = pa.large_binary()
VARINT_BYTES = 10
"""Bytes of the longest variable-length integer of 64 bits."""

EMPTY = pa.scalar(b"", BYTES)


def join(*parts: pa.Array | pa.Scalar) -> pa.Array:
    """Return the concatenated pieces of each row."""
    return pc.binary_join_element_wise(*parts, EMPTY)


def constant(text: bytes) -> pa.Scalar:
    """Return a piece that all rows have."""
    return pa.scalar(text, BYTES)


def where(mask: pa.Array, pieces: pa.Array) -> pa.Array:
    """Return pieces, empty where the mask is not true."""
    return pc.coalesce(pc.if_else(mask, pieces, EMPTY), EMPTY)


def concatenate_lists(pieces: pa.Array, offsets: Any) -> pa.Array:
    """Return the concatenated pieces of each list, whose elements lie between these offsets (int64)."""
    import numpy as np

    starts = np.frombuffer(pieces.buffers()[1], np.int64)[pieces.offset : pieces.offset + len(pieces) + 1]
    ends = np.ascontiguousarray(starts[offsets])
    return pa.Array.from_buffers(BYTES, len(offsets) - 1, [None, pa.py_buffer(ends), pieces.buffers()[2]])


class WireForm(Protocol):
    """One of the two forms of OTLP. The names of members are those of its JSON form."""

    def text(self, values: pa.Array) -> pa.Array:
        """Return texts (large_string) as values."""

    def binary(self, values: pa.Array) -> pa.Array:
        """Return bytes (large_binary) as values."""

    def boolean(self, values: pa.Array) -> pa.Array:
        """Return booleans as values."""

    def integer(self, values: pa.Array) -> pa.Array:
        """Return integers (int64) as values."""

    def double(self, values: pa.Array) -> pa.Array:
        """Return doubles as values."""

    def array(self, elements: pa.Array, offsets: Any) -> pa.Array:
        """Return lists of values."""

    def key_values(self, pairs: pa.Array, offsets: Any) -> pa.Array:
        """Return lists of pairs."""

    def pair(self, key: str | pa.Array, values: pa.Array) -> pa.Array:
        """Return pairs of a key and a value, as elements of a list."""


# ── Protocol Buffers ──


class ProtobufForm:
    """Messages of opentelemetry-proto, ``common/v1``: AnyValue and KeyValue."""

    def text(self, values: pa.Array) -> pa.Array:
        return message(b"\x0a", values.view(BYTES))

    def binary(self, values: pa.Array) -> pa.Array:
        return message(b"\x3a", values)

    def boolean(self, values: pa.Array) -> pa.Array:
        return pc.if_else(values, constant(b"\x10\x01"), constant(b"\x10\x00"))

    def integer(self, values: pa.Array) -> pa.Array:
        return join(constant(b"\x18"), varints(values.to_numpy()))

    def double(self, values: pa.Array) -> pa.Array:
        return fixed64(b"\x21", values)

    def array(self, elements: pa.Array, offsets: Any) -> pa.Array:
        return message(b"\x2a", concatenate_lists(message(b"\x0a", elements), offsets))

    def key_values(self, pairs: pa.Array, offsets: Any) -> pa.Array:
        return message(b"\x32", concatenate_lists(message(b"\x0a", pairs), offsets))

    def pair(self, key: str | pa.Array, values: pa.Array) -> pa.Array:
        name = constant(write_bytes(1, key.encode())) if isinstance(key, str) else message(b"\x0a", key.view(BYTES))
        return join(name, message(b"\x12", values))


def message(tag: bytes, pieces: pa.Array) -> pa.Array:
    """Return a field of bytes: tag, length, and the piece."""
    lengths = pc.binary_length(pieces).to_numpy()
    return join(constant(tag), varints(lengths), pieces)


def fixed64(tag: bytes, values: pa.Array) -> pa.Array:
    """Return a field of eight bytes (int64 or double)."""
    numbers = values.to_numpy(zero_copy_only=False)
    eight = pa.Array.from_buffers(pa.binary(8), len(numbers), [None, pa.py_buffer(numbers.tobytes())])
    return join(constant(tag), eight.cast(BYTES))


def varints(numbers: Any) -> pa.Array:
    """Return integers (int64[n]) as variable-length integers; negative ones have ten bytes."""
    import numpy as np

    left = numbers.astype(np.int64).view(np.uint64)
    if not len(left) or int(left.max()) < 1 << 7:
        data = left.astype(np.uint8)
        return pa.Array.from_buffers(BYTES, len(left), [None, pa.py_buffer(np.arange(len(left) + 1)), pa.py_buffer(data)])
    groups = np.empty((len(left), VARINT_BYTES), np.uint8)
    lengths = np.ones(len(left), np.int64)
    for at in range(VARINT_BYTES):
        groups[:, at] = (left & np.uint64(0x7F)).astype(np.uint8) | np.uint8(0x80)
        left = left >> np.uint64(7)
        lengths += left != 0
    groups[np.arange(len(groups)), lengths - 1] &= 0x7F
    data = groups[np.arange(VARINT_BYTES) < lengths[:, None]]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return pa.Array.from_buffers(BYTES, len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


# ── JSON ──


class JsonForm:
    """The same as JSON: integers of 64 bits are texts, bytes are Base64."""

    def text(self, values: pa.Array) -> pa.Array:
        return self._member("stringValue", write_values(values))

    def binary(self, values: pa.Array) -> pa.Array:
        return self._member("bytesValue", write_values(as_text(values)))

    def boolean(self, values: pa.Array) -> pa.Array:
        return self._member("boolValue", write_values(values))

    def integer(self, values: pa.Array) -> pa.Array:
        return self._member("intValue", write_values(values.cast(pa.large_string())))

    def double(self, values: pa.Array) -> pa.Array:
        special = pc.invert(pc.is_finite(values))
        names = pc.if_else(pc.is_nan(values), '"NaN"', pc.if_else(pc.greater(values, 0.0), '"Infinity"', '"-Infinity"'))
        numbers = write_values(pc.if_else(special, 0.0, values))
        return self._member("doubleValue", pc.if_else(special, names.cast(pa.large_string()), numbers))

    def array(self, elements: pa.Array, offsets: Any) -> pa.Array:
        filled = pc.if_else(pc.equal(elements, EMPTY), constant(b"{}"), elements)
        return self._list("arrayValue", filled, offsets)

    def key_values(self, pairs: pa.Array, offsets: Any) -> pa.Array:
        return self._list("kvlistValue", pairs, offsets)

    def pair(self, key: str | pa.Array, values: pa.Array) -> pa.Array:
        name = constant(json.dumps(key).encode()) if isinstance(key, str) else write_values(key).view(BYTES)
        value = pc.if_else(pc.equal(values, EMPTY), constant(b"{}"), values)
        return join(constant(b'{"key":'), name, constant(b',"value":'), value, constant(b"}"))

    def _member(self, name: str, texts: pa.Array) -> pa.Array:
        return join(constant(f'{{"{name}":'.encode()), texts.view(BYTES), constant(b"}"))

    def _list(self, name: str, pieces: pa.Array, offsets: Any) -> pa.Array:
        inner = json_list(pieces, offsets)
        return join(constant(f'{{"{name}":{{"values":'.encode()), inner, constant(b"}}"))


def json_list(pieces: pa.Array, offsets: Any) -> pa.Array:
    """Return lists of objects, which end with a brace."""
    joined = concatenate_lists(join(pieces, constant(b",")), offsets)
    return join(constant(b"["), without_last_comma(joined), constant(b"]"))


def without_last_comma(pieces: pa.Array) -> pa.Array:
    """Return pieces without the comma at their end."""
    return pc.binary_slice(pieces.cast(pa.binary()), 0, -1).cast(BYTES)
