"""What a subscriber does in the driver: it makes itself known to the publisher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from connectors.stream.index import load_index
from connectors.stream.subscribers import Subscriber, subscribers


@dataclass(frozen=True, slots=True)
class Subscription:
    """Receiver of a subscriber: the events are on disk already."""

    stream: Path
    subscriber: str
    begin: Literal["earliest", "latest"]

    def start(self) -> None:
        """Store where a new subscriber begins, so that a publisher with ``when_full: wait`` waits for it."""
        index = load_index(self.stream)
        number = 0 if index is None else index.first_event if self.begin == "earliest" else index.events
        if not any(one.name == self.subscriber for one in subscribers(self.stream)):
            Subscriber(self.subscriber, number).save(self.stream)

    def stop(self) -> None:
        """Do nothing: the publisher goes on waiting for this subscriber, which reads on in its next run."""

    def dropped(self) -> Mapping[str, int]:
        """Return nothing: lost events are dead letters."""
        return {}
