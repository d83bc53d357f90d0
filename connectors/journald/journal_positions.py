"""How far journal files have been read, and the micro-batches and splits between two such offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from connectors.journald.journal_file import JournalFile, NotAJournalError
from connectors.journald.journal_files import FoundFile
from etl.api import Limit, Offset, Split

MIN_SPLIT_ENTRIES = 20_000
"""Smallest number of entries for which a task of its own is worth its cost."""

MAX_MISSING_FILES = 1_000
"""Files that do not exist any more whose positions are kept, for the case that their folder was away for a while."""


class FilePosition(NamedTuple):
    """How far a file has been read."""

    read: int
    """Entries that were read."""
    known: int
    """Entries that the file had when it was last looked at."""
    first: int = 0
    """Entries that were not to be read when the file was found."""


@dataclass(frozen=True, slots=True)
class JournalPositions:
    """The positions of all files by identifier, in the order in which they are read."""

    files: Mapping[str, FilePosition] = field(default_factory=dict)
    done: bool = False
    """All is read, of a source that does not follow."""

    @classmethod
    def from_offset(cls, offset: Offset) -> JournalPositions:
        """Read an offset of the source."""
        return cls({id_: FilePosition(*position) for id_, *position in offset["files"]}, offset["done"])

    def to_offset(self) -> Offset:
        """Return the offset of the source, as JSON. A list, because the order of an object's members is not certain."""
        return {"files": [[id_, *position] for id_, position in self.files.items()], "done": self.done}

    @property
    def unread(self) -> int:
        """Entries that are known and not read."""
        return sum(position.known - position.read for position in self.files.values())

    def has_read_as(self, other: JournalPositions) -> bool:
        """Whether the same entries were read of all files."""
        mine, others = ({id_: one.read for id_, one in each.files.items() if one.read} for each in (self, other))
        return mine == others and self.done == other.done


def update_positions(before: JournalPositions, found: Mapping[str, FoundFile], since: int | None) -> JournalPositions:
    """Return positions with the entries that exist now. In a new file all before ``since`` count as read; in one that is gone all
    that were known are still to be read, so that their loss is reported."""
    files = dict(before.files)
    for id_, one in found.items():
        entries = one.header.entries
        if id_ in files:
            files[id_] = files[id_]._replace(known=max(files[id_].known, entries))
        elif entries:
            first = _first_entry(one, since)
            files[id_] = FilePosition(first, entries, first)
    missing = [id_ for id_, position in files.items() if id_ not in found and position.read >= position.known]
    for id_ in missing[: max(0, len(missing) - MAX_MISSING_FILES)]:
        del files[id_]
    order = {id_: number for number, id_ in enumerate(found)}
    return replace(before, files=dict(sorted(files.items(), key=lambda item: order.get(item[0], -1))))


def _first_entry(found: FoundFile, since: int | None) -> int:
    if since is None:
        return 0
    try:
        return min(JournalFile(found.path).find_time(since), found.header.entries)
    except (OSError, ValueError, NotAJournalError):
        return 0


def limit_positions(
    before: JournalPositions, target: JournalPositions, found: Mapping[str, FoundFile], limit: Limit
) -> JournalPositions:
    """Return the end of the next micro-batch: the target, or what the limit allows of it, file by file."""
    files, left_bytes, left_events = {}, float(limit.max_bytes), limit.max_events
    for id_, position in target.files.items():
        begin = _begin(before, id_, position)
        count = position.known - begin
        entry_bytes = found[id_].header.entry_bytes if id_ in found else 1.0
        count = min(count, max(0, int(left_bytes / entry_bytes))) if left_bytes > 0 else 0
        if not count and position.known > begin and left_bytes == limit.max_bytes:
            count = 1  # however large it is
        if left_events is not None:
            count = min(count, left_events)
            left_events -= count
        left_bytes -= count * entry_bytes
        files[id_] = position._replace(read=begin + count)
    return replace(target, files=files)


def _begin(before: JournalPositions, id_: str, position: FilePosition) -> int:
    """Where a micro-batch begins in a file."""
    return before.files[id_].read if id_ in before.files else position.first


def plan_splits(start: JournalPositions, end: JournalPositions, paths: Mapping[str, str], parallelism: int) -> list[Split]:
    """Divide the entries between two offsets into about ``parallelism`` equal ranges."""
    ranges = [(id_, _begin(start, id_, position), position.read) for id_, position in end.files.items()]
    size = max(MIN_SPLIT_ENTRIES, -(-sum(last - first for _, first, last in ranges) // parallelism))
    return [
        Split(id_, at, min(at + size, last), paths.get(id_, "")) for id_, first, last in ranges for at in range(first, last, size)
    ]
