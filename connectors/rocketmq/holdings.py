"""What the queues of some topics hold now, as far as their brokers answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from connectors.rocketmq.cluster import Cluster, Held, by_broker
from connectors.rocketmq.names import UnknownTopicError
from connectors.rocketmq.positions import Position
from connectors.rocketmq.routes import Queue
from etl.api import ComponentError

log = logging.getLogger("sluice.source.rocketmq")


def holdings(known: Cluster, topics: Sequence[str], position: Position, seconds: float, bounded: bool) -> dict[Queue, Held]:
    """Offsets of all queues, of routes no older than some seconds. Queues of a broker that does not answer wait while the
    others are read; a run that ends (``bounded``) waits for them."""
    queues = by_broker(queue for topic in topics for queue in _readable(known, topic, position, seconds))
    found: dict[Queue, Held] = {}
    errors: list[OSError] = []
    for some in queues.values():
        try:
            found |= known.held(some)
        except OSError as error:
            errors.append(error)
    if errors and (bounded or not found):
        raise errors[0]
    missing = {queue.broker for queue in position.queues if queue.topic in topics} - queues.keys()
    troubles = [*map(str, errors), *(f"rocketmq: broker {name!r} is not registered now" for name in missing)]
    for trouble in known.news(troubles):
        log.warning("%s; its queues wait, others are read", trouble)
    return found


def _readable(known: Cluster, topic: str, position: Position, seconds: float) -> tuple[Queue, ...]:
    """The topic's queues; when it is gone, the error says whether its brokers are gone with it, and may come back."""
    try:
        return known.route(topic, seconds).readable
    except UnknownTopicError as error:
        mine = {queue.broker for queue in position.queues if queue.topic == topic}
        away = mine - known.names.brokers()
        if away:
            raise ConnectionError(
                f"rocketmq: broker {', '.join(sorted(away))} of topic {topic!r} is not registered now"
            ) from error
        if mine:
            raise ComponentError(f"{error}; it was there before, and was deleted") from error
        raise
