"""Messages of topics of the type BatchCQ: a broker stores the messages of one request as one message that contains them.

Source of the format: ``MessageDecoder.decodeMessage`` of RocketMQ 5.3. The outer message takes as many offsets as it contains
messages. A broker sends all of it if one of them is requested. Its filters see the outer message's properties only, not those
of the messages inside.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from connectors.rocketmq.messages.stored_messages import FLAGS, NESTED, OFFSET, StoredMessages
from connectors.rocketmq.protocol.codes import GET_TOPIC_CONFIG, REQUEST_NOT_SUPPORTED, SUCCESS, TOPIC_NOT_EXIST
from connectors.rocketmq.protocol.connection import Connection

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_QUEUE_TYPE, _BATCH_TYPE = "queue.type", "BatchCQ"


def has_nested_messages(connection: Connection, topic: str) -> bool | None:
    """Return whether messages of a topic may contain others; None if the broker does not say, for example for lack of
    rights.

    Brokers before version 5 know neither the request nor such topics.
    """
    answer = connection.receive(connection.send(GET_TOPIC_CONFIG, {"topic": topic}))
    if answer.code != SUCCESS:
        return False if answer.code in (REQUEST_NOT_SUPPORTED, TOPIC_NOT_EXIST) else None
    try:
        return json.loads(answer.body)["attributes"].get(_QUEUE_TYPE) == _BATCH_TYPE
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def is_nested(stored: StoredMessages) -> Array:
    """Return which messages contain others."""
    return (stored.parts[FLAGS] & NESTED) == NESTED


def unnest(stored: StoredMessages, after: int, end: int) -> tuple[StoredMessages, StoredMessages]:
    """Return the single messages with ascending offsets after ``after`` and before ``end``, and the malformed outer messages.

    Bodies must be decompressed before.
    """
    import numpy as np

    from connectors.rocketmq.messages.nested_kernel import copy_nested, count_nested

    if not is_nested(stored).any():
        return stored, stored.at([])
    block, counts = np.frombuffer(stored.buffer, np.uint8), np.empty(len(stored), np.int64)
    count_nested(block, stored.parts, counts)
    malformed, whole = stored.at(counts < 0), stored.at(counts >= 0)
    found = np.empty((len(stored.parts), int(counts[counts >= 0].sum())), np.int64)
    copy_nested(block, whole.parts, found)
    single = replace(stored, parts=found)
    return single.at(_is_new(found[OFFSET], after, end)), malformed.at(malformed.parts[OFFSET] > after)


def _is_new(offsets: Array, after: int, end: int) -> Array:
    import numpy as np

    before = np.maximum.accumulate(np.concatenate(([after], offsets)))[:-1]
    return (offsets > before) & (offsets < end)
