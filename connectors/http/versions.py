"""Asking a server for something only if it is another than before (RFC 9110, section 13)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from email.utils import parsedate

_OF_BODY = "sha256:"


def version_of(headers: Mapping[str, str], body: bytes) -> str:
    """A text that is another when the body is: as the server says, or by the body itself. Names of headers are lower case."""
    return headers.get("etag") or headers.get("last-modified") or _OF_BODY + hashlib.sha256(body).hexdigest()[:32]


def condition(version: str | None) -> Mapping[str, str]:
    """The header by which a server tells whether a version is still the newest; none where only the body tells."""
    if version is None or version.startswith(_OF_BODY):
        return {}
    return {"If-Modified-Since" if parsedate(version) else "If-None-Match": version}
