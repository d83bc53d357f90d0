"""Probe of a cluster: do servers answer, accept the login, and have the topics? Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from connectors.rocketmq.protocol.cluster import Cluster, group_by_broker
from connectors.rocketmq.protocol.connection import ConnectionSettings
from connectors.rocketmq.protocol.name_servers import UnknownTopicError
from etl.api import Finding

PROBE_TIMEOUT_SECONDS = 3.0
"""How long a server may take to answer."""


def probe_topics(
    settings: ConnectionSettings, topics: Sequence[str], option: str = "topics", *, creates: bool = False
) -> Iterator[Finding]:
    """Yield a finding for each topic that is missing, unless the run ``creates`` it.

    Raises OSError if a server does not answer, and ComponentError if it refuses the login.
    """
    cluster = Cluster(replace(settings, timeout=min(settings.timeout, PROBE_TIMEOUT_SECONDS)))
    try:
        for number, topic in enumerate(topics):
            path = (option, number) if option == "topics" else (option,)
            try:
                route = cluster.find_route(topic)
            except UnknownTopicError as error:
                if not creates:
                    yield Finding("unknown-topic", str(error), path)
                continue
            for queues in group_by_broker({*route.readable, *route.writable}).values():
                cluster.fetch_bounds(queues[:1])
    finally:
        cluster.close()
