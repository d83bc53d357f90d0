"""Offsets in consumer groups: those another consumer left, and ours, mirrored for tools that watch the lag.

Asked by a consumer that never subscribes. An administrator could ask, too, but librdkafka 2.16 brings the process down
when the group's coordinator is not ready (`list_consumer_group_offsets`, a null pointer in `rd_kafka_handle_OffsetFetch`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from connectors.kafka.access import Settings
from connectors.kafka.clients import Client, made
from connectors.kafka.failures import told
from connectors.kafka.topics import Partition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import TopicPartition

log = logging.getLogger("sluice.kafka")

_warned: set[str] = set()


def committed(settings: Settings, group: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
    """Where a group stands, of these partitions in those where it stands; transactions in flight are waited for."""
    from confluent_kafka import KafkaException, TopicPartition

    with _outsider(settings, group) as client:

        def ask(seconds: float) -> list[TopicPartition]:
            answers = client.the.committed([TopicPartition(*place) for place in partitions], timeout=seconds)
            for answer in answers:
                if answer.error is not None:
                    raise KafkaException(answer.error)
            return list(answers)

        return {(one.topic, one.partition): one.offset for one in client.asked(ask) if one.offset >= 0}


def mirror(settings: Settings, group: str, marks: Mapping[Partition, int]) -> None:
    """Commit what all sinks hold. Delivery does not rest on it: a failure is a warning, and the next mirror holds it too."""
    from confluent_kafka import KafkaException, TopicPartition

    places = [TopicPartition(*partition, offset) for partition, offset in marks.items()]
    try:
        with _outsider(settings, group) as client:
            answers = client.the.commit(offsets=places, asynchronous=False) if places else []
        error = next((one.error for one in answers if one.error is not None), None)
    except KafkaException as raised:
        error = raised.args[0]
    if error is None:
        _warned.clear()
    else:
        _warn(f"group {group!r} cannot be committed, and lag tools show too much: {told(settings.servers, error)}")


_mirrors: dict[tuple[Settings, str], Client] = {}
"""The consumer of the last group that was asked for: a source mirrors to the same every micro-batch."""


@contextmanager
def _outsider(settings: Settings, group: str) -> Iterator[Client]:
    """A consumer that is no member of its group; connecting one takes 60 ms."""
    client = _mirrors.pop((settings, group), None)
    if client is None:
        conf = {"group_id": group, "enable_auto_commit": "false", "isolation_level": "read_committed"}
        client = made("Consumer", settings, **conf)
    yield client
    for other in _mirrors.values():
        other.the.close()
    _mirrors.clear()
    _mirrors[settings, group] = client


def _warn(text: str) -> None:
    """Once until it works again."""
    if text not in _warned:
        _warned.add(text)
        log.warning("%s; use a group that no consumer is a member of", text)
