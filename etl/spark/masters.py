"""Spark's masters: which values are valid, how many tasks run at once, and whether a cluster's master answers.

`check_reachable` runs before a JVM starts, because Spark tries to connect for a minute without a message. A master that hangs
still accepts connections, because its operating system does. So the check requests a stream that does not exist, in Spark's own
protocol (``org.apache.spark.network.protocol``): a working master answers at once that there is none.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import time
from collections.abc import Iterator

from etl.api import EtlError

MASTER = re.compile(r"local(\[([1-9]\d*|\*)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|spark://.+|yarn|k8s://.+")
"""Valid values of ``--master``."""

CHECK_SECONDS = 8.0
"""Seconds for all addresses of a master together."""

_ADDRESS = re.compile(r"(?:https?://)?\[?(?P<host>[^\[\]/,]+?)\]?(?::(?P<port>\d+))?(?=[/,]|$)")
_PORTS = {"spark": 7077, "k8s": 443}


def is_local(master: str) -> bool:
    """Whether all tasks of this master run on this host."""
    return master.startswith("local") and not master.startswith("local-cluster")


def cores(master: str) -> int:
    """The tasks that ``local[n]`` runs at once, or this machine's cores."""
    if master == "local":
        return 1
    inside = master.removeprefix("local").strip("[]").split(",")[0]
    return int(inside) if inside.isdigit() else len(os.sched_getaffinity(0))


def local_master(master: str) -> str:
    """``local`` and ``local[*]`` with their number of tasks written out; any other master as it is."""
    return f"local[{cores(master)}]" if master in ("local[*]", "local") else master


def check_reachable(master: str) -> None:
    """Raises EtlError that names the addresses and why no master answers there. Masters without an address are not checked."""
    scheme, _, rest = master.partition("://")
    if scheme not in _PORTS:
        return
    failures = []
    until = time.monotonic() + CHECK_SECONDS
    for host, port in addresses(rest, _PORTS[scheme]):
        left = max(0.5, until - time.monotonic())
        failure = _failure(host, port, left, is_spark=scheme == "spark")
        if failure is None:
            return
        failures.append(f"{host}:{port}: {failure}")
    if failures:
        raise EtlError(
            f"no master answers at {master} ({'; '.join(failures)}): start it, or give its address with --master; "
            "local[*] runs on this machine"
        )


def _failure(host: str, port: int, seconds: float, is_spark: bool) -> str | None:
    """Why there is no master at an address; None if one answers."""
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            return _wrong_answer(connection, seconds) if is_spark else None
    except OSError as error:
        return _cause(error)


def _wrong_answer(connection: socket.socket, seconds: float) -> str | None:
    """What is wrong with the answer to a request of Spark's protocol; None for any answer that a master may give.

    A master that wants authentication or TLS may close the connection: that is an answer, too.
    """
    connection.settimeout(seconds)
    try:
        connection.sendall(_REQUEST)
        answer = connection.recv(_ANSWER_BYTES)
    except TimeoutError:
        return f"it accepts connections and does not answer in {seconds:.0f} s: it hangs, or is not a Spark master"
    except OSError:
        return None
    return "it is a web server; the port of a Spark master is usually 7077" if answer.startswith(b"HTTP/") else None


_STREAM = b"/files/sluice-checks-this-master"
_REQUEST = struct.pack(">qBi", 8 + 1 + 4 + len(_STREAM), 6, len(_STREAM)) + _STREAM
"""Length of the frame with itself, type StreamRequest, name of the stream."""

_ANSWER_BYTES = 64
"""Enough to recognise a web server."""


def addresses(text: str, port: int) -> Iterator[tuple[str, int]]:
    """``a:1,b`` → (a, 1), (b, ``port``)."""
    for one in text.split(","):
        found = _ADDRESS.match(one.strip())
        if found:
            yield found["host"], int(found["port"] or port)


def _cause(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer"
    return (error.strerror or str(error)).lower()
