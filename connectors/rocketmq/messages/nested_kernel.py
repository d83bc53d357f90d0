"""Kernels for messages whose bodies are messages, in the format of `connectors.rocketmq.message_encoding`.

Producers write them, so every length is checked against the body before it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from connectors.rocketmq.messages.stored_kernel import number
from connectors.rocketmq.messages.stored_messages import (
    BODY_BEGIN,
    BODY_END,
    FLAGS,
    NESTED,
    OFFSET,
    PROPERTIES_BEGIN,
    PROPERTIES_END,
)
from etl.columns.kernels import kernel, kernel_function

_HEAD_BYTES = 20


@kernel_function
def _message_end(block: Any, at: Any, end: Any) -> Any:
    """Return where the message that begins at ``at`` ends; -1 if it is malformed."""
    if at + _HEAD_BYTES + 2 > end:
        return np.int64(-1)
    properties = at + _HEAD_BYTES + number(block, at + 16, 4)
    if properties + 2 > end:
        return np.int64(-1)
    message_end = properties + 2 + number(block, properties, 2)
    return message_end if message_end <= end and message_end == at + number(block, at, 4) else np.int64(-1)


@kernel_function
def _copy_parts(parts: Any, row: Any, found: Any, to: Any) -> None:
    for what in range(parts.shape[0]):
        found[what, to] = parts[what, row]


@kernel
def count_nested(block: Any, parts: Any, counts: Any) -> None:
    """Count the messages in each message (int64[n]): 1 for a plain one, -1 for a malformed body."""
    for row in range(parts.shape[1]):
        counts[row] = 1
        if parts[FLAGS, row] & NESTED != NESTED:
            continue
        at, end, count = parts[BODY_BEGIN, row], parts[BODY_END, row], 0
        while 0 <= at < end:
            at = _message_end(block, at, end)
            count += 1
        counts[row] = count if at == end else -1


@kernel
def copy_nested(block: Any, parts: Any, found: Any) -> None:
    """Write the single messages to ``found`` (int64[8, m]), for the counts of `count_nested`, none of which may be -1.

    Times are those of the outer message, offsets count from its own.
    """
    count = 0
    for row in range(parts.shape[1]):
        if parts[FLAGS, row] & NESTED != NESTED:
            _copy_parts(parts, row, found, count)
            count += 1
            continue
        at, end, offset = parts[BODY_BEGIN, row], parts[BODY_END, row], parts[OFFSET, row]
        while at < end:
            message_end, body = _message_end(block, at, end), at + _HEAD_BYTES
            _copy_parts(parts, row, found, count)
            found[OFFSET, count], found[FLAGS, count] = offset, 0
            found[BODY_BEGIN, count], found[BODY_END, count] = body, body + number(block, at + 16, 4)
            found[PROPERTIES_BEGIN, count], found[PROPERTIES_END, count] = found[BODY_END, count] + 2, message_end
            at, count, offset = message_end, count + 1, offset + 1
