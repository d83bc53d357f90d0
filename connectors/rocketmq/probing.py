"""Looking whether servers answer, let us in and have what the options name. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from connectors.rocketmq.cluster import Cluster, by_broker
from connectors.rocketmq.connection import Access
from connectors.rocketmq.names import UnknownTopicError
from etl.api import Finding

PATIENCE_SECONDS = 3.0


def probe_topics(access: Access, topics: Sequence[str], option: str = "topics", *, creates: bool = False) -> Iterator[Finding]:
    """Errors say what does not answer or does not let us in; topics that do not exist are findings, unless the run
    ``creates`` them."""
    known = Cluster(replace(access, timeout=min(access.timeout, PATIENCE_SECONDS)))
    try:
        for number, topic in enumerate(topics):
            path = (option, number) if option == "topics" else (option,)
            try:
                route = known.route(topic)
            except UnknownTopicError as error:
                if not creates:
                    yield Finding("unknown-topic", str(error), path)
                continue
            for queues in by_broker({*route.readable, *route.writable}).values():
                known.held(queues[:1])
    finally:
        known.close()
