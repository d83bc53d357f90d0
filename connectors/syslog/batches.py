"""Blocks of the journal → batches of messages with their senders."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from connectors.shared.journal.batches import FIELDS, read_blocks, text_batches
from connectors.shared.journal.reader import Journal
from etl.api import Rejects

_REASONS = {
    "message-too-long": "the message has at least {size} bytes, more than max_message_bytes or the longest datagram",
    "message-cut-off": "the connection ended within a message: {kept} of {size} bytes arrived",
}


def read_batches(journal: Journal, record: int, start: int, end: int, codec: str) -> Iterator[pa.RecordBatch | Rejects]:
    """Yield the messages at positions from ``start`` to ``end``; ``record`` is the begin of a record, at or before ``start``."""
    return read_blocks(journal, record, start, end, FIELDS, text_batches(codec), _REASONS)
