"""Kafka, in trials in which runs and brokers are killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

from kafka_broker import Broker
from kill_table import LINES, Stage, lines

PARTITIONS = 2


class KafkaFeed:
    """A topic of two partitions."""

    steps = LINES

    def __init__(self, stage: Stage) -> None:
        self.broker, self.topic = Broker(stage.servers["kafka"]), f"{stage.label}-in"
        self.options = f"{{type: kafka, servers: ['{self.broker.address}'], topics: [{self.topic}]}}"

    def begin(self) -> None:
        self.broker.topic(PARTITIONS, self.topic)

    def fill(self, first: int, last: int) -> None:
        values = [line.encode() for line in lines(first, last)]
        for number in range(PARTITIONS):
            self.broker.produce(self.topic, values[number::PARTITIONS], number)


class KafkaCatch:
    """A topic of three partitions, read as consumers of committed messages do."""

    def __init__(self, stage: Stage, delivery: str) -> None:
        self.broker = Broker(stage.servers["kafka"])
        self.topic = self.broker.topic(3, f"{stage.label}-out")
        self.options = f"type: kafka, servers: ['{self.broker.address}'], topic: {self.topic}, delivery: {delivery}"

    def delivered(self) -> Iterator[int]:
        return (json.loads(value)["n"] for value in self.broker.values(self.topic))

    def prove(self, total: int) -> None:
        """Nothing more."""


at_least_once = partial(KafkaCatch, delivery="at_least_once")
exactly_once = partial(KafkaCatch, delivery="exactly_once")
