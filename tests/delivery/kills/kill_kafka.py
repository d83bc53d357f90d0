"""Kafka in kill tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

from kafka_broker import Broker
from kill_table import LINES, Workspace, lines

PARTITIONS = 2


class KafkaInput:
    """A topic of two partitions."""

    steps = LINES

    def __init__(self, workspace: Workspace) -> None:
        self.broker, self.topic = Broker(workspace.servers["kafka"]), f"{workspace.label}-in"
        self.options = f"{{type: kafka, servers: ['{self.broker.address}'], topics: [{self.topic}]}}"

    def begin(self) -> None:
        self.broker.topic(PARTITIONS, self.topic)

    def write_events(self, first: int, last: int) -> None:
        values = [line.encode() for line in lines(first, last)]
        for number in range(PARTITIONS):
            self.broker.produce(self.topic, values[number::PARTITIONS], number)


class KafkaOutput:
    """A topic of three partitions, of which committed messages are read."""

    def __init__(self, workspace: Workspace, delivery: str) -> None:
        self.broker = Broker(workspace.servers["kafka"])
        self.topic = self.broker.topic(3, f"{workspace.label}-out")
        self.options = f"type: kafka, servers: ['{self.broker.address}'], topic: {self.topic}, delivery: {delivery}"

    def delivered(self) -> Iterator[int]:
        return (json.loads(value)["n"] for value in self.broker.values(self.topic))

    def check(self, total: int) -> None:
        """Check nothing more."""


at_least_once = partial(KafkaOutput, delivery="at_least_once")
exactly_once = partial(KafkaOutput, delivery="exactly_once")
