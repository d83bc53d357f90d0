"""The ``syslog`` sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from connectors.shared.text_template import TextTemplate, check_fields, check_templates, check_time_field
from connectors.shared.tls import ClientTls
from connectors.syslog.message_encoding import FACILITIES, SEVERITIES, Format, MessageEncoding
from etl.api import Batching, Duration, FieldName, Finding, Guarantee, Schema, Sink, Size, Task, visible

if TYPE_CHECKING:
    from connectors.syslog.sender import Endpoint
    from connectors.syslog.writer import SyslogWriter

MAX_DATAGRAM_BYTES = 65_507
"""Largest payload of a UDP datagram."""

_ADDRESS = r"^(?:tcp|udp|tls)://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.\-]+):[0-9]{1,5}$"
_ADDRESS_ERROR = "is not the address of a receiver: write tcp://host:514, udp://host:514 or tls://host:6514"

_TEMPLATES = ("facility", "severity", "host", "app_name", "process_id", "message_id")

ElementId = Annotated[str, Field(pattern=r"^[!#-<>-\\^-~]{1,32}$")]


class SyslogSink(Sink):
    """Send events to a syslog receiver over TCP, TLS or UDP, one message an event.

    At least once over TCP and TLS, as far as syslog allows: a batch counts as delivered when the receiver's system has
    acknowledged its bytes, and is sent again after a lost connection or a kill. Syslog itself has no acknowledgement: what
    the receiver's system has and its process has not read is lost if that process is killed. Over UDP there is no
    guarantee: datagrams are lost where a receiver is slow or absent. Events of one split are sent in order; splits are
    sent in parallel, each process over its own connection.

    A message of RFC 5424 has the time in UTC with microseconds; one of RFC 3164 has it in UTC with seconds, without year and
    zone. An event without a time gets that of sending. Its text is the object of all fields as JSON, or the value of
    ``value_field``. ``facility``, ``severity``, ``host``, ``app_name``, ``process_id`` and ``message_id`` are texts in which
    ``{field}`` is replaced by the value of a field. Facilities and severities are names or numbers; an unknown one is
    ``user`` or ``info``. In header words other characters than visible ASCII become ``_``, and longer words than the RFC
    allows are cut.

    Newlines and other control characters except the tab become ``#`` and three octal digits (``#012`` is a newline), so a
    value cannot begin a message of its own. A message longer than ``max_message_bytes`` is a dead letter
    (``event-too-large``).

    Tested against the source ``syslog`` over TCP, TLS and UDP, and with receivers that close connections. It needs Linux
    for TCP.

    ```yaml
    type: syslog
    address: tls://logs.example.org:6514
    app_name: sluice
    ```
    """

    type: Literal["syslog"] = "syslog"
    address: str = Field(
        pattern=_ADDRESS,
        json_schema_extra={"patternErrorMessage": _ADDRESS_ERROR},
        description="The receiver: tcp://host:port, tls://host:port or udp://host:port.",
        examples=["tcp://logs.example.org:514", "tls://logs.example.org:6514", "udp://[2001:db8::7]:514"],
    )
    tls: ClientTls | None = Field(default=None, description="Certificates, for tls:// addresses.")
    format: Format = Field(default="rfc5424", description="Form of the messages; rfc3164 is the older one.")
    framing: Literal["octet_counting", "newline"] = Field(
        default="octet_counting",
        description="How messages of a connection are separated: each by its length (RFC 6587, RFC 5425), or by a newline; "
        "a datagram is always one message.",
    )
    facility: str = Field(default="user", description="Facility; `{field}` is replaced.", examples=["local0"])
    severity: str = Field(default="info", description="Severity; `{field}` is replaced.", examples=["{log.level}"])
    host: str | None = Field(
        default=None,
        description="Host of the messages; `{field}` is replaced. Without a value it is this machine's name.",
        examples=["{host.name}"],
    )
    app_name: str = Field(default="sluice", description="Name of the application; `{field}` is replaced.")
    process_id: str | None = Field(
        default=None, description="Process of the application; `{field}` is replaced.", examples=["{process.pid}"]
    )
    message_id: str | None = Field(
        default=None, description="Kind of the message (MSGID), for rfc5424; `{field}` is replaced.", examples=["{event.code}"]
    )
    structured_data: dict[ElementId, tuple[FieldName, ...]] = Field(
        default={},
        description="Fields of each structured data element, by its identifier, for rfc5424.",
        examples=[{"event@32473": ["user.name", "source.ip"]}],
    )
    value_field: FieldName | None = Field(
        default=None, description="Field whose value is the text, instead of all fields as JSON.", examples=["message"]
    )
    time_field: FieldName | None = Field(
        default=None, description="Timestamp that is the message's time; without it the field `timestamp`."
    )
    max_message_bytes: Size = Field(
        default=MAX_DATAGRAM_BYTES, description="A longer message is a dead letter.", ge=480, le=16 << 20, examples=["8KiB"]
    )
    timeout: Duration = Field(
        default=timedelta(seconds=60), description="How long the receiver may accept nothing.", gt=timedelta(0)
    )
    batch: Batching = Field(
        default=Batching(max_events=1000, max_bytes=1_000_000), description="When buffered events are written."
    )

    guarantee: ClassVar[Guarantee] = "at least once"

    def guaranteed(self) -> Guarantee:
        """Return the guarantee; UDP has none."""
        return "none" if self._is_udp else self.guarantee

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Check the port, names of facility and severity, that fields exist, and that options have an effect."""
        known = visible(incoming)
        yield from self._check_address()
        yield from self._check_unused()
        for name, codes in (("facility", FACILITIES), ("severity", SEVERITIES)):
            given = getattr(self, name)
            if TextTemplate.parse(given).is_constant and given.lower() not in codes:
                names = ", ".join(one for one in codes if not one.isdigit())
                yield Finding("invalid-value", f"{given!r} is not a {name}", (name,), f"one of: {names}")
        yield from check_templates({(name,): getattr(self, name) for name in _TEMPLATES}, known)
        for name, fields in self.structured_data.items():
            yield from check_fields([(("structured_data", name, at), field) for at, field in enumerate(fields)], known)
        yield from check_fields([(("value_field",), self.value_field)], known)
        yield from check_time_field(self.time_field, known)

    def writes(self) -> Iterable[str]:
        """Return the address."""
        return [self.address]

    def probe(self, incoming: Schema) -> Iterable[Finding]:
        """Check that the receiver accepts a connection, and TLS works."""
        from connectors.syslog.sender import Sender

        sender = Sender(self._endpoint())
        sender.connect()
        sender.close()
        return ()

    def open(self, task: Task) -> SyslogWriter:
        """Return a writer that uses this process's connection."""
        from connectors.syslog.sender import shared_sender
        from connectors.syslog.writer import SyslogWriter

        templates = {name: TextTemplate.parse(getattr(self, name) or "") for name in _TEMPLATES}
        encoding = MessageEncoding(
            format=self.format,
            structured_data=self.structured_data,
            value_field=self.value_field,
            time_field=self.time_field,
            **templates,
        )
        limit = min(self.max_message_bytes, MAX_DATAGRAM_BYTES) if self._is_udp else self.max_message_bytes
        framing = "datagram" if self._is_udp else self.framing
        return SyslogWriter(shared_sender(self._endpoint()), encoding, framing, limit)

    @property
    def _is_udp(self) -> bool:
        return self.address.startswith("udp:")

    def _endpoint(self) -> Endpoint:
        from connectors.syslog.sender import Endpoint

        return Endpoint(self.address, self.tls, self.timeout.total_seconds())

    def _check_address(self) -> Iterator[Finding]:
        port = int(self.address.rpartition(":")[2])
        if not 0 < port <= 0xFFFF:
            yield Finding("bad-port", f"{port} is not a port: write 1 to 65535", ("address",))
        if self.tls is not None:
            yield from self.tls.check("tls")
            if not self.address.startswith("tls:"):
                yield Finding(
                    "tls-unused", "tls is set, but the address does not begin with tls://", ("tls",), severity="warning"
                )

    def _check_unused(self) -> Iterator[Finding]:
        if self._is_udp and self.framing == "newline":
            yield Finding("unused-option", "a datagram is one message", ("framing",), "remove framing", severity="warning")
        for name in ("message_id", "structured_data"):
            if self.format == "rfc3164" and getattr(self, name):
                hint = "write format: rfc5424"
                yield Finding("unused-option", f"rfc3164 has no {name}", (name,), hint, severity="warning")
