"""Writes batches as syslog messages."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from connectors.shared.json_objects import join, text
from connectors.syslog.message_encoding import MessageEncoding
from connectors.syslog.sender import Sender
from etl.api import Rejects, Result, Staged


@dataclass
class SyslogWriter:
    """Writer: a batch is one stretch of a connection, or as many datagrams as messages (in a loop: each is a system call)."""

    sender: Sender
    encoding: MessageEncoding
    framing: str
    """octet_counting, newline, or datagram."""
    max_message_bytes: int

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the bytes of each message with its frame."""
        return pc.binary_length(self._frame(self.encoding.messages(batch))).cast(pa.int64())

    def write(self, batch: pa.RecordBatch) -> Result:
        """Send the messages; those that are too long are rejected."""
        import numpy as np

        messages = self.encoding.messages(batch)
        large = pc.greater(pc.binary_length(messages), self.max_message_bytes)
        rejected = []
        if large.true_count:
            reason = f"the message has more than max_message_bytes, {self.max_message_bytes:,}"
            rejected.append(Rejects(batch.filter(large), "event-too-large", reason))
            messages = messages.filter(pc.invert(large))
        if self.framing == "datagram":
            self.sender.send_datagrams(messages.cast(pa.large_binary()).to_pylist())
        elif len(messages):
            framed = self._frame(messages)
            offsets = np.frombuffer(framed.buffers()[1], np.int64)
            self.sender.send_stream(memoryview(framed.buffers()[2])[: int(offsets[len(framed)])])
        return Result(rejected=rejected)

    def close(self) -> Staged | None:
        """Return nothing: nothing is staged."""
        return None

    def abort(self) -> None:
        """Do nothing: messages already sent are sent again."""

    def _frame(self, messages: pa.Array) -> pa.Array:
        if self.framing == "octet_counting":
            return join(pc.binary_length(messages).cast(pa.large_string()), text(" "), messages)
        return join(messages, text("\n")) if self.framing == "newline" else messages
