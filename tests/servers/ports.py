"""Free ports of the loopback address."""

from __future__ import annotations

import socket
from contextlib import ExitStack

HOST = "127.0.0.1"
ATTEMPTS = 100


def usual(port: int) -> int:
    """The port, where it is free; else any."""
    try:
        _bound(port).close()
    except OSError:
        return free()[0]
    return port


def free(count: int = 1) -> list[int]:
    """Ports that nobody listens on now; they are given away once, as far as the system remembers."""
    with ExitStack() as held:
        return [held.enter_context(_bound(0)).getsockname()[1] for _ in range(count)]


def free_with_neighbour(distance: int) -> int:
    """A free port whose neighbour at a distance is free too."""
    for _ in range(ATTEMPTS):
        with _bound(0) as first:
            port = int(first.getsockname()[1])
            try:
                _bound(port + distance).close()
            except OSError:
                continue
            return port
    raise OSError(f"no pair of free ports at a distance of {distance} in {ATTEMPTS} attempts")


def _bound(port: int) -> socket.socket:
    taken = socket.socket()
    try:
        taken.bind((HOST, port))
    except OSError:
        taken.close()
        raise
    return taken
