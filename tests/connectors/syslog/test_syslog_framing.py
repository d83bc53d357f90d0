"""Begins and ends of messages in a stream."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.shared.journal.event_blocks import Frames, RejectedMessage
from connectors.syslog.framing import Framer


def texts(frames: Frames) -> list[bytes]:
    return [frames.data[start:end] for span in frames.spans for start, end in span.T.tolist()]


def cut(chunks: list[bytes], max_bytes: int = 1000) -> tuple[list[bytes], list[RejectedMessage]]:
    framer = Framer(max_bytes)
    found = [framer.feed(chunk) for chunk in chunks]
    found.append(framer.finish())
    return [text for frames in found for text in texts(frames)], [fault for frames in found for fault in frames.rejects]


@pytest.mark.parametrize(
    ("stream", "messages"),
    [
        (b"<13>one\n<13>two\n", [b"<13>one", b"<13>two"]),
        (b"7 <13>one8 <13>two!", [b"<13>one", b"<13>two!"]),
        (b"7 <13>one\n8 <13>two!\n", [b"<13>one", b"<13>two!"]),
        (b"<13>one\n8 <13>two!<13>three\n6 <1>fou", [b"<13>one", b"<13>two!", b"<13>three", b"<1>fou"]),
        (b"11 <13>a\nb\ncde<1>x\n", [b"<13>a\nb\ncde", b"<1>x"]),
        (b"2024-10-11 a line\n12 errors\n", [b"2024-10-11 a line", b"12 errors"]),
        (b"7 <13>one5 plain", [b"<13>one", b"plain"]),
        (b"<13>no newline at the end", [b"<13>no newline at the end"]),
        (b"0 <13>no count\n", [b"0 <13>no count"]),
        (b"1234567890 <13>no count\n", [b"1234567890 <13>no count"]),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_each_message_shows_its_framing(stream: bytes, messages: list[bytes], size: int) -> None:
    found, rejects = cut([stream[at : at + size] for at in range(0, len(stream), size)])

    assert found == messages
    assert rejects == []


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("stream", [b"<1>x\n" + b"y" * 50 + b"\n<1>z\n", b"<1>x\n50 <1>" + b"y" * 47 + b"<1>z\n"])
def test_a_message_that_is_too_long_is_skipped(stream: bytes, size: int) -> None:
    found, rejects = cut([stream[at : at + size] for at in range(0, len(stream), size)], max_bytes=20)

    assert found == [b"<1>x", b"<1>z"]
    assert [fault.code for fault in rejects] == ["message-too-long"]
    assert rejects[0].size > 20


def test_a_message_that_the_connection_did_not_finish() -> None:
    found, rejects = cut([b"<1>x\n50 <1>abc"])

    assert found == [b"<1>x"]
    assert [(fault.code, fault.size, fault.end - fault.start) for fault in rejects] == [("message-cut-off", 50, 6)]


def test_the_buffer_for_incomplete_messages_is_bounded() -> None:
    framer = Framer(100)
    for stream in (b"x" * 50, b"1000000 <1>" + b"y" * 50, b"9 " * 50):
        for _ in range(10_000):
            framer.feed(stream)

    assert len(framer._rest) < 1 << 17


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=30), st.booleans()), max_size=10),
    st.lists(st.integers(0, 400), max_size=8),
)
def test_any_mix_in_any_chunks(messages: list[tuple[bytes, bool]], cuts: list[int]) -> None:
    expected = [(b"<7>" + (text if counted else text.replace(b"\n", b" ")), counted) for text, counted in messages]
    stream = b"".join(b"%d %s" % (len(text), text) if counted else text + b"\n" for text, counted in expected)
    bounds = sorted({0, len(stream), *(at for at in cuts if at < len(stream))})

    found, rejects = cut([stream[a:b] for a, b in pairwise(bounds)])

    assert found == [text for text, _ in expected]
    assert rejects == []


@pytest.mark.slow
@settings(max_examples=300)
@given(
    st.lists(st.sampled_from([b"1", b"23", b" ", b"<1>", b"<", b"\n", b"\r\n", b"a", b"\0", b"bcdef"]), max_size=60).map(
        b"".join
    ),
    st.lists(st.integers(0, 150), max_size=8),
    st.integers(1, 40),
)
def test_messages_do_not_depend_on_chunks(stream: bytes, cuts: list[int], max_bytes: int) -> None:
    bounds = sorted({0, len(stream), *(at for at in cuts if at < len(stream))})

    whole, rejects = cut([stream], max_bytes)
    pieces, same_faults = cut([stream[a:b] for a, b in pairwise(bounds)], max_bytes)

    assert [text for text in pieces if text] == [text for text in whole if text]
    assert [fault.code for fault in same_faults] == [fault.code for fault in rejects]


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(st.binary(max_size=100), max_size=10))
def test_any_bytes_can_be_framed(chunks: list[bytes]) -> None:
    found, rejects = cut(chunks, max_bytes=50)

    assert all(len(text) <= 50 for text in found)
    assert all(0 <= fault.start <= fault.end for fault in rejects)
