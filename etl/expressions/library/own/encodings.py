"""Hashes with keys, and encodings. Python computes them once for each distinct value."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac as _hmac
from collections.abc import Callable
from typing import Any

from etl.expressions.library.flink.urls import parse_url
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import RowError, by_value
from etl.expressions.widening import STRING

_HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _check_hash(name: str) -> str | None:
    return None if name.lower() in _HASHES else f"there is no hash {name!r}; hashes are {', '.join(_HASHES)}"


def _keyed_hash(value: str | bytes, key: str | bytes, name: str = "sha256") -> str:
    if complaint := _check_hash(name):
        raise RowError(complaint)
    return _hmac.new(_bytes(key), _bytes(value), name.lower()).hexdigest()


def _pseudonym(value: str, key: str) -> str:
    return _hmac.new(_bytes(key), _bytes(value), hashlib.sha256).hexdigest()[:16]


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
    _entry(
        "base64_text",
        "text: string",
        _base64_text,
        "The text of Base64, also with the signs for URLs and without filling.",
        "base64_text('aGk')",
        "hi",
        null="null for null and what is not Base64",
    ),
    _entry(
        "hex_text",
        "text: string",
        _hex_text,
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
