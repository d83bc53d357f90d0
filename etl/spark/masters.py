"""Whether a cluster's master is there, asked before a JVM starts: Spark itself tries for a minute and then says nothing of it.

A master that hangs still accepts connections, for its system does. So it is asked for a stream that it does not have, in Spark's
own protocol (``org.apache.spark.network.protocol``): a master answers that there is none, at once.
"""

from __future__ import annotations

import re
import socket
import struct
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
        failure = _failure(host, port, left, asks=scheme == "spark")
        if failure is None:
            return
        failures.append(f"{host}:{port}: {failure}")
    if failures:
        raise EtlError(
            f"no master answers at {master} ({'; '.join(failures)}): start it, or say with --master where it is; "
            "local[*] runs on this machine"
        )


def _failure(host: str, port: int, seconds: float, asks: bool) -> str | None:
    """Why there is no master at an address; None where one answers."""
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            return _silence(connection, seconds) if asks else None
    except OSError as error:
        return _words(error)


def _silence(connection: socket.socket, seconds: float) -> str | None:
    """What is wrong with the answer to a request of Spark's protocol; None for any that a master may give.

    One that wants authentication or TLS may close the connection: that is an answer, too.
    """
    connection.settimeout(seconds)
    try:
        connection.sendall(_REQUEST)
        answer = connection.recv(_ANSWER_BYTES)
    except TimeoutError:
        return f"it accepts connections and says nothing for {seconds:.0f} s: it hangs, or is no Spark master"
    except OSError:
        return None
    return "it is a web server; the port of a Spark master is usually 7077" if answer.startswith(b"HTTP/") else None


_STREAM = b"/files/sluice-asks-whether-you-are-there"
_REQUEST = struct.pack(">qBi", 8 + 1 + 4 + len(_STREAM), 6, len(_STREAM)) + _STREAM
"""Length of the frame with itself, type StreamRequest, name of the stream."""

_ANSWER_BYTES = 64
"""Enough to tell a web server."""


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
