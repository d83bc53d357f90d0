"""Messages as brokers store them: one byte by byte, generated ones of all kinds, and hostile bytes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.rocketmq.messages import stored_messages
from connectors.rocketmq.messages.message_columns import MessageColumns
from connectors.rocketmq.messages.stored_messages import OFFSET, StoredMessages
from connectors.rocketmq.protocol.frames import ProtocolError
from connectors.rocketmq.protocol.routes import Queue
from connectors.rocketmq.puller import LostRange
from connectors.rocketmq.range_reader import RangeReader
from etl.api import Rejects

QUEUE = Queue("broker-a", "web", 3)
GOLDEN = bytes.fromhex(
    "00000079 daa320a7 3610a686 00000003 00000000"  # length, magic, checksum, queue, flags
    "000000000000002a 0000000000001000 00000000"  # offset 42 in its queue, position, no system flags
    "0000019a00000000 7f00000100002a9f 0000019a00000001 7f00000100002a9f"  # born and stored: when, by whom
    "00000000 0000000000000000 00000005 68656c6c6f"  # consumed again, prepared, body: hello
    "03 776562 0016"  # topic: web
    "54414753 01 6c6f67696e 02"  # TAGS=login
    "4b455953 01 6b31 206b32 02".replace(" ", "")  # KEYS=k1 k2
)


@dataclass
class Message:
    """A message as a broker stores it."""

    offset: int = 0
    body: bytes = b""
    properties: bytes = b""
    flags: int = 0
    topic: bytes = b"web"
    long_topic: bool = False
    born: int = 0
    stored: int = 0

    def encoded(self) -> bytes:
        magic = 0xDAA320AB if self.long_topic else 0xDAA320A7
        hosts = [bytes(20 if self.flags & bit else 8) for bit in (0x10, 0x20)]
        head = struct.pack(">IIIIqqIq", magic, 0, 3, 0, self.offset, 0, self.flags, self.born)
        times = hosts[0] + struct.pack(">q", self.stored) + hosts[1] + bytes(12)
        topic = struct.pack(">H" if self.long_topic else ">B", len(self.topic)) + self.topic
        parts = head + times + struct.pack(">I", len(self.body)) + self.body + topic
        parts += struct.pack(">H", len(self.properties)) + self.properties
        return struct.pack(">I", 4 + len(parts)) + parts


def properties(pairs: dict[str, str]) -> bytes:
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()


def read(found: list[bytes | LostRange], start: int = 0, end: int = 1 << 40, tags: str = "*", **options: object) -> list[object]:
    """Read answers; return rows, and codes of rejects."""
    reading = RangeReader(MessageColumns(**options), "sluice", tags, None, "earliest")  # type: ignore[arg-type]
    rows: list[object] = []
    for batch in reading._events(iter(found), QUEUE, start, end):
        rows += [batch.code] if isinstance(batch, Rejects) else owned(batch).to_pylist()
    return rows


def owned(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [column.cast(pa.string()) if column.type == pa.string_view() else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


@pytest.mark.slow
def test_a_message_byte_by_byte() -> None:
    (row,) = read([GOLDEN], texts={"tag": "TAGS", "keys": "KEYS", "none": "NONE"}, properties="all", metadata=True)

    assert isinstance(row, dict)
    assert {name: row[name] for name in ("message", "tag", "keys", "none", "_offset", "all")} == {
        "message": "hello",
        "tag": "login",
        "keys": "k1 k2",
        "none": None,
        "_offset": 42,
        "all": [("TAGS", "login"), ("KEYS", "k1 k2")],
    }
    assert [row[f"rocketmq.{name}"] for name in ("topic", "broker", "queue", "offset")] == ["web", "broker-a", 3, 42]
    assert row["rocketmq.born"].isoformat() == "2025-10-20T05:03:11.360000+00:00"
    assert row["rocketmq.stored"].isoformat() == "2025-10-20T05:03:11.361000+00:00"


MESSAGES = st.builds(
    Message,
    body=st.binary(max_size=40) | st.text(max_size=30).map(str.encode),
    properties=st.dictionaries(st.sampled_from(["TAGS", "KEYS", "TAG", "a"]), st.text("abc é", max_size=9), max_size=4).map(
        properties
    ),
    flags=st.sampled_from([0, 0x10, 0x20, 0x30, 0x4]),
    topic=st.binary(max_size=20),
    long_topic=st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(MESSAGES, max_size=12), st.integers(0, 5), st.integers(1, 14))
def test_messages_of_all_kinds_are_read_back(messages: list[Message], first: int, end: int) -> None:
    for number, message in enumerate(messages):
        message.offset = number
    block = b"".join(message.encoded() for message in messages)

    rows = read([block], first, end, texts={"tag": "TAGS"}, properties="all")

    expected = [m for m in messages if first <= m.offset < end]
    pairs = [dict(p.split("\x01") for p in m.properties.decode().split("\x02") if p) for m in expected]
    assert rows == [
        {"message": m.body.decode("utf-8", "replace"), "tag": p.get("TAGS"), "all": list(p.items()), "_offset": m.offset}
        for m, p in zip(expected, pairs, strict=True)
    ]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(MESSAGES, min_size=1, max_size=3), st.data())
def test_hostile_bytes_raise_one_error_only(messages: list[Message], data: st.DataObject) -> None:
    together = data.draw(st.sampled_from([b"", nested(9, *messages), nested(9, *messages, pack=zlib.compress, flags=1)]))
    block = bytearray(b"".join(message.encoded() for message in messages) + together)
    for _ in range(data.draw(st.integers(1, 4))):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(block[: data.draw(st.integers(0, len(block)))])
    with suppress(ProtocolError):
        read([cut], -(1 << 63) + 1, 1 << 62, texts={"tag": "TAGS"}, properties="all", metadata=True)


@pytest.mark.parametrize("block", [b"\x00" * 200, b"\xff" * 200, GOLDEN[:-1], GOLDEN + b"\x00", b"HTTP/1.1 200 OK\r\n"])
def test_an_error_shows_bytes_that_are_not_a_message(block: bytes) -> None:
    with pytest.raises(ProtocolError, match="is not a RocketMQ message"):
        StoredMessages.locate(block, -1, 1 << 40)


def test_bytes_that_are_not_utf8_are_repaired_and_bytes_stay() -> None:
    block = Message(1, b"a\xffb\x00c").encoded() + Message(2, "grün".encode()).encoded() + Message(3, b"").encoded()

    assert [row["message"] for row in read([block])] == ["a\ufffdb\x00c", "grün", ""]  # type: ignore[index]
    assert [row["message"] for row in read([block], binary=True)] == [b"a\xffb\x00c", "grün".encode(), b""]  # type: ignore[index]


def test_earlier_offsets_are_left_out() -> None:
    one, two, three = (Message(offset, str(offset).encode()).encoded() for offset in (1, 2, 3))

    rows = read([one + two, two + three], 1, 4)

    assert [row["_offset"] for row in rows] == [1, 2, 3]  # type: ignore[index]


def test_tags_are_compared_exactly() -> None:
    """Aa and BB have the same hash code in Java."""
    block = b"".join(Message(n, b"x", properties({"TAGS": tag})).encoded() for n, tag in enumerate(["Aa", "BB", "C"]))
    block += Message(3, b"untagged").encoded()

    rows = read([block], tags="Aa || C")

    assert [row["_offset"] for row in rows] == [0, 2]  # type: ignore[index]


PACKED = {
    "zlib": (0x001, zlib.compress),
    "zlib, said so": (0x301, zlib.compress),
    "lz4": (0x101, lambda body: pa.compress(body, codec="lz4", asbytes=True)),
    "zstd": (0x201, lambda body: pa.compress(body, codec="zstd", asbytes=True)),
}


@pytest.mark.parametrize("name", PACKED)
def test_the_flag_gives_the_compression_of_a_body(name: str) -> None:
    flags, pack = PACKED[name]
    long = b"0123456789" * 1000
    block = (
        Message(1, b"plain", properties({"TAGS": "t"})).encoded()
        + Message(2, pack(long), properties({"TAGS": "u"}), flags).encoded()
    )

    rows = read([block], texts={"tag": "TAGS"})

    assert [(row["message"], row["tag"]) for row in rows] == [("plain", "t"), (long.decode(), "u")]  # type: ignore[index]


@pytest.mark.parametrize("flags", [0x001, 0x101, 0x201, 0x301, 0x501])
def test_a_corrupt_body_is_a_dead_letter_and_the_others_are_events(flags: int) -> None:
    block = Message(1, b"one").encoded() + Message(2, b"garbage", flags=flags).encoded() + Message(3, b"three").encoded()

    rows = read([block])

    assert sorted(str(row) for row in rows) == sorted(
        ["corrupt-body", "{'message': 'one', '_offset': 1}", "{'message': 'three', '_offset': 3}"]
    )


def test_a_body_that_grows_without_bound_is_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_messages, "MAX_BODY_BYTES", 10_000)
    for flags, pack in PACKED.values():
        assert read([Message(1, pack(bytes(10_001)), flags=flags).encoded()]) == ["corrupt-body"]
        assert len(read([Message(1, pack(bytes(10_000)), flags=flags).encoded()])[0]["message"]) == 10_000  # type: ignore[index]


def test_batches_end_when_decompressed_bodies_fill_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.rocketmq.messages.stored_messages._MAX_PIECE_BYTES", 1000)
    stored = StoredMessages.locate(b"".join(Message(n, zlib.compress(bytes(600)), flags=1).encoded() for n in range(5)), -1, 9)

    assert [len(piece) for piece, _, _ in stored.decompressed()] == [2, 2, 1]
    assert [int(n) for piece, _, _ in stored.decompressed() for n in piece.parts[OFFSET]] == [0, 1, 2, 3, 4]


def nested(offset: int, *inside: Message, pack: Callable[[bytes], bytes] = bytes, flags: int = 0) -> bytes:
    """Return messages nested in one, as in topics of the type BatchCQ."""
    heads = [(m, struct.pack(">iIIII", 22 + len(m.body) + len(m.properties), 0, 0, 0, len(m.body))) for m in inside]
    body = b"".join(head + m.body + struct.pack(">H", len(m.properties)) + m.properties for m, head in heads)
    return Message(offset, pack(body), b"INNER_NUM\x01%d\x02" % len(inside), flags=0xC0 | flags, stored=1000).encoded()


def numbered(first: int, count: int) -> list[Message]:
    return [
        Message(body=b"m%d" % n, properties=properties({"TAGS": "odd" if n % 2 else "even"})) for n in range(first, first + count)
    ]


def offsets(rows: list[object]) -> list[object]:
    return [row if isinstance(row, str) else (row["_offset"], row["message"]) for row in rows]  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.parametrize(("pack", "flags"), [(bytes, 0), (zlib.compress, 1)])
def test_nested_messages_are_events(pack: Callable[[bytes], bytes], flags: int) -> None:
    block = Message(3, b"m3").encoded() + nested(4, *numbered(4, 5), pack=pack, flags=flags) + Message(9, b"m9").encoded()

    rows = read([block], texts={"tag": "TAGS"}, metadata=True)

    assert offsets(rows) == [(n, f"m{n}") for n in range(3, 10)]
    assert [row["tag"] for row in rows] == [None, "even", "odd", "even", "odd", "even", None]  # type: ignore[index]
    assert {row["rocketmq.stored"].timestamp() for row in rows[1:-1]} == {1.0}  # type: ignore[index]


@pytest.mark.parametrize("cut", range(11))
def test_splits_within_nested_messages_have_each_message_once(cut: int) -> None:
    """A broker returns the whole outer message for any offset in it, in each answer."""
    whole = nested(0, *numbered(0, 4)), nested(4, *numbered(4, 6))
    answers = [whole[0], whole[0] + whole[1], whole[1]]

    assert offsets(read(answers, 0, cut) + read(answers, cut, 10)) == [(n, f"m{n}") for n in range(10)]


def test_tags_of_nested_messages_are_compared() -> None:
    block = nested(0, *numbered(0, 4)) + Message(4, b"m4", properties({"TAGS": "odd"})).encoded() + Message(5, b"m5").encoded()

    assert offsets(read([block], tags="odd")) == [(1, "m1"), (3, "m3"), (4, "m4")]


@pytest.mark.parametrize("flags", [0xC0, 0xC1])
@pytest.mark.parametrize("tags", ["*", "odd"])
def test_malformed_nested_messages_are_a_dead_letter(flags: int, tags: str) -> None:
    block = nested(0, *numbered(0, 2)) + Message(2, b"\0\0\0\x17" + bytes(30), flags=flags).encoded() + nested(9, *numbered(9, 1))

    rows = read([block], tags=tags) + read([block], 3, tags=tags)

    assert [row for row in offsets(rows) if isinstance(row, str)] == ["corrupt-body"], "reported at its first part"
    assert (1, "m1") in offsets(rows)
    assert (9, "m9") in offsets(rows)


def test_a_dead_letter_gives_the_offset_of_lost_messages() -> None:
    found = [Message(1, b"a").encoded(), LostRange(2, 5, "deleted"), Message(5, b"b").encoded()]

    assert [row if isinstance(row, str) else row["_offset"] for row in read(found, 1, 9)] == [1, "data-lost", 5]  # type: ignore[index]


def test_an_invalid_time_is_null() -> None:
    block = Message(1, b"x", born=-5, stored=1 << 62).encoded()

    (row,) = read([block], metadata=True)

    assert (row["rocketmq.born"], row["rocketmq.stored"]) == (None, None)  # type: ignore[index]
