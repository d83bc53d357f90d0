"""How far streams have been read, and where micro-batches and their splits end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from connectors.redis.entry_ids import FIRST, EntryId
from etl.api import ComponentError, Limit, Offset, Split

STEP_BYTES = 4 << 20
"""Bytes of entries that the server looks through at a time."""

MAX_STEP_ENTRIES = 2000
"""The same as entries: a script of a millisecond or two, during which the server does nothing else."""

_FIRST_STEP_ENTRIES = 200
_MAX_BOUNDS = 256

FIND_STEP = """
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])
if #found == 0 then return {} end
local bytes = 0
for _, entry in ipairs(found) do
    for _, text in ipairs(entry[2]) do bytes = bytes + #text end
end
return {found[#found][1], #found, bytes}
"""
"""The end of the next entries of a stream, their number and their bytes: entries do not leave the server to be counted."""


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The last entry that was read of a stream."""

    last: EntryId
    entries: int
    """How many entries the stream had got up to there, as far as the server counts them (Redis 7)."""

    deleted: EntryId
    """The last entry that the server had deleted when this position was planned."""

    begin: EntryId = FIRST
    """The entry after which the micro-batch begins that ends here."""

    bounds: tuple[EntryId, ...] = ()
    """Where splits of this micro-batch may end."""

    lost: str = ""
    """What was deleted before this micro-batch could read it."""

    def to_json(self) -> dict[str, Any]:
        """Return the position as a part of an offset."""
        return {
            "id": str(self.last),
            "entries": self.entries,
            "deleted": str(self.deleted),
            "begin": str(self.begin),
            "bounds": list(map(str, self.bounds)),
            "lost": self.lost,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StreamPosition:
        """Read a part of an offset."""
        return cls(
            EntryId.parse(value["id"]),
            value["entries"],
            EntryId.parse(value["deleted"]),
            EntryId.parse(value["begin"]),
            tuple(map(EntryId.parse, value["bounds"])),
            value["lost"],
        )


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What a server says of a stream."""

    length: int = 0
    last: EntryId = FIRST
    deleted: EntryId = FIRST
    """The largest identifier that was deleted (Redis 7)."""

    added: int | None = None
    first: EntryId | None = None


def read_info(client: Any, key: str) -> StreamInfo:
    """Ask for a stream; one that does not exist is empty. Raises ComponentError if the key is something else."""
    kind = client.type(key).decode()
    if kind == "none":
        return StreamInfo()
    if kind != "stream":
        raise ComponentError(f"the key {key!r} is a {kind}, not a stream")
    info = client.xinfo_stream(key)
    first = info.get("first-entry")
    return StreamInfo(
        info["length"],
        EntryId.parse(info["last-generated-id"]),
        EntryId.parse(info.get("max-deleted-entry-id", b"0-0")),
        info.get("entries-added"),
        EntryId.parse(first[0]) if first else None,
    )


def first_position(info: StreamInfo, latest: bool) -> StreamPosition:
    """Return where a new pipeline begins."""
    if latest:
        return StreamPosition(info.last, info.added or 0, info.deleted)
    start = info.first.before if info.first else info.last
    return StreamPosition(start, (info.added or info.length) - info.length, info.deleted)


def find_loss(position: StreamPosition, info: StreamInfo) -> str:
    """Return what was deleted before it was read, as a clause, or an empty text."""
    if info.last < position.last:
        return f"was created again: it ends at {info.last}, before {position.last}, the last entry that was read"
    if info.deleted > position.last and info.deleted > position.deleted:
        return f"has lost entries after {position.last}, up to {info.deleted} at most, before they were read"
    unread = (info.added or 0) - position.entries
    if unread > info.length:
        return f"has lost {unread - info.length} entries after {position.last}, which were trimmed before they were read"
    return ""


def plan_end(
    client: Any, key: str, position: StreamPosition, info: StreamInfo, lost: str, limit: Limit, left: int
) -> tuple[StreamPosition, int, int]:
    """Return the end of the next micro-batch of a stream, and how many bytes and entries of it are in the batch.

    With ``lost`` it begins at the first entry that exists, if the stream was created again.
    """
    is_new = bool(lost) and info.last < position.last
    begin = FIRST if is_new else position.last
    gone = (info.added or info.length) - info.length
    before = gone if is_new else max(gone, position.entries) if lost else position.entries
    find_step = client.register_script(FIND_STEP)
    step = _FIRST_STEP_ENTRIES if not limit.event_bytes else int(STEP_BYTES / max(limit.event_bytes, 1))
    until = str(StreamPosition.from_json(limit.until[key]).last) if limit.until and key in limit.until else None
    last, entries, taken, bounds = begin, 0, 0, list[EntryId]()
    while taken < left and len(bounds) < _MAX_BOUNDS:
        count = min(max(step, 1), MAX_STEP_ENTRIES, *([limit.max_events - entries] if limit.max_events is not None else []))
        found = find_step(keys=[key], args=[f"({last}", until or "+", count]) if count else []
        if not found:
            break
        last, entries, taken = EntryId.parse(found[0]), entries + int(found[1]), taken + int(found[2])
        bounds.append(last)
        step = int(min(STEP_BYTES, left - taken) * entries / max(taken, 1))
    if not (bounds or lost):
        return position, 0, 0
    deleted = info.deleted if lost else max(info.deleted, position.deleted)
    read = info.added if last == info.last and info.added is not None else before + entries
    return StreamPosition(last, read, deleted, begin, tuple(bounds), lost), taken, entries


def plan_splits(key: str, end: StreamPosition, parts: int) -> list[Split]:
    """Divide a stream's part of a micro-batch at its bounds."""
    begin = end.begin.offset or 0
    splits = [Split(key, begin, begin, ("", "", end.lost))] if end.lost else []
    size = max(1, -(-len(end.bounds) // parts))
    ends = list(dict.fromkeys([*end.bounds[size - 1 :: size], *end.bounds[-1:]]))
    for before, bound in pairwise([end.begin, *ends]):
        splits.append(Split(key, before.offset or 0, bound.offset or (1 << 63) - 1, (str(before), str(bound), "")))
    return splits


def offset_of(positions: Mapping[str, StreamPosition]) -> Offset:
    """Return positions as an offset."""
    return {key: position.to_json() for key, position in positions.items()}


def positions_of(offset: Offset) -> dict[str, StreamPosition]:
    """Read an offset."""
    return {key: StreamPosition.from_json(value) for key, value in offset.items()}
