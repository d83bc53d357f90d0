"""The `beats` source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from connectors.shared.journal.batches import FIELDS, read_blocks, text_batches
from connectors.shared.journal.reader import Journal
from connectors.shared.receiving.tcp_source import TcpSource
from etl.api import Rejects, Schema

if TYPE_CHECKING:
    from connectors.shared.receiving.tcp_server import TcpReceiver


class BeatsSource(TcpSource):
    """Receive from Filebeat, other Beats and Logstash's output `lumberjack` as Logstash does: Lumberjack 2 over TCP or TLS.

    ``message`` is the event as JSON, as the Beat sends it, with its own ``message`` and ``@timestamp`` inside: a step `json`
    reads it. ``log.source.address`` and ``log.source.port`` are the sender, ``event.created`` is the time of arrival.

    A window of events is acknowledged when it is in a journal on disk (``journal.fsync``): what is acknowledged is not lost,
    also when the process is killed. From the journal on, events are delivered exactly once. A Beat whose acknowledgement was
    lost sends its window again; its events are then stored twice. While the journal or the disk is full, windows are not
    acknowledged, and senders wait. Compressed frames are decompressed up to ``max_message_bytes``; a connection that sends
    something else, or more, ends.

    Events of one connection keep their order. Parallelism: parts of the journal. A frame costs an iteration of a Python loop,
    because frames follow each other by their lengths.

    ```yaml
    type: beats
    listen: ["tcp://[::]:5044"]
    ```
    """

    type: Literal["beats"] = "beats"

    def receiver(self) -> TcpReceiver:
        """Return the receiver, not yet started."""
        from connectors.beats.lumberjack import LumberjackProtocol
        from connectors.shared.receiving.tcp_server import TcpReceiver

        return TcpReceiver(self.tcp_options(), LumberjackProtocol(self.max_message_bytes), self._folder)

    def fields(self) -> Schema:
        """Return the event, its sender, and its time of arrival."""
        return FIELDS

    def read_range(self, journal: Journal, record: int, start: int, end: int) -> Iterator[pa.RecordBatch | Rejects]:
        """Read batches of about 4 MiB."""
        return read_blocks(journal, record, start, end, FIELDS, text_batches("utf-8"), {})
