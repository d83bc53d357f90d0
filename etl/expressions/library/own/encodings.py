"""Hashes with keys, which Python computes once for each distinct value, and encodings, which are read on columns."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from etl.columns.encodings import Encoding, decode_bytes, read_utf8
from etl.expressions.library.flink.urls import parse_url
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import Fast, RowError, by_value, usually_on_arrow
from etl.expressions.widening import STRING

_HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _check_hash(name: str) -> str | None:
    return None if name.lower() in _HASHES else f"there is no hash {name!r}; hashes are {', '.join(_HASHES)}"


_INNER, _OUTER = (bytes(one ^ pad for one in range(256)) for pad in (0x36, 0x5C))
"""The padding of RFC 2104: byte → byte."""


@lru_cache(maxsize=64)
def _started(key: bytes, name: str) -> tuple[Any, Any]:
    """The inner and outer hash of HMAC after the key: copies of them cost a quarter of what Python's `hmac` takes a value."""
    size = hashlib.new(name).block_size
    key = (hashlib.new(name, key).digest() if len(key) > size else key).ljust(size, b"\0")
    return hashlib.new(name, key.translate(_INNER)), hashlib.new(name, key.translate(_OUTER))


def _digest(key: bytes, name: str, value: bytes) -> bytes:
    inner, outer = (one.copy() for one in _started(key, name))
    inner.update(value)
    outer.update(inner.digest())
    return bytes(outer.digest())


def _keyed_hash(value: str | bytes, key: str | bytes, name: str = "sha256") -> str:
    if complaint := _check_hash(name):
        raise RowError(complaint)
    return _digest(_bytes(key), name.lower(), _bytes(value)).hex()


def _pseudonym(value: str, key: str) -> str:
    return _digest(_bytes(key), "sha256", _bytes(value))[:8].hex()


def _base64_text(text: str) -> str | None:
    plain = text.strip().replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


def _hex_text(text: str) -> str | None:
    try:
        return bytes.fromhex(text).decode("utf-8", "replace")
    except ValueError:
        return None


def _query(url: str, name: str) -> str | None:
    from urllib.parse import unquote_plus

    found = parse_url(url, "QUERY", name)
    return None if found is None else unquote_plus(found)


def _entry(
    name: str, arguments: str, function: Callable[..., Any], about: str, example: str, gives: Any, **more: Any
) -> LibraryFunction:
    build = by_value(STRING, function, fails="errors" in more)
    return LibraryFunction(name, arguments, "string", build, about, example, gives, loops=True, **more)


def _usual_texts(encoding: Encoding) -> Fast:
    """The texts of what is encoded as usual: other forms, and what is wrong, are Python's."""
    return lambda texts: read_utf8(decode_bytes(texts, encoding))


FUNCTIONS = (
    _entry(
        "hmac_hex",
        "value: string|binary, key: string|binary, hash: string?",
        _keyed_hash,
        "The HMAC of a value with a key in hexadecimal digits; the hash is sha256, or md5, sha1, sha224, sha384, sha512.",
        "hmac_hex('message', 'key')",
        _keyed_hash("message", "key"),
        errors="an unknown hash",
        checks={"hash": _check_hash},
    ),
    _entry(
        "pseudonym",
        "value: text, key: string",
        _pseudonym,
        "16 hexadecimal digits for a value that only who has the key can tell from others (HMAC with SHA-256).",
        "pseudonym('alice', 'key')",
        _pseudonym("alice", "key"),
    ),
    LibraryFunction(
        "base64_text",
        "text: string",
        "string",
        usually_on_arrow(STRING, _usual_texts("base64"), _base64_text),
        "The text of Base64, also with the characters for URLs and without filling.",
        "base64_text('aGk')",
        "hi",
        null="null for null and what is not Base64",
    ),
    LibraryFunction(
        "hex_text",
        "text: string",
        "string",
        usually_on_arrow(STRING, _usual_texts("hex"), _hex_text),
        "The text of hexadecimal digits.",
        "hex_text('6869')",
        "hi",
        null="null for null and what is not hexadecimal",
    ),
    _entry(
        "url_parameter",
        "url: string, name: string",
        _query,
        "The value of a parameter in a URL's query, decoded.",
        "url_parameter('http://example.org/?q=a%20b', 'q')",
        "a b",
        null="null if an argument is null, and without such a parameter",
    ),
)
