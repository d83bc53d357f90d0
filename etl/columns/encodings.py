"""Columns of bytes ↔ columns of Base64 and hexadecimal digits, by Polars."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

Encoding = Literal["base64", "hex"]


def encode_bytes(values: pa.Array, encoding: Encoding) -> pa.Array:
    """The digits of texts or bytes, small letters in ``hex``."""
    import polars as pl

    series = pl.Series("", pl.from_arrow(values.cast(pa.large_binary())), pl.Binary)
    return series.bin.encode(encoding).to_arrow().cast(pa.string())


def decode_bytes(texts: pa.Array, encoding: Encoding) -> pa.Array:
    """The bytes of digits; null for null, and for most of what is not encoded well: Base64 without its filling, too."""
    import polars as pl

    series = pl.Series("", pl.from_arrow(texts.cast(pa.large_string())), pl.String)
    return series.str.decode(encoding, strict=False).to_arrow().cast(pa.binary())


def read_utf8(values: pa.Array) -> tuple[pa.Array, Any]:
    """The texts of bytes, and bool[n] of those for which they are right: all, or where one is not UTF-8 those in ASCII."""
    import numpy as np

    try:
        return values.cast(pa.string()), values.is_valid().to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
        wide = np.concatenate(([0], np.cumsum(data >= 0x80)))
        offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
        good = (wide[offsets[1:]] == wide[offsets[:-1]]) & values.is_valid().to_numpy(zero_copy_only=False)
        return pc.if_else(pa.array(good), values, pa.scalar(None, values.type)).cast(pa.string()), good
