"""Blocks of messages: what is added is read back."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.shared.journal.event_blocks import BlockBuilder, Sender
from connectors.shared.journal.options import JournalOptions
from connectors.shared.journal.reader import Journal
from connectors.shared.journal.writer import JournalWriter
from connectors.syslog.framing import Framer
from connectors.syslog.source import read_batches
from etl.api import Rejects

STREAMS = st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=60)), max_size=12)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(STREAMS, max_size=4), st.integers(1, 40))
def test_any_bytes_of_any_senders(turns: list[list[tuple[int, bytes]]], max_bytes: int) -> None:
    framers = [Framer(max_bytes) for _ in range(4)]
    expected: list[tuple[str, int]] = []
    events = 0
    with tempfile.TemporaryDirectory() as folder:
        journal = JournalWriter(folder, JournalOptions(fsync="never"))
        for turn in turns:
            builder = BlockBuilder()
            for who, data in turn:
                frames = framers[who].feed(data)
                builder.add(frames, builder.sender_number(Sender("::1", who)))
                texts = [frames.data[a:b] for span in frames.spans for a, b in span.T.tolist()]
                expected += [(trimmed(text).decode("utf-8", "replace"), who) for text in texts if trimmed(text)]
            payload, count = builder.encode(1_000_000)
            events += count
            if count:
                journal.append(payload, count)
        journal.close()

        read = list(read_batches(Journal(folder), 0, 0, 1 << 62, "utf-8"))

    found = [row for batch in read if not isinstance(batch, Rejects) for row in batch.to_pylist()]
    assert [(row["message"], row["log.source.port"]) for row in found] == expected
    assert len(found) + sum(isinstance(batch, Rejects) for batch in read) == events


def trimmed(text: bytes) -> bytes:
    """Return a message without up to two line ends."""
    for _ in range(2):
        text = text[:-1] if text[-1:] in (b"\r", b"\n", b"\0") else text
    return text
