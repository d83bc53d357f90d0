"""End of a micro-batch and its splits: pure functions of offsets and of offset bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from connectors.rocketmq.protocol.cluster import OffsetBounds
from connectors.rocketmq.protocol.routes import Queue
from connectors.rocketmq.puller import LostRange
from connectors.rocketmq.queue_offsets import QueueOffsets
from etl.api import Limit, Split

DEFAULT_EVENT_BYTES = 256.0
"""Assumed bytes of an event before the first one was read."""

MIN_SPLIT_MESSAGES = 20_000
"""Smallest number of messages for which a split of its own is worth its cost."""


@dataclass(frozen=True, slots=True)
class ReadStarts:
    """Where reading continues in each queue, and the losses found."""

    at: dict[Queue, int] = field(default_factory=dict)
    lost: dict[Queue, str] = field(default_factory=dict)
    restarted: list[Queue] = field(default_factory=list)
    """Queues whose offsets began again from the start."""


def find_read_starts(start: QueueOffsets, bounds: Mapping[Queue, OffsetBounds]) -> ReadStarts:
    """Find where reading continues. A queue that is new, or has lost unread messages, is read from its first message."""
    found = ReadStarts()
    for queue, (smallest, largest, master) in bounds.items():
        at = start.queues.get(queue, smallest)
        found.at[queue] = at if smallest <= at <= largest else smallest
        if at < smallest:
            found.lost[queue] = f"queue {queue.name}: {expired_message(at, smallest)}"
        elif at > largest and not master:
            found.at[queue] = at
        elif at > largest:
            found.lost[queue] = f"queue {queue.name}: {recreated_message(at)}, and now it ends at offset {largest}"
            found.restarted.append(queue)
    return found


def expired_message(at: int, smallest: int) -> str:
    """Return the message for messages deleted before they were read."""
    return f"the broker has deleted messages before they were read, from offset {at} to {smallest}"


def recreated_message(at: int) -> str:
    """Return the message for a queue that ends before the offset that was read."""
    return f"it had been read up to offset {at}; its topic was created again, or its broker was replaced or lost messages"


def plan_batch(start: QueueOffsets, bounds: Mapping[Queue, OffsetBounds], limit: Limit) -> QueueOffsets:
    """Return the end of a micro-batch; ``start`` itself if there is nothing new."""
    first = find_read_starts(start, bounds)
    until = QueueOffsets.from_json(limit.until).queues if limit.until else {queue: one.largest for queue, one in bounds.items()}
    available = {queue: max(0, min(bounds[queue].largest, until.get(queue, 0)) - at) for queue, at in first.at.items()}
    granted = share_fairly(available, _max_messages(limit))
    queues = {queue: at + granted[queue] for queue, at in first.at.items() if queue in start.queues or granted[queue]}
    if all(start.queues.get(queue) == at for queue, at in queues.items()):
        return start
    moved = {queue: first.at[queue] for queue in queues if start.queues.get(queue) != first.at[queue]}
    epochs = {**start.epochs, **{queue: start.epochs.get(queue, 0) + 1 for queue in first.restarted}}
    return QueueOffsets({**start.queues, **queues}, moved, epochs)


def share_fairly(available: Mapping[Queue, int], max_messages: int) -> dict[Queue, int]:
    """Divide ``max_messages`` over the queues: what a queue does not need of its equal share goes to those that have more."""
    left, granted = max_messages, {}
    for number, queue in enumerate(sorted(available, key=lambda queue: (available[queue], queue))):
        granted[queue] = min(available[queue], -(-left // (len(available) - number)))
        left -= granted[queue]
    return granted


def plan_splits(start: QueueOffsets, end: QueueOffsets, parallelism: int) -> list[Split]:
    """Divide a micro-batch into ranges of queues of about equal numbers of messages; ranges of one queue are contiguous."""
    ranges = {queue: (end.begins.get(queue, start.queues.get(queue, at)), at) for queue, at in end.queues.items()}
    total = sum(range_end - begin for begin, range_end in ranges.values())
    each = max(MIN_SPLIT_MESSAGES, -(-total // max(1, parallelism)))
    found: list[Split] = []
    for queue in sorted(ranges):
        begin, range_end = ranges[queue]
        name = end.partition(queue)
        lost = _find_loss(queue, start, end, begin)
        parts = max(1 if lost else 0, -(-(range_end - begin) // each))
        edges = [begin + (range_end - begin) * part // parts for part in range(parts + 1)] if parts else []
        found += [Split(name, a, b, (queue, lost if a == begin else None)) for a, b in pairwise(edges)]
    return found


def _max_messages(limit: Limit) -> int:
    by_size = max(1, int(limit.max_bytes / (limit.event_bytes or DEFAULT_EVENT_BYTES)))
    return by_size if limit.max_events is None else min(by_size, limit.max_events)


def _find_loss(queue: Queue, start: QueueOffsets, end: QueueOffsets, begin: int) -> LostRange | None:
    """Return what was lost before this micro-batch."""
    at = start.queues.get(queue)
    if at is None or at == begin:
        return None
    restarted = end.epochs.get(queue, 0) != start.epochs.get(queue, 0)
    return LostRange(at, begin, recreated_message(at) if restarted else expired_message(at, begin))
