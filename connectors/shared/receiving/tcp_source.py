"""Options and checks that sources over TCP with acknowledgements share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from connectors.shared.journal.options import AcknowledgedJournalOptions
from connectors.shared.journal.source import JournalSource
from connectors.shared.receiving.server_tls import ServerTls
from connectors.shared.receiving.tcp_address import TcpAddress, check_listen_options
from etl.api import Finding, Size

if TYPE_CHECKING:
    from connectors.shared.receiving.tcp_server import TcpOptions

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
    connections: int = Field(
        default=1000,
        description="Maximum number of open connections; a further one takes the place of that silent for longest, after 10 s.",
        ge=1,
        le=100_000,
    )
    journal: AcknowledgedJournalOptions = Field(
        default=AcknowledgedJournalOptions(), description="How events are stored until they are delivered."
    )

    def exclusive(self) -> Iterable[str]:
        """Return the addresses; port 0 is any free port."""
        return [f"tcp://{address.partition('://')[2]}" for address in self.listen if not address.endswith(":0")]

    def check(self) -> Iterable[Finding]:
        """Check ports and networks, and that certificates are set exactly if TLS is used."""
        yield from check_listen_options(self.listen, self.allow, self.tls)

    def tcp_options(self) -> TcpOptions:
        """Return the options of the receiver."""
        from connectors.shared.receiving.tcp_server import TcpOptions

        addresses = tuple(map(TcpAddress.parse, self.listen))
        return TcpOptions(self.type, addresses, self.connections, self.allow, self.tls, self.journal)
