"""Messages about objects, as S3, EventBridge and SNS write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connectors.file.notifications.messages import CreatedObject, UnknownMessageError, read_message


def record(name: str, key: str) -> dict[str, Any]:
    place = {"bucket": {"name": "logs"}, "object": {"key": key, "size": 4, "eTag": "d41d", "sequencer": "0055AED6"}}
    return {"eventVersion": "2.1", "eventSource": "aws:s3", "awsRegion": "eu-west-1", "eventName": name, "s3": place}


def bridge(kind: str, key: str) -> dict[str, Any]:
    detail = {"version": "0", "bucket": {"name": "logs"}, "object": {"key": key, "size": 4}, "reason": "PutObject"}
    return {"version": "0", "detail-type": kind, "source": "aws.s3", "account": "1", "region": "eu-west-1", "detail": detail}


def sns(message: Any) -> dict[str, Any]:
    return {"Type": "Notification", "TopicArn": "arn:aws:sns:eu-west-1:1:logs", "Message": json.dumps(message)}


PUT = {"Records": [record("ObjectCreated:Put", "a+b/%C3%BC%2B.gz"), record("s3:ObjectCreated:CompleteMultipartUpload", "c.gz")]}
TEST = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "2026-11-29T01:00:00.000Z", "Bucket": "logs", "RequestId": "1"}


@pytest.mark.parametrize(
    ("message", "keys"),
    [
        (PUT, ["a b/ü+.gz", "c.gz"]),
        (bridge("Object Created", "a+b/%C3.gz"), ["a+b/%C3.gz"]),
        (sns(PUT), ["a b/ü+.gz", "c.gz"]),
        (sns(bridge("Object Created", "x")), ["x"]),
        (TEST, []),
        (sns(TEST), []),
        ({"Records": [record("ObjectRemoved:Delete", "a"), record("ObjectCreated:Copy", "b")]}, ["b"]),
        (bridge("Object Deleted", "a"), []),
        ({"Records": [record("ObjectRestore:Completed", "a")]}, []),
    ],
)
def test_messages_name_the_objects_that_were_created(message: Any, keys: list[str]) -> None:
    assert read_message(json.dumps(message)) == [CreatedObject("logs", key) for key in keys]


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(sns(sns(sns(sns(PUT))))),
        '{"Records": [{"eventName": "ObjectCreated:Put", "s3": {"bucket": 1, "object": []}}]}',
        "",
        "hello",
        "[]",
        "3",
        "{}",
        '{"Records": [{}]}',
        '{"Records": [{"eventName": "ObjectCreated:Put", "s3": {}}]}',
        "[" * 100_000,
    ],
)
def test_other_messages_are_told_apart(body: str) -> None:
    with pytest.raises(UnknownMessageError):
        read_message(body)
