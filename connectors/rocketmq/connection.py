"""One connection to a name server or broker: requests go out, answers come back in any order."""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from connectors.deadline import DeadlineSocket
from connectors.rocketmq.codes import DONE, failure
from connectors.rocketmq.frames import PREFIX, Answer, ProtocolError, answer, lengths, request
from connectors.rocketmq.places import host_and_port
from connectors.rocketmq.signing import Login
from connectors.tls import ClientTls
from etl.api import ComponentError

_BUFFER = 1 << 18

_SLOWEST = 1 << 20
"""Bytes a second at which a frame may come or go beyond the timeout: a large one takes longer, and one that drips ends."""

_STALE_SECONDS = 60.0
"""Servers close connections that were silent for twice as long."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Access:
    """How servers are reached: hashable, with the password not in its text."""

    servers: tuple[str, ...]
    login: Login | None = None
    tls: ClientTls | None = None
    timeout: float = 10.0


class Connection:
    """A socket with its numbers of requests. Errors name host and port."""

    def __init__(self, place: str, access: Access) -> None:
        self.place = place
        self._login = access.login
        self._opaque = 0
        self._heard = time.monotonic()
        self._asked: dict[int, Answer | None] = {}
        """What is to be answered, with answers that came before the one that was waited for."""
        self._timeout = access.timeout
        self._socket = DeadlineSocket(self._said(lambda: _connected(place, access)))
        self._stream = self._socket.makefile("rb", _BUFFER)

    @property
    def stale(self) -> bool:
        """Whether the server may have ended it: for its silence, or because it says something that nobody asked for."""
        return time.monotonic() - self._heard > _STALE_SECONDS or bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        """Ends it; never fails."""
        self._stream.close()
        self._socket.close()

    def __del__(self) -> None:
        """Whoever forgets a connection, such as a cache, has closed it."""
        if hasattr(self, "_stream"):
            self.close()

    def send(self, code: int, fields: dict[str, str], body: bytes | memoryview = b"") -> int:
        """Ask, and get the number by which the answer will be known."""
        self._opaque += 1
        signed = self._login.signed(fields, body) if self._login else fields
        frame = request(code, self._opaque, signed, body)
        self._socket.set_deadline(self._seconds(len(frame)))
        self._said(lambda: self._socket.sendall(frame))
        self._asked[self._opaque] = None
        return self._opaque

    def receive(self, opaque: int) -> Answer:
        """The answer to a request."""
        while (wanted := self._asked[opaque]) is None:
            self._socket.set_deadline(self._timeout)
            found = self._said(self._next)
            if found is not None and found.opaque in self._asked:
                self._asked[found.opaque] = found
        del self._asked[opaque]
        self._heard = time.monotonic()
        return wanted

    def call(self, code: int, fields: dict[str, str], body: bytes = b"", fine: Collection[int] = (DONE,)) -> Answer:
        """Ask and wait; an answer whose code is not ``fine`` is an error."""
        return self.checked(self.receive(self.send(code, fields, body)), fine)

    def checked(self, found: Answer, fine: Collection[int] = (DONE,)) -> Answer:
        """The answer, when its code is one of those."""
        if found.code not in fine:
            raise failure(f"rocketmq {self.place}", found)
        return found

    def _next(self) -> Answer | None:
        head, body = lengths(self._read(PREFIX.size))
        self._socket.set_deadline(self._seconds(head + body))
        return answer(self._read(head), self._read(body))

    def _seconds(self, size: int) -> float:
        """How long so many bytes may take."""
        return self._timeout + size / _SLOWEST

    def _read(self, count: int) -> bytes:
        data = self._stream.read(count)
        if data is None or len(data) < count:
            raise ConnectionError("the server closed the connection")
        return data

    def _said(self, work: Callable[[], T]) -> T:
        """Do it; what goes wrong names the server, and says whether trying again makes sense."""
        try:
            return work()
        except ssl.SSLCertVerificationError as error:
            raise ComponentError(f"rocketmq {self.place}: its certificate is not accepted: {error.verify_message}") from error
        except TimeoutError as error:
            raise TimeoutError(f"rocketmq {self.place}: no answer in time") from error
        except ProtocolError as error:
            raise ProtocolError(f"rocketmq {self.place}: {error}") from error
        except OSError as error:
            raise ConnectionError(f"rocketmq {self.place}: {_reason(error)}") from error


def _connected(place: str, access: Access) -> socket.socket:
    host, port = host_and_port(place)
    plain = socket.create_connection((host, port), access.timeout)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if access.tls is None:
        return plain
    try:
        return access.tls.context().wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    return error.strerror or str(error) or type(error).__name__
