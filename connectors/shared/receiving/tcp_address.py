"""Addresses that receivers listen at, such as ``tls://[::]:24224``: their checks and their sockets."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from connectors.shared.receiving.allowed_networks import network_error
from connectors.shared.receiving.server_tls import ServerTls
from etl.api import ComponentError, Finding

_ADDRESS = re.compile(r"(?P<scheme>[a-z]+)://\[?(?P<host>[^\]]+?)\]?:(?P<port>\d+)")


class TcpAddress(NamedTuple):
    """An address to listen at."""

    text: str
    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> TcpAddress:
        """Parse a text that matches the pattern of its option. Raises ValueError for an impossible port."""
        found = _ADDRESS.fullmatch(text)
        assert found  # the schema has checked it
        return cls(text, found["scheme"], found["host"], check_port(int(found["port"])))

    @property
    def is_encrypted(self) -> bool:
        """Whether senders speak TLS."""
        return self.scheme in ("tls", "https")

    def open(self, owner: str, backlog: int, stack: ExitStack) -> socket.socket:
        """Open a listening socket, which the stack closes. Raises ComponentError that begins with the type of the source."""
        try:
            family, kind, _, _, name = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
                0
            ]
            sock = stack.enter_context(socket.socket(family, kind))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(name)
            sock.listen(backlog)
            sock.setblocking(False)
            return sock
        except OSError as error:
            hint = "; ports below 1024 need privileges" if isinstance(error, PermissionError) else ""
            raise ComponentError(f"{owner}: cannot listen at {self.text}: {error.strerror or error}{hint}") from error


def check_port(port: int) -> int:
    """Return the port. Raises ValueError if there is none with this number."""
    if port > 0xFFFF:
        raise ValueError(f"{port} is not a port: write 0 to 65535; 0 is any free port")
    return port


def check_listen_options(
    listen: Sequence[str],
    allow: Sequence[str],
    tls: ServerTls | None,
    encrypted: str = "tls",
    parse: Callable[[str], object] = TcpAddress.parse,
) -> Iterator[Finding]:
    """Check ports and networks, and that certificates are set exactly if an address has the encrypted scheme."""
    for number, text in enumerate(listen):
        try:
            parse(text)
        except ValueError as error:
            yield Finding("bad-port", str(error), ("listen", number))
        if text in listen[:number]:
            yield Finding("duplicate-place", f"{text} is listed twice", ("listen", number))
        if text.startswith(f"{encrypted}:") and tls is None:
            yield Finding("no-certificate", f"{text} needs a certificate", ("listen", number), "add tls: {certificate: …}")
    if tls and not any(text.startswith(f"{encrypted}:") for text in listen):
        yield Finding("tls-unused", f"tls is set, but no address begins with {encrypted}://", ("tls",), severity="warning")
    for number, network in enumerate(allow):
        if problem := network_error(network):
            yield Finding("bad-network", problem, ("allow", number), "networks look like 10.0.0.0/8 or 2001:db8::/32")
