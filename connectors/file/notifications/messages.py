"""Reads messages of a queue: which objects of which bucket were created.

Formats: "Event message structure" of the Amazon S3 user guide, "EventBridge event message structure" there, and "Parsing message
formats" of the Amazon SNS developer guide.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

_MAX_DEPTH = 4
"""SNS in EventBridge in SNS; a message that is packed deeper is none of these services'."""


class CreatedObject(NamedTuple):
    """An object that was created or written again."""

    bucket: str
    key: str


class UnknownMessageError(ValueError):
    """A message that no notification of S3 looks like."""


def read_message(body: str) -> list[CreatedObject]:
    """The objects that a message announces; none if it is about something else, as a deletion is. Raises UnknownMessageError."""
    return list(_created(_parsed(body), _MAX_DEPTH))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UnknownMessageError("it is not JSON") from None


def _created(message: Any, depth: int) -> Iterator[CreatedObject]:
    if not isinstance(message, dict) or not depth:
        raise UnknownMessageError("it is not a JSON object that S3, EventBridge or SNS writes")
    if isinstance(records := message.get("Records"), list):
        for record in records:
            yield from _of_record(record)
    elif isinstance(message.get("detail"), dict) and "detail-type" in message:
        yield from _of_bridge(message)
    elif message.get("Type") == "Notification" and isinstance(inner := message.get("Message"), str):
        yield from _created(_parsed(inner), depth - 1)
    elif message.get("Event") != "s3:TestEvent":
        raise UnknownMessageError("it has neither Records, nor detail, nor a Message of SNS")


def _of_record(record: Any) -> Iterator[CreatedObject]:
    """An event of S3 itself; its key is encoded as in a form of HTML."""
    if not isinstance(record, dict) or not isinstance(name := record.get("eventName"), str):
        raise UnknownMessageError("a record has no eventName")
    if name.removeprefix("s3:").startswith("ObjectCreated:"):
        found = _named(record.get("s3"))
        yield CreatedObject(found.bucket, unquote_plus(found.key))


def _of_bridge(message: Mapping[str, Any]) -> Iterator[CreatedObject]:
    """An event of EventBridge; its key is as it is."""
    if message.get("source") == "aws.s3" and message["detail-type"] == "Object Created":
        yield _named(message["detail"])


def _named(record: Any) -> CreatedObject:
    try:
        bucket, key = record["bucket"]["name"], record["object"]["key"]
    except (TypeError, KeyError):
        raise UnknownMessageError("a record names no bucket and object") from None
    if not isinstance(bucket, str) or not isinstance(key, str):
        raise UnknownMessageError("a record names no bucket and object")
    return CreatedObject(bucket, key)
