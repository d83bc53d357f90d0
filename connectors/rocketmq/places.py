"""Addresses of servers."""

from __future__ import annotations


def host_and_port(place: str) -> tuple[str, int]:
    """``host:port`` or ``[v6]:port``; raises ValueError."""
    host, found, port = place.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (found and host and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ValueError(f"{place!r} is no address; write host:port")
    return host, int(port)
