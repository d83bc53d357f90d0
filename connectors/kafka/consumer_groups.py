"""Offsets of consumer groups: read those of another consumer, and commit ours so that lag tools see them.

A consumer that never subscribes sends the requests. The admin client has requests for it, too, but librdkafka 2.16 crashes
the process if the group's coordinator is not ready (`list_consumer_group_offsets`, a null pointer in
`rd_kafka_handle_OffsetFetch`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from connectors.kafka.clients import Client, create_client
from connectors.kafka.connection_options import ClientSettings
from connectors.kafka.errors import describe_error
from connectors.kafka.topics import Partition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import TopicPartition

log = logging.getLogger("sluice.kafka")

_warned: set[str] = set()


def fetch_committed(settings: ClientSettings, group: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
    """Return the offsets that a group has committed, for those of the partitions that have one; waits for open transactions."""
    from confluent_kafka import KafkaException, TopicPartition

    with _group_consumer(settings, group) as client:

        def ask(seconds: float) -> list[TopicPartition]:
            answers = client.raw.committed([TopicPartition(*partition) for partition in partitions], timeout=seconds)
            for answer in answers:
                if answer.error is not None:
                    raise KafkaException(answer.error)
            return list(answers)

        return {(one.topic, one.partition): one.offset for one in client.call(ask) if one.offset >= 0}


def mirror_offsets(settings: ClientSettings, group: str, offsets: Mapping[Partition, int]) -> None:
    """Commit the offsets that all sinks have delivered. Delivery does not depend on it: a failure is a warning, and the next
    call commits them.
    """
    from confluent_kafka import KafkaException, TopicPartition

    partitions = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
    try:
        with _group_consumer(settings, group) as client:
            answers = client.raw.commit(offsets=partitions, asynchronous=False) if partitions else []
        error = next((one.error for one in answers if one.error is not None), None)
    except KafkaException as raised:
        error = raised.args[0]
    if error is None:
        _warned.clear()
    else:
        _warn(f"group {group!r} cannot be committed, and lag tools show too much: {describe_error(settings.servers, error)}")


_consumers: dict[tuple[ClientSettings, str], Client] = {}
"""The consumer of the group used last; a source mirrors to the same group every micro-batch."""


@contextmanager
def _group_consumer(settings: ClientSettings, group: str) -> Iterator[Client]:
    """Yield a consumer that is not a member of its group. Connecting a new one takes 60 ms."""
    client = _consumers.pop((settings, group), None)
    if client is None:
        conf = {"group_id": group, "enable_auto_commit": "false", "isolation_level": "read_committed"}
        client = create_client("Consumer", settings, **conf)
    yield client
    for other in _consumers.values():
        other.raw.close()
    _consumers.clear()
    _consumers[settings, group] = client


def _warn(text: str) -> None:
    """Warn once, until a commit succeeds again."""
    if text not in _warned:
        _warned.add(text)
        log.warning("%s; use a group that no consumer is a member of", text)
