"""Columns of encoded texts → columns of the bytes they stand for, by kernels; and compressed bytes → bytes, within bounds."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import Texts, materialize_array

Decoded: TypeAlias = tuple[pa.LargeBinaryArray, pa.StringArray | None]
"""Bytes (null where there are none), and reasons where a text is wrong (None: nowhere)."""

Decode: TypeAlias = Callable[[pa.Array], Decoded]

SHOWN_CHARACTERS = 60
"""Characters of a wrong text that its reason shows."""

_SLACK = 16

WINDOWS = {"gzip": 31, "zlib": 15, "deflate": -15}
"""Compression → zlib's number of window bits."""

MAX_BATCH_BYTES = 256 << 20
"""Maximum total size of the values of a batch, in bytes."""

_DIGITS = "0123456789abcdef"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def _table(digits: str, skipped: str = "", padding: str = "") -> Any:
    import numpy as np

    from parsers.decode.kernel import PAD, SKIP, WRONG

    table = np.full(256, WRONG, np.uint8)
    table[list(digits.encode())] = range(len(digits))
    table[list(skipped.encode())] = SKIP
    table[list(padding.encode())] = PAD
    return table


def _hexadecimal(skipped: str = "", plus: str = "+") -> Any:
    table = _table(_DIGITS, skipped)
    table[[ord(one.upper()) for one in _DIGITS[10:]]] = range(10, 16)
    table[255] = ord(plus)  # no digit has this number: the kernel finds there the byte that a plus becomes
    return table


_TABLES: dict[str, tuple[str, Callable[[], Any]]] = {
    "base64": ("base64", lambda: _table(_LETTERS + "+/", " \t\r\n", "=")),
    "base64url": ("base64", lambda: _table(_LETTERS + "-_", " \t\r\n", "=")),
    "hex": ("hexadecimal", lambda: _hexadecimal(" \t\r\n:-")),
    "percent": ("percent", _hexadecimal),
    "form": ("percent", lambda: _hexadecimal(plus=" ")),
    "escapes": ("escapes", _hexadecimal),
    "latin1": ("latin1", _hexadecimal),
    "byte_array": ("byte_array", _hexadecimal),
}
"""Encoding → the name of its kernel, and its table."""


@cache
def make_decoder(encoding: str) -> Decode:
    """How texts in an encoding become bytes."""
    from parsers.decode import kernel as decode_kernel

    name, table = _TABLES[encoding]
    kernel, values = getattr(decode_kernel, name), table()

    def decode(texts: pa.Array) -> Decoded:
        import numpy as np

        found = Texts.of(texts)
        out = np.empty(int(np.maximum(found.length, 0).sum()) + _SLACK, np.uint8)
        ends, wrong = np.zeros(len(texts) + 1, np.int64), np.empty(len(texts), np.int64)
        kernel(found.address, found.length, values, np.uint64(out.ctypes.data), ends[1:], wrong)
        good = (found.length >= 0) & (wrong < 0)
        bits = None if good.all() else pa.py_buffer(np.packbits(good, bitorder="little"))
        data = [bits, pa.py_buffer(ends), pa.py_buffer(out).slice(0, int(ends[-1]))]
        decoded = pa.Array.from_buffers(pa.large_binary(), len(texts), data)
        return decoded, _reasons(texts, wrong, encoding) if (wrong >= 0).any() else None

    return decode


def _reasons(texts: pa.Array, wrong: Any, encoding: str) -> pa.StringArray:
    bad = pa.array(wrong >= 0)
    shown = pc.utf8_slice_codeunits(materialize_array(texts).cast(pa.large_string()), 0, SHOWN_CHARACTERS).cast(pa.string())
    offsets = pc.cast(pa.array(wrong), pa.string())
    reasons = pc.binary_join_element_wise("'", shown, f"' is not {encoding}: it is wrong at byte ", offsets, "")
    return pc.if_else(bad, reasons, None)


# ── Compression ───────────────────────────────────────────────────────────────────────────────────


def decompress(data: pa.LargeBinaryArray, compression: str, max_bytes: int) -> Decoded:
    """Compressed bytes → bytes, a Python call for each value, and reasons where there are none; at most ``max_bytes`` a value."""
    values: list[bytes | None] = []
    reasons: list[str | None] = []
    left = MAX_BATCH_BYTES
    for one in data.to_pylist():
        value, reason = (None, None) if one is None else _decompress(one, WINDOWS[compression], min(max_bytes, left))
        left -= len(value or b"")
        values.append(value)
        reasons.append(None if reason is None else f"is not {compression}: {reason}")
    wrong = pa.array(reasons, pa.string())
    return pa.array(values, pa.large_binary()), wrong if wrong.null_count < len(wrong) else None


def _decompress(data: bytes, window: int, max_bytes: int) -> tuple[bytes | None, str | None]:
    """The members of a stream, one after the other, or why there are none."""
    out: list[bytes] = []
    size = 0
    while data or not out:
        stream: Any = zlib.decompressobj(window)
        try:
            out.append(stream.decompress(data, max_bytes - size + 1))
        except zlib.error as error:
            return None, str(error)
        size += len(out[-1])
        if size > max_bytes:
            return None, f"it holds more than {max_bytes} bytes"
        if not stream.eof:
            return None, "it ends too early"
        data = stream.unused_data
    return b"".join(out), None
