"""Conditional requests: fetch a resource only if it has changed (RFC 9110, section 13)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from email.utils import parsedate

_OF_BODY = "sha256:"


def response_version(headers: Mapping[str, str], body: bytes) -> str:
    """Return a text that changes with the body: the server's validator, or a hash of the body. Header names are in lower
    case.
    """
    return headers.get("etag") or headers.get("last-modified") or _OF_BODY + hashlib.sha256(body).hexdigest()[:32]


def version_condition(version: str | None) -> Mapping[str, str]:
    """Return the header that makes the server respond 304 if this version is current; empty if the version is a hash."""
    if version is None or version.startswith(_OF_BODY):
        return {}
    return {"If-Modified-Since" if parsedate(version) else "If-None-Match": version}
