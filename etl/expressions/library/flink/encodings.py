"""Flink's functions of bytes, hashes, encodings, URLs and formats: Base64 on columns, others by Python for each value."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus, unquote_to_bytes

import pyarrow as pa

from etl.columns.encodings import decode_bytes, encode_bytes, read_utf8
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls import hash_calls
from etl.expressions.library.flink import urls
from etl.expressions.library.flink.printf import printf
from etl.expressions.library.function import LibraryFunction, flink_function
from etl.expressions.library.kernels import RowError, by_value, on_arrow, usually_on_arrow
from etl.expressions.rows import broadcast
from etl.expressions.widening import INT32, STRING

BINARY = pa.binary()


def _from_base64(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError) as error:
        raise RowError(f"{text[:50]!r} is not Base64") from error


def _base64_columns(texts: pa.Array) -> tuple[pa.Array, Any]:
    return read_utf8(decode_bytes(texts, "base64"))


def _base64_of(values: Any) -> Any:
    return encode_bytes(broadcast(values, 1), "base64")[0] if isinstance(values, pa.Scalar) else encode_bytes(values, "base64")


def to_base64(value: str | bytes) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def _ascii(text: str) -> int:
    first = text[:1].encode()[:1]
    return int.from_bytes(first, "big", signed=True)


def _chr(number: int) -> str:
    return "" if number < 0 else chr(number % 256)


def _charset(name: str) -> str:
    if name.upper().replace("_", "-") not in _CHARSETS:
        raise RowError(f"there is no character set {name!r}")
    return _CHARSETS[name.upper().replace("_", "-")]


_CHARSETS = {
    "UTF-8": "utf-8", "UTF8": "utf-8", "US-ASCII": "ascii", "ASCII": "ascii", "ISO-8859-1": "latin-1", "LATIN1": "latin-1",
    "UTF-16": "utf-16", "UTF-16BE": "utf-16-be", "UTF-16LE": "utf-16-le", "GBK": "gbk", "GB2312": "gb2312", "GB18030": "gb18030",
    "BIG5": "big5", "SHIFT-JIS": "shift_jis", "EUC-JP": "euc_jp", "EUC-KR": "euc_kr", "WINDOWS-1252": "cp1252",
    "WINDOWS-1251": "cp1251",
}  # fmt: skip


def _decode(value: bytes, charset: str) -> str:
    return value.decode(_charset(charset), "replace")


def _encode(text: str, charset: str) -> bytes:
    name = _charset(charset)
    return b"\xfe\xff" + text.encode("utf-16-be") if name == "utf-16" else text.encode(name, "replace")


def _url_encode(text: str) -> str:
    return quote_plus(text, safe="*-._").replace("~", "%7E")


def _url_decode(text: str) -> str | None:
    parts = text.split("%")
    if any(len(part) < 2 or not all(digit in "0123456789abcdefABCDEF" for digit in part[:2]) for part in parts[1:]):
        return None
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")


def _sha2(value: str, bits: int) -> str:
    if bits not in (224, 256, 384, 512):
        raise RowError(f"there is no SHA-2 of {bits} bits")
    return str(getattr(hashlib, f"sha{bits}")(value.encode()).hexdigest())


def _loops(
    name: str, arguments: str, result: str, build: Any, about: str, example: str, gives: Any, **more: Any
) -> LibraryFunction:
    return LibraryFunction(f"flink_{name}", arguments, result, build, about, example, gives, loops=True, **more)


def _one(type_: pa.DataType, function: Callable[..., Any], fails: bool = False) -> Callable[..., BoundNode]:
    return by_value(type_, function, fails=fails)


FUNCTIONS = (
    flink_function(
        "from_base64",
        "text: string",
        "string",
        usually_on_arrow(STRING, _base64_columns, _from_base64, fails=True),
        "The text of Base64.",
        "flink_from_base64('aGVsbG8=')",
        "hello",
        errors="a text that is not Base64",
    ),
    flink_function(
        "to_base64",
        "value: string|binary",
        "string",
        on_arrow(STRING, _base64_of),
        "Base64 of a text's UTF-8 bytes, or of bytes.",
        "flink_to_base64('hello')",
        "aGVsbG8=",
    ),
    _loops(
        "ascii",
        "text: string",
        "int",
        _one(INT32, _ascii),
        "The first byte of a text, with a sign; 0 of an empty one.",
        "flink_ascii('abc')",
        97,
    ),
    _loops(
        "chr",
        "number: integer",
        "string",
        _one(STRING, _chr),
        "The character of a number, of which the lowest 8 bits count.",
        "flink_chr(97)",
        "a",
    ),
    _loops(
        "decode",
        "value: binary, charset: string",
        "string",
        _one(STRING, _decode, True),
        "The text of bytes in a character set.",
        "flink_decode(unhex('e9'), 'ISO-8859-1')",
        "é",
        errors="an unknown character set",
    ),
    _loops(
        "encode",
        "text: string, charset: string",
        "binary",
        _one(BINARY, _encode, True),
        "The bytes of a text in a character set.",
        "flink_encode('é', 'ISO-8859-1')",
        b"\xe9",
        errors="an unknown character set",
    ),
    _loops(
        "url_encode",
        "text: string",
        "string",
        _one(STRING, _url_encode),
        "A text as a value of a form, with + for blanks.",
        "flink_url_encode('a b&c')",
        "a+b%26c",
    ),
    _loops(
        "url_decode",
        "text: string",
        "string",
        _one(STRING, _url_decode),
        "The text of a value of a form.",
        "flink_url_decode('a+b%26c')",
        "a b&c",
        null="null for null and for a text that is not encoded well",
    ),
    flink_function(
        "parse_url",
        "url: string, part: string, key: string?",
        "string",
        urls.parse_url_of,
        "A part of a URL: HOST, PATH, QUERY, REF, PROTOCOL, AUTHORITY, FILE, USERINFO; with QUERY a key's value.",
        "flink_parse_url('http://example.org/a?k=v', 'QUERY', 'k')",
        "v",
        null="null if an argument is null, or without such a part",
    ),
    _loops(
        "printf",
        "format: string, value: any...",
        "string",
        by_value(STRING, printf, nulls=True, fails=False, grows=True),
        "Values in a format of Java's: %d, %s, %05.2f; a null is the text null.",
        "flink_printf('%d-%s', 5, 'x')",
        "5-x",
        null="null if the format is null or does not fit the values",
    ),
    _loops(
        "sha224",
        "text: string",
        "string",
        hash_calls.sha224,
        "SHA-224 of a text in hexadecimal digits.",
        "flink_sha224('hello')",
        hashlib.sha224(b"hello").hexdigest(),
    ),
    _loops(
        "sha256",
        "text: string",
        "string",
        hash_calls.sha256,
        "SHA-256 of a text in hexadecimal digits.",
        "flink_sha256('hello')",
        hashlib.sha256(b"hello").hexdigest(),
    ),
    _loops(
        "sha384",
        "text: string",
        "string",
        hash_calls.sha384,
        "SHA-384 of a text in hexadecimal digits.",
        "flink_sha384('hello')",
        hashlib.sha384(b"hello").hexdigest(),
    ),
    _loops(
        "sha512",
        "text: string",
        "string",
        hash_calls.sha512,
        "SHA-512 of a text in hexadecimal digits.",
        "flink_sha512('hello')",
        hashlib.sha512(b"hello").hexdigest(),
    ),
    _loops(
        "sha2",
        "text: string, bits: integer",
        "string",
        _one(STRING, _sha2, True),
        "SHA-2 with 224, 256, 384 or 512 bits.",
        "flink_sha2('hello', 256)",
        hashlib.sha256(b"hello").hexdigest(),
        errors="another number of bits",
    ),
)
