"""The committed state of a stream: one small JSON file that the publisher replaces as a whole.

Readers see only what it names. Bytes after `StreamIndex.end`, and segments that it does not name, are leftovers of a crash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from etl.api import BatchId, ComponentError, replace_file

NAME = "stream.json"


@dataclass(frozen=True, slots=True)
class StreamSegment:
    """One file of the journal."""

    start: int
    """Position of its first byte in the journal."""
    first_event: int
    """Number of its first event in the stream."""
    begun: float
    """When it was begun, in seconds since 1970."""
    written: float
    """When its last event was committed."""


@dataclass(frozen=True, slots=True)
class StreamIndex:
    """What of a stream is committed."""

    id: str = ""
    """Random; another one after the stream was removed and created again."""
    publisher: str = ""
    """Name of the pipeline that published last."""
    end: int = 0
    """Position after the last committed byte."""
    events: int = 0
    """Number of events that were ever published."""
    batches: Mapping[str, int] = field(default_factory=dict)
    """Query → its last committed micro-batch."""
    segments: tuple[StreamSegment, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    """Field → type of the events published last."""

    @property
    def first(self) -> int:
        """Position of the first byte that still exists."""
        return self.segments[0].start if self.segments else self.end

    @property
    def first_event(self) -> int:
        """Number of the first event that still exists."""
        return self.segments[0].first_event if self.segments else self.events

    def holds(self, batch: BatchId) -> bool:
        """Whether this micro-batch is committed."""
        return batch.number <= self.batches.get(batch.query, -1)

    def save(self, folder: Path) -> None:
        """Replace the index on disk, durably."""
        replace_file(folder / NAME, json.dumps(asdict(self), ensure_ascii=True).encode())


def load_index(folder: Path) -> StreamIndex | None:
    """The index of a stream; None before anything was published. Raises ComponentError if it cannot be understood."""
    try:
        record = json.loads((folder / NAME).read_bytes())
        index = StreamIndex(**record)
        return replace(index, segments=tuple(StreamSegment(**segment) for segment in record["segments"]))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ComponentError(
            f"{folder / NAME} is not a valid index of a stream ({error}); restore it, or remove the folder: the stream then "
            "begins anew, and its subscribers need new state folders"
        ) from error
