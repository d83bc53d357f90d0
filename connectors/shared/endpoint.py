"""Addresses of servers."""

from __future__ import annotations


def host_and_port(address: str) -> tuple[str, int]:
    """Parse ``host:port`` or ``[v6]:port``. Raises ValueError."""
    host, found, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (found and host and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ValueError(f"{address!r} is not an address; write host:port")
    return host, int(port)
