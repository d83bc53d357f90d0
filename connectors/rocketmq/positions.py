"""Where the source stands: an offset for each queue, and where reading goes on elsewhere than it stopped.

As JSON: ``{"queues": {"broker/topic/0": next offset}, "from": {…}, "epochs": {…}}``. ``from`` tells of queues in which the
micro-batch that ends here began elsewhere than the one before ended: new ones, and those that lost messages. ``epochs`` counts
how often a queue's offsets began anew, for the same offset is another message then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.rocketmq.routes import Queue
from etl.api import Offset


@dataclass(frozen=True, slots=True)
class Position:
    """An offset of the source."""

    queues: Mapping[Queue, int] = field(default_factory=dict)
    """The next offset of each queue."""

    begun: Mapping[Queue, int] = field(default_factory=dict)
    epochs: Mapping[Queue, int] = field(default_factory=dict)

    @classmethod
    def of(cls, offset: Offset) -> Position:
        """From JSON."""
        parts = [offset.get(name, {}) for name in ("queues", "from", "epochs")]
        return cls(*({Queue.of(name): at for name, at in part.items()} for part in parts))

    def to_json(self) -> Offset:
        """To JSON."""
        named = {"queues": self.queues, "from": self.begun, "epochs": self.epochs}
        return {name: {q.name: part[q] for q in sorted(part)} for name, part in named.items() if part or name == "queues"}

    def partition(self, queue: Queue) -> str:
        """What a queue's messages are known by: its name, and after its offsets began anew, how often."""
        epoch = self.epochs.get(queue, 0)
        return f"{queue.name}#{epoch}" if epoch else queue.name
