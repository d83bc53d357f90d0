"""A connection to a broker: one thread sends and receives, without blocking, so that neither waits for the other."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeAlias

from connectors.mqtt.connection_options import ConnectionSettings
from connectors.mqtt.packets import (
    GOODBYE,
    PING,
    REASON_TEXT,
    Login,
    ProtocolError,
    Welcome,
    encode_connect,
    packet_length,
    parse_welcome,
)
from connectors.mqtt.reasons import TEMPORARY, connect_code, reason_of
from etl.api import ComponentError

READ_BYTES = 1 << 20
"""Bytes that are read at a time."""

_LOOK_SECONDS = 0.25
"""Seconds between two looks whether the run ends."""

_QUICK_ACK = getattr(socket, "TCP_QUICKACK", None)
"""Option of Linux: a broker with Nagle's algorithm, as Mosquitto is by default, sends its next small packet when the one before
is acknowledged, which the system puts off for up to 40 ms. It holds for the packets that have arrived only."""

_SEND_BYTES = 256 << 10
_RECEIVE_BUFFER_BYTES = 4 << 20
_MAX_HANDSHAKE_BYTES = 1 << 20


class RefusedError(ComponentError):
    """The broker refuses the login for good."""


class Connection:
    """An open connection. Its errors are OSErrors that name the broker."""

    def __init__(self, sock: socket.socket, address: tuple[str, int], keep_alive: int) -> None:
        self.sock, self.address, self._keep_alive = sock, address, keep_alive
        self.name = f"{address[0]}:{address[1]}"
        self._outbox: list[memoryview] = []
        self._sent_at = self._received_at = time.monotonic()
        self._pinged_at = 0.0

    def send(self, data: bytes | memoryview) -> None:
        """Send data with the next rounds."""
        if len(data):
            self._outbox.append(memoryview(data))

    @property
    def has_unsent(self) -> bool:
        """Whether data waits to be sent."""
        return bool(self._outbox)

    def round(self, seconds: float, *, reads: bool = True, wake: Sequence[int] = ()) -> bytes:
        """Wait until data can be sent or has arrived, or a file of ``wake`` is readable; return what has arrived.

        Raises ConnectionError if the broker has closed the connection, TimeoutError if it is silent for too long.
        """
        self._keep_open(reads)
        if not (reads and self._pending()):
            readers: list[Any] = [*([self.sock] if reads else []), *wake]
            select.select(readers, [self.sock] if self._outbox else [], [], seconds)
        self._write()
        return self._read() if reads else b""

    def close(self) -> None:
        """Say goodbye if that does not block, and close. Never fails."""
        try:
            self._outbox.append(memoryview(GOODBYE))
            self._write()
        except OSError:
            pass
        self.abort()

    def abort(self) -> None:
        """Close without a word: what the broker does not have, it does not get."""
        self.sock.close()

    def _keep_open(self, reads: bool) -> None:
        now = time.monotonic()
        if now - max(self._sent_at, self._pinged_at) > self._keep_alive / 2 and not self._outbox:
            self._outbox.append(memoryview(PING))
            self._pinged_at = now
        if not reads:
            self._received_at = now
        elif now - self._received_at > self._keep_alive * 1.5:
            raise TimeoutError(f"mqtt: {self.name} has sent nothing for {self._keep_alive * 1.5:.0f} s (keep_alive)")

    def _pending(self) -> bool:
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0

    def _write(self) -> None:
        while self._outbox:
            first = self._outbox[0]
            try:
                sent = self.sock.send(first[:_SEND_BYTES])
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError as error:
                raise ConnectionError(f"mqtt: the connection to {self.name} is lost: {_reason(error)}") from error
            self._sent_at = time.monotonic()
            if sent < len(first):
                self._outbox[0] = first[sent:]
            else:
                self._outbox.pop(0)

    def _read(self) -> bytes:
        try:
            data = self.sock.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return b""
        except OSError as error:
            raise ConnectionError(f"mqtt: the connection to {self.name} is lost: {_reason(error)}") from error
        if not data:
            raise ConnectionError(f"mqtt: {self.name} has closed the connection")
        self._received_at = time.monotonic()
        if _QUICK_ACK is not None:
            with suppress(OSError):  # the broker has reset the connection: the next read says so
                self.sock.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)
        return data


NEVER = threading.Event()
"""An event that nobody sets."""

Answer: TypeAlias = "tuple[Connection, Welcome, bytes]"
"""A connection, the broker's answer to the login, and what has arrived after it."""


def connect_until(stopping: threading.Event, settings: ConnectionSettings, login: Login) -> Answer | None:
    """`connect` in a thread of its own, which is given up when ``stopping`` is set; returns None then.

    Names, TCP and TLS can be waited for only as long as they take. A thread that is given up does not log in any more.
    """
    task: Future[Answer] = Future()

    def work() -> None:
        try:
            answer = connect(settings, login, stopping)
        except BaseException as error:
            with suppress(InvalidStateError):
                task.set_exception(error)
            return
        try:
            task.set_result(answer)
        except InvalidStateError:  # given up
            answer[0].abort()

    threading.Thread(target=copy_context().run, args=(work,), name="mqtt connect", daemon=True).start()
    while not wait([task], _LOOK_SECONDS).done:
        if stopping.is_set() and task.cancel():
            return None
    return None if stopping.is_set() and task.exception() else task.result()


def connect(settings: ConnectionSettings, login: Login, stopping: threading.Event = NEVER) -> Answer:
    """Connect to the first broker that answers; return its answer, and what has arrived after it.

    Raises OSError if none answers, or when ``stopping`` is set, RefusedError if one refuses the login for good.
    """
    problems: list[str] = []
    for address in settings.servers:
        try:
            return _connect_to(address, settings, login, stopping)
        except OSError as error:
            problems.append(str(error))
    raise ConnectionError("; ".join(problems))


def _connect_to(address: tuple[str, int], settings: ConnectionSettings, login: Login, stopping: threading.Event) -> Answer:
    connection = Connection(_open(address, settings), address, settings.keep_alive)
    try:
        if not stopping.is_set():
            connection.send(encode_connect(login))
        packet, rest = _first_packet(connection, settings.timeout, stopping)
        welcome = parse_welcome(packet, login.is_version_5)
    except ProtocolError as error:
        connection.abort()
        raise ConnectionError(f"mqtt: {connection.name}: {error}") from error
    except BaseException:
        connection.abort()
        raise
    code = connect_code(welcome.code, login.is_version_5)
    if code:
        connection.abort()
        message = f"mqtt: {connection.name} refuses the connection: {reason_of(code, welcome.properties.get(REASON_TEXT))}"
        raise ConnectionError(message) if code in TEMPORARY else RefusedError(message)
    return connection, welcome, rest


def _first_packet(connection: Connection, timeout: float, stopping: threading.Event) -> tuple[bytes, bytes]:
    until, data = time.monotonic() + timeout, b""
    while (size := packet_length(data)) is None or len(data) < size:
        if len(data) > _MAX_HANDSHAKE_BYTES or (data and data[0] >> 4 != 2):
            raise ProtocolError("its first packet is not CONNACK: is this an MQTT broker?")
        left = until - time.monotonic()
        if stopping.is_set():
            raise ConnectionError(f"mqtt: {connection.name} has not answered before the end of the run")
        if left <= 0:
            raise TimeoutError(
                f"mqtt: {connection.name} has accepted the connection, but does not answer: is this an MQTT broker?"
            )
        data += connection.round(min(left, _LOOK_SECONDS))
    return data[:size], data[size:]


def _open(address: tuple[str, int], settings: ConnectionSettings) -> socket.socket:
    name = f"{address[0]}:{address[1]}"
    context = settings.tls.context() if settings.tls else None
    try:
        sock = socket.create_connection(address, settings.timeout)
    except OSError as error:
        raise ConnectionError(f"mqtt: no connection to {name}: {_reason(error)}") from error
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname=address[0])
        sock.setblocking(False)
    except ssl.SSLCertVerificationError as error:
        sock.close()
        raise ComponentError(f"mqtt: the certificate of {name} is not accepted: {error.verify_message}") from error
    except OSError as error:
        sock.close()
        raise ConnectionError(f"mqtt: no TLS with {name}: {_reason(error)}") from error
    return sock


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    return error.strerror or str(error) or type(error).__name__
