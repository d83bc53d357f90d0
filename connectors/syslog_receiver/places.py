"""Where to listen: ``tcp://host:port``, ``udp://…``, ``tls://…``, ``unix:///path``, ``unixgram:///path``; their sockets."""

from __future__ import annotations

import os
import re
import socket
import stat
from contextlib import suppress
from typing import NamedTuple

from etl.api import ComponentError

PLACE = r"^(?:(?:tcp|udp|tls)://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.\-]+):[0-9]{1,5}|unix(?:gram)?://(?:/[^/\x00]+)+)$"
"""What a place looks like."""
PLACE_WORDS = {
    "patternErrorMessage": "is no place to listen: write tcp://0.0.0.0:514, udp://…, tls://…, unix:///run/log.sock or unixgram:///…"
}

_NET = re.compile(r"(?P<scheme>tcp|udp|tls)://\[?(?P<host>[^\]]+)\]?:(?P<port>\d+)")
_UNIX = re.compile(r"(?P<scheme>unix|unixgram)://(?P<path>.+)")

DATAGRAM = frozenset({"udp", "unixgram"})

UDP_BUFFER = 16 << 20
"""Bytes that the system may hold of datagrams: what comes while a segment is forced to the disk."""

_BACKLOG = 1024


class Place(NamedTuple):
    """A place to listen at."""

    text: str
    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Place:
        """A text that looks like `PLACE`; ValueError when its port is none."""
        if found := _NET.fullmatch(text):
            port = int(found["port"])
            if port > 0xFFFF:
                raise ValueError(f"{port} is no port; ports are 0 to 65535, and 0 is any that is free")
            return cls(text, found["scheme"], found["host"], port)
        found = _UNIX.fullmatch(text)
        assert found
        return cls(text, found["scheme"], found["path"], 0)

    @property
    def datagram(self) -> bool:
        """Whether a message comes whole or not at all."""
        return self.scheme in DATAGRAM

    @property
    def unix(self) -> bool:
        """Whether it is a path."""
        return self.scheme.startswith("unix")


def listening(place: Place, buffer_bytes: int | None, permissions: int) -> socket.socket:
    """A socket that receives at a place, not yet read from. Raises ComponentError that says why it cannot."""
    try:
        return _unix(place, buffer_bytes, permissions) if place.unix else _net(place, buffer_bytes)
    except OSError as error:
        hint = "; ports below 1024 need a privilege" if isinstance(error, PermissionError) and not place.unix else ""
        raise ComponentError(f"syslog: cannot listen at {place.text}: {error.strerror or error}{hint}") from error


def _net(place: Place, buffer_bytes: int | None) -> socket.socket:
    kind = socket.SOCK_DGRAM if place.datagram else socket.SOCK_STREAM
    family, _, _, _, address = socket.getaddrinfo(place.host, place.port, type=kind, flags=socket.AI_PASSIVE)[0]
    sock = socket.socket(family, kind)
    try:
        if not place.datagram:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _buffer(sock, buffer_bytes or (UDP_BUFFER if place.datagram else None))
        sock.bind(address)
        return _ready(sock, place)
    except OSError:
        sock.close()
        raise


def _unix(place: Place, buffer_bytes: int | None, permissions: int) -> socket.socket:
    _clear(place)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if place.datagram else socket.SOCK_STREAM)
    try:
        _buffer(sock, buffer_bytes)
        sock.bind(place.host)
        os.chmod(place.host, permissions)
        return _ready(sock, place)
    except OSError:
        sock.close()
        raise


def _ready(sock: socket.socket, place: Place) -> socket.socket:
    sock.setblocking(False)
    if not place.datagram:
        sock.listen(_BACKLOG)
    return sock


def _clear(place: Place) -> None:
    """Remove the socket of a run that was killed; anything else in its place stays, and is an error later."""
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(place.host).st_mode) and not _answers(place):
            os.unlink(place.host)


def _answers(place: Place) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if place.datagram else socket.SOCK_STREAM) as trial:
        return trial.connect_ex(place.host) == 0


def _buffer(sock: socket.socket, size: int | None) -> None:
    """Ask for a receive buffer: beyond the system's bound where this process may, else up to it."""
    if size is None:
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, _BUFFER_FORCE, size)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


_BUFFER_FORCE = 33
"""SO_RCVBUFFORCE of socket(7): Linux, with CAP_NET_ADMIN."""
