"""The receiver of the source: opens sockets and journal, and serves requests until it is stopped."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from connectors.http.receiving.app import ReceiverApp, RequestLimits
from connectors.http.receiving.requests import RequestProtocol
from connectors.http.receiving.server import Admission, HttpServer, ListenSocket
from connectors.http.receiving.tokens import Tokens
from connectors.shared.journal.group_commit import GroupCommit
from connectors.shared.journal.options import JournalOptions
from connectors.shared.journal.writer import JournalWriter
from connectors.shared.receiving.allowed_networks import AllowedNetworks
from connectors.shared.receiving.file_limit import raise_file_limit
from connectors.shared.receiving.receive_counters import ReceiveCounters
from connectors.shared.receiving.server_tls import ServerTls
from connectors.shared.receiving.tcp_address import TcpAddress

_BACKLOG = 4096

_MESSAGES = {"too-many": "connections were closed or refused because the limit of connections was reached"}
"""A new connection takes the place of the one that has waited longest, if there is one."""


@dataclass(frozen=True)
class ReceiverOptions:
    """What a receiver needs to know."""

    addresses: tuple[TcpAddress, ...]
    protocol: RequestProtocol
    tokens: tuple[str, ...]
    limits: RequestLimits
    connections: int
    allow: tuple[str, ...]
    tls: ServerTls | None
    journal: JournalOptions


class HttpReceiver:
    """Receives from `start` to `stop`, and writes the journal of a folder."""

    def __init__(self, options: ReceiverOptions, folder: str) -> None:
        self._options, self._folder = options, folder
        self.counters = ReceiveCounters("http", _MESSAGES)
        self.ports: list[int] = []
        """Ports of the addresses, in their order."""
        self._closing = ExitStack()

    def start(self) -> None:
        """Open the sockets. Raises ComponentError if one cannot be opened."""
        options = self._options
        tls = options.tls.context("http") if options.tls else None
        raise_file_limit(options.connections)
        with ExitStack() as stack:
            sockets = [
                ListenSocket(address.open("http", _BACKLOG, stack), tls if address.is_encrypted else None)
                for address in options.addresses
            ]
            self.ports = [one.sock.getsockname()[1] for one in sockets]
            journal = JournalWriter(self._folder, options.journal)
            stack.callback(journal.close)
            commits = GroupCommit(journal)
            stack.callback(commits.close)
            app = ReceiverApp(options.protocol, Tokens(options.tokens), options.limits, commits, self.counters)
            stack.callback(app.close)
            admission = Admission(AllowedNetworks(options.allow), options.connections, self.counters)
            stack.callback(HttpServer(app, sockets, admission).stop)
            self._closing = stack.pop_all()

    def stop(self) -> None:
        """Answer the requests that have begun, and close everything."""
        self._closing.close()
        self.counters.log_new()

    def dropped(self) -> Mapping[str, int]:
        """Return nothing: what is not acknowledged stays with its sender."""
        return {}
