"""One connection to a name server or broker: requests are pipelined, answers arrive in any order."""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from connectors.rocketmq.protocol.codes import SUCCESS, to_exception
from connectors.rocketmq.protocol.frames import PREFIX, ProtocolError, Response, encode_request, parse_answer, parse_prefix
from connectors.rocketmq.protocol.signature import Credentials
from connectors.shared.deadline import DeadlineSocket
from connectors.shared.endpoint import host_and_port
from connectors.shared.tls import ClientTls
from etl.api import ComponentError

_BUFFER_BYTES = 1 << 18

_MIN_BYTES_PER_SECOND = 1 << 20
"""Minimum rate of a frame, added to the timeout: a large frame may take longer, and one that stalls is aborted."""

_IDLE_SECONDS = 60.0
"""After this time without an answer, a connection is not used again; servers close idle ones after twice the time."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Addresses and credentials. Hashable; its repr contains no password."""

    servers: tuple[str, ...]
    login: Credentials | None = None
    tls: ClientTls | None = None
    timeout: float = 10.0


class Connection:
    """A socket with numbered requests. Errors name host and port."""

    def __init__(self, address: str, settings: ConnectionSettings) -> None:
        self.address = address
        self._login = settings.login
        self._opaque = 0
        self._last_answer_at = time.monotonic()
        self._answers: dict[int, Response | None] = {}
        """Open requests by number, with answers that arrived before the caller waited for them."""
        self._timeout = settings.timeout
        self._socket = DeadlineSocket(self._run(lambda: _open_socket(address, settings)))
        self._stream = self._socket.makefile("rb", _BUFFER_BYTES)

    @property
    def is_stale(self) -> bool:
        """Return whether the server may have closed the connection: it was idle, or the server sent unrequested data."""
        return time.monotonic() - self._last_answer_at > _IDLE_SECONDS or bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        """Close the connection; never fails."""
        self._stream.close()
        self._socket.close()

    def __del__(self) -> None:
        """Close the connection when its last reference is gone, for example in a cache."""
        if hasattr(self, "_stream"):
            self.close()

    def send(self, code: int, fields: dict[str, str], body: bytes | memoryview = b"") -> int:
        """Send a request and return its number."""
        self._opaque += 1
        signed_fields = self._login.sign(fields, body) if self._login else fields
        frame = encode_request(code, self._opaque, signed_fields, body)
        self._socket.set_deadline(self._time_for(len(frame)))
        self._run(lambda: self._socket.sendall(frame))
        self._answers[self._opaque] = None
        return self._opaque

    def receive(self, opaque: int) -> Response:
        """Return the answer to a request."""
        while (answer := self._answers[opaque]) is None:
            self._socket.set_deadline(self._timeout)
            found = self._run(self._read_answer)
            if found is not None and found.opaque in self._answers:
                self._answers[found.opaque] = found
        del self._answers[opaque]
        self._last_answer_at = time.monotonic()
        return answer

    def call(
        self, code: int, fields: dict[str, str], body: bytes = b"", accepted_codes: Collection[int] = (SUCCESS,)
    ) -> Response:
        """Send a request and wait for the answer; raises if its code is not in ``accepted_codes``."""
        return self.check_answer(self.receive(self.send(code, fields, body)), accepted_codes)

    def check_answer(self, found: Response, accepted_codes: Collection[int] = (SUCCESS,)) -> Response:
        """Return the answer; raises if its code is not in ``accepted_codes``."""
        if found.code not in accepted_codes:
            raise to_exception(f"rocketmq {self.address}", found)
        return found

    def _read_answer(self) -> Response | None:
        head, body = parse_prefix(self._read(PREFIX.size))
        self._socket.set_deadline(self._time_for(head + body))
        return parse_answer(self._read(head), self._read(body))

    def _time_for(self, size: int) -> float:
        """Return the time limit for a frame of this size, in seconds."""
        return self._timeout + size / _MIN_BYTES_PER_SECOND

    def _read(self, count: int) -> bytes:
        data = self._stream.read(count)
        if data is None or len(data) < count:
            raise ConnectionError("the server closed the connection")
        return data

    def _run(self, work: Callable[[], T]) -> T:
        """Call ``work``; errors name the server, and their type says whether a retry may help."""
        try:
            return work()
        except ssl.SSLCertVerificationError as error:
            raise ComponentError(f"rocketmq {self.address}: its certificate is not accepted: {error.verify_message}") from error
        except TimeoutError as error:
            raise TimeoutError(f"rocketmq {self.address}: no answer in time") from error
        except ProtocolError as error:
            raise ProtocolError(f"rocketmq {self.address}: {error}") from error
        except OSError as error:
            raise ConnectionError(f"rocketmq {self.address}: {_reason(error)}") from error


def _open_socket(address: str, settings: ConnectionSettings) -> socket.socket:
    host, port = host_and_port(address)
    plain = socket.create_connection((host, port), settings.timeout)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if settings.tls is None:
        return plain
    try:
        return settings.tls.context().wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    return error.strerror or str(error) or type(error).__name__
