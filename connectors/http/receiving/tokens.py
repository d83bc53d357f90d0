"""Whether a request has one of the tokens."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterator, Sequence

from connectors.http.receiving.requests import Request, RequestError


class Tokens:
    """Accepts a token as agents send it: ``Bearer``, ``Splunk``, ``ApiKey`` (also Base64 of ``id:key``), as the password of
    ``Basic``, or in the header ``X-Api-Key``. Without tokens every request is accepted.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self._hashes = [_hash(token) for token in tokens]

    def check(self, request: Request) -> None:
        """Raise RequestError (401 or 403) unless the request has one of the tokens."""
        if not self._hashes:
            return
        candidates = list(_candidates(request))
        if not candidates:
            raise RequestError(401, "a token is required")
        matches = [hmac.compare_digest(_hash(text), one) for text in candidates for one in self._hashes]
        if not any(matches):
            raise RequestError(403, "the token is not one of this source")


def _candidates(request: Request) -> Iterator[str]:
    """Yield what may be the token."""
    if "x-api-key" in request.headers:
        yield request.headers["x-api-key"]
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    value = value.strip()
    if not value:
        return
    if scheme.lower() in ("basic", "apikey"):
        yield from _decoded(value)
    if scheme.lower() != "basic":
        yield value


def _decoded(value: str) -> Iterator[str]:
    """Yield the text of Base64, and what is after its first colon."""
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return
    yield text
    yield text.partition(":")[2]


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
