"""Kernels that find the packets of MQTT in bytes, take PUBLISH packets apart, and write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.intrinsics import load_byte
from etl.columns.kernels import kernel, kernel_function

PUBLISH, PUBREL = 3, 6
"""Types of packets: the high half of their first byte."""


@kernel_function
def _varint(data: Any, at: Any, end: Any, value: Any) -> Any:
    """The position after an integer of one to four bytes, which goes to ``value[0]``; -1 if it is not complete, -2 if it has
    more bytes."""
    number, shift = np.int64(0), np.int64(0)
    for k in range(4):
        if at + k >= end:
            return np.int64(-1)
        byte = np.int64(data[at + k])
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            value[0] = number
            return np.int64(at + k + 1)
    return np.int64(-2)


@kernel
def find_packets(data: Any, limit: Any, published: Any, released: Any, others: Any, counts: Any) -> Any:
    """Find the complete packets in ``data`` (uint8[]) up to the first one that is longer than ``limit``.

    PUBLISH packets → ``published`` (int64[4, n]): begin, end, flags, packet identifier (0 with QoS 0); identifiers of PUBREL
    packets → ``released`` (int64[n]); others → ``others`` (int64[2, n]): begin and end. Their numbers → ``counts`` (int64[5]),
    and 1 at index 3 if a packet is damaged; index 4 is for this function. Returns the position of the first packet that was not
    read.
    """
    counts[:] = 0
    value = counts[4:]
    at, size = np.int64(0), np.int64(len(data))
    while at < size:
        body = _varint(data, at + 1, size, value)
        if body == -2:
            counts[3] = 1
            return at
        end = body + value[0]
        if body == -1 or end - at > limit or end > size:
            return at
        kind, flags = np.int64(data[at]) >> 4, np.int64(data[at]) & 15
        if kind == PUBLISH:
            quality, number = (flags >> 1) & 3, np.int64(0)
            after = body + 2
            if after <= end:
                after += np.int64(data[body]) << 8 | np.int64(data[body + 1])
            if quality != 0:
                if after + 2 <= end:
                    number = np.int64(data[after]) << 8 | np.int64(data[after + 1])
                after += 2
            if after > end or quality == 3 or (quality != 0 and number == 0):
                counts[3] = 1
                return at
            k = counts[0]
            published[0, k], published[1, k], published[2, k], published[3, k] = at, end, flags, number
            counts[0] += 1
        elif kind == PUBREL:
            if end - body < 2:
                counts[3] = 1
                return at
            released[counts[1]] = np.int64(data[body]) << 8 | np.int64(data[body + 1])
            counts[1] += 1
        else:
            others[0, counts[2]], others[1, counts[2]] = at, end
            counts[2] += 1
        at = end
    return at


@kernel
def split_publishes(data: Any, starts: Any, ends: Any, has_properties: Any, parts: Any, value: Any) -> None:
    """Take complete PUBLISH packets apart → ``parts`` (int64[7, n]): begin and end of the topic, begin and end of the properties
    (equal if there are none), begin of the payload, flags, packet identifier.

    ``has_properties`` (bool[n]) says which are of MQTT 5; ``value`` is an int64[1] to work with. Properties that do not fit
    into their packet are none, and the payload is empty.
    """
    for row in range(len(starts)):
        at, end = starts[row], ends[row]
        flags = np.int64(data[at]) & 15
        body = _varint(data, at + 1, end, value)
        topic = body + 2
        after = topic + (np.int64(data[body]) << 8 | np.int64(data[body + 1]))
        parts[0, row], parts[1, row] = topic, after
        parts[5, row], parts[6, row] = flags, 0
        if (flags >> 1) & 3:
            parts[6, row] = np.int64(data[after]) << 8 | np.int64(data[after + 1])
            after += 2
        parts[2, row], parts[3, row] = after, after
        if has_properties[row]:
            begin = _varint(data, after, end, value)
            if begin < 0 or begin + value[0] > end:
                after = end
            else:
                after = begin + value[0]
                parts[2, row], parts[3, row] = begin, after
        parts[4, row] = after


@kernel_function
def _varint_size(number: Any) -> Any:
    if number < 128:
        return 1
    if number < 16384:
        return 2
    return 3 if number < 2097152 else 4


@kernel_function
def _write_varint(out: Any, at: Any, number: Any) -> Any:
    while number >= 128:
        out[at] = np.uint8(number & 127 | 128)
        number >>= 7
        at += 1
    out[at] = np.uint8(number)
    return at + 1


@kernel_function
def _write_text(out: Any, at: Any, address: Any, length: Any) -> Any:
    for k in range(length):
        out[at + k] = load_byte(address + np.uint64(k))
    return at + length


@kernel_function
def _write_short(out: Any, at: Any, number: Any) -> Any:
    out[at], out[at + 1] = np.uint8(number >> 8), np.uint8(number & 255)
    return at + 2


@kernel
def measure_publishes(
    topic_length: Any,
    payload_length: Any,
    quality: Any,
    with_properties: Any,
    common_bytes: Any,
    head_bytes: Any,
    value_length: Any,
    sizes: Any,
) -> None:
    """Bytes of each PUBLISH packet → ``sizes`` (int64[2, n]): of its properties, and of all of it without its first byte and the
    length after that.

    ``head_bytes`` (int64[k]) are those of the begins of user properties, ``value_length`` (int64[k, n]) of their values, -1 for
    none. A null payload or topic has no bytes.
    """
    for row in range(len(topic_length)):
        properties = common_bytes
        for k in range(len(head_bytes)):
            if value_length[k, row] >= 0:
                properties += head_bytes[k] + 2 + value_length[k, row]
        size = 2 + max(topic_length[row], 0) + max(payload_length[row], 0) + (2 if quality else 0)
        if with_properties:
            size += _varint_size(properties) + properties
        sizes[0, row], sizes[1, row] = properties, size


@kernel
def write_publishes(
    rows: Any,
    identifiers: Any,
    first_byte: Any,
    topic_address: Any,
    topic_length: Any,
    payload_address: Any,
    payload_length: Any,
    with_properties: Any,
    common: Any,
    heads: Any,
    head_ends: Any,
    value_address: Any,
    value_length: Any,
    sizes: Any,
    out: Any,
    ends: Any,
) -> None:
    """Write the PUBLISH packets of some rows one after the other → ``out`` (uint8[]), and where each ends → ``ends``.

    ``identifiers`` (int64[]) are their packet identifiers, 0 without one; ``common`` (uint8[]) are properties of all, ``heads``
    the begins of user properties one after the other.
    """
    at = np.int64(0)
    for k in range(len(rows)):
        row = rows[k]
        out[at] = first_byte
        at = _write_varint(out, at + 1, sizes[1, row])
        at = _write_short(out, at, topic_length[row])
        at = _write_text(out, at, topic_address[row], topic_length[row])
        if identifiers[k]:
            at = _write_short(out, at, identifiers[k])
        if with_properties:
            at = _write_varint(out, at, sizes[0, row])
            for byte in range(len(common)):
                out[at + byte] = common[byte]
            at += len(common)
            begin = np.int64(0)
            for p in range(len(head_ends)):
                if value_length[p, row] >= 0:
                    for byte in range(begin, head_ends[p]):
                        out[at] = heads[byte]
                        at += 1
                    at = _write_short(out, at, value_length[p, row])
                    at = _write_text(out, at, value_address[p, row], value_length[p, row])
                begin = head_ends[p]
        if payload_length[row] > 0:
            at = _write_text(out, at, payload_address[row], payload_length[row])
        ends[k] = at


@kernel
def find_answers(data: Any, answers: Any, others: Any, counts: Any) -> Any:
    """Find the complete packets in ``data`` (uint8[]) that a client gets which publishes.

    PUBACK, PUBREC and PUBCOMP → ``answers`` (int64[5, n]): type, packet identifier, reason code (0 if there is none), begin, end;
    others → ``others`` (int64[2, n]): begin and end. Their numbers → ``counts`` (int64[4]), and 1 at index 2 if a packet is
    damaged; index 3 is for this function. Returns the position of the first packet that is not complete.
    """
    counts[:] = 0
    value = counts[3:]
    at, size = np.int64(0), np.int64(len(data))
    while at < size:
        body = _varint(data, at + 1, size, value)
        end = body + value[0]
        if body == -2:
            counts[2] = 1
            return at
        if body == -1 or end > size:
            return at
        kind = np.int64(data[at]) >> 4
        if kind == 4 or kind == 5 or kind == 7:
            if end - body < 2:
                counts[2] = 1
                return at
            k = counts[0]
            answers[0, k], answers[3, k], answers[4, k] = kind, at, end
            answers[1, k] = np.int64(data[body]) << 8 | np.int64(data[body + 1])
            answers[2, k] = np.int64(data[body + 2]) if end - body > 2 else 0
            counts[0] += 1
        else:
            others[0, counts[1]], others[1, counts[1]] = at, end
            counts[1] += 1
        at = end
    return at
