"""Packets of MQTT: what is written is read again, however it is cut, and damage is found."""

from __future__ import annotations

import random
from typing import Any

import pytest
from mqtt_rig import publish_packet

from connectors.mqtt import packets
from connectors.mqtt.connection_options import check_filter
from connectors.mqtt.packet_reader import TOO_LONG, PacketReader
from connectors.mqtt.packets import ProtocolError, encode_property, encode_varint, parse_properties
from connectors.mqtt.source import includes

OTHER = packets.PING
RELEASE = b"\x62\x02\x01\x02"


def stream(seed: int) -> tuple[bytes, list[bytes], int, int]:
    """Random packets: their bytes, the PUBLISH packets, and the numbers of PUBREL and of others."""
    chance = random.Random(seed)
    published, released, others, data = [], 0, 0, b""
    for _ in range(chance.randrange(1, 60)):
        kind = chance.random()
        if kind < 0.7:
            payload = chance.randbytes(chance.choice((0, 1, 3, 120, 130, 17_000)))
            qos = chance.choice((0, 2, 4))
            packet = publish_packet(
                payload, chance.randrange(1, 1 << 16), qos | chance.choice((0, 1, 8)), "t" * chance.randrange(1, 200)
            )
            published.append(packet)
        elif kind < 0.9:
            packet, released = RELEASE, released + 1
        else:
            packet, others = OTHER, others + 1
        data += packet
    return data, published, released, others


@pytest.mark.parametrize("seed", range(25))
def test_packets_are_found_however_the_stream_is_cut(seed: int) -> None:
    data, published, released, others = stream(seed)
    chance, reader, at = random.Random(seed), PacketReader(1 << 20, True), 0
    found: list[bytes] = []
    counts = [0, 0]

    while at < len(data):
        size = chance.choice((1, 2, 7, 500, 40_000))
        got = reader.read(data[at : at + size])
        at += size
        found += [got.data[begin:end] for begin, end in got.published[:2].T.tolist()]
        counts = [counts[0] + len(got.released), counts[1] + len(got.others)]

    assert found == published
    assert counts == [released, others]
    assert reader.waiting_bytes == 0


@pytest.mark.parametrize("cut", [13, 100, 70_000, 1 << 20])
@pytest.mark.parametrize("flags", [0, 2, 4])
def test_a_message_that_is_too_long_is_read_over_with_its_identifier(cut: int, flags: int) -> None:
    long = publish_packet(b"x" * 200_000, 77, flags, properties=encode_property(packets.CONTENT_TYPE, "a/b"))
    data = publish_packet(b"before", 5, 2) + long + publish_packet(b"after", 6, 2)
    reader = PacketReader(1000, True)

    got = [reader.read(data[at : at + cut]) for at in range(0, len(data), cut)]

    texts = [one.data[begin:end][-6:] for one in got for begin, end in one.published[:2].T.tolist()]
    assert [text[-5:] for text in texts] == [b"efore", b"", b"after"]
    assert [number for one in got for number in one.published[3].tolist()] == [5, 77 if flags else 0, 6]
    ((begin, end, code, size),) = [reject for one in got for reject in one.rejects]
    (sample,) = [one.data[begin:end] for one in got if one.rejects]
    assert (code, size) == (TOO_LONG, len(long))
    assert set(sample) == {ord("x")}
    assert 60_000 < len(sample) <= 64 << 10


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x30\xff\xff\xff\xff\x01", id="a length of five bytes"),
        pytest.param(b"\x36\x05\0\x01t\0\x01", id="QoS 3"),
        pytest.param(b"\x32\x05\0\x01t\0\0", id="identifier 0"),
        pytest.param(b"\x32\x03\0\x01t", id="no identifier"),
        pytest.param(b"\x30\x03\0\xfft", id="a topic longer than its packet"),
        pytest.param(b"\x30\x01\0", id="no topic"),
        pytest.param(b"\x62\x01\0", id="PUBREL without identifier"),
        pytest.param(b"\xd0\xff\xff\x7f" + b"x" * 70_000, id="a long packet that is not a message"),
    ],
)
def test_damage_ends_the_connection(data: bytes) -> None:
    good = publish_packet(b"before", 0, 0)

    try:
        got = PacketReader(1 << 16, True).read(good + data)
    except ProtocolError:
        return
    assert [got.data[begin:end] for begin, end in got.published[:2].T.tolist()] == [good]
    assert got.damage.startswith("a packet is damaged")


def test_random_bytes_are_packets_or_damage() -> None:
    chance = random.Random(7)
    for _ in range(300):
        data = chance.randbytes(chance.randrange(1, 400))
        try:
            got = PacketReader(1 << 16, True).read(data)
        except ProtocolError:
            continue
        assert all(0 <= begin < end <= len(data) for begin, end in got.published[:2].T.tolist())


PROPERTIES: list[tuple[int, Any]] = [
    (packets.SESSION_EXPIRY, 4_000_000_000),
    (packets.RECEIVE_MAXIMUM, 20),
    (packets.MAXIMUM_QOS, 1),
    (packets.REASON_TEXT, "so ist es"),
    (packets.CORRELATION_DATA, b"\0\xff"),
]


def test_properties_are_read_as_they_were_written() -> None:
    block = b"".join(encode_property(*one) for one in PROPERTIES)
    block += (
        encode_property(packets.USER_PROPERTY, ("a", "1")) + encode_property(packets.USER_PROPERTY, ("a", "2")) + b"\x0b\x80\x01"
    )
    data = b"??" + encode_varint(len(block)) + block + b"payload"

    found, end = parse_properties(data, 2)

    assert found == {**dict(PROPERTIES), packets.USER_PROPERTY: [("a", "1"), ("a", "2")], 0x0B: 128}
    assert data[end:] == b"payload"


@pytest.mark.parametrize("data", [b"\x05\x1f\0\x09ab", b"\x02\x99\0", b"\x03\x11\0\0", b"\xff\xff\xff\xff\xff", b""])
def test_damaged_properties_are_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_properties(data, 0)


@pytest.mark.parametrize("number", [0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455])
def test_lengths(number: int) -> None:
    encoded = b"\x30" + encode_varint(number)

    assert packets.packet_length(encoded) == len(encoded) + number
    assert packets.packet_length(encoded[:-1]) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a/b", ""),
        ("#", ""),
        ("+/b/#", ""),
        ("$share/g/a/+", ""),
        ("$SYS/#", ""),
        ("a#", "has a # that is not the whole last level"),
        ("#/a", "has a # that is not the whole last level"),
        ("a+/b", "has a + that is not a whole level"),
        ("$share/g", "has no filter after the group"),
        ("$share//a", "has no name of a group"),
        ("$share/+/a", "has no name of a group"),
        ("$share/g/a#", "has a # that is not the whole last level"),
        ("a\0", "has a NUL character"),
        ("x" * 70_000, "has more than 65,535 bytes"),
    ],
)
def test_filters(text: str, problem: str) -> None:
    assert check_filter(text).startswith(problem)
    assert bool(check_filter(text)) == bool(problem)


@pytest.mark.parametrize(
    ("text", "topic", "expected"),
    [
        ("a/+/c", "a/b/c", True),
        ("a/+", "a/b/c", False),
        ("a/#", "a/b/c", True),
        ("a/#", "a", True),
        ("#", "a", True),
        ("#", "$SYS/a", False),
        ("+/a", "$SYS/a", False),
        ("$share/g/a/#", "a/b", True),
        ("a/b", "a", False),
        ("a", "a/b", False),
    ],
)
def test_which_topics_a_filter_includes(text: str, topic: str, expected: bool) -> None:
    assert includes(text, topic) is expected
