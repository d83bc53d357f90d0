"""Commits the pipeline's progress to a consumer group."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.rocketmq.cluster import Cluster, group_by_broker
from connectors.rocketmq.codes import PULL_MESSAGE, PULL_NOT_FOUND, PULL_OFFSET_MOVED, PULL_RETRY, SUCCESS
from connectors.rocketmq.connection import Connection
from connectors.rocketmq.puller import pull_fields
from connectors.rocketmq.queue_offsets import QueueOffsets
from connectors.rocketmq.routes import Queue
from connectors.rocketmq.tags import ALL


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
