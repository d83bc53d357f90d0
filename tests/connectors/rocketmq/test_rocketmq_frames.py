"""Frames, signatures, routes and tag expressions: bytes of the protocol, and hostile bytes."""

from __future__ import annotations

import json
import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.rocketmq import tags
from connectors.rocketmq.protocol import frames, routes
from connectors.rocketmq.protocol.codes import NO_PERMISSION, TOPIC_NOT_EXIST, BusyError, to_exception
from connectors.rocketmq.protocol.connection import ConnectionSettings
from connectors.rocketmq.protocol.frames import ProtocolError, Response
from connectors.rocketmq.protocol.routes import Queue
from connectors.rocketmq.protocol.signature import Credentials
from connectors.shared.endpoint import host_and_port
from etl.api import ComponentError

GET_ROUTE = b"""{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"C"},
 {"brokerAddrs":{"1":"10.0.0.4:10911"},"brokerName":"broker-b","cluster":"C"}],"filterServerTable":{},"queueDatas":
 [{"brokerName":"broker-b","perm":6,"readQueueNums":1,"topicSysFlag":0,"writeQueueNums":1},
 {"brokerName":"broker-a","perm":6,"readQueueNums":2,"topicSysFlag":0,"writeQueueNums":1}]}"""


def test_a_request_is_two_lengths_a_head_in_json_and_a_body() -> None:
    frame = frames.encode_request(105, 7, {"topic": "web"}, b"\x00\xffbody")

    head = (
        b'{"code":105,"flag":0,"language":"PYTHON","opaque":7,"version":435,"serializeTypeCurrentRPC":"JSON",'
        b'"extFields":{"topic":"web"}}'
    )
    assert frame == (4 + len(head) + 6).to_bytes(4, "big") + b"\x00" + len(head).to_bytes(3, "big") + head + b"\x00\xffbody"


def test_an_answer_is_read_back() -> None:
    head = b'{"code":17,"extFields":{"nextBeginOffset":"12"},"flag":1,"language":"JAVA","opaque":9,"remark":"no","version":475}'

    answer = frames.parse_answer(head, b"x")

    assert answer == Response(9, 17, "no", {"nextBeginOffset": "12"}, b"x")
    assert answer.number("nextBeginOffset") == 12
    with pytest.raises(ProtocolError, match="lacks the number 'minOffset'"):
        answer.number("minOffset")


def test_requests_of_a_broker_are_not_answers() -> None:
    assert frames.parse_answer(b'{"code":40,"flag":0,"opaque":1}', b"") is None
    assert frames.parse_answer(b'{"code":40,"flag":2,"opaque":1}', b"") is None


@pytest.mark.parametrize(
    ("prefix", "expected_text"),
    [
        (b"HTTP/1.1", "cannot begin with"),
        (b"\x00\x00\x00\x03\x00\x00\x00\x00", "cannot begin with"),
        (b"\x00\x00\x00\x10\x01\x00\x00\x04", "cannot begin with"),  # a head that is not JSON
        (b"\x00\x00\x00\x10\x00\x00\x00\x0d", "cannot begin with"),  # a head longer than the frame
        (b"\x7f\xff\xff\xff\x00\x00\x00\x04", "cannot begin with"),
        (b"\xff\xff\xff\xff\x00\x00\x00\x04", "cannot begin with"),
    ],
)
def test_an_error_shows_bytes_that_are_not_a_frame(prefix: bytes, expected_text: str) -> None:
    with pytest.raises(ProtocolError, match=expected_text):
        frames.parse_prefix(prefix)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=60), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps).map(str.encode)
    )
)
def test_hostile_heads_raise_one_error_only(head: bytes) -> None:
    with suppress(ProtocolError):
        frames.parse_answer(head, b"")


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["flag", "opaque", "code", "remark", "extFields"]),
        st.integers() | st.text() | st.none() | st.lists(st.none()),
    )
)
def test_heads_of_other_types_raise_one_error_only(head: dict[str, object]) -> None:
    try:
        answer = frames.parse_answer(json.dumps(head).encode(), b"")
    except ProtocolError:
        return
    assert answer is None or (isinstance(answer.code, int) and isinstance(answer.opaque, int) and isinstance(answer.remark, str))


def test_a_signature_is_over_all_values_in_the_order_of_names_and_the_body() -> None:
    signed = Credentials("etl", "secret").sign({"topic": "web", "queueId": "0"}, b"body")

    # echo -n etl0webbody | openssl dgst -sha1 -hmac secret -binary | base64
    assert signed == {"topic": "web", "queueId": "0", "AccessKey": "etl", "Signature": "uGdMLS7n/x5u1aDOfOGUYthjWvc="}


def test_a_login_does_not_show_its_password() -> None:
    assert "secret" not in repr(ConnectionSettings(("a:1",), Credentials("etl", "secret")))


def test_a_route_names_queues_and_where_they_are() -> None:
    route = routes.parse_route("web", GET_ROUTE)

    assert route.addresses == {"broker-a": ("10.0.0.1:10911", "10.0.0.2:10911"), "broker-b": ("10.0.0.4:10911",)}
    assert route.readable == (Queue("broker-a", "web", 0), Queue("broker-a", "web", 1), Queue("broker-b", "web", 0))
    assert route.writable == (Queue("broker-a", "web", 0),), "broker-b has no master"


def test_queues_that_may_not_be_read_or_written_are_left_out() -> None:
    route = routes.parse_route("web", GET_ROUTE.replace(b'"perm":6,"readQueueNums":2', b'"perm":4,"readQueueNums":2'))

    assert len(route.readable) == 3
    assert route.writable == ()


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, len(GET_ROUTE) - 1),
    st.binary(max_size=6),
    st.sampled_from([routes.parse_broker_names, routes.parse_topic_names, lambda b: routes.parse_route("t", b)]),
)
def test_hostile_routes_raise_one_error_only(at: int, send_events: bytes, parse: object) -> None:
    with suppress(ProtocolError):
        parse(GET_ROUTE[:at] + send_events + GET_ROUTE[at + len(send_events) :])  # type: ignore[operator]


@pytest.mark.slow
@given(st.text(min_size=1), st.text(min_size=1).filter(lambda text: "/" not in text), st.integers(0, 1 << 16))
def test_a_queue_is_known_by_its_name(broker: str, topic: str, number: int) -> None:
    queue = Queue(broker, topic, number)

    assert Queue.of(queue.name) == queue


@pytest.mark.parametrize("name", ["", "a", "a/b", "a/b/", "a/b/x", "//0", "a/b/-1", "a/b/²"])
def test_an_invalid_queue_name_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="is not a queue name"):
        Queue.of(name)


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", ":9876", "localhost:0", "localhost:65536", "localhost:x", "a:²"])
def test_an_invalid_address_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape("write host:port")):
        host_and_port(text)


def test_addresses() -> None:
    assert host_and_port("rmq1.example.org:9876") == ("rmq1.example.org", 9876)
    assert host_and_port("[::1]:9876") == ("::1", 9876)


@pytest.mark.parametrize(("expression", "found"), [("*", None), (" a ", ("a",)), ("a||b || c-d", ("a", "b", "c-d"))])
def test_tag_expressions(expression: str, found: tuple[str, ...] | None) -> None:
    assert tags.parse_tags(expression) == found


@pytest.mark.parametrize("expression", ["", "a ||", "a | b", "a b", "* || a", "a||\x02"])
def test_an_invalid_tag_expression_is_an_error(expression: str) -> None:
    with pytest.raises(ValueError, match="is not a tag expression"):
        tags.parse_tags(expression)


@pytest.mark.parametrize(
    ("code", "remark", "kind", "expected_text"),
    [
        (2, "[TIMEOUT_CLEAN_QUEUE]broker busy", BusyError, "answers 2: "),
        (NO_PERMISSION, "check signature failed.", ComponentError, "check user and password"),
        (NO_PERMISSION, "the broker[127.0.0.1] sending message is forbidden", BusyError, "forbidden"),
        (TOPIC_NOT_EXIST, "topic[x] not exist\nSee https://example.org", ComponentError, "topic.x. not exist; create the topic"),
        (999, "", BusyError, "without a reason"),
    ],
)
def test_exceptions_of_answers(code: int, remark: str, kind: type[Exception], expected_text: str) -> None:
    error = to_exception("rocketmq h:1", Response(1, code, remark, {}, b""))

    assert type(error) is kind
    assert re.search(expected_text, str(error))
    assert "\n" not in str(error)
