"""The `http` source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import pyarrow as pa
from pydantic import Field, SecretStr

from connectors.http.receiving.requests import RequestProtocol
from connectors.shared.journal.batches import read_blocks
from connectors.shared.journal.options import AcknowledgedJournalOptions
from connectors.shared.journal.reader import Journal
from connectors.shared.journal.source import JournalSource
from connectors.shared.receiving.server_tls import ServerTls
from connectors.shared.receiving.tcp_address import TcpAddress, check_listen_options
from etl.api import ComponentError, Duration, Finding, Rejects, Schema, Size

if TYPE_CHECKING:
    from connectors.http.receiving.receiver import HttpReceiver

_ADDRESS_PATTERN = r"^https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.\-]+):[0-9]{1,5}$"
_ADDRESS_ERROR = {"patternErrorMessage": "is not an address to listen at: write http://0.0.0.0:8080 or https://[::]:8443"}


ReceiveFormat = Literal["ndjson", "json", "text", "elasticsearch", "splunk_hec", "loki", "opentelemetry"]


def create_protocol(format_: ReceiveFormat, path: str, max_event_bytes: int, max_body_bytes: int) -> RequestProtocol:
    """Return the protocol of a format, whose module is imported then."""
    if format_ == "elasticsearch":
        from connectors.http.receiving.formats.elasticsearch import BulkProtocol

        return BulkProtocol(max_event_bytes)
    if format_ == "splunk_hec":
        from connectors.http.receiving.formats.splunk_hec import HecProtocol

        return HecProtocol(max_event_bytes)
    if format_ == "loki":
        from connectors.http.receiving.formats.loki import LokiProtocol

        return LokiProtocol(max_event_bytes, max_body_bytes)
    if format_ == "opentelemetry":
        from connectors.http.receiving.formats.opentelemetry import OtlpProtocol

        return OtlpProtocol(max_event_bytes)
    from connectors.http.receiving.formats.lines import LinesProtocol

    return LinesProtocol(format_, path, max_event_bytes)


class HttpSource(JournalSource):
    """Receive events over HTTP, also from agents that send to Elasticsearch, Splunk, Loki or OpenTelemetry.

    | format | accepts | `message` is |
    |---|---|---|
    | ndjson | JSON lines | the line |
    | json | an array of objects, or objects one after the other | the object as JSON |
    | text | lines of text | the line |
    | elasticsearch | `_bulk`, with the actions `create` and `index` | the document as JSON |
    | splunk_hec | `/services/collector`, also `/raw`, `/health`, `/ack` | the event, as text or JSON |
    | loki | `/loki/api/v1/push`, JSON or Protocol Buffers | the line |
    | opentelemetry | `/v1/logs`, JSON or Protocol Buffers | the body, as text or JSON |

    `elasticsearch` adds ``elasticsearch.index`` and ``elasticsearch.id``; `splunk_hec` adds ``timestamp``, ``splunk.host``,
    ``splunk.source``, ``splunk.sourcetype``, ``splunk.index`` and ``splunk.fields`` (JSON); `loki` adds ``timestamp``,
    ``loki.labels`` and ``loki.metadata`` (JSON); `opentelemetry` adds ``timestamp``, ``log.level``, ``trace.id``, ``span.id``,
    and below ``otel`` ``observed_timestamp``, ``severity_number``, ``event_name``, and as JSON ``attributes``, ``resource`` and
    ``scope``. All have ``log.source.address`` and ``log.source.port``, the sender, and ``event.created``, the time of arrival.
    JSON is text until a step `json` reads it.

    A request is answered with success when its events are in a journal on disk, after one sync for all requests that wait
    (``journal.fsync``): what is acknowledged is not lost, also when the process is killed or the machine loses power. From
    the journal on, events are delivered exactly once. A sender whose answer was lost sends a request again; its events are
    then stored twice. A request that is refused is not stored at all, and gets the status and body that its sender knows. In
    a bulk request each item has its own status; of an OpenTelemetry request damaged records are rejected alone (partial success).

    When ``journal.max_bytes`` wait for delivery, requests are refused with 429 (``splunk_hec``: 503), and with 503 while the
    disk is full; ``Retry-After`` says when to try again. Bodies may be gzip, deflate, zstd or snappy. A body with more than
    ``max_body_bytes`` after decompression is refused with 413; an event longer than ``max_event_bytes`` is a dead letter
    (``message-too-long``), in a bulk request an item with status 413. Bodies in memory,
    decompressed ones and answers have 256 MiB together at most, beyond that requests are refused with 503; a request has at most
    262,144 items or records where its protocol has them (413).

    After a change of ``format`` events that were received before and are not delivered are dead letters (``other-format``);
    ``ndjson``, ``json`` and ``text`` read those of each other.

    Tokens are accepted as ``Authorization: Bearer``, ``Splunk`` or ``ApiKey``, as the password of ``Basic``, or in
    ``X-Api-Key``. Events of a request keep their order. Parallelism: parts of the journal. Needs the extra
    ``sluice-etl[server]``.

    ```yaml
    type: http
    listen: ["http://[::]:9200"]
    format: elasticsearch
    tokens: ["${AGENT_TOKEN:-change-me}"]
    ```
    """

    type: Literal["http"] = "http"
    listen: tuple[Annotated[str, Field(pattern=_ADDRESS_PATTERN, json_schema_extra=_ADDRESS_ERROR)], ...] = Field(
        description="Where to listen: http://host:port or https://host:port; 0.0.0.0 and [::] are all addresses of this host.",
        min_length=1,
        examples=[["http://[::]:8080", "https://[::]:8443"]],
    )
    format: ReceiveFormat = Field(default="ndjson", description="What senders send.")
    path: str = Field(
        default="/",
        description="Path of requests, for the formats ndjson, json and text; others have their own.",
        pattern="^/[!-~]*$",
        examples=["/events"],
    )
    tokens: tuple[SecretStr, ...] = Field(
        default=(), description="Tokens, one of which a request needs; without them all may send.", examples=[["${AGENT_TOKEN}"]]
    )
    tls: ServerTls | None = Field(default=None, description="Certificates, for https:// addresses.")
    allow: tuple[str, ...] = Field(
        default=(),
        description="Networks that may send, in CIDR notation; without it all may send.",
        examples=[["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]],
    )
    max_body_bytes: Size = Field(
        default=32 << 20, description="A larger body, after decompression, is refused.", ge=1, le=256 << 20, examples=["100MiB"]
    )
    max_event_bytes: Size = Field(
        default=1 << 20, description="A longer event is a dead letter.", ge=1, le=64 << 20, examples=["256KiB"]
    )
    connections: int = Field(
        default=10_000,
        description="Maximum number of open connections; a further one takes the place of that silent for longest.",
        ge=1,
        le=100_000,
    )
    timeout: Duration = Field(
        default=timedelta(seconds=60), description="How long the body of a request may take to arrive.", gt=timedelta(0)
    )
    journal: AcknowledgedJournalOptions = Field(
        default=AcknowledgedJournalOptions(), description="How events are stored until they are delivered."
    )

    def exclusive(self) -> Iterable[str]:
        """Return the addresses; port 0 is any free port."""
        return [f"tcp://{address.partition('://')[2]}" for address in self.listen if not address.endswith(":0")]

    def receiver(self) -> HttpReceiver:
        """Return the receiver, not yet started. Raises ComponentError if the HTTP server is not installed."""
        try:
            from connectors.http.receiving.app import RequestLimits
            from connectors.http.receiving.receiver import HttpReceiver, ReceiverOptions
        except ImportError as error:
            raise ComponentError(f"http: the HTTP server is not installed ({error}): pip install 'sluice-etl[server]'") from error
        options = ReceiverOptions(
            tuple(map(TcpAddress.parse, self.listen)),
            self._protocol(),
            tuple(token.get_secret_value() for token in self.tokens),
            RequestLimits(self.max_body_bytes, self.timeout.total_seconds()),
            self.connections,
            self.allow,
            self.tls,
            self.journal,
        )
        return HttpReceiver(options, self._folder)

    def check(self) -> Iterable[Finding]:
        """Check ports, networks and tokens, and that certificates are set exactly if TLS is used."""
        yield from check_listen_options(self.listen, self.allow, self.tls, encrypted="https")
        for number, token in enumerate(self.tokens):
            if not token.get_secret_value().strip():
                yield Finding("bad-header", "the token is empty: everybody would have it", ("tokens", number))

    def _protocol(self) -> RequestProtocol:
        return create_protocol(self.format, self.path, self.max_event_bytes, self.max_body_bytes)

    def fields(self) -> Schema:
        """Return the fields of the format."""
        return self._protocol().fields

    def read_range(self, journal: Journal, record: int, start: int, end: int) -> Iterator[pa.RecordBatch | Rejects]:
        """Read batches of about 4 MiB."""
        protocol = self._protocol()
        return read_blocks(journal, record, start, end, protocol.fields, protocol.own_batches, protocol.error_reasons)
