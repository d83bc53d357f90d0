"""Which brokers hold a topic's queues, as a name server tells it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from connectors.rocketmq.frames import ProtocolError
from connectors.rocketmq.places import host_and_port

_READABLE, _WRITABLE = 4, 2
"""Bits of ``perm``."""

_MASTER = "0"
"""The id of the broker that takes messages; others of its name have copies."""

_MOST_QUEUES = 1 << 16
_BARE_NUMBER = re.compile(rb"([{,])\s*(\d+)\s*:")
"""A key that is a number, which no JSON has, but what some servers write."""


class Queue(NamedTuple):
    """A queue of a topic: what is a partition elsewhere."""

    broker: str
    topic: str
    number: int

    @property
    def name(self) -> str:
        """As offsets and messages name it: ``broker/topic/number``."""
        return f"{self.broker}/{self.topic}/{self.number}"

    @classmethod
    def of(cls, name: str) -> Queue:
        """What `name` gave; raises ValueError."""
        parts = name.rsplit("/", 2)
        if len(parts) != 3 or not all(parts) or not (parts[2].isascii() and parts[2].isdigit()):
            raise ValueError(f"{name!r} names no queue; write broker/topic/number, such as broker-a/orders/0")
        return cls(parts[0], parts[1], int(parts[2]))


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic is."""

    addresses: Mapping[str, tuple[str, ...]]
    """Broker → who has its queues, the master first."""

    masters: frozenset[str]
    """Brokers whose first address is a master's."""

    readable: tuple[Queue, ...]
    writable: tuple[Queue, ...]


def parsed(topic: str, body: bytes) -> Route:
    """A name server's answer. Raises ProtocolError."""
    try:
        said = _json(body)
        brokers = {str(one["brokerName"]): _ordered(one["brokerAddrs"]) for one in said["brokerDatas"]}
        parts = [(str(one["brokerName"]), one) for one in said["queueDatas"] if brokers.get(str(one["brokerName"]))]
        masters = frozenset(str(one["brokerName"]) for one in said["brokerDatas"] if _MASTER in one["brokerAddrs"])
        readable = tuple(queue for name, one in parts for queue in _queues(topic, name, one, "readQueueNums", _READABLE))
        writable = tuple(
            queue for name, one in parts if name in masters for queue in _queues(topic, name, one, "writeQueueNums", _WRITABLE)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ProtocolError(f"this is no route of a topic: {body[:200]!r}") from None
    return Route(brokers, masters, tuple(sorted(readable)), tuple(sorted(writable)))


def brokers(body: bytes) -> set[str]:
    """The names of all brokers that a name server knows. Raises ProtocolError."""
    try:
        return set(_json(body)["brokerAddrTable"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ProtocolError(f"this is no list of brokers: {body[:200]!r}") from None


def masters(body: bytes) -> dict[str, str]:
    """Broker → address of its master, of all brokers that a name server knows and that have one. Raises ProtocolError."""
    try:
        table = _json(body)["brokerAddrTable"]
        found = {str(name): str(one["brokerAddrs"][_MASTER]) for name, one in table.items() if _MASTER in one["brokerAddrs"]}
        for address in found.values():
            host_and_port(address)  # raises where it is none
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ProtocolError(f"this is no list of brokers: {body[:200]!r}") from None
    return found


def topics(body: bytes) -> list[str]:
    """The names of all topics that a name server knows. Raises ProtocolError."""
    try:
        return sorted(map(str, _json(body)["topicList"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ProtocolError(f"this is no list of topics: {body[:200]!r}") from None


def _json(body: bytes) -> Any:
    return json.loads(_BARE_NUMBER.sub(rb'\1"\2":', body))


def _ordered(addresses: Mapping[str, str]) -> tuple[str, ...]:
    places = tuple(str(addresses[number]) for number in sorted(addresses, key=int))
    for place in places:
        host_and_port(place)  # raises where it is none
    return places


def _queues(topic: str, broker: str, said: Mapping[str, int], count: str, bit: int) -> list[Queue]:
    if not said["perm"] & bit:
        return []
    if not 0 <= said[count] <= _MOST_QUEUES:
        raise ValueError(count)
    return [Queue(broker, topic, number) for number in range(said[count])]
