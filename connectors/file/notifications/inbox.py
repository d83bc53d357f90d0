"""Announced objects that are not delivered yet, as files in the pipeline's state.

The receiver in the driver writes one a message, the planners of all queries read them, and note what is delivered. If the folder
is lost, the queue gives the messages again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from connectors.file.objects.stored_object import StoredObject
from connectors.file.reading.tracked_files import FileOffsets
from etl.api import Offset, replace_file

_ENDING = ".message"
DELIVERED_FILE = "delivered.json"
_DEPTH = "depth.json"

_read: dict[str, Announcement] = {}
"""File → what it announces, of all inboxes of this process: a planner looks at them for each micro-batch."""


@dataclass(frozen=True)
class Announcement:
    """A message of the queue, with the objects of the glob that it announces."""

    id: str
    handle: str
    objects: tuple[StoredObject, ...]

    @property
    def file_name(self) -> str:
        """Name of its file."""
        return blake2b(self.id.encode(), digest_size=16).hexdigest() + _ENDING


@dataclass(frozen=True)
class Inbox:
    """The folder."""

    folder: str

    def announcements(self) -> list[Announcement]:
        """All messages whose objects are not delivered."""
        try:
            with os.scandir(self.folder) as entries:
                paths = {entry.path for entry in entries if entry.name.endswith(_ENDING)}
        except FileNotFoundError:
            return []
        for path in [path for path in _read if os.path.dirname(path) == self.folder and path not in paths]:
            del _read[path]
        for path in paths - _read.keys():
            with suppress(FileNotFoundError, ValueError):  # deleted meanwhile, or damaged: the queue has it
                _read[path] = _announcement(json.loads(Path(path).read_bytes()))
        return [_read[path] for path in paths if path in _read]

    def objects(self) -> list[StoredObject]:
        """The objects of all messages, by time and path."""
        found = {one.key: one for announced in self.announcements() for one in announced.objects}
        return sorted(found.values(), key=lambda one: (one.written, one.path))

    def put(self, announced: Announcement) -> None:
        """Write a message. Raises OSError."""
        objects = [[one.path, one.size, one.written] for one in announced.objects]
        content = json.dumps({"id": announced.id, "handle": announced.handle, "objects": objects})
        path = os.path.join(self.folder, announced.file_name)
        _read.pop(path, None)
        replace_file(path, content.encode(), sync=False)

    def remove(self, announced: Iterable[Announcement]) -> None:
        """Remove messages that are deleted in the queue."""
        for one in announced:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, one.file_name))

    def note_delivered(self, ends: Sequence[Offset]) -> None:
        """All sinks have the objects before these offsets, one for each query."""
        if os.path.isdir(self.folder):
            replace_file(os.path.join(self.folder, DELIVERED_FILE), json.dumps(ends).encode(), sync=False)

    def delivered(self) -> list[FileOffsets]:
        """The offsets of the last `note_delivered`; empty before the first."""
        try:
            ends = json.loads(Path(self.folder, DELIVERED_FILE).read_bytes())
        except (FileNotFoundError, ValueError):
            return []
        return [FileOffsets.from_json(end) for end in ends]

    def note_depth(self, depth: int) -> None:
        """How many messages the queue holds."""
        replace_file(os.path.join(self.folder, _DEPTH), json.dumps(depth).encode(), sync=False)

    def depth(self) -> int | None:
        """How many messages the queue held at the last measurement; None before the first."""
        try:
            return int(json.loads(Path(self.folder, _DEPTH).read_bytes()))
        except (FileNotFoundError, ValueError):
            return None


def _announcement(value: dict[str, object]) -> Announcement:
    objects = tuple(StoredObject(*one) for one in value["objects"])  # type: ignore[attr-defined]
    return Announcement(str(value["id"]), str(value["handle"]), objects)
