"""How far a micro-batch reaches, and the tasks it is done in: pure functions of positions and of what queues hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from connectors.rocketmq.cluster import Held
from connectors.rocketmq.positions import Position
from connectors.rocketmq.pulling import Lost
from connectors.rocketmq.routes import Queue
from etl.api import Limit, Split

TYPICAL_BYTES = 256.0
"""Of an event, before the first has been seen."""

SPLIT_MESSAGES = 20_000
"""Fewest messages of a queue that are worth a split of their own."""


@dataclass(frozen=True, slots=True)
class Begins:
    """Where reading goes on in each queue, and what was found to be lost."""

    at: dict[Queue, int] = field(default_factory=dict)
    lost: dict[Queue, str] = field(default_factory=dict)
    again: list[Queue] = field(default_factory=list)
    """Queues whose offsets began anew."""


def begins(start: Position, held: Mapping[Queue, Held]) -> Begins:
    """A queue that is new, or has lost what was not read yet, is read from its first message."""
    found = Begins()
    for queue, (smallest, largest, master) in held.items():
        at = start.queues.get(queue, smallest)
        found.at[queue] = at if smallest <= at <= largest else smallest
        if at < smallest:
            found.lost[queue] = f"queue {queue.name}: {expired(at, smallest)}"
        elif at > largest and not master:
            found.at[queue] = at
        elif at > largest:
            found.lost[queue] = f"queue {queue.name}: {remade(at)}, and it ends at offset {largest} now"
            found.again.append(queue)
    return found


def expired(at: int, smallest: int) -> str:
    """Why messages are missing that were there once."""
    return f"the broker has deleted messages before they were read, from offset {at} to {smallest}"


def remade(at: int) -> str:
    """Why a queue ends before what was read of it."""
    return f"it was read up to offset {at}, then its topic was made anew, or its broker was replaced or lost messages"


def reached(start: Position, held: Mapping[Queue, Held], limit: Limit) -> Position:
    """Where a micro-batch ends; ``start`` itself when nothing is new."""
    first = begins(start, held)
    until = Position.of(limit.until).queues if limit.until else {queue: one.largest for queue, one in held.items()}
    there = {queue: max(0, min(held[queue].largest, until.get(queue, 0)) - at) for queue, at in first.at.items()}
    taken = shares(there, _most(limit))
    queues = {queue: at + taken[queue] for queue, at in first.at.items() if queue in start.queues or taken[queue]}
    if all(start.queues.get(queue) == at for queue, at in queues.items()):
        return start
    moved = {queue: first.at[queue] for queue in queues if start.queues.get(queue) != first.at[queue]}
    epochs = {**start.epochs, **{queue: start.epochs.get(queue, 0) + 1 for queue in first.again}}
    return Position({**start.queues, **queues}, moved, epochs)


def shares(there: Mapping[Queue, int], most: int) -> dict[Queue, int]:
    """``most`` messages dealt out: what a queue does not need of its equal share goes to those that have more."""
    left, taken = most, {}
    for number, queue in enumerate(sorted(there, key=lambda queue: (there[queue], queue))):
        taken[queue] = min(there[queue], -(-left // (len(there) - number)))
        left -= taken[queue]
    return taken


def splits(start: Position, end: Position, parallelism: int) -> list[Split]:
    """Ranges of queues, each of about the same number of messages; a queue's follow each other."""
    ranges = {queue: (end.begun.get(queue, start.queues.get(queue, at)), at) for queue, at in end.queues.items()}
    total = sum(behind - begin for begin, behind in ranges.values())
    each = max(SPLIT_MESSAGES, -(-total // max(1, parallelism)))
    found: list[Split] = []
    for queue in sorted(ranges):
        begin, behind = ranges[queue]
        name = end.partition(queue)
        lost = _lost(queue, start, end, begin)
        parts = max(1 if lost else 0, -(-(behind - begin) // each))
        edges = [begin + (behind - begin) * part // parts for part in range(parts + 1)] if parts else []
        found += [Split(name, a, b, (queue, lost if a == begin else None)) for a, b in pairwise(edges)]
    return found


def _most(limit: Limit) -> int:
    by_size = max(1, int(limit.max_bytes / (limit.event_bytes or TYPICAL_BYTES)))
    return by_size if limit.max_events is None else min(by_size, limit.max_events)


def _lost(queue: Queue, start: Position, end: Position, begin: int) -> Lost | None:
    """What was lost in front of a micro-batch."""
    at = start.queues.get(queue)
    if at is None or at == begin:
        return None
    again = end.epochs.get(queue, 0) != start.epochs.get(queue, 0)
    return Lost(at, begin, remade(at) if again else expired(at, begin))
