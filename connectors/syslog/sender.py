"""Sends to a syslog receiver over TCP, TLS or UDP."""

from __future__ import annotations

import fcntl
import socket
import ssl
import struct
import termios
import time
from functools import cache
from typing import NamedTuple
from urllib.parse import urlsplit

from connectors.shared.tls import ClientTls
from etl.api import ComponentError

CONNECT_SECONDS = 10.0
"""How long connecting may take."""

_SEND_BYTES = 64 << 10
"""Bytes that must be sent within the timeout."""

_MAX_PAUSE_SECONDS = 0.02
"""Longest pause between two looks at whether the receiver has acknowledged all bytes."""


class Endpoint(NamedTuple):
    """A receiver, and how long it may make no progress."""

    address: str
    tls: ClientTls | None
    timeout: float
    """Seconds."""


class Sender:
    """A connection to a receiver, opened on demand. Errors are ConnectionErrors, or ComponentErrors if a retry cannot help."""

    def __init__(self, endpoint: Endpoint) -> None:
        parts = urlsplit(endpoint.address)
        assert parts.hostname is not None
        assert parts.port is not None
        self._endpoint, self._scheme = endpoint, parts.scheme
        self._target = (parts.hostname, parts.port)
        self._socket: socket.socket | None = None

    def connect(self) -> socket.socket:
        """Connect, or reconnect if the receiver has closed the connection."""
        if self._socket is not None and not (self._scheme != "udp" and _is_closed(self._socket)):
            return self._socket
        self.close()
        try:
            self._socket = self._open()
        except ssl.SSLCertVerificationError as error:
            raise ComponentError(
                f"{self._endpoint.address}: the receiver's certificate is not accepted: {error.verify_message}; "
                "see tls.authority and tls.verify"
            ) from error
        except OSError as error:
            raise self._failed(error) from error
        return self._socket

    def send_stream(self, data: memoryview) -> None:
        """Send bytes over TCP, and wait until the receiver's system has acknowledged them."""
        connected = self.connect()
        try:
            connected.settimeout(self._endpoint.timeout)
            for first in range(0, len(data), _SEND_BYTES):
                connected.sendall(data[first : first + _SEND_BYTES])
            self._wait_until_acknowledged(connected)
            if _is_closed(connected):
                raise ConnectionResetError("it closed the connection")
        except OSError as error:
            self.close()
            raise self._failed(error) from error

    def send_datagrams(self, messages: list[bytes]) -> None:
        """Send a datagram for each message."""
        connected = self.connect()
        try:
            for message in messages:
                connected.send(message)
        except OSError as error:
            self.close()
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> socket.socket:
        if self._scheme == "udp":
            family, kind, protocol, _, target = socket.getaddrinfo(*self._target, type=socket.SOCK_DGRAM)[0]
            datagrams = socket.socket(family, kind, protocol)
            datagrams.connect(target)
            return datagrams
        connected = socket.create_connection(self._target, min(CONNECT_SECONDS, self._endpoint.timeout))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._scheme == "tcp":
            return connected
        try:
            return (self._endpoint.tls or ClientTls()).context().wrap_socket(connected, server_hostname=self._target[0])
        except BaseException:
            connected.close()
            raise

    def _wait_until_acknowledged(self, connected: socket.socket) -> None:
        """Wait until no sent byte is without TCP's acknowledgement. It may make no progress for the timeout."""
        left, since, pause = -1, time.monotonic(), 0.0002
        while waiting := _unacknowledged_bytes(connected):
            if waiting != left:
                left, since = waiting, time.monotonic()
            elif time.monotonic() - since > self._endpoint.timeout:
                raise TimeoutError(f"it acknowledged no byte for {self._endpoint.timeout:g} s")
            time.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE_SECONDS)

    def _failed(self, error: OSError) -> ConnectionError:
        cause = getattr(error, "reason", None) or error.strerror or str(error) or type(error).__name__
        return ConnectionError(f"{self._endpoint.address}: {cause}")


@cache
def shared_sender(endpoint: Endpoint) -> Sender:
    """Return this process's connection to a receiver."""
    return Sender(endpoint)


def _unacknowledged_bytes(connected: socket.socket) -> int:
    """Return the bytes of the send queue (SIOCOUTQ of Linux), which includes those that are sent and not acknowledged."""
    (count,) = struct.unpack("i", fcntl.ioctl(connected.fileno(), termios.TIOCOUTQ, bytes(4)))
    return int(count)


def _is_closed(connected: socket.socket) -> bool:
    """Return whether the receiver has closed the connection. What it sends is discarded: syslog has no answers."""
    connected.setblocking(False)
    try:
        while connected.recv(4096):
            pass
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    return True
