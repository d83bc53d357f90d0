"""The offsets of the source: the next offset of each queue, and where a micro-batch began elsewhere than the last one ended.

As JSON: ``{"queues": {"broker/topic/0": next offset}, "from": {…}, "epochs": {…}}``. ``from`` has the begin of the
micro-batch for queues where it is not the end of the one before: new queues, and those that lost messages. ``epochs`` counts
how often a queue's offsets began again from the start, because the same offset then is another message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.rocketmq.protocol.routes import Queue
from etl.api import Offset


@dataclass(frozen=True, slots=True)
class QueueOffsets:
    """An offset of the source."""

    queues: Mapping[Queue, int] = field(default_factory=dict)
    """The next offset of each queue."""

    begins: Mapping[Queue, int] = field(default_factory=dict)
    epochs: Mapping[Queue, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, offset: Offset) -> QueueOffsets:
        """Read an offset of the source (JSON)."""
        parts = [offset.get(name, {}) for name in ("queues", "from", "epochs")]
        return cls(*({Queue.of(name): at for name, at in part.items()} for part in parts))

    def to_json(self) -> Offset:
        """Return the offset of the source (JSON)."""
        named = {"queues": self.queues, "from": self.begins, "epochs": self.epochs}
        return {name: {q.name: part[q] for q in sorted(part)} for name, part in named.items() if part or name == "queues"}

    def partition(self, queue: Queue) -> str:
        """Return the name of a queue's partition: the queue's name, with the epoch after its offsets began again."""
        epoch = self.epochs.get(queue, 0)
        return f"{queue.name}#{epoch}" if epoch else queue.name
