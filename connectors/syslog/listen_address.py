"""Addresses to listen at: ``tcp://host:port``, ``udp://…``, ``tls://…``, ``unix:///path``, ``unixgram:///path``; and their
sockets.
"""

from __future__ import annotations

import os
import re
import socket
import stat
from contextlib import suppress
from typing import NamedTuple

from connectors.shared.receiving.tcp_address import check_port
from etl.api import ComponentError

ADDRESS_PATTERN = r"^(?:(?:tcp|udp|tls)://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.\-]+):[0-9]{1,5}|unix(?:gram)?://(?:/[^/\x00]+)+)$"
"""Regular expression of an address."""
ADDRESS_PATTERN_ERROR = {
    "patternErrorMessage": "is not an address to listen at: write tcp://0.0.0.0:514, udp://…, tls://…, unix:///run/log.sock or unixgram:///…"
}

_NET = re.compile(r"(?P<scheme>tcp|udp|tls)://\[?(?P<host>[^\]]+)\]?:(?P<port>\d+)")
_UNIX = re.compile(r"(?P<scheme>unix|unixgram)://(?P<path>.+)")

DATAGRAM = frozenset({"udp", "unixgram"})

UDP_BUFFER = 16 << 20
"""Default receive buffer of UDP sockets, in bytes: for datagrams that arrive while a segment is synced to the disk."""

_BACKLOG = 1024


class ListenAddress(NamedTuple):
    """An address to listen at."""

    text: str
    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> ListenAddress:
        """Parse a text that matches `ADDRESS_PATTERN`. Raises ValueError for an impossible port."""
        if found := _NET.fullmatch(text):
            return cls(text, found["scheme"], found["host"], check_port(int(found["port"])))
        found = _UNIX.fullmatch(text)
        assert found
        return cls(text, found["scheme"], found["path"], 0)

    @property
    def is_datagram(self) -> bool:
        """Whether messages arrive as datagrams."""
        return self.scheme in DATAGRAM

    @property
    def is_unix(self) -> bool:
        """Whether it is a path."""
        return self.scheme.startswith("unix")


def open_socket(address: ListenAddress, buffer_bytes: int | None, permissions: int) -> socket.socket:
    """Open a listening socket. Raises ComponentError with the reason if that fails."""
    try:
        return (
            _open_unix_socket(address, buffer_bytes, permissions)
            if address.is_unix
            else _open_network_socket(address, buffer_bytes)
        )
    except OSError as error:
        hint = "; ports below 1024 need privileges" if isinstance(error, PermissionError) and not address.is_unix else ""
        raise ComponentError(f"syslog: cannot listen at {address.text}: {error.strerror or error}{hint}") from error


def _open_network_socket(address: ListenAddress, buffer_bytes: int | None) -> socket.socket:
    kind = socket.SOCK_DGRAM if address.is_datagram else socket.SOCK_STREAM
    family, _, _, _, socket_address = socket.getaddrinfo(address.host, address.port, type=kind, flags=socket.AI_PASSIVE)[0]
    sock = socket.socket(family, kind)
    try:
        if not address.is_datagram:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _set_receive_buffer(sock, buffer_bytes or (UDP_BUFFER if address.is_datagram else None))
        sock.bind(socket_address)
        return _start_listening(sock, address)
    except OSError:
        sock.close()
        raise


def _open_unix_socket(address: ListenAddress, buffer_bytes: int | None, permissions: int) -> socket.socket:
    _remove_stale_socket(address)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if address.is_datagram else socket.SOCK_STREAM)
    try:
        _set_receive_buffer(sock, buffer_bytes)
        sock.bind(address.host)
        os.chmod(address.host, permissions)
        return _start_listening(sock, address)
    except OSError:
        sock.close()
        raise


def _start_listening(sock: socket.socket, address: ListenAddress) -> socket.socket:
    sock.setblocking(False)
    if not address.is_datagram:
        sock.listen(_BACKLOG)
    return sock


def _remove_stale_socket(address: ListenAddress) -> None:
    """Remove the socket of a killed run; any other file stays and causes an error later."""
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(address.host).st_mode) and not _is_in_use(address):
            os.unlink(address.host)


def _is_in_use(address: ListenAddress) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if address.is_datagram else socket.SOCK_STREAM) as trial:
        return trial.connect_ex(address.host) == 0


def _set_receive_buffer(sock: socket.socket, size: int | None) -> None:
    """Set the receive buffer: beyond the system's limit if this process is allowed to, else up to it."""
    if size is None:
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, _BUFFER_FORCE, size)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


_BUFFER_FORCE = 33
"""SO_RCVBUFFORCE of socket(7): Linux, with CAP_NET_ADMIN."""
