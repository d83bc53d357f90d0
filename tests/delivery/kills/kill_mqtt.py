"""Mosquitto in kill tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import paho.mqtt.client as paho
import pyarrow as pa
from kill_table import LINES, Workspace, lines
from paho.mqtt.enums import CallbackAPIVersion
from running import wait_for
from servers.brokers.mosquitto_server import Mosquitto

from connectors.mqtt.sink import MqttSink
from etl.api import Task


class MqttInput:
    """A topic to which messages of QoS 2 are published; the session of the run keeps them."""

    steps = (*LINES, "{type: keep, fields: [n, text]}")  # without the columns of the broker, which the tables lack

    def __init__(self, workspace: Workspace) -> None:
        self.server: Mosquitto = workspace.servers["mosquitto"]
        self.topic = f"{workspace.label}/in"
        self.options = f"{{type: mqtt, servers: ['{self.server.address}'], topics: ['{self.topic}'], qos: 2}}"

    def begin(self) -> None:
        """Do nothing: a run subscribes when it starts, before events are published."""

    def write_events(self, first: int, last: int) -> None:
        sink = MqttSink(servers=(self.server.address,), topic=self.topic, payload_field="line", qos=2)
        texts = lines(first, last)
        batch = pa.record_batch({"line": texts, "_offset": pa.array(range(len(texts)), pa.int64())})
        writer = sink.open(Task("kills", "in", f"{first}", "/nowhere", batch.schema))
        result = writer.write(batch)
        writer.close()
        assert result.retryable is None, result.cause


class MqttOutput:
    """A subscriber of QoS 2 in this process, which counts what is published."""

    def __init__(self, workspace: Workspace) -> None:
        self.server: Mosquitto = workspace.servers["mosquitto"]
        self.topic = f"{workspace.label}/out"
        self.options = f"type: mqtt, servers: ['{self.server.address}'], topic: '{self.topic}', qos: 1"
        self.numbers: list[int] = []
        subscribed = threading.Event()
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        client.on_message = lambda *args: self.numbers.append(json.loads(args[2].payload)["n"])
        client.on_subscribe = lambda *args: subscribed.set()
        client.connect(self.server.host, self.server.port)
        client.loop_start()
        workspace.cleanup.callback(client.loop_stop)
        workspace.cleanup.callback(client.disconnect)
        client.subscribe(self.topic, 2)
        assert subscribed.wait(120)

    def delivered(self) -> Iterator[int]:
        """Return the events after the subscriber has got what was published before: the last message ends it."""
        sink = MqttSink(servers=(self.server.address,), topic=self.topic, payload_field="line", qos=1)
        batch = pa.record_batch({"line": ['{"n":-1}'], "_offset": pa.array([0], pa.int64())})
        writer = sink.open(Task("kills", "out", "end", "/nowhere", batch.schema))
        writer.write(batch)
        writer.close()
        wait_for(lambda: -1 in self.numbers, what="the last message")
        return (number for number in self.numbers if number >= 0)

    def check(self, total: int) -> None:
        """Check nothing more."""
