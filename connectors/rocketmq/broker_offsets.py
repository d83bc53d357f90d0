"""Offsets that brokers hold for the source: the bounds of all queues, and the progress committed to a consumer group."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from connectors.rocketmq.protocol.cluster import Cluster, OffsetBounds, group_by_broker
from connectors.rocketmq.protocol.codes import PULL_MESSAGE, PULL_NOT_FOUND, PULL_OFFSET_MOVED, PULL_RETRY, SUCCESS
from connectors.rocketmq.protocol.connection import Connection
from connectors.rocketmq.protocol.name_servers import UnknownTopicError
from connectors.rocketmq.protocol.routes import Queue
from connectors.rocketmq.puller import pull_fields
from connectors.rocketmq.queue_offsets import QueueOffsets
from connectors.rocketmq.tags import ALL
from etl.api import ComponentError

log = logging.getLogger("sluice.source.rocketmq")


def fetch_all_bounds(
    cluster: Cluster, topics: Sequence[str], position: QueueOffsets, seconds: float, bounded: bool
) -> dict[Queue, OffsetBounds]:
    """Return the offset bounds of all queues, from routes at most ``seconds`` old.

    Queues of a broker that does not answer are left out and read later; a run that ends (``bounded``) raises instead and
    retries.
    """
    queues = group_by_broker(queue for topic in topics for queue in _readable(cluster, topic, position, seconds))
    found: dict[Queue, OffsetBounds] = {}
    errors: list[OSError] = []
    for some in queues.values():
        try:
            found |= cluster.fetch_bounds(some)
        except OSError as error:
            errors.append(error)
    if errors and (bounded or not found):
        raise errors[0]
    missing = {queue.broker for queue in position.queues if queue.topic in topics} - queues.keys()
    problems = [*map(str, errors), *(f"rocketmq: broker {name!r} is not registered now" for name in missing)]
    for problem in cluster.new_problems(problems):
        log.warning("%s; its queues are read later, others now", problem)
    return found


def _readable(cluster: Cluster, topic: str, position: QueueOffsets, seconds: float) -> tuple[Queue, ...]:
    """Return the topic's queues. If the topic is missing, raises ConnectionError if its brokers are missing, too, and may
    return.
    """
    try:
        return cluster.find_route(topic, seconds).readable
    except UnknownTopicError as error:
        mine = {queue.broker for queue in position.queues if queue.topic == topic}
        missing = mine - cluster.names.fetch_brokers()
        if missing:
            raise ConnectionError(
                f"rocketmq: broker {', '.join(sorted(missing))} of topic {topic!r} is not registered now"
            ) from error
        if mine:
            raise ComponentError(f"{error}; it existed before and was deleted") from error
        raise


def mirror_offsets(cluster: Cluster, group: str, ends: Sequence[QueueOffsets]) -> None:
    """Commit, for each queue, the lowest of these offsets."""
    queues = set.intersection(*(set(end.queues) for end in ends))
    offsets = {queue: min(end.queues[queue] for end in ends) for queue in queues}
    for some in group_by_broker(sorted(queues)).values():
        cluster.commit({queue: offsets[queue] for queue in some}, group, lambda one, queue: _create_group(one, queue, group))


def _create_group(connection: Connection, queue: Queue, group: str) -> None:
    """Pull once, which creates the group if brokers may create groups."""
    fields = {**pull_fields(queue, group, ALL), "queueOffset": "0", "maxMsgNums": "1"}
    connection.call(PULL_MESSAGE, fields, accepted_codes=(SUCCESS, PULL_NOT_FOUND, PULL_RETRY, PULL_OFFSET_MOVED))
