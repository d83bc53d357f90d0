"""Start offset of a new pipeline in each queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from connectors.rocketmq.protocol.cluster import Cluster, OffsetBounds, group_by_broker
from connectors.rocketmq.protocol.routes import Queue
from etl.api import ComponentError, nearest


@dataclass(frozen=True, slots=True)
class StartOffsets:
    """The options that choose the start."""

    start: str
    millis: int | None = None
    offsets: Mapping[str, int] = field(default_factory=dict)
    group: str | None = None

    def resolve(self, cluster: Cluster, topics: Sequence[str]) -> dict[Queue, int]:
        """Return the first offset to read of each existing queue."""
        queues = [queue for topic in topics for queue in cluster.find_route(topic, 0.0).readable]
        found: dict[Queue, int] = {}
        for some in group_by_broker(queues).values():
            found |= _RESOLVERS[self.start](self, cluster, some, cluster.fetch_bounds(some))
        if self.start == "offsets":
            self._check_queues_exist(queues)
        return found

    def _check_queues_exist(self, queues: Sequence[Queue]) -> None:
        names = [queue.name for queue in queues]
        for name in self.offsets:
            if name not in names:
                hint = nearest(name, names) or f"there are {', '.join(names[:8])}"
                raise ComponentError(f"start_offsets: there is no queue {name!r}; {hint}")


BoundsByQueue = Mapping[Queue, OffsetBounds]


def _earliest(begin: StartOffsets, cluster: Cluster, queues: Sequence[Queue], bounds: BoundsByQueue) -> dict[Queue, int]:
    return {queue: bounds[queue].smallest for queue in queues}


def _latest(begin: StartOffsets, cluster: Cluster, queues: Sequence[Queue], bounds: BoundsByQueue) -> dict[Queue, int]:
    return {queue: bounds[queue].largest for queue in queues}


def _timestamp(begin: StartOffsets, cluster: Cluster, queues: Sequence[Queue], bounds: BoundsByQueue) -> dict[Queue, int]:
    """Return the first message stored at the time or later: brokers store messages in that order."""
    found = cluster.fetch_offsets_at(queues, begin.millis or 0)
    return {queue: min(max(at, bounds[queue].smallest), bounds[queue].largest) for queue, at in found.items()}


def _offsets(begin: StartOffsets, cluster: Cluster, queues: Sequence[Queue], bounds: BoundsByQueue) -> dict[Queue, int]:
    return {queue: begin.offsets.get(queue.name, bounds[queue].smallest) for queue in queues}


def _group(begin: StartOffsets, cluster: Cluster, queues: Sequence[Queue], bounds: BoundsByQueue) -> dict[Queue, int]:
    found = cluster.fetch_committed(queues, begin.group or "")
    return {queue: bounds[queue].smallest if at is None else at for queue, at in found.items()}


_RESOLVERS: dict[str, Callable[[StartOffsets, Cluster, Sequence[Queue], BoundsByQueue], dict[Queue, int]]] = {
    "earliest": _earliest,
    "latest": _latest,
    "timestamp": _timestamp,
    "offsets": _offsets,
    "group": _group,
}
