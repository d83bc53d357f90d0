"""Binds functions of bytes: ``hex``, ``unhex``, ``md5``, ``sha1``, ``sha2``, ``crc32``. A text stands for its UTF-8 bytes.

Arrow has no functions for these: Python calls those of `hashlib` and `binascii` for each value, in about a microsecond.
"""

from __future__ import annotations

import binascii
import hashlib
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.encodings import encode_bytes
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import no_arrow_form, whole_literal
from etl.expressions.casts import cast
from etl.expressions.rows import broadcast
from etl.expressions.widening import INT64, INTEGERS, NULL, STRING

BINARY = pa.binary()


def of_bytes(type_: pa.DataType, function: Callable[[bytes], Any]) -> Callable[[BoundNode], BoundNode]:
    """A function of the bytes of a text or binary."""

    def build(value: BoundNode) -> BoundNode:
        if value.type not in (STRING, BINARY):
            return no_arrow_form("a hash of what is not a text", type_)
        return b.apply(type_, partial(_each, type_, function), value)

    return build


def _hashes(make: Callable[[bytes], Any]) -> Callable[[BoundNode], BoundNode]:
    """A hash in hexadecimal digits: Python computes the bytes of each, and all get their digits at once."""

    def run(values: Any) -> Any:
        if isinstance(values, pa.Scalar):
            return run(broadcast(values, 1))[0]
        return encode_bytes(_each(BINARY, lambda value: make(value).digest(), values), "hex")

    def build(value: BoundNode) -> BoundNode:
        return (
            b.apply(STRING, run, value)
            if value.type in (STRING, BINARY)
            else no_arrow_form("a hash of what is not a text", STRING)
        )

    return build


def _each(type_: pa.DataType, function: Callable[[bytes], Any], values: Any) -> Any:
    if isinstance(values, pa.Scalar):
        return _each(type_, function, broadcast(values, 1))[0]
    given = pc.cast(values, BINARY).to_pylist()
    return pa.array([None if one is None else function(one) for one in given], type_)


md5 = _hashes(partial(hashlib.md5, usedforsecurity=False))
sha1 = _hashes(partial(hashlib.sha1, usedforsecurity=False))
sha224, sha256, sha384, sha512 = map(_hashes, (hashlib.sha224, hashlib.sha256, hashlib.sha384, hashlib.sha512))
crc32 = of_bytes(INT64, zlib.crc32)


def sha2(value: BoundNode, bits: BoundNode) -> BoundNode:
    """``sha2(text, 256)``; a literal number of bits for which there is no hash gives null."""
    number = whole_literal(bits)
    if number is None:
        return no_arrow_form("sha2() with a computed number of bits", STRING)
    make = {0: sha256, 224: sha224, 256: sha256, 384: sha384, 512: sha512}.get(number)
    return make(value) if make else of_bytes(STRING, lambda _: None)(value)


def hex_(value: BoundNode) -> BoundNode:
    """``hex``: of a whole number its 64 bits without leading zeros, of a text or binary its bytes."""
    if value.type in INTEGERS:
        return b.apply(STRING, _hex_of_numbers, cast(value, INT64))
    if value.type in (STRING, BINARY):
        return b.apply(STRING, _hex_of_bytes, value)
    return no_arrow_form("hex() of this", STRING)


def _hex_of_bytes(values: Any) -> Any:
    if isinstance(values, pa.Scalar):
        return _hex_of_bytes(broadcast(values, 1))[0]
    return pc.ascii_upper(encode_bytes(values, "hex"))


def _hex_of_numbers(values: Any) -> Any:
    if isinstance(values, pa.Scalar):
        return _hex_of_numbers(broadcast(values, 1))[0]
    return pa.array([None if one is None else f"{one & 0xFFFFFFFFFFFFFFFF:X}" for one in values.to_pylist()], STRING)


def unhex(value: BoundNode) -> BoundNode:
    """The bytes of hexadecimal digits; null of other characters."""
    return of_bytes(BINARY, _decode_hex)(value) if value.type in (STRING, NULL) else no_arrow_form("unhex() of this", BINARY)


def _decode_hex(digits: bytes) -> bytes | None:
    try:
        return binascii.unhexlify(b"0" * (len(digits) % 2) + digits)
    except binascii.Error:
        return None
