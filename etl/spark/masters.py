"""Whether a cluster's master is there, asked before a JVM starts: Spark itself tries for a minute and then says nothing of it."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator

from etl.api import EtlError

ASK_SECONDS = 8.0
"""For all addresses of a master together."""

_ADDRESS = re.compile(r"(?:https?://)?\[?(?P<host>[^\[\]/,]+?)\]?(?::(?P<port>\d+))?(?=[/,]|$)")
_PORTS = {"spark": 7077, "k8s": 443}


def check_reachable(master: str) -> None:
    """Raises EtlError that names the address and why nobody answers there. Masters without an address are not asked."""
    scheme, _, rest = master.partition("://")
    if scheme not in _PORTS:
        return
    failures = []
    until = time.monotonic() + ASK_SECONDS
    for host, port in addresses(rest, _PORTS[scheme]):
        left = max(0.5, until - time.monotonic())
        try:
            socket.create_connection((host, port), timeout=left).close()
        except OSError as error:
            failures.append(f"{host}:{port}: {_words(error)}")
        else:
            return
    if failures:
        raise EtlError(
            f"no master answers at {master} ({'; '.join(failures)}): start it, or say with --master where it is; "
            "local[*] runs on this machine"
        )


def addresses(text: str, port: int) -> Iterator[tuple[str, int]]:
    """``a:1,b`` → (a, 1), (b, ``port``)."""
    for one in text.split(","):
        found = _ADDRESS.match(one.strip())
        if found:
            yield found["host"], int(found["port"] or port)


def _words(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer"
    return (error.strerror or str(error)).lower()
