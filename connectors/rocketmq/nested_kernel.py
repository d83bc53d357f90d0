"""Kernels over messages whose bodies are messages, in the form that `connectors.rocketmq.messages` tells.

Producers write them, so every length is checked against the body before it is believed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from connectors.rocketmq.stored import BODY_BEGIN, BODY_END, FLAGS, NESTED, OFFSET, PROPERTIES_BEGIN, PROPERTIES_END
from connectors.rocketmq.stored_kernel import number
from etl.columns.kernels import kernel, part

_HEAD = 20


@part
def _behind(block: Any, at: Any, end: Any) -> Any:
    """Where the message that begins at ``at`` ends; -1 when none does."""
    if at + _HEAD + 2 > end:
        return np.int64(-1)
    properties = at + _HEAD + number(block, at + 16, 4)
    if properties + 2 > end:
        return np.int64(-1)
    behind = properties + 2 + number(block, properties, 2)
    return behind if behind <= end and behind == at + number(block, at, 4) else np.int64(-1)


@part
def _copy(parts: Any, row: Any, found: Any, to: Any) -> None:
    for what in range(parts.shape[0]):
        found[what, to] = parts[what, row]


@kernel
def count_nested(block: Any, parts: Any, counts: Any) -> None:
    """How many messages each message is (int64[n]): 1 for a plain one, -1 for one whose body is something else."""
    for row in range(parts.shape[1]):
        counts[row] = 1
        if parts[FLAGS, row] & NESTED != NESTED:
            continue
        at, end, count = parts[BODY_BEGIN, row], parts[BODY_END, row], 0
        while 0 <= at < end:
            at = _behind(block, at, end)
            count += 1
        counts[row] = count if at == end else -1


@kernel
def open_nested(block: Any, parts: Any, found: Any) -> None:
    """Messages one by one → ``found`` (int64[8, m]), for as many as `count_nested` has counted, and no -1 among them. Times
    are those of the message around, offsets count from its."""
    count = 0
    for row in range(parts.shape[1]):
        if parts[FLAGS, row] & NESTED != NESTED:
            _copy(parts, row, found, count)
            count += 1
            continue
        at, end, offset = parts[BODY_BEGIN, row], parts[BODY_END, row], parts[OFFSET, row]
        while at < end:
            behind, body = _behind(block, at, end), at + _HEAD
            _copy(parts, row, found, count)
            found[OFFSET, count], found[FLAGS, count] = offset, 0
            found[BODY_BEGIN, count], found[BODY_END, count] = body, body + number(block, at + 16, 4)
            found[PROPERTIES_BEGIN, count], found[PROPERTIES_END, count] = found[BODY_END, count] + 2, behind
            at, count, offset = behind, count + 1, offset + 1
