"""Codes of requests and answers (``RequestCode`` and ``ResponseCode`` of RocketMQ 5.3), and the exceptions that answers
become.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from connectors.rocketmq.protocol.frames import Response
from etl.api import ComponentError

PULL_MESSAGE: Final = 11
UPDATE_AND_CREATE_TOPIC: Final = 17
QUERY_CONSUMER_OFFSET: Final = 14
UPDATE_CONSUMER_OFFSET: Final = 15
SEARCH_OFFSET_BY_TIMESTAMP: Final = 29
GET_MAX_OFFSET: Final = 30
GET_MIN_OFFSET: Final = 31
CHECK_CLIENT_CONFIG: Final = 46
GET_ROUTE: Final = 105
GET_CLUSTER: Final = 106
GET_ALL_TOPICS: Final = 206
SEND_BATCH_MESSAGE: Final = 320
GET_TOPIC_CONFIG: Final = 351

SUCCESS: Final = 0
REQUEST_NOT_SUPPORTED: Final = 3
SLAVE_NOT_AVAILABLE: Final = 11
MESSAGE_ILLEGAL: Final = 13
NO_PERMISSION: Final = 16
TOPIC_NOT_EXIST: Final = 17
PULL_NOT_FOUND: Final = 19
PULL_RETRY: Final = 20
PULL_OFFSET_MOVED: Final = 21
QUERY_NOT_FOUND: Final = 22
GROUP_NOT_EXIST: Final = 26


class BusyError(ConnectionError):
    """A server refuses a request for now, or fails for an unknown reason: the request is retried."""


def _permission_error(text: str) -> Exception:
    return ComponentError(f"{text}; check user and password, and the rights of this user")


def _topic_error(text: str) -> Exception:
    return ComponentError(f"{text}; create the topic, or correct its name")


def _group_error(text: str) -> Exception:
    return ComponentError(f"{text}; create the group (mqadmin updateSubGroup), or use another one")


def _filter_error(text: str) -> Exception:
    return ComponentError(f"{text}; correct the filter")


def _plain_error(text: str) -> Exception:
    return ComponentError(text)


_EXCEPTIONS: dict[int, Callable[[str], Exception]] = {
    REQUEST_NOT_SUPPORTED: _plain_error,  # this version does not know the request
    MESSAGE_ILLEGAL: _plain_error,
    15: _plain_error,
    NO_PERMISSION: _permission_error,
    TOPIC_NOT_EXIST: _topic_error,
    23: _filter_error,
    24: _plain_error,
    25: _plain_error,
    GROUP_NOT_EXIST: _group_error,
    29: _plain_error,  # an impossible parameter, such as a queue that the topic no longer has
}

_MAINTENANCE_PREFIX = "the broker["
"""Begin of the remark of a broker under maintenance, which refuses with the code of a missing permission."""

_PERMISSION_MESSAGES = ("AuthenticationException", "AuthorizationException", "AclException", "check signature failed")


_FILTERS_DISABLED = "not support consumer to filter message"


def is_illegal(answer: Response) -> bool:
    """Return whether a broker will never accept this request. It says so by a code, or by an error of its batch encoder."""
    return answer.code == MESSAGE_ILLEGAL or "size exceeded" in answer.remark


def to_exception(address: str, answer: Response) -> Exception:
    """Return the exception for an unexpected answer: a ComponentError, or an OSError if a retry may help."""
    text = f"{address} answers {answer.code}: {answer.remark.splitlines()[0].strip() if answer.remark else 'without a reason'}"
    if answer.code == NO_PERMISSION and answer.remark.startswith(_MAINTENANCE_PREFIX):
        return BusyError(text)
    if _FILTERS_DISABLED in answer.remark:
        return ComponentError(f"{text}; set enablePropertyFilter=true on the broker, or use a step filter after the source")
    if any(word in answer.remark for word in _PERMISSION_MESSAGES):
        return _permission_error(text)
    return _EXCEPTIONS.get(answer.code, BusyError)(text)
