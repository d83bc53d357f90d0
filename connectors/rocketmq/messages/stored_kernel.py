"""Kernels for blocks of messages in the broker's storage format (``MessageDecoder`` of RocketMQ 4 and 5).

Blocks come from the network, so every length is checked against the block before it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from connectors.rocketmq.messages.stored_messages import (
    BODY_BEGIN,
    BODY_END,
    BORN,
    FLAGS,
    NESTED,
    OFFSET,
    PROPERTIES_BEGIN,
    PROPERTIES_END,
    STORED,
)
from etl.columns.kernels import kernel, kernel_function

_MAGIC, _MAGIC_LONG_TOPIC = 0xDAA320A7, 0xDAA320AB
_BORN_HOST_BIG, _STORED_HOST_BIG = 0x10, 0x20
_NAME_END, _VALUE_END = np.uint8(1), np.uint8(2)


@kernel_function
def number(block: Any, at: Any, count: Any) -> Any:
    """Read a big-endian integer of ``count`` bytes; 8 bytes may be negative."""
    number = np.int64(0)
    for byte in range(count):
        number = (number << np.int64(8)) | np.int64(block[at + byte])
    return number


@kernel_function
def _body_length_at(at: Any, flags: Any) -> Any:
    born = np.int64(20 if flags & _BORN_HOST_BIG else 8)
    stored = np.int64(20 if flags & _STORED_HOST_BIG else 8)
    return at + np.int64(48) + born + np.int64(8) + stored + np.int64(12)


@kernel
def locate(block: Any, after: Any, end: Any, found: Any) -> Any:
    """Write the parts of each message to ``found`` (int64[8, columns]).

    Includes messages with ascending offsets after ``after`` and before ``end``, and outer messages at any offset before
    ``end``. Returns the number of messages, or -1 - position of a malformed one.
    """
    at, count, size = np.int64(0), 0, np.int64(block.shape[0])
    while at < size:
        if at + np.int64(48) > size:
            return -1 - at
        total, magic = number(block, at, 4), number(block, at + 4, 4)
        offset, flags = number(block, at + 20, 8), number(block, at + 36, 4)
        length_at = _body_length_at(at, flags)
        message_end = at + total
        if (magic != _MAGIC and magic != _MAGIC_LONG_TOPIC) or message_end > size or length_at + 4 > message_end:
            return -1 - at
        body = length_at + 4
        topic = body + number(block, length_at, 4)
        width = 2 if magic == _MAGIC_LONG_TOPIC else 1
        if topic + width > message_end:
            return -1 - at
        properties = topic + width + number(block, topic, width)
        if properties + 2 > message_end or properties + 2 + number(block, properties, 2) > message_end:
            return -1 - at
        if offset < end and (after < offset or flags & NESTED == NESTED):
            stored = length_at - np.int64(12) - np.int64(20 if flags & _STORED_HOST_BIG else 8) - np.int64(8)
            found[OFFSET, count], found[FLAGS, count] = offset, flags
            found[BORN, count], found[STORED, count] = number(block, at + 40, 8), number(block, stored, 8)
            found[BODY_BEGIN, count], found[BODY_END, count] = body, topic
            found[PROPERTIES_BEGIN, count] = properties + 2
            found[PROPERTIES_END, count] = properties + 2 + number(block, properties, 2)
            count += 1
            after = max(after, offset)
        at = message_end
    return count


@kernel_function
def _find_byte(block: Any, at: Any, end: Any, mark: Any) -> Any:
    """Return the position of a byte, or ``end``."""
    while at < end and block[at] != mark:
        at += 1
    return at


@kernel_function
def _equals(block: Any, begin: Any, end: Any, name: Any) -> Any:
    at = 0
    while at < name.shape[0] and begin + at < end and block[begin + at] == name[at]:
        at += 1
    return at == name.shape[0] == end - begin


@kernel
def find_property(block: Any, begins: Any, ends: Any, name: Any, starts: Any, stops: Any) -> None:
    """Write the span of one property's value in each message to ``starts`` and ``stops`` (int32[n] each; -1 if absent)."""
    for row in range(begins.shape[0]):
        at, end = begins[row], ends[row]
        starts[row] = stops[row] = -1
        while at < end:
            middle = _find_byte(block, at, end, _NAME_END)
            last = _find_byte(block, middle, end, _VALUE_END)
            if middle < end and _equals(block, at, middle, name):
                starts[row], stops[row] = middle + 1, last
                break
            at = last + 1


@kernel
def count_properties(block: Any, begins: Any, ends: Any, counts: Any) -> None:
    """Write the cumulative number of properties before each message: int32[n + 1]."""
    total = 0
    counts[0] = 0
    for row in range(begins.shape[0]):
        at, end = begins[row], ends[row]
        while at < end:
            middle = _find_byte(block, at, end, _NAME_END)
            total += middle < end
            at = _find_byte(block, middle, end, _VALUE_END) + 1
        counts[row + 1] = total


@kernel
def all_properties(block: Any, begins: Any, ends: Any, spans: Any) -> None:
    """Write the spans of names and values: int32[4, m], for the counts of `count_properties`."""
    count = 0
    for row in range(begins.shape[0]):
        at, end = begins[row], ends[row]
        while at < end:
            middle = _find_byte(block, at, end, _NAME_END)
            last = _find_byte(block, middle, end, _VALUE_END)
            if middle < end:
                spans[0, count], spans[1, count], spans[2, count], spans[3, count] = at, middle, middle + 1, last
                count += 1
            at = last + 1
