"""Options and checks that sources over TCP with acknowledgements share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from connectors.shared.journal.options import AcknowledgedJournalOptions
from connectors.shared.journal.source import JournalSource
from connectors.shared.receiving.allowed_networks import network_error
from connectors.shared.receiving.server_tls import ServerTls
from etl.api import Finding, Size

if TYPE_CHECKING:
    from connectors.shared.receiving.tcp_server import TcpAddress, TcpOptions

_ADDRESS = re.compile(r"(?P<scheme>tcp|tls)://\[?(?P<host>[^\]]+?)\]?:(?P<port>\d+)")
_PATTERN = r"^(?:tcp|tls)://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.\-]+):[0-9]{1,5}$"
_PATTERN_ERROR = {"patternErrorMessage": "is not an address to listen at: write tcp://[::]:24224 or tls://[::]:24224"}


class TcpSource(JournalSource):
    """A source that listens at TCP addresses."""

    listen: tuple[Annotated[str, Field(pattern=_PATTERN, json_schema_extra=_PATTERN_ERROR)], ...] = Field(
        description="Where to listen: tcp://host:port or tls://host:port; 0.0.0.0 and [::] are all addresses of this host.",
        min_length=1,
        examples=[["tcp://[::]:24224"]],
    )
    tls: ServerTls | None = Field(default=None, description="Certificates, for tls:// addresses.")
    allow: tuple[str, ...] = Field(
        default=(),
        description="Networks that may send, in CIDR notation; without it all may send.",
        examples=[["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]],
    )
    max_message_bytes: Size = Field(
        default=16 << 20,
        description="A connection that sends a larger message, after decompression, ends.",
        ge=1,
        le=256 << 20,
        examples=["64MiB"],
    )
    connections: int = Field(default=1000, description="Maximum number of open connections; more are closed.", ge=1, le=100_000)
    journal: AcknowledgedJournalOptions = Field(
        default=AcknowledgedJournalOptions(), description="How events are stored until they are delivered."
    )

    def exclusive(self) -> Iterable[str]:
        """Return the addresses; port 0 is any free port."""
        return [f"tcp://{address.partition('://')[2]}" for address in self.listen if not address.endswith(":0")]

    def check(self) -> Iterable[Finding]:
        """Check ports and networks, and that certificates are set exactly if TLS is used."""
        for number, text in enumerate(self.listen):
            found = _ADDRESS.fullmatch(text)
            if found and int(found["port"]) > 0xFFFF:
                message = f"{found['port']} is not a port: write 0 to 65535; 0 is any free port"
                yield Finding("bad-port", message, ("listen", number))
            if text in self.listen[:number]:
                yield Finding("duplicate-place", f"{text} is listed twice", ("listen", number))
            if text.startswith("tls:") and self.tls is None:
                yield Finding("no-certificate", f"{text} needs a certificate", ("listen", number), "add tls: {certificate: …}")
        if self.tls and not any(text.startswith("tls:") for text in self.listen):
            yield Finding("tls-unused", "tls is set, but no address begins with tls://", ("tls",), severity="warning")
        for number, network in enumerate(self.allow):
            if problem := network_error(network):
                yield Finding("bad-network", problem, ("allow", number), "networks look like 10.0.0.0/8 or 2001:db8::/32")

    def tcp_options(self) -> TcpOptions:
        """Return the options of the receiver."""
        from connectors.shared.receiving.tcp_server import TcpOptions

        return TcpOptions(self.type, tuple(self._addresses()), self.connections, self.allow, self.tls, self.journal)

    def _addresses(self) -> Iterator[TcpAddress]:
        from connectors.shared.receiving.tcp_server import TcpAddress

        for text in self.listen:
            found = _ADDRESS.fullmatch(text)
            assert found  # the schema has checked it
            yield TcpAddress(text, found["host"], int(found["port"]), found["scheme"] == "tls")
