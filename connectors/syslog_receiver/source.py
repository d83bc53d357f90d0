"""The `syslog` source."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr

from connectors.journal.options import JournalOptions
from connectors.journal.positions import Position, latest
from connectors.journal.reader import Journal
from connectors.syslog_receiver.allow import problem
from connectors.syslog_receiver.batches import FIELDS, batches, members
from connectors.syslog_receiver.places import PLACE, PLACE_WORDS, Place
from connectors.syslog_receiver.terms import Terms
from connectors.syslog_receiver.tls import Tls
from etl.api import Finding, Limit, Offset, ReceivingSource, Rejects, Schema, Size, Split

if TYPE_CHECKING:
    from connectors.syslog_receiver.receiver import SyslogReceiver

_SMALLEST = 4 << 20
"""Bytes that are worth a split of their own."""


class SyslogSource(ReceivingSource):
    """Receive syslog over TCP, TLS, UDP and Unix sockets, a message an event.

    The text of a message is in ``message``, for the parser `syslog` or any other; ``log.source.address`` and
    ``log.source.port`` say who sent it (of a Unix socket: its path, and no port), ``event.created`` when it came.

    Messages of a connection are octet-counted when they begin with a count and a priority (RFC 6587, RFC 5425), and
    end at newlines otherwise; each says so itself. A newline, return or NUL at the end of a message is taken off, and
    an empty message is none. Bytes that are not in the character set become U+FFFD. A message that is too long
    (``message-too-long``, with its first 64 KiB; a datagram has at most 64 KiB) or that a connection did not finish
    (``message-cut-off``) is a dead letter.

    The driver listens and appends what comes to a journal on disk, from which events are read and which is deleted as
    they are delivered: exactly once from the journal on, across restarts and a kill of the process at any moment. What a
    sender must send again after a kill is what it had sent and the journal not yet got: syslog has no acknowledgement,
    so that is at most what fits into the system's buffers and five milliseconds. When the run is asked to end, what was
    sent before is still taken. While the pipeline is down nobody listens, and what UDP sends then is lost.

    When ``journal.max_bytes`` wait for their delivery, connections and Unix sockets wait, and so their senders;
    datagrams of UDP are dropped. Those, and the ones that the system dropped, are counted and told of as warnings.

    Messages of one connection stay in order. Parallelism: parts of the journal. Tested over every transport, and by killing
    runs under load. It runs on one host, and needs Linux for datagrams.

    ```yaml
    type: syslog
    listen: ["tcp://[::]:5514", "udp://[::]:5514"]
    ```
    """

    type: Literal["syslog"] = "syslog"
    listen: tuple[Annotated[str, Field(pattern=PLACE, json_schema_extra=PLACE_WORDS)], ...] = Field(
        description="Where to listen: tcp://host:port, udp://host:port, tls://host:port, unix:///path for connections to a "
        "Unix socket, unixgram:///path for datagrams; 0.0.0.0 and [::] are all addresses of this host.",
        min_length=1,
        examples=[["tcp://0.0.0.0:514", "udp://0.0.0.0:514", "tls://0.0.0.0:6514", "unixgram:///run/sluice.sock"]],
    )
    tls: Tls | None = Field(default=None, description="Certificates, for tls:// places.")
    allow: tuple[str, ...] = Field(
        default=(),
        description="Networks that may send, in CIDR notation; none listed means everybody.",
        examples=[["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]],
    )
    max_message_bytes: Size = Field(
        default=64 << 10, description="A longer message is a dead letter.", ge=1, le=16 << 20, examples=["256KiB"]
    )
    connections: int = Field(default=1000, description="Connections at a time; more are refused.", ge=1, le=100_000)
    receive_buffer: Size | None = Field(
        default=None,
        description="Bytes that the system may hold for a socket, which bridge what UDP sends while this process does "
        "something else; none means 16 MiB for udp, and the system's own way for others. Beyond net.core.rmem_max the "
        "system grants it to privileged processes only.",
        ge=4096,
        le=1 << 30,
        examples=["64MiB"],
    )
    permissions: str = Field(
        default="660",
        description="Who may write to a Unix socket, as chmod takes it.",
        pattern="^0?[0-7]{3}$",
        json_schema_extra={
            "patternErrorMessage": "does not say who may write: three digits from 0 to 7 in quotes, such as '660'"
        },
        examples=["666"],
    )
    charset: str = Field(default="utf-8", description="Character set of messages, by Python's name.", examples=["latin-1", "gbk"])
    journal: JournalOptions = Field(default=JournalOptions(), description="How messages are kept until they are delivered.")
    _folder: str = PrivateAttr(default="")

    def placed(self, folder: str) -> Self:
        """This source, with the folder of its journal."""
        copy = self.model_copy()
        copy._folder = folder
        return copy

    def exclusive(self) -> Iterable[str]:
        """The addresses; port 0 is any that is free."""
        return [place for place in self.listen if not place.endswith(":0")]

    def receiver(self) -> SyslogReceiver:
        """What listens, not yet started."""
        from connectors.syslog_receiver.receiver import SyslogReceiver

        terms = Terms(
            tuple(map(Place.of, self.listen)),
            self.max_message_bytes,
            self.connections,
            self.allow,
            self.receive_buffer,
            int(self.permissions, 8),
            self.tls,
            self.journal,
        )
        return SyslogReceiver(terms, self._folder)

    def check(self) -> Iterable[Finding]:
        """Ports, networks and character sets that there are not; TLS without a certificate, or for nothing."""
        for number, text in enumerate(self.listen):
            try:
                Place.of(text)
            except ValueError as error:
                yield Finding("bad-port", str(error), ("listen", number))
            if text in self.listen[:number]:
                yield Finding("duplicate-place", f"{text} is listed twice", ("listen", number))
            if text.startswith("tls:") and self.tls is None:
                yield Finding("no-certificate", f"{text} needs a certificate", ("listen", number), "add tls: {certificate: …}")
        if self.tls and not any(text.startswith("tls:") for text in self.listen):
            yield Finding("tls-unused", "tls is set, and no place to listen begins with tls://", ("tls",), severity="warning")
        for number, network in enumerate(self.allow):
            if said := problem(network):
                yield Finding("bad-network", said, ("allow", number), "networks look like 10.0.0.0/8 or 2001:db8::/32")
        yield from self._charset_findings()

    def fields(self) -> Schema:
        """The text, who sent it, and when it came."""
        return FIELDS

    def start(self) -> Offset:
        """At what is kept."""
        return Position(Journal(self._folder).first).offset()

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Up to the last message in the journal, or as far as the limit allows."""
        journal, begin = Journal(self._folder), Position.of(start)
        return latest(journal, begin, limit, members).offset()

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Equal parts that end where records of the journal do."""
        first, last = Position.of(start), Position.of(end)
        parts = Journal(self._folder).cuts(first.record, last.at, parallelism, _SMALLEST)
        return [Split("syslog", max(a, first.at), b, a) for a, b in parts]

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Batches of about 4 MiB."""
        return batches(Journal(self._folder), split.detail, split.start, split.end, codecs.lookup(self.charset).name)

    def commit(self, ends: Sequence[Offset]) -> None:
        """Delete segments that are delivered."""
        Journal(self._folder).forget(min(Position.of(end).record for end in ends))

    def _charset_findings(self) -> Iterator[Finding]:
        try:
            codecs.lookup(self.charset)
        except LookupError:
            yield Finding("unknown-charset", f"{self.charset!r} is no character set that Python knows", ("charset",))
