"""Sources in the process of a test: their receivers, and the events that workers read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from etl.api import Limit, Offset, Receiver, Rejects, Source

FAR = Limit(1 << 62)
"""All that there is."""

AReceiver = TypeVar("AReceiver", bound=Receiver, covariant=True)


class HasReceiver(Protocol[AReceiver]):
    """A source that receives."""

    def receiver(self) -> AReceiver:
        """Its receiver, which has not started."""


@contextmanager
def receiving(source: HasReceiver[AReceiver]) -> Iterator[AReceiver]:
    """Run the receiver of a source."""
    receiver = source.receiver()
    receiver.start()
    try:
        yield receiver
    finally:
        receiver.stop()


def read(source: Source, start: Offset, end: Offset, parallelism: int = 2) -> list[dict[str, Any]]:
    """The events between two offsets as workers read them; a rejected one has a ``code`` and a ``reason``."""
    found: list[dict[str, Any]] = []
    for split in source.splits(start, end, parallelism):
        for batch in source.read(split):
            if isinstance(batch, Rejects):
                reasons = [batch.reasons] * batch.events.num_rows if isinstance(batch.reasons, str) else batch.reasons.to_pylist()
                rows = zip(batch.events.to_pylist(), reasons, strict=True)
                found += [{**row, "code": batch.code, "reason": reason} for row, reason in rows]
            else:
                assert batch.schema.names == [*source.fields().names, "_offset"]
                found += batch.to_pylist()
    return found


def read_all(source: Source) -> list[dict[str, Any]]:
    """All events of a source."""
    return read(source, source.start(), source.latest(source.start(), FAR))
