"""Telling a consumer group how far the pipeline has come."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.rocketmq.cluster import Cluster, by_broker
from connectors.rocketmq.codes import DONE, NOTHING_MATCHED, NOTHING_THERE, OUT_OF_RANGE, PULL
from connectors.rocketmq.connection import Connection
from connectors.rocketmq.positions import Position
from connectors.rocketmq.pulling import pull_fields
from connectors.rocketmq.routes import Queue
from connectors.rocketmq.tags import ALL


def mirror(cluster: Cluster, group: str, ends: Sequence[Position]) -> None:
    """Commit, for each queue, what all of these have passed."""
    queues = set.intersection(*(set(end.queues) for end in ends))
    offsets = {queue: min(end.queues[queue] for end in ends) for queue in queues}
    for some in by_broker(sorted(queues)).values():
        cluster.commit({queue: offsets[queue] for queue in some}, group, lambda one, queue: _introduce(one, queue, group))


def _introduce(connection: Connection, queue: Queue, group: str) -> None:
    """Pull once, which makes the group where brokers make groups."""
    fields = {**pull_fields(queue, group, ALL), "queueOffset": "0", "maxMsgNums": "1"}
    connection.call(PULL, fields, fine=(DONE, NOTHING_THERE, NOTHING_MATCHED, OUT_OF_RANGE))
