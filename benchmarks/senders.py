"""``python -m benchmarks.senders PROTOCOL PORT COUNT RATE FIRST``: a sender of messages of 200 bytes with numbers.

It prints the seconds it took. ``RATE`` is messages a second, 0 for as fast as possible.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator

import numpy as np

SIZE = 200
"""Bytes of a message, without what frames it."""

DIGITS = 9
_HEAD = b"<38>Oct 11 22:14:15 mymachine sshd[4711]: n="
_TEXT = b" Failed password for invalid user admin from 203.0.113.77 port 40022 ssh2, which is nothing to worry about as such; "
_BLOCK = 5_000
_BURST_SECONDS = 0.002

_FRAMES = {"newline": (b"", b"\n"), "counted": (b"%d " % SIZE, b""), "udp": (b"", b"")}


def blocks(kind: str, first: int, count: int) -> Iterator[bytes]:
    """Framed messages, some thousands together."""
    before, after = _FRAMES[kind]
    body = (_HEAD + b"0" * DIGITS + _TEXT * 2)[:SIZE]
    table = np.frombuffer((before + body + after) * _BLOCK, np.uint8).reshape(_BLOCK, -1).copy()
    at = len(before) + len(_HEAD)
    for start in range(first, first + count, _BLOCK):
        numbers = np.arange(start, min(start + _BLOCK, first + count))
        for digit in range(DIGITS):
            table[: len(numbers), at + DIGITS - 1 - digit] = 48 + numbers // 10**digit % 10
        yield table[: len(numbers)].tobytes()


def over_tcp(kind: str, port: int, first: int, count: int) -> None:
    """One connection, as fast as it takes them."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        for block in blocks(kind, first, count):
            sock.sendall(block)


def over_udp(port: int, first: int, count: int, rate: int) -> None:
    """Evenly: what the clock asks for, every two milliseconds."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(("127.0.0.1", port))
    messages = [block[at : at + SIZE] for block in blocks("udp", first, count) for at in range(0, len(block), SIZE)]
    sent, began = 0, time.monotonic()
    while sent < count:
        due = min(int((time.monotonic() - began) * rate), count)
        for message in messages[sent:due]:
            sock.send(message)
        sent = due
        time.sleep(_BURST_SECONDS)


def main() -> None:
    """Send."""
    kind, port, count, rate, first = sys.argv[1], *map(int, sys.argv[2:])
    began = time.monotonic()
    if kind == "udp":
        over_udp(port, first, count, rate)
    else:
        over_tcp(kind, port, first, count)
    print(time.monotonic() - began)


if __name__ == "__main__":
    main()
