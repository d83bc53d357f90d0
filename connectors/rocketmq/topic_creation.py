"""Creates topics that a pipeline names and no name server knows: the option ``create``."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import closing

from pydantic import BaseModel, ConfigDict, Field

from connectors.rocketmq.protocol.cluster import Cluster
from connectors.rocketmq.protocol.codes import UPDATE_AND_CREATE_TOPIC
from connectors.rocketmq.protocol.connection import Connection
from connectors.rocketmq.protocol.name_servers import UnknownTopicError

log = logging.getLogger("sluice.rocketmq")

ROUTE_SECONDS = 30.0
"""How long name servers may take to know a new topic: brokers report every 30 s, mostly at once."""

_POLL_SECONDS = 0.2
_READ_AND_WRITE = "6"


class TopicCreation(BaseModel):
    """Properties of a topic that is created."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    queues: int = Field(default=8, ge=1, le=1024, description="Queues of a new topic on each master broker.")


def create_missing(cluster: Cluster, topics: Sequence[str], creation: TopicCreation) -> None:
    """Create those of the topics that do not exist, on every master, and wait for their routes; existing topics are not
    changed.

    Raises ComponentError if a broker refuses, and OSError if one does not answer.
    """
    for topic in topics:
        try:
            cluster.find_route(topic, 0.0)
        except UnknownTopicError:
            masters = cluster.names.fetch_masters()
            for broker in masters.values():
                _create(cluster, broker, topic, creation)
            _wait_for_route(cluster, topic, len(masters) * creation.queues)
            log.warning("rocketmq %s: created topic %r with %d queues", ", ".join(masters), topic, creation.queues)


def _create(cluster: Cluster, broker: str, topic: str, creation: TopicCreation) -> None:
    counts = {"readQueueNums": str(creation.queues), "writeQueueNums": str(creation.queues), "perm": _READ_AND_WRITE}
    rest = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    with closing(Connection(broker, cluster.settings)) as one:
        one.call(UPDATE_AND_CREATE_TOPIC, {"topic": topic, **counts, **rest})


def _wait_for_route(cluster: Cluster, topic: str, queues: int) -> None:
    until = time.monotonic() + ROUTE_SECONDS
    while True:
        try:
            if len(cluster.find_route(topic, 0.0).writable) >= queues:
                return
        except UnknownTopicError:
            pass
        if time.monotonic() > until:
            raise ConnectionError(f"rocketmq: name servers do not know the new topic {topic!r} yet")
        time.sleep(_POLL_SECONDS)
