"""The `forward` source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pydantic import Field, SecretStr

from connectors.shared.journal.batches import FIELDS, EventRows, read_blocks
from connectors.shared.journal.reader import Journal
from connectors.shared.receiving.tcp_source import TcpSource
from etl.api import OFFSET, TIMESTAMP, ComponentError, Rejects, Schema

if TYPE_CHECKING:
    from connectors.shared.receiving.tcp_server import TcpReceiver

_FIELDS: Schema = pa.schema(
    [
        *FIELDS,
        pa.field("timestamp", TIMESTAMP),
        pa.field("fluent.tag", pa.string()),
        pa.field("fluent.metadata", pa.string()),
    ]
)


class ForwardSource(TcpSource):
    """Receive from Fluentd and Fluent Bit with their forward protocol, over TCP or TLS.

    ``message`` is the record as JSON, which a step `json` reads, ``timestamp`` its time, ``fluent.tag`` its tag, and
    ``fluent.metadata`` the metadata of Fluent Bit as JSON. ``log.source.address`` and ``log.source.port`` are the sender,
    ``event.created`` is the time of arrival. All modes are accepted: Message, Forward, PackedForward, and compressed with gzip
    or zstd; and the handshake with ``shared_key``, but no users.

    A message with a chunk (``require_ack_response`` of senders) is acknowledged when its events are in a journal on disk
    (``journal.fsync``): what is acknowledged is not lost, also when the process is killed. From the journal on, events are
    delivered exactly once. A sender whose acknowledgement was lost sends its chunk again; its events are then stored twice.
    Senders that do not ask for acknowledgements lose what is on its way when a connection ends. While the journal or the disk
    is full, connections are not read, and senders wait. A connection that sends anything else, or a message larger than
    ``max_message_bytes``, ends.

    Events of one connection keep their order. Parallelism: parts of the journal. Records become JSON in a Python loop, because
    MessagePack has no form that can be read by columns. Needs the extra ``sluice-etl[forward]``.

    ```yaml
    type: forward
    listen: ["tcp://[::]:24224"]
    ```
    """

    type: Literal["forward"] = "forward"
    shared_key: SecretStr | None = Field(
        default=None,
        description="Key that senders must prove to have; without it there is no handshake.",
        examples=["${FORWARD_KEY}"],
    )

    def receiver(self) -> TcpReceiver:
        """Return the receiver, not yet started. Raises ComponentError if msgpack is not installed."""
        try:
            from connectors.forward.protocol import ForwardProtocol
        except ImportError as error:
            raise ComponentError(f"forward: MessagePack is not installed ({error}): pip install 'sluice-etl[forward]'") from error
        from connectors.shared.receiving.tcp_server import TcpReceiver

        key = self.shared_key.get_secret_value() if self.shared_key else None
        return TcpReceiver(self.tcp_options(), ForwardProtocol(key, self.max_message_bytes), self._folder)

    def fields(self) -> Schema:
        """Return the record, its tag and time, its sender, and its time of arrival."""
        return _FIELDS

    def read_range(self, journal: Journal, record: int, start: int, end: int) -> Iterator[pa.RecordBatch | Rejects]:
        """Read batches of about 4 MiB."""
        return read_blocks(journal, record, start, end, _FIELDS, _batches, {})


def _batches(rows: EventRows) -> Iterator[pa.RecordBatch]:
    import json

    from connectors.shared.receiving.entries import context_column, entry_columns, nanosecond_times

    values = entry_columns(rows, ("r", "t", "m"))
    tags = context_column(rows, [json.loads(sender[2]) for sender in rows.senders])
    columns = [values["r"], *rows.origin_columns(), nanosecond_times(values["t"]), tags, values["m"], pa.array(rows.offsets)]
    yield pa.record_batch(columns, names=[*_FIELDS.names, OFFSET])
