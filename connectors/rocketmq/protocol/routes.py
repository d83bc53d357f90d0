"""Which brokers hold a topic's queues, as name servers report it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from connectors.rocketmq.protocol.frames import ProtocolError
from connectors.shared.endpoint import host_and_port

_READABLE, _WRITABLE = 4, 2
"""Bits of ``perm``."""

_MASTER = "0"
"""Id of the broker that accepts messages; others of the same name are replicas."""

_MAX_QUEUES = 1 << 16
_BARE_NUMBER = re.compile(rb"([{,])\s*(\d+)\s*:")
"""A key that is a number: not valid JSON, but written by some servers."""


class Queue(NamedTuple):
    """A queue of a topic, which is what other systems call a partition."""

    broker: str
    topic: str
    number: int

    @property
    def name(self) -> str:
        """Return ``broker/topic/number``, as in offsets and messages."""
        return f"{self.broker}/{self.topic}/{self.number}"

    @classmethod
    def of(cls, name: str) -> Queue:
        """Parse `name`. Raises ValueError."""
        parts = name.rsplit("/", 2)
        if len(parts) != 3 or not all(parts) or not (parts[2].isascii() and parts[2].isdigit()):
            raise ValueError(f"{name!r} is not a queue name; write broker/topic/number, such as broker-a/orders/0")
        return cls(parts[0], parts[1], int(parts[2]))


@dataclass(frozen=True, slots=True)
class Route:
    """Addresses and queues of a topic."""

    addresses: Mapping[str, tuple[str, ...]]
    """Broker → addresses of its servers, the master first."""

    masters: frozenset[str]
    """Brokers whose first address is a master's."""

    readable: tuple[Queue, ...]
    writable: tuple[Queue, ...]


def parse_route(topic: str, body: bytes) -> Route:
    """Parse a name server's answer. Raises ProtocolError."""
    try:
        content = _parse_json(body)
        brokers = {str(one["brokerName"]): _master_first(one["brokerAddrs"]) for one in content["brokerDatas"]}
        parts = [(str(one["brokerName"]), one) for one in content["queueDatas"] if brokers.get(str(one["brokerName"]))]
        masters = frozenset(str(one["brokerName"]) for one in content["brokerDatas"] if _MASTER in one["brokerAddrs"])
        readable = tuple(queue for name, one in parts for queue in _queues(topic, name, one, "readQueueNums", _READABLE))
        writable = tuple(
            queue for name, one in parts if name in masters for queue in _queues(topic, name, one, "writeQueueNums", _WRITABLE)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ProtocolError(f"this is not the route of a topic: {body[:200]!r}") from None
    return Route(brokers, masters, tuple(sorted(readable)), tuple(sorted(writable)))


def parse_broker_names(body: bytes) -> set[str]:
    """Return the names of all brokers that a name server knows. Raises ProtocolError."""
    try:
        return set(_parse_json(body)["brokerAddrTable"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ProtocolError(f"this is not a list of brokers: {body[:200]!r}") from None


def parse_master_addresses(body: bytes) -> dict[str, str]:
    """Return broker → address of its master, for the brokers that have one. Raises ProtocolError."""
    try:
        table = _parse_json(body)["brokerAddrTable"]
        found = {str(name): str(one["brokerAddrs"][_MASTER]) for name, one in table.items() if _MASTER in one["brokerAddrs"]}
        for address in found.values():
            host_and_port(address)  # raises ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ProtocolError(f"this is not a list of brokers: {body[:200]!r}") from None
    return found


def parse_topic_names(body: bytes) -> list[str]:
    """Return the names of all topics that a name server knows. Raises ProtocolError."""
    try:
        return sorted(map(str, _parse_json(body)["topicList"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ProtocolError(f"this is not a list of topics: {body[:200]!r}") from None


def _parse_json(body: bytes) -> Any:
    return json.loads(_BARE_NUMBER.sub(rb'\1"\2":', body))


def _master_first(addresses: Mapping[str, str]) -> tuple[str, ...]:
    ordered = tuple(str(addresses[number]) for number in sorted(addresses, key=int))
    for address in ordered:
        host_and_port(address)  # raises ValueError
    return ordered


def _queues(topic: str, broker: str, content: Mapping[str, int], count: str, bit: int) -> list[Queue]:
    if not content["perm"] & bit:
        return []
    if not 0 <= content[count] <= _MAX_QUEUES:
        raise ValueError(count)
    return [Queue(broker, topic, number) for number in range(content[count])]
