"""Messages of topics of the type BatchCQ: a broker stores what a producer sent at once as one message whose body is messages.

Source of the format: ``MessageDecoder.decodeMessage`` of RocketMQ 5.3. Such a message takes as many offsets as it holds
messages. A broker gives all of it when it is asked for one of them, and looks at its own properties when it filters: those of
the messages inside are unknown to it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from connectors.rocketmq.codes import DONE, NO_TOPIC, TOPIC_CONFIG, UNKNOWN_REQUEST
from connectors.rocketmq.connection import Connection
from connectors.rocketmq.stored import FLAGS, NESTED, OFFSET, Stored

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_KIND, _BATCHES = "queue.type", "BatchCQ"


def is_nesting(connection: Connection, topic: str) -> bool | None:
    """Whether messages of a topic may hold others; None where the broker does not tell, as one that denies its configuration.
    Brokers before version 5 do not know the request, nor such topics."""
    answer = connection.receive(connection.send(TOPIC_CONFIG, {"topic": topic}))
    if answer.code != DONE:
        return False if answer.code in (UNKNOWN_REQUEST, NO_TOPIC) else None
    try:
        return json.loads(answer.body)["attributes"].get(_KIND) == _BATCHES
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def is_nested(stored: Stored) -> Array:
    """Which messages hold others."""
    return (stored.parts[FLAGS] & NESTED) == NESTED


def opened(stored: Stored, after: int, end: int) -> tuple[Stored, Stored]:
    """The messages one by one whose offsets grow from behind ``after`` to before ``end``, and those that hold none though they
    say so. Bodies must not be compressed any more."""
    import numpy as np

    from connectors.rocketmq.nested_kernel import count_nested, open_nested

    if not is_nested(stored).any():
        return stored, stored.at([])
    block, counts = np.frombuffer(stored.buffer, np.uint8), np.empty(len(stored), np.int64)
    count_nested(block, stored.parts, counts)
    strange, whole = stored.at(counts < 0), stored.at(counts >= 0)
    found = np.empty((len(stored.parts), int(counts[counts >= 0].sum())), np.int64)
    open_nested(block, whole.parts, found)
    single = replace(stored, parts=found)
    return single.at(_growing(found[OFFSET], after, end)), strange.at(strange.parts[OFFSET] > after)


def _growing(offsets: Array, after: int, end: int) -> Array:
    import numpy as np

    before = np.maximum.accumulate(np.concatenate(([after], offsets)))[:-1]
    return (offsets > before) & (offsets < end)
