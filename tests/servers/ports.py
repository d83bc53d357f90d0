"""Free ports of the loopback address, for servers that are restarted on the same port.

They lie below the range from which the system gives ports to clients: none of those can take a port while its server is down.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

HOST = "127.0.0.1"
ATTEMPTS = 1000
LOWEST = 10_240
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
USUAL_LOWEST = 32_768
"""Default of the lowest port that the system gives to clients."""

_chance = random.SystemRandom()
_given: set[int] = set()


def usual(port: int) -> int:
    """Return the port if it is free, else another one."""
    return port if _free([port]) else free()[0]


def free(count: int = 1) -> list[int]:
    """Return free ports; a process returns each port once."""
    return [free_with_neighbours(()) for _ in range(count)]


def free_with_neighbours(distances: Sequence[int]) -> int:
    """Return a free port whose neighbours at these distances are free too, and reserve them all."""
    highest = _lowest_of_clients() - max((0, *distances))
    for _ in range(ATTEMPTS):
        port = _chance.randrange(LOWEST - min((0, *distances)), highest)
        ports = {port, *(port + distance for distance in distances)}
        if not ports & _given and _free(sorted(ports)):
            _given.update(ports)
            return port
    raise OSError(f"no free port with neighbours at the distances {[*distances]} in {ATTEMPTS} attempts")


def _lowest_of_clients() -> int:
    """Return the first port that the system gives to clients, or the usual one if too few ports are below it."""
    try:
        lowest = int(RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return USUAL_LOWEST
    return lowest if lowest >= 2 * LOWEST else USUAL_LOWEST


def _free(ports: Sequence[int]) -> bool:
    with ExitStack() as held:
        try:
            for port in ports:
                held.enter_context(socket.socket()).bind((HOST, port))
        except OSError:
            return False
    return True
