"""Parts of URLs as Java's ``URL`` names them."""

from __future__ import annotations

import re

_URL = re.compile(
    r"(?P<protocol>[A-Za-z][A-Za-z0-9+.\-]*):(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<ref>.*))?",
    re.DOTALL,
)
_PROTOCOLS = frozenset(("http", "https", "ftp", "file", "jar", "mailto", "jrt"))
"""Schemes that Java knows; a URL with another scheme is invalid."""


def parse_url(url: str, part: str, key: str | None = None) -> str | None:
    """A part of a URL; None if the URL is invalid or does not have the part."""
    found = _URL.fullmatch(url.strip())
    if found is None or found["protocol"].lower() not in _PROTOCOLS:
        return None
    authority = found["authority"] or ""
    user, at, address = authority.rpartition("@")
    query = found["query"]
    parts = {
        "HOST": re.sub(r":\d*$", "", address) if address else "",
        "PATH": found["path"],
        "QUERY": query,
        "REF": found["ref"],
        "PROTOCOL": found["protocol"].lower(),
        "AUTHORITY": authority or None,
        "FILE": found["path"] + (f"?{query}" if query is not None else ""),
        "USERINFO": user if at else None,
    }
    value = parts.get(part)
    if key is None:
        return value
    match = re.search(f"(?:&|^){re.escape(key)}=([^&]*)", query or "") if part == "QUERY" and query else None
    return match[1] if match else None
