"""Connections and name servers, with servers that answer late, in another order, wrongly, or not at all."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from connectors.rocketmq.messages.message_columns import MessageColumns
from connectors.rocketmq.messages.nested_messages import has_nested_messages
from connectors.rocketmq.protocol.codes import (
    GET_CLUSTER,
    GET_ROUTE,
    GET_TOPIC_CONFIG,
    NO_PERMISSION,
    REQUEST_NOT_SUPPORTED,
    SUCCESS,
    TOPIC_NOT_EXIST,
)
from connectors.rocketmq.protocol.connection import Connection, ConnectionSettings
from connectors.rocketmq.protocol.frames import PREFIX, ProtocolError
from connectors.rocketmq.protocol.name_servers import NameServers, UnknownTopicError
from connectors.rocketmq.protocol.routes import Queue
from connectors.rocketmq.puller import SQL, TAG
from connectors.rocketmq.range_reader import RangeReader

QUEUE = Queue("broker-a", "web", 0)
Reply = Callable[[dict[str, object]], bytes]
"""Header of a request → bytes that the server writes."""


@contextmanager
def server(reply: Reply) -> Iterator[str]:
    """A server for any number of connections, one after the other."""
    listening = socket.create_server(("127.0.0.1", 0))
    ends = threading.Event()

    def serve() -> None:
        while not ends.is_set():
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as asked:
                try:
                    while prefix := asked.read(8):
                        total, head = PREFIX.unpack(prefix)
                        reason = json.loads(asked.read(head))
                        asked.read(total - 4 - head)
                        connection.sendall(reply(reason))
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield "{}:{}".format(*listening.getsockname())
    finally:
        ends.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(120)


def frame(opaque: object, code: int = 0, body: bytes = b"", **more: object) -> bytes:
    head = json.dumps({"code": code, "flag": 1, "opaque": opaque, "extFields": {}, **more}).encode()
    return PREFIX.pack(4 + len(head) + len(body), len(head)) + head + body


def opened(address: str, timeout: float = 5.0) -> Connection:
    return Connection(address, ConnectionSettings((address,), timeout=timeout))


def test_answers_in_another_order_find_their_requests() -> None:
    asked: list[object] = []

    def last_first(reason: dict[str, object]) -> bytes:
        asked.append(reason["opaque"])
        return b"" if len(asked) < 3 else b"".join(frame(number, body=str(number).encode()) for number in reversed(asked))

    with server(last_first) as address:
        connection = opened(address)
        numbers = [connection.send(GET_ROUTE, {}) for _ in range(3)]

        assert [connection.receive(number).body for number in numbers] == [str(number).encode() for number in numbers]
        connection.close()


def test_unexpected_answers_are_dropped() -> None:
    with server(lambda reason: frame(77) + frame(1, flag=0) + frame(reason["opaque"], body=b"mine") + frame(78)) as address:
        connection = opened(address)

        assert connection.call(GET_ROUTE, {}).body == b"mine"
        assert connection._answers == {}
        connection.close()


@pytest.mark.parametrize(
    ("reply", "error", "reason"),
    [
        (lambda reason: b"HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolError, "a frame of RocketMQ"),
        (lambda reason: PREFIX.pack(6, 2) + b"[]", ProtocolError, "the header of a frame is not"),
        (lambda reason: b"", TimeoutError, "no answer in time"),
    ],
    ids=["http", "list", "silence"],
)
def test_an_error_names_a_server_of_another_kind(reply: Reply, error: type[Exception], reason: str) -> None:
    with server(reply) as address:
        connection = opened(address, 0.2)
        with pytest.raises(error, match=f"rocketmq {address}: {reason}"):
            connection.call(GET_ROUTE, {})
        connection.close()


def test_a_connection_that_ends_is_temporary() -> None:
    def cut(reason: dict[str, object]) -> bytes:
        raise OSError

    with server(cut) as address:
        connection = opened(address)
        with pytest.raises(ConnectionError, match=f"rocketmq {address}: "):
            connection.call(GET_ROUTE, {})
        connection.close()


def test_a_connection_with_unexpected_data_is_stale() -> None:
    with server(lambda reason: frame(reason["opaque"])) as address:
        connection = opened(address)
        connection.call(GET_ROUTE, {})
        assert not connection.is_stale
        connection._socket._socket.shutdown(socket.SHUT_RD)

        assert connection.is_stale
        connection.close()


BROKERS = b'{"brokerAddrTable":{"broker-a":{}},"clusterAddrTable":{}}'


def name_server(topics: dict[str, bytes], brokers: bytes = BROKERS) -> Reply:
    """A name server with routes of some topics."""

    def reply(reason: dict[str, object]) -> bytes:
        fields = reason["extFields"]
        assert isinstance(fields, dict)
        if reason["code"] == GET_CLUSTER:
            return frame(reason["opaque"], body=brokers)
        if reason["code"] == GET_ROUTE and fields["topic"] in topics:
            return frame(reason["opaque"], body=topics[fields["topic"]])
        body = json.dumps({"topicList": ["TBW102", "%RETRY%x", *topics]}).encode()
        return frame(reason["opaque"], 17) if reason["code"] == GET_ROUTE else frame(reason["opaque"], body=body)

    return reply


WEB = b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:1"},"brokerName":"broker-a"}],"queueDatas":[]}'


def test_the_next_name_server_is_used_if_one_is_down_or_has_no_route() -> None:
    with server(name_server({})) as forgetful, server(name_server({"web": WEB})) as knowing:
        names = NameServers(ConnectionSettings(("127.0.0.1:1", forgetful, knowing), timeout=5.0))

        assert names.find_route("web").addresses == {"broker-a": ("127.0.0.1:1",)}
        assert names._order[0] == knowing, "who knew is asked first from now on"
        names.close()


def test_an_unknown_topic_is_reported_with_the_existing_ones() -> None:
    with server(name_server({"web-logs": WEB, "orders": WEB})) as address:
        names = NameServers(ConnectionSettings((address,), timeout=5.0))
        with pytest.raises(UnknownTopicError, match=r"there is no topic 'web-log'; did you mean 'web-logs'\?"):
            names.find_route("web-log")
        with pytest.raises(UnknownTopicError, match=r"there are orders, web-logs; the option create: \{queues: 8\} creates it"):
            names.find_route("zzz")
        names.close()


def test_no_broker_yet_is_temporary() -> None:
    with server(name_server({}, b'{"brokerAddrTable":{}}')) as address:
        names = NameServers(ConnectionSettings((address,), timeout=5.0))
        with pytest.raises(ConnectionError, match="no broker has registered"):
            names.find_route("web")
        names.close()


@pytest.mark.parametrize(
    ("code", "body", "nesting"),
    [
        (SUCCESS, b'{"attributes": {"queue.type": "BatchCQ"}}', True),
        (SUCCESS, b'{"attributes": {}}', False),
        (SUCCESS, b"no JSON", False),
        (REQUEST_NOT_SUPPORTED, b"", False),
        (TOPIC_NOT_EXIST, b"", False),
        (NO_PERMISSION, b"", None),
        (1, b"", None),
    ],
)
def test_the_type_of_a_topic_is_read_from_the_broker(code: int, body: bytes, nesting: bool | None) -> None:
    with server(lambda asked: frame(asked["opaque"], code, body)) as address:
        assert has_nested_messages(opened(address), "web") is nesting


@pytest.mark.parametrize(("code", "asked"), [(SUCCESS, "a||b"), (NO_PERMISSION, "*")])
def test_all_messages_are_pulled_if_the_type_of_the_topic_is_unknown(code: int, asked: str) -> None:
    reading = RangeReader(MessageColumns(), "group", "a || b", None, "fail")

    with server(lambda reason: frame(reason["opaque"], code, b"{}")) as address:
        assert reading._subscription(opened(address), QUEUE) == (asked, TAG)


def test_a_filter_warns_once_if_the_type_of_the_topic_is_unknown(caplog: pytest.LogCaptureFixture) -> None:
    def reply(reason: dict[str, object]) -> bytes:
        return frame(reason["opaque"], NO_PERMISSION if reason["code"] == GET_TOPIC_CONFIG else SUCCESS)

    reading = RangeReader(MessageColumns(), "group", "*", "a > 1", "fail")
    with server(reply) as address:
        for _ in range(2):
            assert reading._subscription(opened(address), QUEUE) == ("a > 1", SQL)

    (message,) = caplog.messages
    assert message.startswith(f"rocketmq {address} does not give the type of topic 'web'")
