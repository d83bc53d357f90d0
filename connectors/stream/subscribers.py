"""How far the subscribers of a stream have delivered its events; each writes a small file of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from connectors.stream.index import load_index
from etl.api import replace_file

FOLDER = "subscribers"


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A pipeline's source that reads a stream."""

    name: str
    """Its state folder and source, for messages."""
    event: int
    """Number of the first event that it has not delivered."""

    def save(self, stream: Path) -> None:
        """Replace its file. The file is not synced: an older position keeps events longer, and is not a loss."""
        folder = stream / FOLDER
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = hashlib.sha256(self.name.encode()).hexdigest()[:24]
        replace_file(folder / f"{name}.json", json.dumps(asdict(self)).encode(), sync=False)


def subscribers(stream: Path) -> Iterator[Subscriber]:
    """All subscribers of a stream; files that cannot be read are passed over."""
    for path in sorted((stream / FOLDER).glob("*.json")):
        with suppress(OSError, ValueError, TypeError):
            yield Subscriber(**json.loads(path.read_bytes()))


def slowest_subscriber(stream: Path) -> Subscriber | None:
    """The subscriber that has delivered least; None if there is none."""
    return min(subscribers(stream), key=lambda one: one.event, default=None)


@dataclass(frozen=True, slots=True)
class Subscription:
    """The receiver of a subscriber, in the driver: it makes the subscriber known to the publisher; events are on disk already."""

    stream: Path
    subscriber: str
    begin: Literal["earliest", "latest"]

    def start(self) -> None:
        """Store where a new subscriber begins, so that a publisher with ``when_full: wait`` waits for it."""
        index = load_index(self.stream)
        event = 0 if index is None else index.first_event if self.begin == "earliest" else index.events
        if not any(one.name == self.subscriber for one in subscribers(self.stream)):
            Subscriber(self.subscriber, event).save(self.stream)

    def stop(self) -> None:
        """Do nothing: the publisher goes on waiting for this subscriber, which reads on in its next run."""

    def dropped(self) -> Mapping[str, int]:
        """Return nothing: lost events are dead letters."""
        return {}
