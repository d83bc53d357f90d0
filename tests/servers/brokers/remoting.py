"""The part of RocketMQ's remoting protocol that the test servers need: find a broker, and create a topic."""

from __future__ import annotations

import base64
import hmac
import json
import socket
import struct
from dataclasses import dataclass, field

ROUTE_OF_TOPIC, UPDATE_TOPIC, BROKER_STATE = 105, 17, 28
SUCCESS = 0
SECONDS = 3.0

Answer = tuple[int, str, bytes]
"""Code (0: success), remark, body."""


@dataclass(frozen=True)
class Account:
    """A user of a broker with access control."""

    user: str
    password: str = field(repr=False)

    def sign(self, fields: dict[str, str]) -> dict[str, str]:
        """Return the HMAC-SHA1 over the values in the order of their names, as brokers check it."""
        named = {**fields, "AccessKey": self.user}
        content = "".join(named[name] for name in sorted(named)).encode()
        return {**named, "Signature": base64.b64encode(hmac.digest(self.password.encode(), content, "sha1")).decode()}


def call(address: str, code: int, fields: dict[str, str], account: Account | None = None) -> Answer:
    """Send a request and return the answer. Raises OSError without an answer."""
    host, _, port = address.rpartition(":")
    asked = {"code": code, "flag": 0, "language": "PYTHON", "opaque": 1, "version": 435, "serializeTypeCurrentRPC": "JSON"}
    header = json.dumps({**asked, "extFields": account.sign(fields) if account else fields}).encode()
    with socket.create_connection((host, int(port)), SECONDS) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">ii", 4 + len(header), len(header)) + header)
        total, length = struct.unpack(">ii", _whole(answers.read(8), 8))
        length &= 0xFFFFFF  # the upper byte says how the header is written
        answer = json.loads(_whole(answers.read(length), length))
        return answer["code"], answer.get("remark") or "", answers.read(total - 4 - length)


def has_route(name_server: str, topic: str) -> bool:
    """Return whether a name server has a broker for a topic."""
    return call(name_server, ROUTE_OF_TOPIC, {"topic": topic, "acceptStandardJsonOnly": "true"})[0] == SUCCESS


def create_topic(broker: str, topic: str, queues: int, account: Account | None, attributes: str = "") -> None:
    """Create a topic, or change the number of its queues; ``attributes`` such as ``+queue.type=BatchCQ``."""
    count = {"readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6"}
    rest = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    more = {"attributes": attributes} if attributes else {}
    code, remark, _ = call(broker, UPDATE_TOPIC, {"topic": topic, **count, **rest, **more}, account)
    if code != SUCCESS:
        raise OSError(f"broker {broker} refused to make the topic {topic!r}: code {code}: {remark}")


def _whole(got: bytes, length: int) -> bytes:
    if len(got) < length:
        raise ConnectionError("the connection was closed before the answer")
    return got
