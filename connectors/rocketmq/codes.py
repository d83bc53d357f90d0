"""Numbers of requests and answers, from ``RequestCode`` and ``ResponseCode`` of RocketMQ 5.3, and what an answer means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from connectors.rocketmq.frames import Answer
from etl.api import ComponentError

PULL: Final = 11
UPDATE_TOPIC: Final = 17
COMMITTED: Final = 14
COMMIT: Final = 15
AT_TIME: Final = 29
LARGEST: Final = 30
SMALLEST: Final = 31
CHECK_CLIENT: Final = 46
ROUTE: Final = 105
CLUSTER: Final = 106
ALL_TOPICS: Final = 206
SEND_BATCH: Final = 320
TOPIC_CONFIG: Final = 351

DONE: Final = 0
UNKNOWN_REQUEST: Final = 3
NO_SLAVE: Final = 11
ILLEGAL: Final = 13
NO_PERMISSION: Final = 16
NO_TOPIC: Final = 17
NOTHING_THERE: Final = 19
NOTHING_MATCHED: Final = 20
OUT_OF_RANGE: Final = 21
NEVER_COMMITTED: Final = 22
NO_GROUP: Final = 26


class BusyError(ConnectionError):
    """A server that refuses for now, or cannot tell why it fails."""


def _denied(text: str) -> Exception:
    return ComponentError(f"{text}; look at user and password, and at what that user may do there")


def _no_topic(text: str) -> Exception:
    return ComponentError(f"{text}; make the topic, or correct its name")


def _no_group(text: str) -> Exception:
    return ComponentError(f"{text}; make the group there (mqadmin updateSubGroup), or name another")


def _bad_filter(text: str) -> Exception:
    return ComponentError(f"{text}; mend the filter")


def _wrong(text: str) -> Exception:
    return ComponentError(text)


_MEANINGS: dict[int, Callable[[str], Exception]] = {
    UNKNOWN_REQUEST: _wrong,  # this version does not know it
    ILLEGAL: _wrong,
    15: _wrong,
    NO_PERMISSION: _denied,
    NO_TOPIC: _no_topic,
    23: _bad_filter,
    24: _wrong,
    25: _wrong,
    NO_GROUP: _no_group,
    29: _wrong,  # a parameter that is not possible, such as a queue that the topic no longer has
}

_PASSING = "the broker["
"""What a broker says first when it refuses, with the code of a missing permission, for it is being maintained."""

_DENIALS = ("AuthenticationException", "AuthorizationException", "AclException", "check signature failed")


_NO_FILTERS = "not support consumer to filter message"


def is_illegal(answer: Answer) -> bool:
    """Whether a broker will never take this request; it says so by a code, or as a failure of its encoder of batches."""
    return answer.code == ILLEGAL or "size exceeded" in answer.remark


def failure(place: str, answer: Answer) -> Exception:
    """What an answer other than the one hoped for means: a ComponentError, or (try again) an OSError."""
    text = f"{place} answers {answer.code}: {answer.remark.splitlines()[0].strip() if answer.remark else 'without a reason'}"
    if answer.code == NO_PERMISSION and answer.remark.startswith(_PASSING):
        return BusyError(text)
    if _NO_FILTERS in answer.remark:
        return ComponentError(f"{text}; set enablePropertyFilter=true on the broker, or filter behind the source")
    if any(word in answer.remark for word in _DENIALS):
        return _denied(text)
    return _MEANINGS.get(answer.code, BusyError)(text)
