"""Where a new pipeline begins in each queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from connectors.rocketmq.cluster import Cluster, Held, by_broker
from connectors.rocketmq.routes import Queue
from etl.api import ComponentError, nearest


@dataclass(frozen=True, slots=True)
class Begin:
    """What ``start`` and the options beside it say."""

    start: str
    millis: int | None = None
    offsets: Mapping[str, int] = field(default_factory=dict)
    group: str | None = None

    def at(self, cluster: Cluster, topics: Sequence[str]) -> dict[Queue, int]:
        """The first offset to read of each queue that there is now."""
        queues = [queue for topic in topics for queue in cluster.route(topic, 0.0).readable]
        found: dict[Queue, int] = {}
        for some in by_broker(queues).values():
            found |= _BY_START[self.start](self, cluster, some, cluster.held(some))
        if self.start == "offsets":
            self._look_for_strangers(queues)
        return found

    def _look_for_strangers(self, queues: Sequence[Queue]) -> None:
        names = [queue.name for queue in queues]
        for name in self.offsets:
            if name not in names:
                hint = nearest(name, names) or f"there are {', '.join(names[:8])}"
                raise ComponentError(f"start_offsets: there is no queue {name!r}; {hint}")


Holdings = Mapping[Queue, Held]


def _earliest(begin: Begin, cluster: Cluster, queues: Sequence[Queue], held: Holdings) -> dict[Queue, int]:
    return {queue: held[queue].smallest for queue in queues}


def _latest(begin: Begin, cluster: Cluster, queues: Sequence[Queue], held: Holdings) -> dict[Queue, int]:
    return {queue: held[queue].largest for queue in queues}


def _timestamp(begin: Begin, cluster: Cluster, queues: Sequence[Queue], held: Holdings) -> dict[Queue, int]:
    """The first message stored then or later: brokers keep messages in that order."""
    found = cluster.at_time(queues, begin.millis or 0)
    return {queue: min(max(at, held[queue].smallest), held[queue].largest) for queue, at in found.items()}


def _offsets(begin: Begin, cluster: Cluster, queues: Sequence[Queue], held: Holdings) -> dict[Queue, int]:
    return {queue: begin.offsets.get(queue.name, held[queue].smallest) for queue in queues}


def _group(begin: Begin, cluster: Cluster, queues: Sequence[Queue], held: Holdings) -> dict[Queue, int]:
    found = cluster.committed(queues, begin.group or "")
    return {queue: held[queue].smallest if at is None else at for queue, at in found.items()}


_BY_START: dict[str, Callable[[Begin, Cluster, Sequence[Queue], Holdings], dict[Queue, int]]] = {
    "earliest": _earliest,
    "latest": _latest,
    "timestamp": _timestamp,
    "offsets": _offsets,
    "group": _group,
}
