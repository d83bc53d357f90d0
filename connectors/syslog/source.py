"""The `syslog` source."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import pyarrow as pa
from pydantic import Field

from connectors.shared.journal.batches import FIELDS, read_blocks, text_batches
from connectors.shared.journal.options import JournalOptions
from connectors.shared.journal.reader import Journal
from connectors.shared.journal.source import JournalSource
from connectors.shared.receiving.server_tls import ServerTls
from connectors.shared.receiving.tcp_address import check_listen_options
from connectors.syslog.listen_address import ADDRESS_PATTERN, ADDRESS_PATTERN_ERROR, ListenAddress
from etl.api import Finding, Rejects, Schema, Size

if TYPE_CHECKING:
    from connectors.syslog.receiver import SyslogReceiver

_REASONS = {
    "message-too-long": "the message has at least {size} bytes, more than max_message_bytes or the longest datagram",
    "message-cut-off": "the connection ended within a message: {kept} of {size} bytes arrived",
}
"""Reasons of rejects, by code."""


class SyslogSource(JournalSource):
    """Receive syslog over TCP, TLS, UDP and Unix sockets, one event a message.

    The text of a message is in ``message``, for the parser `syslog` or any other; ``log.source.address`` and
    ``log.source.port`` are the sender (for a Unix socket its path, and no port), ``event.created`` is the time of arrival.

    A message of a connection is octet-counted if it begins with a count and a priority (RFC 6587, RFC 5425), and ends at
    a newline otherwise. Newline, return and NUL at the end of a message are removed, and empty messages are ignored.
    Bytes that are not in the character set become U+FFFD. A message that is too long (``message-too-long``, with its
    first 64 KiB; a datagram has at most 64 KiB) or incomplete at the end of its connection (``message-cut-off``) is a
    dead letter.

    The driver listens and appends messages to a journal on disk. Splits read the journal, and delivered parts of it are
    deleted: exactly once from the journal on, across restarts and a kill of the process at any moment. Messages sent but
    not yet in the journal when the process is killed are lost unless the sender sends them again: syslog has no
    acknowledgement, so these are at most the system's buffers and five milliseconds. When a run is stopped, messages
    sent before are still received. While the pipeline is down, it does not listen, and UDP messages are lost.

    When ``journal.max_bytes`` wait for delivery, connections and Unix sockets are not read, so their senders wait; UDP
    datagrams are dropped. Warnings report how many were dropped, by the pipeline and by the system.

    Messages of one connection keep their order. Parallelism: parts of the journal. Tested over every transport, and by
    killing runs under load. It runs on one host, and needs Linux for datagrams.

    ```yaml
    type: syslog
    listen: ["tcp://[::]:5514", "udp://[::]:5514"]
    ```
    """

    type: Literal["syslog"] = "syslog"
    listen: tuple[Annotated[str, Field(pattern=ADDRESS_PATTERN, json_schema_extra=ADDRESS_PATTERN_ERROR)], ...] = Field(
        description="Where to listen: tcp://host:port, udp://host:port, tls://host:port, unix:///path for connections to a "
        "Unix socket, unixgram:///path for datagrams; 0.0.0.0 and [::] are all addresses of this host.",
        min_length=1,
        examples=[["tcp://0.0.0.0:514", "udp://0.0.0.0:514", "tls://0.0.0.0:6514", "unixgram:///run/sluice.sock"]],
    )
    tls: ServerTls | None = Field(default=None, description="Certificates, for tls:// addresses.")
    allow: tuple[str, ...] = Field(
        default=(),
        description="Networks that may send, in CIDR notation; without it all may send.",
        examples=[["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]],
    )
    max_message_bytes: Size = Field(
        default=64 << 10, description="A longer message is a dead letter.", ge=1, le=16 << 20, examples=["256KiB"]
    )
    connections: int = Field(default=1000, description="Maximum number of open connections; more are refused.", ge=1, le=100_000)
    receive_buffer: Size | None = Field(
        default=None,
        description="Receive buffer of a socket, which holds UDP messages while this process does something else; default "
        "16 MiB for udp, the system's default for others. Only privileged processes get more than "
        "net.core.rmem_max.",
        ge=4096,
        le=1 << 30,
        examples=["64MiB"],
    )
    permissions: str = Field(
        default="660",
        description="Permissions of a Unix socket, in chmod's octal notation.",
        pattern="^0?[0-7]{3}$",
        json_schema_extra={"patternErrorMessage": "is not a permission: write three digits from 0 to 7 in quotes, such as '660'"},
        examples=["666"],
    )
    charset: str = Field(default="utf-8", description="Character set of messages, by Python's name.", examples=["latin-1", "gbk"])
    journal: JournalOptions = Field(default=JournalOptions(), description="How messages are stored until they are delivered.")

    def exclusive(self) -> Iterable[str]:
        """Return the addresses; port 0 is any free port."""
        return [address for address in self.listen if not address.endswith(":0")]

    def receiver(self) -> SyslogReceiver:
        """Return the receiver, not yet started."""
        from connectors.syslog.receiver import ReceiverOptions, SyslogReceiver

        options = ReceiverOptions(
            tuple(map(ListenAddress.parse, self.listen)),
            self.max_message_bytes,
            self.connections,
            self.allow,
            self.receive_buffer,
            int(self.permissions, 8),
            self.tls,
            self.journal,
        )
        return SyslogReceiver(options, self._folder)

    def check(self) -> Iterable[Finding]:
        """Check ports, networks and the character set, and that certificates are set exactly if TLS is used."""
        yield from check_listen_options(self.listen, self.allow, self.tls, parse=ListenAddress.parse)
        yield from self._check_charset()

    def fields(self) -> Schema:
        """Return the message, its sender, and its time of arrival."""
        return FIELDS

    def read_range(self, journal: Journal, record: int, start: int, end: int) -> Iterator[pa.RecordBatch | Rejects]:
        """Read batches of about 4 MiB."""
        return read_batches(journal, record, start, end, codecs.lookup(self.charset).name)

    def _check_charset(self) -> Iterator[Finding]:
        try:
            codecs.lookup(self.charset)
        except LookupError:
            yield Finding("unknown-charset", f"{self.charset!r} is not a character set of Python", ("charset",))


def read_batches(journal: Journal, record: int, start: int, end: int, codec: str) -> Iterator[pa.RecordBatch | Rejects]:
    """Yield the messages at positions from ``start`` to ``end``; ``record`` is the begin of a record, at or before ``start``."""
    return read_blocks(journal, record, start, end, FIELDS, text_batches(codec), _REASONS)
